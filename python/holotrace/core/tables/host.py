"""What the host did: steps, ranges, Python functions, runtime calls, who called whom."""

from __future__ import annotations

from holotrace.core.schema import Column, Table, Unit
from holotrace.core.tables.columns import END, EVENT_ID, SPAN, START, STEP

STEPS = Table(
    "steps",
    "Training steps: ProfilerStep#N, spans with a step number, or, where none was marked, inferred ones",
    (STEP, EVENT_ID, START, END),
)

ANNOTATIONS = Table(
    "annotations",
    "Ranges that a user or a library named, on the host and on the device",
    (
        *SPAN,
        Column("on_device", Unit.BOOL, "Whether it spans device work rather than host work"),
        Column("arguments", Unit.LABEL, "What the program passed along with the name, JSON"),
    ),
)

PYTHON_CALLS = Table(
    "python_calls",
    "Python functions and modules, where stacks were recorded",
    (
        *SPAN,
        Column("python", Unit.NUMBER, "Id of the call", arg="Python id"),
        Column("python_parent", Unit.NUMBER, "Id of the caller", arg="Python parent id"),
        Column("python_module", Unit.NUMBER, "Number of the module instance", arg="Python module id"),
    ),
)

RUNTIME_CALLS = Table(
    "runtime_calls",
    "Calls of the host into the accelerator's runtime or driver, whether or not they launched anything",
    (
        *SPAN,
        Column("correlation", Unit.NUMBER, "Id that it shares with the device events it started", arg="correlation"),
    ),
)

CALLS = Table(
    "calls",
    "Call tree: host events, each with its caller, and device events with the call that launched them",
    (
        *SPAN,
        Column("on_device", Unit.BOOL, "Whether it is a device event rather than a call on the host"),
        Column("parent_id", Unit.EVENT, "event_id of the caller, or of the launch; null if nothing encloses it"),
        Column("depth", Unit.NUMBER, "Number of callers around it"),
        Column("height", Unit.NUMBER, "Number of levels of calls below it"),
        Column("self_ns", Unit.NS, "Its time outside of the calls that it made"),
        Column(
            "continues_id",
            Unit.EVENT,
            "event_id of the forward operator to which this operator of a backward pass belongs",
        ),
        Column("work_count", Unit.COUNT, "Number of kernels and copies that it and the calls below it launched"),
        Column("work_ns", Unit.NS, "Sum of the times of this work; kernels that overlap count in full"),
        Column("first_work_ns", Unit.NS, "Start of the first of these kernels and copies; null without any"),
        Column("last_work_ns", Unit.NS, "Latest end of these kernels and copies; null without any"),
    ),
)
