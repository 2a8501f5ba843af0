"""Switches of HTA's interface that are environment variables: "1" is on."""

from __future__ import annotations

import os

HTA_DISABLE_NS_ROUNDING_ENV = "HTA_DISABLE_NS_ROUNDING"
HTA_DISABLE_CG_DEPTH_ENV = "HTA_DISABLE_CG_DEPTH"
CP_LAUNCH_EDGE_ENV = "CRITICAL_PATH_ADD_ZERO_WEIGHT_LAUNCH_EDGE"
CP_LAUNCH_EDGE_SHOW_ENV = "CRITICAL_PATH_SHOW_ZERO_WEIGHT_LAUNCH_EDGE"
CP_STRICT_NEG_WEIGHT_CHECK_ENV = "CRITICAL_PATH_STRICT_NEGATIVE_WEIGHT_CHECKS"

# The switches by name.
_VARIABLES = {
    "disable_ns_rounding": HTA_DISABLE_NS_ROUNDING_ENV,
    "disable_call_graph_depth": HTA_DISABLE_CG_DEPTH_ENV,
    "critical_path_add_zero_weight_launch_edges": CP_LAUNCH_EDGE_ENV,
    "critical_path_show_zero_weight_launch_edges": CP_LAUNCH_EDGE_SHOW_ENV,
    "critical_path_strict_negative_weight_check": CP_STRICT_NEG_WEIGHT_CHECK_ENV,
}


class HTAEnvOptions:
    """The switches, as the environment had them when they were first asked for, or as they were set since."""

    _instance: HTAEnvOptions | None = None

    def __init__(self) -> None:
        # The one place that reads the environment; these variables are HTA's interface.
        self._on = {name: os.environ.get(name) == "1" for name in _VARIABLES.values()}  # noqa: TID251

    @classmethod
    def instance(cls) -> HTAEnvOptions:
        """The switches of this process."""
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    def disable_ns_rounding(self) -> bool:
        """Accepted; times are rounded to whole microseconds all the same."""
        return self._on[HTA_DISABLE_NS_ROUNDING_ENV]

    def set_disable_ns_rounding(self, value: bool) -> None:
        self._on[HTA_DISABLE_NS_ROUNDING_ENV] = value

    def disable_call_graph_depth(self) -> bool:
        """Whether call graphs leave the column ``depth`` out."""
        return self._on[HTA_DISABLE_CG_DEPTH_ENV]

    def set_disable_call_graph_depth(self, value: bool) -> None:
        self._on[HTA_DISABLE_CG_DEPTH_ENV] = value

    def critical_path_add_zero_weight_launch_edges(self) -> bool:
        """Whether a launch leads to its kernel even where that waited for something else."""
        return self._on[CP_LAUNCH_EDGE_ENV]

    def set_critical_path_add_zero_weight_launch_edges(self, value: bool) -> None:
        self._on[CP_LAUNCH_EDGE_ENV] = value

    def critical_path_show_zero_weight_launch_edges(self) -> bool:
        """Whether an overlay shows those edges."""
        return self._on[CP_LAUNCH_EDGE_SHOW_ENV]

    def set_critical_path_show_zero_weight_launch_edges(self, value: bool) -> None:
        self._on[CP_LAUNCH_EDGE_SHOW_ENV] = value

    def critical_path_strict_negative_weight_check(self) -> bool:
        """Whether a graph with a negative weight is invalid."""
        return self._on[CP_STRICT_NEG_WEIGHT_CHECK_ENV]

    def set_critical_path_strict_negative_weight_check(self, value: bool) -> None:
        self._on[CP_STRICT_NEG_WEIGHT_CHECK_ENV] = value

    def get_options_str(self) -> str:
        """Every switch, a line each."""
        return "\n".join(f"{switch}={int(self._on[name])}" for switch, name in _VARIABLES.items())


def disable_ns_rounding() -> bool:
    return HTAEnvOptions.instance().disable_ns_rounding()


def disable_call_graph_depth() -> bool:
    return HTAEnvOptions.instance().disable_call_graph_depth()


def critical_path_add_zero_weight_launch_edges() -> bool:
    return HTAEnvOptions.instance().critical_path_add_zero_weight_launch_edges()


def critical_path_show_zero_weight_launch_edges() -> bool:
    return HTAEnvOptions.instance().critical_path_show_zero_weight_launch_edges()


def critical_path_strict_negative_weight_check() -> bool:
    return HTAEnvOptions.instance().critical_path_strict_negative_weight_check()


def get_options() -> str:
    return HTAEnvOptions.instance().get_options_str()
