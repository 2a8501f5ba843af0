"""When hosts of XLA profiles wait for their devices, and for the end of which programs."""

from __future__ import annotations

import polars as pl

from holotrace.core.trace import RankTrace
from holotrace.derive import host_time, intervals
from holotrace.derive.host_activities import BACK_PRESSURE, READ_BACK, WAIT
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.rank.xla import late_launches as xla_late_launches

# So far the clocks of a host and its devices may be apart.
_CLOCKS_NS = 20_000
# A host that waits for nothing in so many steps is ahead by more than one.
_FREE_RATIO = 0.25


def held_back(rank: RankTrace, activities: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """When threads waited to be able to start one more program, as devices take only so many ahead.

    On GPUs the thread that launches waits for what it launched before, whether it reads that or not.
    """
    full = intervals.union(lasting(activities.filter(activity=BACK_PRESSURE)))
    if xla_gaps.is_on_host(rank):
        return full.select(began_ns="start_ns", returned_ns="end_ns")
    launching = pl.lit(host_time.stepping_threads(rank)).implode()
    waiting = intervals.union(activities.filter(pl.col("tid").is_in(launching), activity=WAIT))
    known = pl.concat([full, waits.select(start_ns="began_ns", end_ns="returned_ns")])
    rest = lasting(intervals.subtract(waiting, known))
    return pl.concat([full, rest]).select(began_ns="start_ns", returned_ns="end_ns")


def losing(waits: pl.DataFrame) -> pl.DataFrame:
    """Those of the waits that last longer than reading what is there."""
    return waits.filter(_is_losing())


def in_a_row(rank: RankTrace, waits: pl.DataFrame) -> pl.DataFrame:
    """The waits, reads of what is there told as the wait before if nothing was launched since: they would wait, too."""
    launched = xla_gaps.program_runs(rank)["launch_ns"].drop_nulls().unique().sort()
    ordered = waits.sort("began_ns")
    count = launched.search_sorted(ordered["began_ns"])
    first = pl.when(_is_losing()).then("responsible").forward_fill().over(pl.lit(count))
    return ordered.with_columns(pl.coalesce(first, "responsible").alias("responsible"))


def _is_losing() -> pl.Expr:
    return pl.col("returned_ns") - pl.col("began_ns") > xla_late_launches.SOON_NS


def with_ready(rank: RankTrace, waits: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The waits with ``ready_ns``: those for programs that began before the recording may be until a gap began."""
    ended = xla_gaps.program_runs(rank).select(ready_ns="end_ns").sort("ready_ns")
    stood = gaps.select(stood_ns="start_ns", until_ns="end_ns").sort("stood_ns")
    known = (
        waits.with_columns(over_ns=_over_ns())
        .sort("over_ns")
        .join_asof(ended, left_on="over_ns", right_on="ready_ns", check_sortedness=False)
        .with_columns(
            ready_ns=pl.when(pl.col("ready_ns") > pl.col("returned_ns")).then("returned_ns").otherwise("ready_ns")
        )
        .drop("over_ns")
        .sort("returned_ns")
        .join_asof(stood, left_on="returned_ns", right_on="stood_ns", check_sortedness=False)
    )
    in_gap = pl.when(pl.col("until_ns") >= pl.col("returned_ns")).then("stood_ns")
    # Devices ran dry while it waited: for the last that they did, be it in the middle of a program.
    is_last = (pl.col("stood_ns") > pl.col("began_ns")).fill_null(value=False)
    # What had been there for long is of an earlier program than the last.
    waited = pl.col("began_ns") < pl.col("ready_ns")
    read_ns = pl.when(waited).then("ready_ns").otherwise(pl.coalesce(_read(rank, known), "ready_ns"))
    ready = known.with_columns(
        pl.coalesce(pl.when(is_last).then(in_gap), read_ns, in_gap, "returned_ns").alias("ready_ns")
    )
    return ready.hstack([_since(rank, ready)])


def _since(rank: RankTrace, waits: pl.DataFrame) -> pl.Series:
    """How long after its run in the step before the program that each wait is for was over, ``since_ns``.

    A loop that reads its results one step later waits for that. Code that saves or evaluates has nothing else to read,
    nor has a loop that waits for nothing in other steps.
    """
    runs = xla_gaps.program_runs(rank)
    lasting = runs.filter(pl.col("end_ns") - pl.col("start_ns") >= xla_gaps.MIN_GAP_NS)
    over = (
        lasting.group_by(pl.coalesce("launch_ns", "start_ns"))
        .agg(pl.col("module").first(), pl.col("start_ns").min(), over_ns=pl.col("end_ns").max())
        .sort("over_ns")
        # What began before the recording was over when the first of them began.
        .with_columns(before_ns=pl.coalesce(pl.col("over_ns").shift(1).over("module"), "start_ns"))
    )
    told = waits.select("saving", "ready_ns", at_ns=pl.col("ready_ns") + _CLOCKS_NS).with_row_index("place")
    known = told.sort("at_ns").join_asof(over, left_on="at_ns", right_on="over_ns", check_sortedness=False)
    since_ns = (pl.col("ready_ns") - pl.col("before_ns")).clip(lower_bound=0)
    is_read = pl.col("saving").is_null() & pl.lit(_always_waits(lasting["launch_ns"], waits))
    since: pl.Series = known.sort("place").select(since_ns=pl.when(is_read).then(since_ns))["since_ns"]
    return since


def _always_waits(launches: pl.Series, waits: pl.DataFrame) -> bool:
    """Whether the host reads something from nearly each launch to the next."""
    launched = launches.drop_nulls().unique().sort()
    began = waits.filter(pl.col("saving").is_null(), pl.col("responsible").is_not_null())["began_ns"]
    counts = began.sort().search_sorted(launched).cast(pl.Int64).diff().drop_nulls()
    return int((counts == 0).sum()) <= _FREE_RATIO * len(counts)


def _read(rank: RankTrace, waits: pl.DataFrame) -> pl.Series:
    """When the programs were over that hosts wait for, by how many they had launched since; null where none is known.

    Those that ran on when a wait of the same name was over were none that it waited for.
    """
    launched, over = rank.cached(_launched_and_over)
    count = launched.search_sorted(waits["returned_ns"], side="right").cast(pl.Int64)
    since = waits.select("responsible", count=count - _ended(over, waits))
    place = count - since.select(pl.col("count").max().over("responsible")).to_series() - 1
    known: pl.Series = over[place.clip(lower_bound=0)] if len(over) else pl.Series([None] * len(place), dtype=pl.Int64)
    return pl.select(pl.when(pl.lit(place) >= 0).then(pl.lit(known))).to_series().alias("read_ns")


def _launched_and_over(rank: RankTrace) -> tuple[pl.Series, pl.Series]:
    """When programs were launched, in that order, and when each was over on all devices, with all before it."""
    runs = xla_gaps.program_runs(rank).drop_nulls("launch_ns").group_by("launch_ns").agg(pl.col("end_ns").max())
    ordered = runs.sort("launch_ns")
    over: pl.Series = ordered["end_ns"].cum_max()
    return ordered["launch_ns"], over


def _ended(over: pl.Series, waits: pl.DataFrame) -> pl.Series:
    """How many programs were over when each wait was."""
    count: pl.Series = over.search_sorted(waits.select(_over_ns()).to_series(), side="right").cast(pl.Int64)
    return count


def _over_ns() -> pl.Expr:
    """Until when what a wait is for may be over: the clocks of host and device are not quite one."""
    nearly_ns = pl.min_horizontal(_CLOCKS_NS, (pl.col("returned_ns") - pl.col("began_ns")) // 2)
    return (pl.col("returned_ns") + nearly_ns).alias("over_ns")


def early(rank: RankTrace, waits: pl.DataFrame) -> pl.Series:
    """Whether each wait is for all that was launched: others leave devices something to do while the host goes on.

    Devices that are threads of the host have nothing to do meanwhile that would not have to be done later.
    """
    if xla_gaps.is_on_host(rank):
        return pl.repeat(value=True, n=waits.height, eager=True).alias("is_early")
    launched, over = rank.cached(_launched_and_over)
    count: pl.Series = launched.search_sorted(waits["returned_ns"], side="right").cast(pl.Int64)
    return (count == _ended(over, waits)).alias("is_early")


def lasting(own: pl.DataFrame) -> pl.DataFrame:
    """What takes less than a gap has to last is never what took longest."""
    return own.filter(pl.col("end_ns") - pl.col("start_ns") >= xla_gaps.MIN_GAP_NS)


def are_waits(spans: pl.DataFrame, activities: pl.DataFrame) -> pl.Series:
    """Which spans hold next to nothing but waits for results."""
    reading = intervals.union(activities.filter(activity=READ_BACK))
    length, own_ns = spans["end_ns"] - spans["start_ns"], intervals.uncovered_ns(spans, reading)
    found: pl.Series = (own_ns < length) & (own_ns < xla_gaps.MIN_GAP_NS)
    return found
