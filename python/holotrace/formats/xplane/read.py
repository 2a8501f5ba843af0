"""XPlane profiles of PyTorch/XLA, JAX and TPU as the tables of holotrace.core.tables."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path

from holotrace import stores
from holotrace.core.native import native
from holotrace.core.on_demand import Held, narrowed
from holotrace.core.schema import Table
from holotrace.core.tables import (
    ANNOTATIONS,
    BUFFERS,
    COLLECTIVES,
    COUNTERS,
    CPU_OPS,
    DEVICE_EVENTS,
    DEVICES,
    EVENTS,
    FLOWS,
    HEAP,
    HLO,
    HOST_CALLS,
    INSTANTS,
    LAUNCHES,
    MEMORY,
    MODULES,
    PROBLEMS,
    PYTHON_CALLS,
    STEPS,
    TRACK_LABELS,
    XLA_OPS,
)
from holotrace.errors import InputError, TraceFormatError
from holotrace.formats import heads
from holotrace.formats.inflate import inflated
from holotrace.formats.parsed import Parsed
from holotrace.formats.xplane.content import OF_SPANS, Content
from holotrace.formats.xplane.exported import ExportedSpace
from holotrace.formats.xplane.operations import wanted_of
from holotrace.formats.xplane.profile import Profile
from holotrace.formats.xplane.stats import STATS
from holotrace.stores import Origin

# A profile that is packed, or in no file, is read from memory; others are not.
_MOST_INFLATED_BYTES = 1 << 32
# What a file can have.
TABLES = (
    EVENTS,
    DEVICE_EVENTS,
    CPU_OPS,
    LAUNCHES,
    COLLECTIVES,
    STEPS,
    ANNOTATIONS,
    PYTHON_CALLS,
    INSTANTS,
    COUNTERS,
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
# Tables that need more than names and times of events.
_WITH_ARGUMENTS = frozenset((ANNOTATIONS.name, HOST_CALLS.name))
_OF_WORK = frozenset((DEVICE_EVENTS.name, XLA_OPS.name, COLLECTIVES.name))
_WITH_HLO = _OF_WORK | {HLO.name, BUFFERS.name, EVENTS.name}


def read(path: Origin, tables: Sequence[Table]) -> Parsed[Held]:
    """The wanted tables of one profile, or of a trace exported from one."""
    started = time.perf_counter_ns()
    names = {table.name for table in tables}
    space, is_damaged = _space(path, names)
    columns = wanted_of(name for table in tables if table.name in _OF_WORK for name in table.column_names)
    tabled = Content(Profile(space, is_damaged=is_damaged), names, columns)
    frames = _frames(tabled, tables)
    return Parsed(
        frames,
        tabled.metadata(has_devices=not _OF_WORK.isdisjoint(names)),
        space.counts,
        time.perf_counter_ns() - started,
    )


def _frames(tabled: Content, tables: Sequence[Table]) -> dict[str, Held]:
    """The tables, those that need most memory while they are made before there is much else."""

    def made(part: Sequence[Table]) -> dict[str, Held]:
        return {table.name: _frame(tabled, table) for table in part}

    every = made([table for table in tables if table.name == EVENTS.name])
    left = [table for table in tables if table.name != EVENTS.name]
    of_work = made([table for table in left if table.name not in OF_SPANS])
    tabled.keep_spans()
    return {**every, **of_work, **made([table for table in left if table.name in OF_SPANS])}


def _space(path: Origin, names: Collection[str]) -> tuple[native.Space | ExportedSpace, bool]:
    """What the file holds, and whether its packing is damaged."""
    stats = list(STATS.items())
    arguments, hlo = not _WITH_ARGUMENTS.isdisjoint(names), not _WITH_HLO.isdisjoint(names)
    try:
        begin = heads.head(path).text
        if begin.lstrip()[:1] in (b"{", b"["):
            return ExportedSpace(path), False
        if isinstance(path, Path) and stores.first(path, len(begin)) == begin:
            return native.read_xplane(str(path), stats=stats, arguments=arguments, hlo=hlo), False
        whole = inflated(path, most_bytes=_MOST_INFLATED_BYTES)
        space = native.read_xplane_bytes(whole.content, stats=stats, arguments=arguments, hlo=hlo)
        return space, whole.is_damaged
    except TraceFormatError as error:
        # Of bytes, the reader knows no name.
        raise TraceFormatError(str(error).replace("the bytes", str(path), 1)) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from error


def _frame(tabled: Content, table: Table) -> Held:
    return narrowed(tabled.table(table.name, table.column_names), table.column_names)
