"""The graph of a rank as it is kept and sent: each kind of its rows in one compressed piece, which takes less room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO

import polars as pl

from holotrace.core.plans import constant
from holotrace.core.schema import Column, Unit
from holotrace.errors import InputError

PART = (
    Column("row", Unit.TEXT, "What the rows are of: activity, lane, edge, step or collective"),
    Column("count", Unit.COUNT, "How many these are"),
    Column("rows", Unit.BINARY, "The rows, as a compressed stream of Arrow"),
)
_EVENTS = 2**32
# A rank of so many rows has its columns made by itself: to group all rows by rank takes longer.
_LARGE_ROWS = 2_000


def part(pieces: Iterable[tuple[str, int, bytes]]) -> pl.DataFrame:
    """A row of PART for each of these pieces."""
    return pl.DataFrame(list(pieces), schema={column.name: column.unit.dtype for column in PART}, orient="row")


def unpacked(
    parts: pl.DataFrame, schemas: Mapping[str, pl.Schema], made: Mapping[str, Sequence[pl.Expr]]
) -> dict[str, pl.DataFrame]:
    """The frames of all ranks, those of each together and in front of them ``rank``; all have these schemas.

    Args:
        parts: rank, row, rows.
        schemas: Of each kind of rows.
        made: Columns that are made of those that were packed.
    """
    found: dict[str, list[pl.DataFrame]] = {row: [] for row in schemas}
    for rank, row, rows in parts.select("rank", "row", "rows").iter_rows():
        try:
            read = pl.read_ipc_stream(BytesIO(rows))[list(schemas[row])]
        except (pl.exceptions.PolarsError, OSError, KeyError) as error:
            raise InputError(
                f"what was kept of the graph of rank {rank} is damaged; convert its trace again"
            ) from error
        of_rank = constant("rank", rank, read.height, pl.Int32())
        found[row].append(read.insert_column(0, of_rank))
    try:
        return {row: _joined(frames, schemas[row], made.get(row, ())) for row, frames in found.items()}
    except pl.exceptions.PolarsError as error:
        # Of one rank the types are others than those of the rest.
        raise InputError("what was kept of the graph of a rank is damaged; convert the job again") from error


def _joined(frames: Sequence[pl.DataFrame], schema: pl.Schema, made: Sequence[pl.Expr]) -> pl.DataFrame:
    """The rows of all ranks."""
    if not frames:
        return schema.to_frame().insert_column(0, pl.Series("rank", [], pl.Int32()))
    columns = (pl.col(name).cast(dtype) for name, dtype in schema.items())
    if sum(frame.height for frame in frames) >= _LARGE_ROWS * len(frames):
        whole = pl.concat([frame.with_columns(made) for frame in frames])
    else:
        # Once for all ranks: of many small ones each expression would take longer than its rows.
        whole = pl.concat(frames).with_columns(each.over("rank") for each in made)
    return whole.select("rank", *columns)


def activities(frame: pl.DataFrame, later_ns: int = 0) -> pl.DataFrame:
    """Activities by lane and time, packed: most begin where the one before ended, and take their own time.

    Unpacked, each is ``later_ns`` later.
    """
    ended = pl.col("end_ns").shift(1).fill_null(-later_ns)
    lasted = pl.col("end_ns") - pl.col("start_ns")
    event = pl.col("event_id").cast(pl.Int64)
    return frame.with_columns(
        start_ns=pl.col("start_ns") - ended,
        end_ns=lasted,
        own_ns=pl.when(pl.col("own_ns") != lasted).then("own_ns"),
        event_id=((event - event.forward_fill().shift(1).fill_null(0)) % _EVENTS).cast(pl.UInt32),
    )


def edges(frame: pl.DataFrame) -> pl.DataFrame:
    """Edges by the point they reach, packed: they leave near points. Differences are numbers modulo those of points."""
    to = pl.col("to_point")
    return frame.with_columns(from_point=to - pl.col("from_point"), to_point=to - to.shift(1).fill_null(0))


def unpacked_activities() -> tuple[pl.Expr, ...]:
    """The columns of activities as they were, of those that were packed."""
    ended = (pl.col("start_ns") + pl.col("end_ns")).cum_sum()
    return (
        ended.alias("end_ns"),
        (ended - pl.col("end_ns")).alias("start_ns"),
        pl.coalesce("own_ns", "end_ns").alias("own_ns"),
        (pl.col("event_id").cast(pl.Int64).cum_sum() % _EVENTS).cast(pl.UInt32).alias("event_id"),
    )


def unpacked_edges() -> tuple[pl.Expr, ...]:
    """The columns of edges as they were, of those that were packed."""
    to = pl.col("to_point").cum_sum()
    return ((to - pl.col("from_point")).alias("from_point"), to.alias("to_point"))
