"""Do 8 ranks take at most 1.2 times 8 / cores the time of one?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from harness.bench import Bench
from harness.measure import Measurement
from harness.peers import WORK
from harness.question import Row, Skipped, at_most, seconds


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    most = 8 / min(8, bench.cores) * 1.2
    for what, measurement in (("load", _load), ("holotrace report", _report)):
        yield Row(
            f"{what} of 8 ranks against 1",
            seconds(measurement(bench, bench.inputs.eight_ranks, "8 ranks"), "8 ranks"),
            seconds(measurement(bench, bench.inputs.one_rank, "1 rank"), "1 rank"),
            at_most(most),
        )


def _load(bench: Bench, job: Path, size: str) -> Measurement:
    return bench.ours(f"load, {size}", "ranks", job)


def _report(_: Bench, job: Path, size: str) -> Measurement:
    command = (Path(sys.executable).with_name("holotrace"), "report", job, "--output", WORK / f"{job.name}.html")
    return Measurement(f"holotrace report, {size}", command, report=lambda output: {})
