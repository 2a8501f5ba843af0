"""Does the memory of a report stay what it is, from 4 ranks to 1,024?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from harness.bench import Bench
from harness.measure import Measurement
from harness.peers import WORK
from harness.question import Row, Skipped, at_most, constant, peak_memory


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    inputs = bench.inputs
    yield Row(
        "peak memory of a report on 64 ranks against 4",
        peak_memory(_report(inputs.many_ranks), "64 ranks"),
        peak_memory(_report(inputs.four_of_many), "4 ranks"),
        at_most(1.2),
    )
    yield Row(
        "peak memory of a report on 1,024 small ranks",
        peak_memory(_report(inputs.thousand_ranks), "1,024 ranks"),
        constant(1500, "MB", "limit"),
        at_most(1),
    )


def _report(job: Path) -> Measurement:
    command = (Path(sys.executable).with_name("holotrace"), "report", job, "--output", WORK / f"{job.name}.html")
    return Measurement(f"holotrace report, {job.name}", command, most_rounds=1, report=lambda output: {})
