"""XPlane profiles of PyTorch/XLA, JAX and TPU as the tables of holotrace.tables."""

from __future__ import annotations

import time
from collections.abc import Sequence

import polars as pl

from holotrace import stores
from holotrace._native import read_xplane, read_xplane_bytes
from holotrace.errors import InputError
from holotrace.parse.parsed import Parsed
from holotrace.parse.xplane.content import Content
from holotrace.parse.xplane.profile import STATS, Profile
from holotrace.schema import Table
from holotrace.stores import Place, Remote
from holotrace.tables import ANNOTATIONS, HLO, HOST_CALLS

# Tables that need more than names and times of events.
_WITH_ARGUMENTS = (ANNOTATIONS.name, HOST_CALLS.name)
_WITH_HLO = ("device_events", "xla_ops", "collectives", HLO.name, "events")


def read(path: Place, tables: Sequence[Table]) -> Parsed:
    """The wanted tables of one profile."""
    started = time.perf_counter_ns()
    names = {table.name for table in tables}
    stats, arguments, hlo = list(STATS.items()), bool(names & set(_WITH_ARGUMENTS)), bool(names & set(_WITH_HLO))
    try:
        if isinstance(path, Remote):
            space = read_xplane_bytes(stores.whole(path), stats=stats, arguments=arguments, hlo=hlo)
        else:
            space = read_xplane(str(path), stats=stats, arguments=arguments, hlo=hlo)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from error
    content = Content(Profile(space))
    frames = {table.name: _frame(content, table) for table in tables}
    return Parsed(frames, content.metadata, space.counts, time.perf_counter_ns() - started)


def _frame(content: Content, table: Table) -> pl.DataFrame:
    frame = content.table(table.name)
    return frame.select(column.name for column in table.columns if column.name in frame.columns)
