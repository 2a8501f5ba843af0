"""Which operators are around a call of the host."""

from __future__ import annotations

import polars as pl

from holotrace.derive import call_tree


def operators(ops: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The names of the operators around each call on its thread, from the outermost on, as the list ``operators``.

    Args:
        ops: Operators; ``name`` and what ``calls`` has.
        calls: ``event_id``, ``pid``, ``tid``, ``start_ns``, ``end_ns``; those that no operator is around are left out.
    """
    place = ("pid", "tid", "start_ns", "end_ns")
    both = pl.concat([ops.sort("event_id").select(place), calls.sort("event_id").select(place)])
    # An operator may take no longer than the call it makes, but no such call makes an operator: so they come first.
    numbered = both.with_row_index("event_id")
    work = pl.DataFrame(schema={"launch_id": pl.UInt32(), "start_ns": pl.Int64(), "end_ns": pl.Int64()})
    caller = call_tree.nested(numbered, work)["parent_id"]
    reached = calls.sort("event_id").select("event_id", caller=caller.tail(calls.height)).drop_nulls()
    levels = [reached.clear()]
    # Each round goes one caller up, for the calls that still have one.
    while not reached.is_empty():
        levels.append(reached)
        reached = reached.with_columns(caller=caller.gather(reached["caller"])).drop_nulls()
    names = ops.sort("event_id")["name"].cast(pl.String)
    upwards = pl.concat(levels).filter(pl.col("caller") < ops.height)
    return (
        upwards.reverse()
        .select("event_id", operators=names.gather(upwards["caller"].reverse()))
        .group_by("event_id", maintain_order=True)
        .agg("operators")
    )
