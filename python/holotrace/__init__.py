"""Where does the time of a distributed training or serving job go, why, and what would fixing it save?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holotrace import allocator  # before anything that loads Polars

if TYPE_CHECKING:
    from holotrace.public import (
        Answer,
        Conversion,
        Edit,
        Finding,
        GraphRules,
        HolotraceError,
        InputError,
        Job,
        JobResult,
        JobTimeline,
        KindRule,
        MissingDataError,
        MissingExtraError,
        OperatorArguments,
        OperatorFigures,
        OperatorModel,
        OperatorWork,
        PartialDataWarning,
        RankTrace,
        StepChange,
        StepGraph,
        TraceFormatError,
        UnknownWork,
        UsageError,
        View,
        Within,
        arrows,
        change_report,
        compare,
        convert,
        execution_nodes,
        execution_trace,
        memory_timeline,
        open,
        operator_work,
        query,
        rewrite,
        runs,
        step_change,
        step_graph,
        what_if,
    )

    __version__: str

__all__ = [
    "Answer",
    "Conversion",
    "Edit",
    "Finding",
    "GraphRules",
    "HolotraceError",
    "InputError",
    "Job",
    "JobResult",
    "JobTimeline",
    "KindRule",
    "MissingDataError",
    "MissingExtraError",
    "OperatorArguments",
    "OperatorFigures",
    "OperatorModel",
    "OperatorWork",
    "PartialDataWarning",
    "RankTrace",
    "StepChange",
    "StepGraph",
    "TraceFormatError",
    "UnknownWork",
    "UsageError",
    "View",
    "Within",
    "arrows",
    "change_report",
    "compare",
    "convert",
    "execution_nodes",
    "execution_trace",
    "memory_timeline",
    "open",
    "operator_work",
    "query",
    "rewrite",
    "runs",
    "step_change",
    "step_graph",
    "what_if",
]


# Modules that are public, too, and are there without an import of their own.
_MODULES = ("capture", "core")


# Any: whatever the name is of.
def __getattr__(name: str) -> Any:
    if name == "__version__":
        # Looking it up takes longer than most imports.
        return import_module("importlib.metadata").version(__name__)
    if name not in {*__all__, *_MODULES}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # All else that is imported takes as long as Polars, so that it is when the first of these is asked for.
    with allocator.nothing_collected():
        public = import_module("holotrace.public")
    globals().update({each: getattr(public, each) for each in __all__})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
