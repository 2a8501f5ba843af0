"""The arg of an event that becomes a column, and defaults of HTA's interface."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from hta.common.constants import DEFAULT_TRACE_DIR

__all__ = [
    "DEFAULT_CONFIG_FILENAME",
    "DEFAULT_TRACE_DIR",
    "DF_SYMBOL_COLUMNS",
    "IS_DEBUG_ENABLED",
    "MAX_NUM_PROCESSES",
    "MAX_NUM_PROCESSES_SMALL",
    "AttributeSpec",
    "EventArgs",
    "ValueType",
    "YamlVersion",
]

DEFAULT_CONFIG_FILENAME = "trace_analyzer.json"
DF_SYMBOL_COLUMNS = ["cat", "name"]
IS_DEBUG_ENABLED = True
MAX_NUM_PROCESSES_SMALL = 4
MAX_NUM_PROCESSES = 32


class YamlVersion(NamedTuple):
    """A version of the list of args."""

    major: int
    minor: int
    patch: int

    def get_version_str(self) -> str:
        """The version as text, e.g. 1.0.0."""
        return ".".join(map(str, self))

    @staticmethod
    def from_string(version_str: str) -> YamlVersion:
        """The version that a text like 1.0.0 names."""
        parts = version_str.split(".")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            raise ValueError(f"Invalid version string: {version_str}; write it as 1.0.0")
        return YamlVersion(*map(int, parts))


class ValueType(Enum):
    """What the values of an arg are."""

    Int = 1
    Float = 2
    String = 3
    Object = 4


class AttributeSpec(NamedTuple):
    """A column that holds an arg of the event: its key there, and what stands where it is absent."""

    name: str
    raw_name: str
    value_type: ValueType
    # A number, text or object, as ``value_type`` says.
    default_value: Any
    min_supported_version: YamlVersion

    # Two that read the same are the same, whenever they came.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttributeSpec) and self[:4] == other[:4]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.name, self.raw_name, self.value_type))


class EventArgs(NamedTuple):
    """All args there are, by key, and the groups of them."""

    AVAILABLE_ARGS: dict[str, AttributeSpec]
    ARGS_INPUT_SHAPE: list[AttributeSpec]
    ARGS_BANDWIDTH: list[AttributeSpec]
    ARGS_SYNC: list[AttributeSpec]
    ARGS_MINIMUM: list[AttributeSpec]
    ARGS_COMPLETE: list[AttributeSpec]
    ARGS_INFO: list[AttributeSpec]
    ARGS_COMMUNICATION: list[AttributeSpec]
    ARGS_TRITON_KERNELS: list[AttributeSpec]
    ARGS_DEFAULT: list[AttributeSpec]
