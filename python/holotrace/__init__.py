"""Where does the time of a distributed training or serving job go, why, and what would fixing it save?"""

from __future__ import annotations

from importlib import import_module

from holotrace import allocator  # before anything that loads Polars

with allocator.nothing_collected():
    from holotrace.compare import compare, step_change
    from holotrace.convert import Conversion, convert
    from holotrace.core.analysis import Finding
    from holotrace.core.kinds import KindRule
    from holotrace.core.trace import RankTrace
    from holotrace.derive.execution_nodes import execution_nodes
    from holotrace.derive.step_graph import GraphRules, StepGraph
    from holotrace.derive.step_graph import build as step_graph
    from holotrace.efficiency.arguments import Arguments as OperatorArguments
    from holotrace.efficiency.model import Figures as OperatorFigures
    from holotrace.efficiency.model import OperatorModel
    from holotrace.efficiency.unknown import Unknown as UnknownWork
    from holotrace.efficiency.work import OperatorWork, operator_work
    from holotrace.engine.questions import JobResult
    from holotrace.errors import (
        HolotraceError,
        InputError,
        MissingDataError,
        MissingExtraError,
        PartialDataWarning,
        TraceFormatError,
        UsageError,
    )
    from holotrace.export.event_json import arrows
    from holotrace.export.rewrite import Edit, rewrite
    from holotrace.export.timeline import JobTimeline
    from holotrace.formats.torch.execution_trace import execution_trace
    from holotrace.formats.torch.memory_timeline import memory_timeline
    from holotrace.graph.vocabulary import Within
    from holotrace.job import Job
    from holotrace.open import open
    from holotrace.present.notebook import Answer
    from holotrace.query import query
    from holotrace.runs import runs
    from holotrace.serve.view import View
    from holotrace.step_changes import StepChange
    from holotrace.what_if import what_if

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


def __getattr__(name: str) -> str:
    if name == "__version__":
        # Looking it up takes longer than most of the imports above.
        version: str = import_module("importlib.metadata").version(__name__)
        return version
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
