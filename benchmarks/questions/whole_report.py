"""Is everything about 1.4 million events told 20 times faster than HTA loads them, and about 1,024 ranks in 90 s?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from harness.bench import Bench
from harness.measure import Measurement, on_cpus
from harness.question import Row, Skipped, at_most, constant, peak_memory, seconds, times_faster

from questions.many_ranks import command_of, report_of

# What the report may need of the memory that the text takes, and what two cores may need for 1,024 small ranks.
_OF_TEXT = 1.2
_REPORT_S, _REPLAY_S = 90.0, 60.0


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    inputs = bench.inputs
    for trace in inputs.traces:
        theirs = Measurement(f"HTA, {trace.name}, gzip", bench.theirs("questions.hta", trace.gzip), most_rounds=2)
        report = report_of(trace.plain, most_rounds=3)
        yield Row(
            f"whole report of {trace.name} against HTA's loading",
            seconds(report, "the command"),
            seconds(theirs, "TraceAnalysis()"),
            times_faster(20),
        )
        yield Row(
            f"peak memory of the whole report of {trace.name}",
            peak_memory(report, "the command"),
            constant(trace.text_bytes / 1e6, "MB", "JSON text"),
            at_most(_OF_TEXT),
        )
    yield from _of_thousand(bench, inputs.thousand_ranks)


def _of_thousand(bench: Bench, job: Path) -> Iterator[Row | Skipped]:
    if bench.cores < 2:
        yield Skipped("1,024 small ranks on 2 cores", "there is one core")
        return
    cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2])
    report, replay = report_of(job), command_of("show replay", job)
    for what, measured, most_s in (("whole report", report, _REPORT_S), ("replay", replay, _REPLAY_S)):
        yield Row(
            f"{what} of 1,024 small ranks on 2 cores",
            seconds(on_cpus(cpus, measured), "2 cores"),
            constant(most_s, "s", "limit"),
            at_most(1),
        )
