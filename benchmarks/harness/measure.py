"""Programs run in fresh processes, and what each run took."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TypeAlias

BENCHMARKS = Path(__file__).resolve().parent.parent
_LOOK_S = 0.1  # between two looks at the processes that a program started
# Python keeps what it compiled, as of any installed package: pip compiles the peers' modules when it installs them.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

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


def on_cpus(cpus: str, measurement: Measurement) -> Measurement:
    """The same program, given these CPUs only, as taskset names them."""
    name, command = f"{measurement.name} on CPU {cpus}", ("taskset", "--cpu-list", cpus, *measurement.command)
    return replace(measurement, name=name, command=command)


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
    ended = Event()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors, ThreadPoolExecutor(1) as watch:
        started = time.perf_counter()
        process = subprocess.Popen(measurement.command, stdout=output, stderr=errors, cwd=BENCHMARKS, env=_ENVIRONMENT)
        others = watch.submit(_peaks_of_others, process.pid, ended)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        ended.set()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise MeasurementError((errors.read().strip().splitlines() or [f"exit status {process.returncode}"])[-1])
        reported = measurement.report(output.read())
    # Linux counts in KiB.
    peak_bytes = usage.ru_maxrss * 1024 + others.result()
    return {"wall_s": wall_s, "seconds": wall_s, "peak_bytes": peak_bytes, **reported}


def _peaks_of_others(program: int, ended: Event) -> int:
    """What the processes that a program starts hold at their peaks, added up: pages that they share, in each."""
    peaks: dict[int, int] = {}
    while not ended.wait(_LOOK_S):
        for process in _started_by(program):
            peaks[process] = max(peaks.get(process, 0), _peak(process))
    return sum(peaks.values())


def _started_by(process: int) -> Iterator[int]:
    """Processes that one has started, and those these have started."""
    try:
        # Each thread has the processes that it started.
        tasks = [path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:
        return
    for child in (int(child) for children in tasks for child in children):
        yield child
        yield from _started_by(child)


def _peak(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    held = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), "0")
    return int(held) * 1024
