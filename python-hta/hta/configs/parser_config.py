"""Which args of events become columns of HTA's frames."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pprint import pprint
from typing import Any, ClassVar

import pandas as pd

from hta.common.constants import MAX_EVENT_DURATION_US
from hta.configs.default_event_args import EVENT_ARGS as DEFAULT_VER_EVENT_ARGS
from hta.configs.default_values import AttributeSpec, ValueType, YamlVersion

__all__ = [
    "AVAILABLE_ARGS",
    "DEFAULT_PARSE_VERSION",
    "DEFAULT_VER_EVENT_ARGS",
    "MAX_EVENT_DURATION_US",
    "AttributeSpec",
    "ParserBackend",
    "ParserConfig",
    "TraceType",
    "ValueType",
    "YamlVersion",
]

DEFAULT_PARSE_VERSION = YamlVersion(1, 0, 0)
AVAILABLE_ARGS = DEFAULT_VER_EVENT_ARGS.AVAILABLE_ARGS

_IN_PARENTHESES = re.compile(r"\(.*?\)")
_SEPARATORS = re.compile(r"[ \-/.%_]+")
_NOTHING = {ValueType.Int: 0, ValueType.Float: 0.0, ValueType.String: "", ValueType.Object: None}


class ParserBackend(str, Enum):
    """HTA's ways to read JSON; here there is one, whatever is chosen."""

    JSON = "json"
    IJSON = "ijson"
    IJSON_BATCHED = "ijson_batched"
    IJSON_BATCH_AND_COMPRESS = "ijson_batch_and_compress"


class TraceType(str, Enum):
    """What was recorded."""

    Training = "training"
    TrainingWoProfilerstepAnnot = "training_wo_profilerstep_annot"
    Inference = "inference"


