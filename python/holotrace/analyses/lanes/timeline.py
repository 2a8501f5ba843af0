"""What each rank was doing when: the timeline of a job, in as many pieces as a page can show."""

from __future__ import annotations

import polars as pl

from holotrace.analyses.lanes import of_rank, windows
from holotrace.analyses.lanes.one_clock import on_one_clock
from holotrace.analyses.lanes.rows import BIN, COLUMNS, EVENT, MEETING, OF_RANK, RANK, STEP, WINDOW
from holotrace.core.analysis import per_job
from holotrace.core.charts import Ranking
from holotrace.core.schema import filled
from holotrace.core.tables import DEVICE_EVENTS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import collectives
from holotrace.derive.bins import Grid, runs
from holotrace.derive.epoch import base_ns

# All ranks of a page together have about so many pieces in each lane, so that its size does not grow with their number.
_ALL_BINS, _MOST_BINS, _LEAST_BINS = 1 << 17, 4096, 256
_MOST_STEPS = 1000
_TIMES = ("start_ns", "end_ns")


def pieces(rank: RankTrace) -> pl.DataFrame:
    """The lanes of one rank on its own clock, in pieces, with its collectives and what is worth seeing exactly."""
    calls = rank.cached(collectives.calls).with_columns(row=pl.lit(MEETING))
    base = base_ns(rank.metadata)
    time = recorded(rank)
    if time is None:
        return filled(calls, OF_RANK)
    on_file = calls.with_columns(pl.col(_TIMES) - base)
    times = windows.windows(rank, on_file)
    shown = windows.events(rank, times)
    counts = shown.group_by(track="window").agg(count=pl.len())
    numbered = times.with_row_index("track").with_columns(pl.col("track").cast(pl.Int64))
    grid = Grid.over(*time, _bin_count(rank))
    whole = pl.DataFrame([time], schema=dict.fromkeys(_TIMES, pl.Int64), orient="row")
    steps = rank[STEPS].sort("start_ns").head(_MOST_STEPS)
    parts = [
        whole.with_columns(row=pl.lit(RANK), busy_ns=grid.width_ns),
        steps.select(*_TIMES, row=pl.lit(STEP), lane=pl.lit(STEP), name=pl.col("step").cast(pl.String)),
        *_bins(rank, grid),
        numbered.join(counts, on="track", how="left").with_columns(row=pl.lit(WINDOW)),
        shown.rename({"window": "count"}).with_columns(row=pl.lit(EVENT)),
    ]
    own = pl.concat([filled(part, OF_RANK) for part in parts]).with_columns(pl.col(_TIMES) + base)
    return pl.concat([own, filled(calls, OF_RANK)])


def _bins(rank: RankTrace, grid: Grid) -> list[pl.DataFrame]:
    return [
        runs(spans, grid).with_columns(row=pl.lit(BIN), lane=pl.lit(lane))
        for lane, spans in of_rank.lanes(rank).items()
    ]


def recorded(rank: RankTrace) -> tuple[int, int] | None:
    """From the first start to the last end of device events and steps."""
    both = pl.concat([rank[of_rank.WORK].select(_TIMES), rank[STEPS].select(_TIMES)])
    first, last = both.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    return None if first is None or last <= first else (first, last)


def _bin_count(rank: RankTrace) -> int:
    job = rank.metadata.get("distributedInfo")
    world = job.get("world_size") if isinstance(job, dict) else None
    world = world if type(world) is int and world > 0 else 1
    return max(_LEAST_BINS, min(_MOST_BINS, _ALL_BINS // world))


@per_job(
    part=pieces,
    part_columns=OF_RANK,
    columns=COLUMNS,
    reads=(*of_rank.READS, *collectives.READS, DEVICE_EVENTS.only("event_id", "start_ns", "end_ns"), STEPS),
    chart=Ranking(x="name", y=("busy_ns",), title="What took most of the time, as far as the timeline tells"),
)
def timeline(rows: pl.DataFrame) -> pl.DataFrame:
    """What each rank was doing when, all ranks on one clock.

    The recording of each rank is cut into equal pieces of time, as many as a page can show. Of each lane (host,
    compute, communication, copy, idle) a `bin` tells how much of a piece it was active and what took most of that;
    pieces that follow each other and are alike are one row. Around the longest gap of each cause, the heaviest kernels
    and the longest collectives there is a `window`, in which every `event` is told. Of the collectives that were waited
    for longest a `meeting` tells when each rank came and left.

    Times are since the job began. Clocks are set by the ends of collectives; where those tell nothing, they are taken
    as they are.
    """
    known = rows.filter(pl.col("row") == RANK)
    return on_one_clock(rows) if not known.is_empty() else timeline.nothing
