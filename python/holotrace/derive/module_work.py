"""Which module each kernel, copy and operator belongs to, forward and backward."""

from __future__ import annotations

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import done
from holotrace.core.tables import CPU_OPS, LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree, modelled_work, module_calls
from holotrace.derive.names import distinct

_PLACE = ("pid", "tid", "start_ns", "end_ns")
_OPS = CPU_OPS.only("event_id", "pid", "tid", "start_ns", "end_ns", "sequence", "forward_thread")
_STARTS = LAUNCHES.only("launch_id", "device_event_id", "pid", "tid", "launch_start_ns")
READS = (*modelled_work.READS, *module_calls.READS, _OPS, _STARTS)
# Ways from call to call are no longer than 2 to the power of this: there are no more events.
_ROUNDS = 32


def events(rank: RankTrace) -> pl.DataFrame:
    """Every kernel and copy as in ``modelled_work.events``, with its module's ``path`` and whether ``is_backward``.

    It belongs to the innermost module within which its launch began. What an operator of the backward pass launched
    belongs to the module that called the forward operator. The path is null outside of modules.
    """
    launched = rank[_STARTS].lazy().unique("device_event_id", keep="first", maintain_order=True)
    starts = done(launched.drop_nulls(["device_event_id", "launch_id"]).sort("device_event_id"))
    began = pl.col("launch_start_ns")
    first = starts.lazy().unique("launch_id", keep="first", maintain_order=True).sort("launch_id")
    at = done(first.select("launch_id", "pid", "tid", start_ns=began, end_ns=began + 1))
    found = _owners(rank, at)
    work = modelled_work.events(rank)
    rows = _rows(at["launch_id"], starts["launch_id"])[_rows(starts["device_event_id"], work["event_id"])]
    return work.hstack(found[rows]).with_columns(pl.col("is_backward").fill_null(value=False))


def _owners(rank: RankTrace, at: pl.DataFrame) -> pl.DataFrame:
    """The ``path`` of the module that each point in the program belongs to, and whether it ``is_backward``."""
    modules = module_calls.calls(rank)
    # Others go on from none and are gone on from by none: of XLA all.
    ops = rank.where(_OPS, pl.col("sequence").is_not_null()).sort("event_id")
    continued = call_tree.continued(ops).sort("event_id")
    ids, spans = ops["event_id"], ops[:, list(_PLACE)]
    backward = spans[_rows(ids, continued["event_id"])]
    followed = distinct(continued["continues_id"]).sort()
    begun = spans[_rows(ids, followed)].with_columns(end_ns=pl.col("start_ns") + 1)
    # Of those that span the same time the first is around the others.
    parts = (modules[:, list(_PLACE)], backward, begun, at[:, list(_PLACE)])
    nodes = pl.concat(parts).with_row_index("event_id")
    first_back, first_forward = modules.height, modules.height + backward.height
    first_at = first_forward + begun.height
    targets = _rows(followed, continued["continues_id"]) + first_forward
    work = pl.DataFrame(schema={"launch_id": pl.UInt32(), "start_ns": pl.Int64(), "end_ns": pl.Int64()})
    around = call_tree.nested(nodes, work, ["parent_id"])["parent_id"]
    is_back = pl.col("event_id") < first_forward
    tree = nodes.select("event_id", around=around)
    inside = _followed(tree.select(pl.when(is_back).then("event_id").otherwise("around")).to_series())
    further = pl.concat([tree["event_id"].head(first_back), targets, tree["around"].slice(first_forward)])
    owner = _followed(tree.select(pl.coalesce(further, "around")).to_series())
    paths = modules["path"].extend_constant(None, nodes.height - modules.height)
    return pl.DataFrame(
        {
            "path": paths[owner.slice(first_at)],
            "is_backward": inside.slice(first_at).is_between(first_back, first_forward, closed="left"),
        }
    )


def _rows(known: pl.Series, wanted: pl.Series) -> pl.Series:
    """The row of each that is wanted among those that are known, which rise."""
    return pl.DataFrame(native.rows_of(known.to_frame("event_id"), wanted.to_frame("event_id"))).to_series()


def _followed(step: pl.Series) -> pl.Series:
    """Where one comes to from each call, step by step, until there is no other step; null where that is nowhere."""
    reached = step
    for _ in range(_ROUNDS):
        if (further := reached[reached]).equals(reached, null_equal=True):
            break
        reached = further
    return reached
