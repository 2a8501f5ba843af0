"""Whether a trace file holds what HTA's frames are made of."""

from __future__ import annotations

import argparse
import logging
import zlib
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import pandas as pd

import holotrace
from hta.common.trace_file import read_trace
from hta.configs.default_values import AttributeSpec, ValueType
from hta.configs.parser_config import ParserConfig

log = logging.getLogger("hta")

_LEVELS = {
    "minimal": ParserConfig.ARGS_MINIMUM,
    "standard": ParserConfig.ARGS_DEFAULT,
    "default": ParserConfig.ARGS_DEFAULT,
    "complete": ParserConfig.ARGS_COMPLETE,
}
_TYPES: dict[ValueType, type | tuple[type, ...]] = {
    ValueType.Int: int,
    ValueType.Float: (int, float),
    ValueType.String: str,
    # A list, or text that stands for one.
    ValueType.Object: object,
}


def get_argument_spec(level: str = "default") -> list[AttributeSpec]:
    """The args that a level looks at: minimal, standard or complete; KeyError for any other."""
    return _LEVELS[level]


def get_expected_arguments(attribute_specs: Sequence[AttributeSpec]) -> pd.DataFrame:
    """A row per arg: its key, type, default value, and the column it becomes."""
    expected: pd.DataFrame = pd.DataFrame(
        {
            "arg_keys": [spec.raw_name for spec in attribute_specs],
            "arg_value_types": [spec.value_type for spec in attribute_specs],
            "arg_default_values": pd.Series([spec.default_value for spec in attribute_specs], dtype=object),
            "trace_df_column_name": [spec.name for spec in attribute_specs],
        }
    )
    return expected


def validate_trace_format(
    trace_file_path: str, level: str = "standard", ignore_missing_arguments: bool = True
) -> tuple[bool, dict[str, Any]]:
    """(Whether a file is fit for analysis, what is wrong with it by kind).

    Kinds: ``trace_read_error``, ``trace_data_error``, ``args_data_type``, ``skipped_arguments`` (how often each arg
    came that the level does not know) and ``type_violations`` (a sentence for each arg with a value of another type).

    Args:
        trace_file_path: A ``.json`` or ``.gz`` file.
        level: Which args are looked at: minimal, standard or complete.
        ignore_missing_arguments: Say nothing of args that the level does not know.
    """
    types = _get_argument_value_types(get_expected_arguments(get_argument_spec(level)))
    try:
        trace: Any = read_trace(trace_file_path)
    except (OSError, EOFError, ValueError, zlib.error, holotrace.InputError) as error:
        return False, {"trace_read_error": str(error)}
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return False, {"trace_data_error": f"{trace_file_path} has no list traceEvents"}
    skipped: Counter[str] = Counter()
    violations: dict[str, str] = {}
    errors: dict[str, Any] = {}
    for args in (event["args"] for event in trace["traceEvents"] if isinstance(event, dict) and "args" in event):
        if isinstance(args, dict):
            _check_args(args, types, skipped, violations)
        else:
            errors["args_data_type"] = f"args are a {type(args).__name__} instead of an object"
    if skipped and not ignore_missing_arguments:
        errors["skipped_arguments"] = dict(skipped)
    if violations:
        errors["type_violations"] = dict(violations)
    return not errors, errors


def _get_argument_value_types(expected: pd.DataFrame) -> dict[str, tuple[ValueType, Any]]:
    """The type and default value of each arg."""
    pairs = zip(expected["arg_value_types"], expected["arg_default_values"], strict=True)
    return dict(zip(expected["arg_keys"], pairs, strict=True))


def _check_args(
    args: Mapping[str, Any],
    types: Mapping[str, tuple[ValueType, Any]],
    skipped: Counter[str],
    violations: MutableMapping[str, str],
) -> None:
    """Count args that are unknown, and describe the first value of each that has another type."""
    for key, value in args.items():
        if key not in types:
            skipped[key] += 1
        elif key not in violations and not isinstance(value, _TYPES[types[key][0]]):
            violations[key] = f"{value!r} is a {type(value).__name__}, not of type {types[key][0].name}"


def main() -> None:
    """Say whether the file named on the command line is fit for analysis."""
    parser = argparse.ArgumentParser(description="Whether a trace file holds what analyses need")
    parser.add_argument("file")
    parser.add_argument("--level", choices=("minimal", "standard", "complete"), default="standard")
    options = parser.parse_args()
    is_fit, errors = validate_trace_format(options.file, options.level)
    print("fit" if is_fit else "\n".join(f"{kind}: {what}" for kind, what in errors.items()))  # noqa: T201  a command
    raise SystemExit(0 if is_fit else 1)


if __name__ == "__main__":
    main()
