"""Times of a rank that are worth seeing event by event: where causes have their longest instance."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from holotrace.analyses.lanes.of_rank import HOST, KINDS, WORK, idle
from holotrace.core.plans import done
from holotrace.core.tables import STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree
from holotrace.derive.kernel_kinds import COMPUTE
from holotrace.derive.names import are_in, distinct
from holotrace.diagnosis.rank.calls import spans

# As many times, and as many events of each, as a page of many ranks can carry.
MOST_WINDOWS, MOST_EVENTS = 8, 300
_OF_CAUSE, _OF_KERNELS, _OF_COLLECTIVES = 2, 2, 2
# Around what is worth seeing, so that one sees what ends it and what comes next: half of its length, and at least so
# much.
_MARGIN_NS = 200_000
# Longer ones have more events than anybody looks at one by one.
_LONGEST_NS = 50_000_000
# Of the calls on a host's stack: so many that were open already, and so many in all.
_ENCLOSING, _LEVELS = 3, 10
_SPAN = ("start_ns", "end_ns", "name")
_NO_WORK = pl.DataFrame(schema={"launch_id": pl.UInt32(), "start_ns": pl.Int64(), "end_ns": pl.Int64()})


def windows(rank: RankTrace, collectives: pl.DataFrame) -> pl.DataFrame:
    """Disjoint times, ``start_ns`` and ``end_ns``: around the longest gaps of each cause, kernels and collectives."""
    gaps = (
        rank.cached(idle)
        .lazy()
        .sort("share_ns", "start_ns", descending=[True, False])
        .filter(pl.int_range(pl.len()).over("cause") < _OF_CAUSE)
        .head(MOST_WINDOWS - _OF_KERNELS - _OF_COLLECTIVES)
        .select("start_ns", "end_ns")
    )
    exposed = collectives.lazy().sort("exposed_ns", "start_ns", descending=[True, False]).head(_OF_COLLECTIVES)
    heaviest = (
        rank[WORK]
        .lazy()
        .filter(pl.col("kind") == COMPUTE)
        .group_by("name")
        .agg(
            pl.col("start_ns", "end_ns").sort_by("start_ns").first(),
            all_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
        )
        .sort("all_ns", "start_ns", descending=[True, False])
        .head(_OF_KERNELS)
    )
    spans = pl.concat([gaps, exposed.select("start_ns", "end_ns"), heaviest.select("start_ns", "end_ns")])
    margin = pl.max_horizontal((pl.col("end_ns") - pl.col("start_ns")) // 2, _MARGIN_NS)
    wide = spans.select(
        start_ns=pl.col("start_ns") - margin,
        end_ns=pl.min_horizontal("end_ns", pl.col("start_ns") + _LONGEST_NS) + margin,
    ).sort("start_ns")
    apart = (pl.col("start_ns") > pl.col("end_ns").cum_max().shift(1)).fill_null(value=True).cum_sum()
    return done(
        wide.group_by(apart.alias("at"), maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .drop("at")
    )


@dataclass(frozen=True)
class Events:
    """All that can be shown event by event of a rank: ``start_ns``, ``end_ns``, ``name``, ``lane``, ``track``."""

    on_device: pl.DataFrame
    # With the thread of each, ``tid``; of XLA without ``track``, but with ``event_id``.
    on_host: pl.DataFrame
    # The threads that hold the steps.
    stepping: pl.Series

    @classmethod
    def of(cls, rank: RankTrace) -> Events:
        """The work on devices, by its stream, and the calls of the host, by how deep they are."""
        work = rank[WORK].lazy().filter(pl.col("kind").is_in(list(KINDS)))
        lane = pl.col("kind").cast(pl.String).replace_strict(KINDS, return_dtype=pl.String)
        on_device = done(work.select(*_SPAN, lane=lane, track=pl.col("stream").cast(pl.Int64)))
        calls = spans(rank)
        depth = [pl.col("depth").alias("track")] if "depth" in calls.columns else ["event_id"]
        on_host = calls.select(*_SPAN, *depth, lane=pl.lit(HOST), tid="tid")
        marked = are_in(calls["event_id"], rank[STEPS]["event_id"])
        stepping = distinct(calls["tid"].filter(marked)).cast(pl.String)
        return cls(on_device, on_host, stepping)

    def during(self, times: pl.DataFrame, most: int) -> pl.DataFrame:
        """What ran in each of ``times`` on devices, and what the host called: the ``most`` longest of each."""
        of_host = _of_one_thread(_tracked(_within(self.on_host, times)), self.stepping)
        both = [done(_longest(spans.lazy(), most)) for spans in (_within(self.on_device, times), of_host)]
        return pl.concat(both, how="diagonal").drop("since_ns").with_columns(pl.col("name").cast(pl.String))


def events(rank: RankTrace, times: pl.DataFrame) -> pl.DataFrame:
    """What ran in each of ``times``, the longest first where there is more than can be shown.

    Returns ``lane``, ``name``, ``start_ns``, ``end_ns``, ``track`` (the stream, or how deep a call of the host is) and
    ``window``, the number of the time.
    """
    return Events.of(rank).during(times, MOST_EVENTS).sort("window", maintain_order=True)


def _within(spans: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
    """The spans that reach into each of ``times``, with its number, ``window``, and its begin, ``since_ns``."""
    every = spans.lazy()
    reach = [
        every.filter(pl.col("start_ns") < end_ns, pl.col("end_ns") > start_ns).with_columns(
            window=pl.lit(window, pl.Int64), since_ns=pl.lit(start_ns, pl.Int64)
        )
        for window, (start_ns, end_ns) in enumerate(times.iter_rows())
    ]
    none = spans.clear().lazy().with_columns(window=pl.lit(0, pl.Int64), since_ns=pl.lit(0, pl.Int64))
    return done(pl.concat([none, *reach]))


def _tracked(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls in each of ``times`` with how deep they are: all that is around one of them is there, too."""
    if "track" in calls.columns:
        return calls
    parts = calls.partition_by("window", maintain_order=True) or [calls]
    deep = pl.concat(call_tree.nested(part.with_columns(pid="tid"), _NO_WORK, ["depth"]) for part in parts)
    return deep.select(*_SPAN, "lane", "tid", "window", "since_ns", track=pl.col("depth").cast(pl.Int64))


def _longest(spans: pl.LazyFrame, most: int) -> pl.LazyFrame:
    length = pl.col("end_ns") - pl.col("start_ns")
    ordered = spans.sort("window", length, "start_ns", "track", "name", descending=[False, True, False, False, False])
    return ordered.filter(pl.int_range(pl.len()).over("window") < most)


def _of_one_thread(calls: pl.DataFrame, stepping: pl.Series) -> pl.DataFrame:
    """The calls of the thread that holds the steps, else of the one that calls most, in each of ``times``.

    ``track`` counts from the last few calls that were open all the time.
    """
    tid = pl.col("tid").cast(pl.String)
    threads = (
        calls.lazy()
        .group_by("window", "tid")
        .agg(count=pl.len())
        .sort("window", tid.is_in(pl.lit(stepping).implode()), "count", tid, descending=[False, True, True, False])
        .unique("window", keep="first", maintain_order=True)
    )
    of_one = calls.lazy().join(threads, on=["window", "tid"], how="semi", nulls_equal=True)
    begun = pl.when(pl.col("start_ns") >= pl.col("since_ns")).then("track").min().over("window")
    track = pl.col("track") - (begun - _ENCLOSING).clip(lower_bound=0).fill_null(0)
    return done(of_one.drop("tid").with_columns(track).filter(pl.col("track").is_between(0, _LEVELS - 1)))
