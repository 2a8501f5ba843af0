"""Do two cores, and two processes of a Dask cluster, take nearly half the time of one?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench import Bench
from harness.question import Row, Skipped, seconds, times_faster

# How much faster two have to be than one, by what they are.
_GOALS = {"cores": 1.8, "dask": 1.7}


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    for part, least in _GOALS.items():
        what = "cores" if part == "cores" else "Dask processes"
        if bench.cores < 2:
            yield Skipped(f"all analyses on 2 {what} against 1", "there is one core")
            continue
        two, one = (bench.ours(f"all analyses of 64 ranks, {n} {what}", part, bench.inputs.many_ranks, n) for n in "21")
        yield Row(
            f"all analyses on 2 {what} against 1", seconds(two, f"2 {what}"), seconds(one, "1"), times_faster(least)
        )
