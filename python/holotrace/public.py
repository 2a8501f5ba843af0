"""Every public name, from where it is made: loaded when the first of them is asked for."""

from __future__ import annotations

from holotrace.comparing import change_report, compare, step_change
from holotrace.converting import Conversion, convert
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
from holotrace.gains import what_if
from holotrace.graph.vocabulary import Within
from holotrace.job import Job
from holotrace.listing import runs
from holotrace.opening import open
from holotrace.present.notebook import Answer
from holotrace.querying import query
from holotrace.serve.view import View
from holotrace.step_changes import StepChange
