"""XPlane profiles of PyTorch/XLA, JAX and TPU as the tables of holotrace.tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from holotrace._native import read_xplane
from holotrace.errors import InputError
from holotrace.parse.parsed import Parsed
from holotrace.parse.xplane.content import Content
from holotrace.parse.xplane.operations import wanted_of
from holotrace.parse.xplane.profile import STATS, Profile
from holotrace.schema import Table
from holotrace.tables import ANNOTATIONS, COLLECTIVES, DEVICE_EVENTS, EVENTS, HLO, HOST_CALLS, XLA_OPS

# Tables that need more than names and times of events.
_WITH_ARGUMENTS = (ANNOTATIONS.name, HOST_CALLS.name)
_OF_WORK = (DEVICE_EVENTS.name, XLA_OPS.name, COLLECTIVES.name)
_WITH_HLO = (*_OF_WORK, HLO.name, EVENTS.name)


def read(path: Path, tables: Sequence[Table]) -> Parsed:
    """The wanted tables of one profile."""
    started = time.perf_counter_ns()
    names = {table.name for table in tables}
    try:
        space = read_xplane(
            str(path),
            stats=list(STATS.items()),
            arguments=bool(names & set(_WITH_ARGUMENTS)),
            hlo=bool(names & set(_WITH_HLO)),
        )
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from error
    wanted = wanted_of(name for table in tables if table.name in _OF_WORK for name in table.column_names)
    content = Content(Profile(space), wanted)
    frames = {table.name: _frame(content, table) for table in tables}
    return Parsed(
        frames,
        content.metadata(has_devices=bool(names & set(_OF_WORK))),
        space.counts,
        time.perf_counter_ns() - started,
    )


def _frame(content: Content, table: Table) -> pl.DataFrame:
    frame = content.table(table.name)
    return frame.select(column.name for column in table.columns if column.name in frame.columns)
