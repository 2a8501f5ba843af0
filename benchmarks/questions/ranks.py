"""Do 8 ranks take at most 1.2 times 8 / cores the time of one?"""

from __future__ import annotations

import os
from collections.abc import Iterator

from harness.bench import Bench
from harness.measure import on_cpus
from harness.question import Row, Skipped, at_most, seconds

from questions.many_ranks import report_of


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    most = 8 / min(8, bench.cores) * 1.2
    core = str(min(os.sched_getaffinity(0)))
    eight, one = (
        {
            "load": bench.ours(f"load, {size}", "ranks", job),
            "holotrace report": report_of(job, most_rounds=100),
        }
        for job, size in ((bench.inputs.eight_ranks, "8 ranks"), (bench.inputs.one_rank, "1 rank"))
    )
    for what in eight:
        # One rank alone is read by several cores, so that eight of them have less to gain from these.
        for single, label in ((one[what], "1 rank"), (on_cpus(core, one[what]), "1 rank on 1 core, by taskset")):
            yield Row(
                f"{what} of 8 ranks against 1",
                seconds(eight[what], "8 ranks"),
                seconds(single, label),
                at_most(most),
            )
