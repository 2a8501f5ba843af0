"""Clocks of ranks that are seconds apart, and those that count from 1970: what is told does not depend on either."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import polars as pl

import holotrace
from holotrace import sample
from holotrace.diagnosis.job.meetings import Change, Meetings

SINCE_1970_NS = 1_790_000_000_123_456_789


def moved(folder: Path, seconds: int, *, of_rank: int) -> None:
    """Lets a clock be so much ahead of what it is."""
    file = next(folder.glob(f"rank-{of_rank}_*"))
    text = gzip.decompress(file.read_bytes()).decode()
    later = re.sub(r'("ts": )(\d+)', lambda at: f"{at[1]}{int(at[2]) + seconds * 1_000_000}", text)
    file.write_bytes(gzip.compress(later.encode(), 1))


def test_where_a_cause_is_counts_by_the_clock_of_the_job(tmp_path: Path) -> None:
    """It counted from when the job began by the rank's own clock, 7 s after a job of half a second had begun."""
    truth = sample.write(tmp_path, ranks=3, steps=2, faults=["input"])
    (fault,) = truth.costs_ns
    moved(tmp_path, 7, of_rank=fault.ranks[0])
    found = holotrace.open(tmp_path).causes().row(0, named=True)
    assert (found["cause"], found["ranks"]) == ("input", list(fault.ranks))
    assert 0 < found["where_ns"] < truth.job_ns


def test_nanoseconds_are_kept_however_late_it_is() -> None:
    """Times since 1970 were added as numbers that step by 256 ns."""
    begins = [SINCE_1970_NS + 100_000 * match for match in range(5)]
    visits = pl.DataFrame(
        [
            {"match": match, "rank": rank, "arrival_ns": begun_ns + come, "left_ns": begun_ns + 90_000}
            for match, begun_ns in enumerate(begins)
            for rank, come in ((0, 30_000), (1, 70_001))
        ]
    ).with_columns(
        pl.lit(None, pl.Int64).alias("needed_ns"),
        pl.lit(None, pl.Int64).alias("ready_ns"),
        time_ns=pl.col("left_ns") - pl.col("arrival_ns"),
        clock_offset_ns=0,
        collective=pl.lit("allreduce"),
        group=pl.lit("dp"),
        group_ranks=pl.lit("[0, 1]"),
    )
    ends = dict.fromkeys((0, 1), SINCE_1970_NS + 500000)
    spared = [(begun_ns + 70_001, 37) for begun_ns in begins]
    now = Meetings(visits, ends, {}).ends(Change(removed={1: spared}))
    assert now == {rank: end - 5 * 37 for rank, end in ends.items()}
