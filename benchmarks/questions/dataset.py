"""Does a dataset cost little to write and to keep, and answer at least 5 times as fast as its trace?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from harness.bench import Bench
from harness.inputs import TraceFile
from harness.measure import BENCHMARKS
from harness.peers import WORK
from harness.question import Quantity, Row, Skipped, at_most, constant, seconds, times_faster, typical

# The goal's sentence can be read of opening a dataset, and of writing it.
_SECONDS_PER_MILLION = 0.3


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    trace = bench.inputs.traces[0]
    writing = bench.ours(f"convert, {trace.name}", "convert", trace.gzip, WORK / "written")
    yield Row(
        "write a dataset, per million events",
        seconds(writing, "converted", "seconds_per_million"),
        constant(_SECONDS_PER_MILLION, "s", "the goal"),
        at_most(1),
    )
    unasked = _converted(trace, WORK / "unasked")
    opening = bench.ours(f"open, dataset of {trace.name}, every declared column", "opening", unasked)
    yield Row(
        "open a dataset, per million events",
        seconds(opening, "every declared column", "seconds_per_million"),
        constant(_SECONDS_PER_MILLION, "s", "the goal"),
        at_most(1),
    )
    yield Row(
        "size of a dataset",
        Quantity("dataset", "MB", (writing,), lambda results: typical(results, writing, "written_bytes") / 1e6),
        constant(trace.gzip.stat().st_size / 1e6, "MB", "gzipped trace"),
        at_most(1),
    )
    from_trace = seconds(bench.ours(f"run, {trace.name}, gzip", "run", trace.gzip), "gzipped trace")
    asked = _converted(trace, WORK / "asked", "--answers")
    yield Row(
        "open and run all analyses again, dataset against trace",
        seconds(bench.ours(f"run, dataset of {trace.name} that keeps its answers", "run", asked), "dataset"),
        from_trace,
        times_faster(5),
    )
    yield Row(
        "open and run all analyses for the first time, dataset against trace",
        seconds(bench.ours(f"run, dataset of {trace.name} without answers", "run_first", unasked), "dataset"),
        from_trace,
        times_faster(5),
    )


def _converted(trace: TraceFile, out: Path, *options: str) -> Path:
    convert = (sys.executable, "-m", "holotrace", "convert", trace.gzip, out, "--overwrite", *options)
    subprocess.run(convert, check=True, cwd=BENCHMARKS, capture_output=True)
    return out
