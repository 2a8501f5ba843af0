"""Programs run in fresh processes, and what each run took."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

BENCHMARKS = Path(__file__).resolve().parent.parent

# What one run gave: wall_s, peak_bytes, and what the program itself reported, seconds among it.
Sample: TypeAlias = Mapping[str, float]


def last_line(output: str) -> dict[str, float]:
    """What a program reports: a JSON object in the last line of its output; nothing if it reports nothing."""
    lines = output.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        return {}
    reported: dict[str, float] = json.loads(lines[-1])
    return reported


@dataclass(frozen=True)
class Measurement:
    """A program to measure; two with the same name are the same."""

    name: str
    command: tuple[str | Path, ...]
    # Slow programs are run in the first rounds only.
    most_rounds: int = 100
    report: Callable[[str], Mapping[str, float]] = last_line


class MeasurementError(Exception):
    """A program failed."""


@dataclass(frozen=True)
class Results:
    """Samples of each measurement by its name, and why some have none."""

    samples: Mapping[str, list[Sample]]
    failures: Mapping[str, str]


def run_all(measurements: Iterable[Measurement], rounds: int, tell: Callable[[str], None]) -> Results:
    """Run every program once per round, so that all of them meet the same disturbances."""
    programs = {measurement.name: measurement for measurement in measurements}
    samples: dict[str, list[Sample]] = {name: [] for name in programs}
    failures: dict[str, str] = {}
    for turn in range(rounds):
        for name, measurement in programs.items():
            if name in failures or turn >= measurement.most_rounds:
                continue
            try:
                sample = run(measurement)
            except MeasurementError as error:
                failures[name] = str(error)
                tell(f"{name}: {error}")
                continue
            samples[name].append(sample)
            tell(f"round {turn + 1}/{rounds}  {name}: {sample['seconds']:.3f} s, {sample['peak_bytes'] / 1e6:.0f} MB")
    return Results(samples, failures)


def run(measurement: Measurement) -> Sample:
    """Run a program in a fresh process; its seconds are those it reports, or else its whole time."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(measurement.command, stdout=output, stderr=errors, cwd=BENCHMARKS)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise MeasurementError((errors.read().strip().splitlines() or [f"exit status {process.returncode}"])[-1])
        reported = measurement.report(output.read())
    # Linux counts in KiB.
    return {"wall_s": wall_s, "seconds": wall_s, "peak_bytes": usage.ru_maxrss * 1024, **reported}
