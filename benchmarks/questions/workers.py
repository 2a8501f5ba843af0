"""Do two cores, and two processes of a Dask cluster, take nearly half the time of one?"""

from __future__ import annotations

import os
from collections.abc import Iterator

from harness.bench import Bench
from harness.measure import on_cpus
from harness.question import Row, Skipped, seconds, times_faster

from questions.many_ranks import report_of

# How much faster two have to be than one.
_CORES = 1.8
_DASK = 1.7


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    inputs = bench.inputs
    if bench.cores < 2:
        yield Skipped("many ranks on 2 cores against 1", "there is one core")
        return
    # The whole command: it imports and writes its page on one core wherever it runs, which weighs less with more ranks.
    for ranks, job, most_rounds in (("64", inputs.many_ranks, 3), ("1,024 small", inputs.thousand_ranks, 1)):
        first, second = sorted(os.sched_getaffinity(0))[:2]
        report = report_of(job, most_rounds=most_rounds)
        yield Row(
            f"holotrace report of {ranks} ranks on 2 cores against 1",
            seconds(on_cpus(f"{first},{second}", report), "2 cores"),
            seconds(on_cpus(f"{first}", report), "1 core, by taskset"),
            times_faster(_CORES),
        )
    two, one = (bench.ours(f"all analyses of 64 ranks, {n} Dask processes", "dask", inputs.many_ranks, n) for n in "21")
    yield Row(
        "all analyses on 2 Dask processes against 1",
        seconds(two, "2 Dask processes"),
        seconds(one, "1"),
        times_faster(_DASK),
    )
