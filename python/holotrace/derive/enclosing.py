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
    nested = call_tree.nested(numbered, work)
    above = nested["parent_id"]
    around = calls.sort("event_id").select("event_id", caller=above.tail(calls.height)).drop_nulls()
    # Each round finds as many callers of a call as all before it: those above the ones that are known.
    while not (further := around.with_columns(caller=above[around["caller"]]).drop_nulls()).is_empty():
        around, above = pl.concat([around, further]), above[above]
    named = ops.sort("event_id").select(pl.col("name").cast(pl.String)).with_row_index("caller")
    return (
        around.with_columns(depth=nested["depth"][around["caller"]])
        .join(named, on="caller")
        .sort("event_id", "depth")
        .group_by("event_id", maintain_order=True)
        .agg(operators="name")
    )
