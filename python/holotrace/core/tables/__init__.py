"""What a trace is: every table, its columns, their units and meanings."""

from __future__ import annotations

from holotrace.core.schema import Table
from holotrace.core.tables.columns import RANK
from holotrace.core.tables.counters import COUNTERS, HARDWARE_COUNTERS, HEAP, MEMORY
from holotrace.core.tables.events import (
    COLLECTIVES,
    CPU_OPS,
    DEVICE_EVENTS,
    EVENTS,
    FLOWS,
    INSTANTS,
    LAUNCHES,
    TRACK_LABELS,
)
from holotrace.core.tables.host import ANNOTATIONS, CALLS, PYTHON_CALLS, RUNTIME_CALLS, STEPS
from holotrace.core.tables.job import CLOCKS, FINDINGS, PROBLEMS, RANK_INFO
from holotrace.core.tables.xla import BUFFERS, DEVICES, HLO, HOST_CALLS, MODULES, XLA_OPS
from holotrace.errors import UsageError

__all__ = [
    "ALL",
    "ANNOTATIONS",
    "BUFFERS",
    "CALLS",
    "CLOCKS",
    "COLLECTIVES",
    "COUNTERS",
    "CPU_OPS",
    "DEVICES",
    "DEVICE_EVENTS",
    "EVENTS",
    "FINDINGS",
    "FLOWS",
    "HARDWARE_COUNTERS",
    "HEAP",
    "HLO",
    "HOST_CALLS",
    "INSTANTS",
    "LAUNCHES",
    "MADE",
    "MEMORY",
    "MODULES",
    "PROBLEMS",
    "PYTHON_CALLS",
    "RANK",
    "RANK_INFO",
    "RUNTIME_CALLS",
    "STEPS",
    "TRACK_LABELS",
    "XLA_OPS",
    "named",
]

# Read from files.
ALL: tuple[Table, ...] = (
    EVENTS,
    DEVICE_EVENTS,
    CPU_OPS,
    LAUNCHES,
    COLLECTIVES,
    STEPS,
    ANNOTATIONS,
    PYTHON_CALLS,
    RUNTIME_CALLS,
    INSTANTS,
    COUNTERS,
    HARDWARE_COUNTERS,
    MEMORY,
    HEAP,
    FLOWS,
    TRACK_LABELS,
    DEVICES,
    MODULES,
    XLA_OPS,
    HLO,
    BUFFERS,
    HOST_CALLS,
    PROBLEMS,
)
# Made of those.
MADE: tuple[Table, ...] = (CALLS, RANK_INFO, CLOCKS)


def named(name: str) -> Table:
    """The table of that name, as written here or in kebab case."""
    known = {table.name: table for table in (*ALL, *MADE)}
    if (table := known.get(name.replace("-", "_"))) is None:
        raise UsageError(f"there is no table {name!r}; there are {', '.join(known)}")
    return table
