"""XPlane profiles of PyTorch/XLA, JAX and TPU as the tables of holotrace.core.tables."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import polars as pl

from holotrace.core.native import native
from holotrace.core.schema import Table
from holotrace.core.tables import (
    ANNOTATIONS,
    COLLECTIVES,
    COUNTERS,
    CPU_OPS,
    DEVICE_EVENTS,
    DEVICES,
    EVENTS,
    FLOWS,
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
from holotrace.errors import InputError
from holotrace.formats.parsed import Parsed
from holotrace.formats.xplane.content import Content
from holotrace.formats.xplane.exported import ExportedSpace
from holotrace.formats.xplane.operations import wanted_of
from holotrace.formats.xplane.profile import Profile
from holotrace.formats.xplane.stats import STATS
from holotrace.stores import object_store as stores
from holotrace.stores.object_store import Place, Remote

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
    FLOWS,
    TRACK_LABELS,
    DEVICES,
    MODULES,
    XLA_OPS,
    HLO,
    HOST_CALLS,
    PROBLEMS,
)
# Tables that need more than names and times of events.
_WITH_ARGUMENTS = frozenset((ANNOTATIONS.name, HOST_CALLS.name))
_OF_WORK = frozenset((DEVICE_EVENTS.name, XLA_OPS.name, COLLECTIVES.name))
_WITH_HLO = _OF_WORK | {HLO.name, EVENTS.name}


def read(path: Place, tables: Sequence[Table], content: bytes | None = None) -> Parsed[pl.DataFrame]:
    """The wanted tables of one profile, or of a trace exported from one; ``content`` is it where it is in no file."""
    started = time.perf_counter_ns()
    names = {table.name for table in tables}
    space = _space(path, names, content)
    columns = wanted_of(name for table in tables if table.name in _OF_WORK for name in table.column_names)
    tabled = Content(Profile(space), columns)
    frames = {table.name: _frame(tabled, table) for table in tables}
    return Parsed(
        frames,
        tabled.metadata(has_devices=not _OF_WORK.isdisjoint(names)),
        space.counts,
        time.perf_counter_ns() - started,
    )


def _space(path: Place, names: Collection[str], content: bytes | None) -> native.Space | ExportedSpace:
    stats = list(STATS.items())
    arguments, hlo = not _WITH_ARGUMENTS.isdisjoint(names), not _WITH_HLO.isdisjoint(names)
    if content is None and path.suffix != ".pb":
        return ExportedSpace(path)
    try:
        if isinstance(path, Remote):
            content = stores.whole(path)
        if content is not None:
            return native.read_xplane_bytes(content, stats=stats, arguments=arguments, hlo=hlo)
        return native.read_xplane(str(path), stats=stats, arguments=arguments, hlo=hlo)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from error


def _frame(tabled: Content, table: Table) -> pl.DataFrame:
    frame = tabled.table(table.name, table.column_names)
    return frame.select(column.name for column in table.columns if column.name in frame.columns)
