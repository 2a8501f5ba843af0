"""Which runs a log directory of profiles has."""

from __future__ import annotations

from os import PathLike

import polars as pl

from holotrace.core.schema import Column, Unit, conform
from holotrace.errors import InputError
from holotrace.formats.xplane.runs import listed
from holotrace.stores import place

COLUMNS = (
    Column("run", Unit.TEXT, "Name of the run: LOGDIR/RUN is read as it"),
    Column("host_count", Unit.COUNT, "Hosts that were recorded, one file each"),
    Column("begun", Unit.TEXT, "When the recording began, in UTC; null where the profile does not say"),
    Column("recorded_ns", Unit.NS, "How long it was recorded; null likewise"),
    Column("file_bytes", Unit.BYTES, "Size of its files; null in object stores"),
    Column("is_read", Unit.BOOL, "Whether it is what the log directory itself stands for: the newest"),
    Column("path", Unit.TEXT, "Where it is"),
)


def runs(path: str | PathLike[str]) -> pl.DataFrame:
    """The runs of a log directory of XLA profiles, oldest first.

    ``open`` reads the newest of them; any other is read by its name, as ``LOGDIR/RUN``, and two are compared by
    ``compare("LOGDIR/RUN_A", "LOGDIR/RUN_B")``.

    Args:
        path: The log directory, as given to TensorBoard.

    Returns:
        A row per run: name, hosts, when it began, for how long, size, and whether ``open`` takes it.

    Raises:
        InputError: there is no run, or the folder cannot be listed.
    """
    rows = listed(place(path))
    if not rows:
        raise InputError(f"{path} holds no run of a profiler of XLA; give the log directory, which has plugins/profile")
    schema = {column.name: column.unit.dtype for column in COLUMNS}
    return conform(pl.DataFrame(rows, schema=schema), COLUMNS, "runs")
