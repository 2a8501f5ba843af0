"""What devices of an XLA profile did in each of their steps, told by time: each moment counts once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from holotrace.derive import device_time, intervals
from holotrace.derive.device_time import DEVICE, IS_WAIT
from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE, MEMORY
from holotrace.derive.names import distinct

# What a moment of a device counts as: the first of these that goes on.
COMPUTING, EXPOSED_COMM, COPYING, FEEDING, CORE_WAITING = "compute", "exposed_comm", "copy", "feed", "core_wait"
OTHER, IDLE = "other", "idle"
PARTS = (COMPUTING, EXPOSED_COMM, COPYING, FEEDING, CORE_WAITING, OTHER, IDLE)
_SPAN = ("start_ns", "end_ns")
_FEEDS = r"^(infeed|outfeed|host (send|recv))"


def windows(modules: pl.DataFrame) -> pl.DataFrame:
    """The steps of each device by its own programs: ``device``, ``plane``, ``step``, ``start_ns``, ``end_ns``.

    A step begins where the one before it ends, the first one with its first program, and ends with its last program:
    what kept the device from beginning it is part of it.
    """
    spans = (
        modules.drop_nulls("step")
        .group_by(*DEVICE, "step")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort(*DEVICE, "start_ns", "step")
    )
    spans = spans.with_columns(end_ns=pl.col("end_ns").cum_max().over(DEVICE))
    return spans.with_columns(start_ns=pl.coalesce(pl.col("end_ns").shift(1).over(DEVICE), "start_ns"))


def layers(ops: pl.DataFrame, modules: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The spans of one device by what they are, in the order in which they count.

    Args:
        ops: Its operations with ``is_program``, as from ``device_time.with_programs``.
        modules: Its runs of programs.
    """
    # Each column that is filtered is copied for each of the layers.
    ran = device_time.executions(ops).select(*_SPAN, "kind", "category", "is_container", "is_wait", "is_program")
    categories = distinct(ran["category"])
    feeding = categories.filter(categories.cast(pl.String).str.contains(_FEEDS).fill_null(value=False))
    is_leaf = ~pl.col("is_container").fill_null(value=False)
    is_kind = {kind: is_leaf & (pl.col("kind") == kind) for kind in (COMPUTE, COMMUNICATION, MEMORY)}
    return {
        COMPUTING: ran.filter((is_kind[COMPUTE] & ~IS_WAIT) | pl.col("is_program")),
        EXPOSED_COMM: ran.filter(is_kind[COMMUNICATION]),
        COPYING: ran.filter(is_kind[MEMORY]),
        FEEDING: ran.filter(is_leaf, pl.col("category").is_in(pl.lit(feeding).implode())),
        CORE_WAITING: device_time.on_device(ops).filter(IS_WAIT, is_leaf),
        # Loops around operations, and programs between theirs.
        OTHER: pl.concat([part.select(_SPAN) for part in (ran, modules)]),
    }


def parts_ns(steps: pl.DataFrame, spans: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Each of ``steps`` with ``<part>_ns`` for each part, which sum to its length."""
    covered = intervals.first_covered_ns(steps, list(spans.values()))
    parts = steps.with_columns(own.alias(f"{part}_ns") for part, own in zip(spans, covered, strict=True))
    known = pl.sum_horizontal(f"{part}_ns" for part in spans)
    return parts.with_columns((pl.col("end_ns") - pl.col("start_ns") - known).alias(f"{IDLE}_ns"))


def covered_ns(steps: pl.DataFrame, spans: pl.DataFrame) -> pl.Series:
    """How long, in each of ``steps``, at least one of ``spans`` goes on."""
    before = intervals.covered_before_ns(spans, pl.concat([steps["start_ns"], steps["end_ns"]]))
    covered: pl.Series = before[steps.height :] - before[: steps.height]
    return covered


def hidden_ns(steps: pl.DataFrame, ops: pl.DataFrame, computing: pl.DataFrame, kind: str) -> pl.Series:
    """How long, in each step, something of that kind was under way while the device computed."""
    under_way = ops.filter(pl.col("kind") == kind, ~pl.col("is_container").fill_null(value=False))
    return covered_ns(steps, intervals.intersect(under_way, computing))


def sums(steps: pl.DataFrame, ops: pl.DataFrame, columns: Sequence[str]) -> list[pl.Series]:
    """The sum of each column over the operations that begin in each step; null where none of them has a value."""
    ordered = ops.select("start_ns", *columns).sort("start_ns")
    first, after = (ordered["start_ns"].search_sorted(steps[end], side="left") for end in ("start_ns", "end_ns"))
    found = []
    for name in columns:
        zero = pl.Series(name, [0.0])
        running = pl.concat([zero, ordered[name].cast(pl.Float64).fill_null(0.0).cum_sum()])
        counted = pl.concat([zero, ordered[name].is_not_null().cast(pl.Float64).cum_sum()])
        total, count = (series[after] - series[first] for series in (running, counted))
        found.append(pl.select(pl.when(count > 0).then(total).alias(name)).to_series())
    return found
