"""Groups of args; HTA keeps them in YAML files by version, here every version has the same."""

from __future__ import annotations

from pprint import pprint

from hta.configs.default_event_args import (
    ARGS_BANDWIDTH_FUNC,
    ARGS_COMMUNICATION_FUNC,
    ARGS_COMPLETE_FUNC,
    ARGS_DEFAULT_FUNC,
    ARGS_INDEX_FUNC,
    ARGS_INFO_FUNC,
    ARGS_INPUT_SHAPE_FUNC,
    ARGS_MINIMUM_FUNC,
    ARGS_SYNC_FUNC,
    ARGS_TRITON_KERNELS_FUNC,
    EVENT_ARGS,
)
from hta.configs.default_values import EventArgs, YamlVersion

__all__ = [
    "ARGS_BANDWIDTH_FUNC",
    "ARGS_COMMUNICATION_FUNC",
    "ARGS_COMPLETE_FUNC",
    "ARGS_DEFAULT_FUNC",
    "ARGS_INDEX_FUNC",
    "ARGS_INFO_FUNC",
    "ARGS_INPUT_SHAPE_FUNC",
    "ARGS_MINIMUM_FUNC",
    "ARGS_SYNC_FUNC",
    "ARGS_TRITON_KERNELS_FUNC",
    "main",
    "parse_event_args_yaml",
]


def parse_event_args_yaml(version: YamlVersion) -> EventArgs:
    """The args of a version."""
    return EVENT_ARGS


def main() -> None:
    """Print them."""
    pprint(EVENT_ARGS)  # noqa: T203  what it is for