class ParserConfig:
    """Which args of events are read; all else is accepted as HTA does and changes nothing.

    Args:
        args: The columns to make of args; those of ``ARGS_DEFAULT`` by default.
        parse_all_args: Make a column of every arg that occurs instead, which takes a second, slow reading of the file.
    """

    ARGS_INPUT_SHAPE: ClassVar = DEFAULT_VER_EVENT_ARGS.ARGS_INPUT_SHAPE
    ARGS_BANDWIDTH: ClassVar = DEFAULT_VER_EVENT_ARGS.ARGS_BANDWIDTH
    ARGS_SYNC: ClassVar = DEFAULT_VER_EVENT_ARGS.ARGS_SYNC
    ARGS_MINIMUM: ClassVar = DEFAULT_VER_EVENT_ARGS.ARGS_MINIMUM
    ARGS_COMPLETE: ClassVar = DEFAULT_VER_EVENT_ARGS.ARGS_COMPLETE
    ARGS_INFO: ClassVar = DEFAULT_VER_EVENT_ARGS.ARGS_INFO
    ARGS_COMMUNICATION: ClassVar = DEFAULT_VER_EVENT_ARGS.ARGS_COMMUNICATION
    ARGS_TRITON_KERNELS: ClassVar = DEFAULT_VER_EVENT_ARGS.ARGS_TRITON_KERNELS
    ARGS_DEFAULT: ClassVar = DEFAULT_VER_EVENT_ARGS.ARGS_DEFAULT
    DEFAULT_MIN_REQUIRED_COLS: ClassVar = ["ts", "dur", "name", "cat", "pid", "tid"]

    def __init__(  # noqa: PLR0917  HTA's signature
        self,
        args: Sequence[AttributeSpec] | None = None,
        user_provide_trace_type: TraceType | None = None,
        version: YamlVersion = DEFAULT_PARSE_VERSION,
        parse_all_args: bool = False,
        selected_arg_keys: Sequence[str] | None = None,
        skip_event_types: Iterable[str] | None = None,
        convert_ts_to_integer: bool = True,
    ) -> None:
        self.args: list[AttributeSpec] = list(args or self.get_default_args(version))
        self.parser_backend: ParserBackend | None = None
        self.trace_memory = False
        self.user_provide_trace_type = user_provide_trace_type
        self.skip_event_types = {"python_function"} if skip_event_types is None else set(skip_event_types)
        self.min_required_cols = list(self.DEFAULT_MIN_REQUIRED_COLS)
        self.drop_gpu_user_annotation = True
        self.version = version
        self.parse_all_args = parse_all_args
        self.selected_arg_keys = None if selected_arg_keys is None else list(selected_arg_keys)
        self.convert_ts_to_integer = convert_ts_to_integer
        self.max_event_duration_us = MAX_EVENT_DURATION_US

    def __repr__(self) -> str:
        return (
            f"ParserConfig(args={[arg.name for arg in self.args]}, parse_all_args={self.parse_all_args}, "
            f"parser_backend={self.parser_backend}, version={self.version.get_version_str()})"
        )

    @property
    def arg_map(self) -> dict[str, AttributeSpec]:
        """Each column's arg."""
        return {arg.name: arg for arg in self.args}

    def clone(self) -> ParserConfig:
        """An independent config that says the same."""
        return copy.deepcopy(self)

    def get_fingerprint_key(self) -> tuple[tuple[str, ...], bool]:
        """What two configs that read the same columns have in common."""
        return tuple(sorted(arg.name for arg in self.args)), self.parse_all_args

    @classmethod
    def get_default_cfg(cls) -> ParserConfig:
        """A copy of the config that is used where none is given."""
        return _DEFAULT.clone()

    @classmethod
    def set_default_cfg(cls, cfg: ParserConfig) -> None:
        """Use a copy of this config from now on where none is given."""
        vars(_DEFAULT).update(vars(cfg.clone()))

    @classmethod
    def get_versioned_cfg(cls, version: YamlVersion) -> ParserConfig:
        """The config with the default args of a version."""
        return cls(version=version)

    @staticmethod
    def set_global_parser_config_version(version: YamlVersion) -> None:
        """Use the default args of a version from now on where no config is given."""
        ParserConfig.set_default_cfg(ParserConfig.get_versioned_cfg(version))

    # Every version has all the args of the three groups below.

    @classmethod
    def get_minimum_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        """The args without which nothing works."""
        return list(cls.ARGS_MINIMUM)

    @classmethod
    def get_default_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        """The args that are read where none are chosen."""
        return list(cls.ARGS_DEFAULT)

    @classmethod
    def get_info_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        """The args of labels."""
        return list(cls.ARGS_INFO)

    def set_args(self, args: Sequence[AttributeSpec]) -> None:
        """Read exactly these args."""
        self.args = list(args)

    def get_args(self) -> list[AttributeSpec]:
        """The args that are read."""
        return self.args

    def add_args(self, args: Iterable[AttributeSpec]) -> None:
        """Read these args too; a column that is there stays as it is."""
        for arg in args:
            if arg.name not in self.arg_map:
                self.args.append(arg)

    def set_min_required_cols(self, cols: Sequence[str]) -> None:
        """Accepted; every frame has the columns it has."""
        self.min_required_cols = list(cols)

    def get_min_required_cols(self) -> list[str]:
        """What ``set_min_required_cols`` got."""
        return self.min_required_cols

    def set_trace_memory(self, trace_memory: bool) -> None:
        """Accepted; nothing is traced."""
        self.trace_memory = trace_memory

    def set_drop_gpu_user_annotation(self, should_drop: bool) -> None:
        """Accepted; the device's annotations are kept, as HTA keeps them."""
        self.drop_gpu_user_annotation = should_drop

    def set_parser_backend(self, parser_backend: ParserBackend | None) -> None:
        """Accepted; there is one way to read."""
        self.parser_backend = parser_backend

    def set_parse_all_args(self, parse_all_args: bool) -> ParserConfig:
        """Make a column of every arg that occurs, or no longer."""
        self.parse_all_args = parse_all_args
        return self

    def set_args_selector(self, selected_arg_keys: Sequence[str] | None = None) -> ParserConfig:
        """Of the args that are read, keep those whose column has one of these names."""
        self.selected_arg_keys = None if selected_arg_keys is None else list(selected_arg_keys)
        if self.selected_arg_keys is not None:
            self.args = [arg for arg in self.args if arg.name in self.selected_arg_keys]
        return self

    def set_skip_event_types(self, skip_event_types: Iterable[str] | None = None) -> ParserConfig:
        """Accepted; no event is skipped, as with HTA's default way to read."""
        self.skip_event_types = set(skip_event_types or ())
        return self

    @classmethod
    def enable_communication_args(
        cls, cfg: ParserConfig | None = None, version: YamlVersion = DEFAULT_PARSE_VERSION
    ) -> ParserConfig:
        """``cfg``, or a copy of the default config, with the args of collectives."""
        cfg = cls.get_default_cfg() if cfg is None else cfg
        cfg.add_args(cls.ARGS_COMMUNICATION)
        return cfg

    @classmethod
    def get_all_available_args(cls) -> dict[str, AttributeSpec]:
        """Every known arg by its key, e.g. ``kernel::queued``."""
        return AVAILABLE_ARGS

    @classmethod
    def show_available_args(cls) -> None:
        """Print every known arg."""
        pprint(AVAILABLE_ARGS)  # noqa: T203  what it is for

    @classmethod
    def transform_arg_name(cls, arg: str) -> str:
        """The column for an unknown arg: ``Foo Bar (us)`` becomes ``foo_bar``."""
        name = _SEPARATORS.sub("_", _IN_PARENTHESES.sub("", arg.lower())).strip("_")
        # The column of that name holds the event's.
        return "arg_name" if name == "name" else name

    @classmethod
    def make_attribute_spec(
        cls, raw_name: str, value: object, min_supported_version: YamlVersion = DEFAULT_PARSE_VERSION
    ) -> AttributeSpec:
        """The column for an unknown arg, of the type that one of its values has."""
        types = {bool: ValueType.Int, int: ValueType.Int, float: ValueType.Float, str: ValueType.String}
        kind = types.get(type(value), ValueType.Object)
        return AttributeSpec(cls.transform_arg_name(raw_name), raw_name, kind, _NOTHING[kind], min_supported_version)

    @classmethod
    def infer_attribute_specs(
        cls, args: pd.Series[Any], reference_specs: Mapping[str, AttributeSpec] | None = None
    ) -> dict[str, AttributeSpec]:
        """The column for every key of some events' args, by key; known ones are as ``reference_specs`` says."""
        known = {spec.raw_name: spec for spec in (reference_specs or {}).values()}
        first: dict[str, object] = {}
        for values in args:
            if isinstance(values, dict):
                for key, value in values.items():
                    first.setdefault(key, value)
        return {key: known.get(key) or cls.make_attribute_spec(key, value) for key, value in first.items()}


# HTA's interface has one config for the whole process.
_DEFAULT = ParserConfig()
