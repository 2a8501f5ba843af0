"""Times of a rank that are worth seeing event by event: where causes have their longest instance."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from holotrace.analyses.lanes.of_rank import HOST, KINDS, WORK, idle
from holotrace.core.tables import STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import COMPUTE
from holotrace.diagnosis import host

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


def windows(rank: RankTrace, collectives: pl.DataFrame) -> pl.DataFrame:
    """Disjoint times, ``start_ns`` and ``end_ns``: around the longest gaps of each cause, kernels and collectives."""
    gaps = (
        idle(rank)
        .sort("share_ns", "start_ns", descending=[True, False])
        .filter(pl.int_range(pl.len()).over("cause") < _OF_CAUSE)
        .head(MOST_WINDOWS - _OF_KERNELS - _OF_COLLECTIVES)
        .select("start_ns", "end_ns")
    )
    exposed = collectives.sort("exposed_ns", "start_ns", descending=[True, False]).head(_OF_COLLECTIVES)
    heaviest = (
        rank[WORK]
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
    return (
        wide.group_by(apart.alias("at"), maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .drop("at")
    )


@dataclass(frozen=True)
class Events:
    """All that can be shown event by event of a rank: ``start_ns``, ``end_ns``, ``name``, ``lane``, ``track``."""

    on_device: pl.DataFrame
    # With the thread of each, ``tid``.
    on_host: pl.DataFrame
    # The threads that hold the steps.
    stepping: pl.Series

    @classmethod
    def of(cls, rank: RankTrace) -> Events:
        """The work on devices, by its stream, and the calls of the host, by how deep they are."""
        work = rank[WORK].filter(pl.col("kind").is_in(list(KINDS)))
        lane = pl.col("kind").cast(pl.String).replace_strict(KINDS, return_dtype=pl.String)
        on_device = work.select(*_SPAN, lane=lane, track=pl.col("stream").cast(pl.Int64))
        calls = rank[host.HOST_CALLS].filter(~pl.col("on_device"))
        on_host = calls.select(*_SPAN, lane=pl.lit(HOST), track=pl.col("depth").cast(pl.Int64), tid="tid")
        marked = rank[STEPS].select("event_id")
        stepping = calls.join(marked, on="event_id", how="semi")["tid"].cast(pl.String).unique()
        return cls(on_device, on_host, stepping)

    def between(self, start_ns: int, end_ns: int, most: int) -> pl.DataFrame:
        """What ran between two times on devices, and what the host called: the ``most`` longest of each."""
        of_host = _of_one_thread(_within(self.on_host, start_ns, end_ns), start_ns, self.stepping)
        both = (_within(self.on_device, start_ns, end_ns), of_host)
        return pl.concat([_longest(spans, most) for spans in both]).with_columns(pl.col("name").cast(pl.String))


def events(rank: RankTrace, times: pl.DataFrame) -> pl.DataFrame:
    """What ran in each of ``times``, the longest first where there is more than can be shown.

    Returns ``lane``, ``name``, ``start_ns``, ``end_ns``, ``track`` (the stream, or how deep a call of the host is) and
    ``window``, the number of the time.
    """
    known = Events.of(rank)
    shown = [
        known.between(start_ns, end_ns, MOST_EVENTS).with_columns(window=pl.lit(number, pl.Int64))
        for number, (start_ns, end_ns) in enumerate(times.iter_rows())
    ]
    return pl.concat(shown) if shown else known.between(0, 0, 0).with_columns(window=pl.lit(0, pl.Int64))


def _within(spans: pl.DataFrame, start_ns: int, end_ns: int) -> pl.DataFrame:
    return spans.filter(pl.col("start_ns") < end_ns, pl.col("end_ns") > start_ns)


def _longest(spans: pl.DataFrame, most: int) -> pl.DataFrame:
    length = pl.col("end_ns") - pl.col("start_ns")
    return spans.sort(length, "start_ns", "track", "name", descending=[True, False, False, False]).head(most)


def _of_one_thread(calls: pl.DataFrame, start_ns: int, stepping: pl.Series) -> pl.DataFrame:
    """The calls of the thread that holds the steps, else of the one that calls most.

    ``track`` counts from the last few calls that were open all the time.
    """
    holds = pl.col("tid").cast(pl.String).is_in(stepping.implode())
    threads = (
        calls.group_by("tid")
        .agg(count=pl.len())
        .sort(holds, "count", pl.col("tid").cast(pl.String), descending=[True, True, False])
    )
    of_one = calls.filter(pl.col("tid").eq_missing(threads["tid"].first())) if calls.height else calls
    begun = of_one.filter(pl.col("start_ns") >= start_ns)["track"].min()
    outer = max(0, int(begun) - _ENCLOSING) if isinstance(begun, int) else 0
    track = pl.col("track") - outer
    return of_one.drop("tid").with_columns(track).filter(track >= 0, track < _LEVELS)
