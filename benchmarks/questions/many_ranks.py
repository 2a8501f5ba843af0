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
    # Four ranks alone would be read by fewer.
    workers = ("--workers", "2")
    yield Row(
        "peak memory of a report on 64 ranks against 4",
        peak_memory(report_of(inputs.many_ranks, *workers), "64 ranks, all processes"),
        peak_memory(report_of(inputs.four_of_many, *workers), "4 ranks, all processes"),
        at_most(1.2),
    )
    yield Row(
        "peak memory of a report on 1,024 small ranks",
        peak_memory(report_of(inputs.thousand_ranks), "1,024 ranks, all processes"),
        constant(1500, "MB", "limit"),
        at_most(1),
    )


def report_of(job: Path, *options: str, most_rounds: int = 1) -> Measurement:
    """The command line's report as it is by default, or with options."""
    return command_of("report", job, *options, output=("--output", WORK / f"{job.name}.html"), most_rounds=most_rounds)


def command_of(
    words: str, job: Path, *options: str, output: tuple[str | Path, ...] = (), most_rounds: int = 1
) -> Measurement:
    """A command about a job, with options."""
    holotrace = Path(sys.executable).with_name("holotrace")
    name = " ".join((f"holotrace {words},", job.name, *options))
    command = (holotrace, *words.split(), job, *options, *output)
    return Measurement(name, command, most_rounds, report=lambda printed: {})
