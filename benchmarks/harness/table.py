"""Results as the lines of a page."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from math import isnan
from pathlib import Path
from statistics import median

from harness.bench import Bench
from harness.measure import Results
from harness.question import Quantity, Row, Skipped

_OURS = ("holotrace", "polars")


def comparisons(rows: Iterable[Row | Skipped], results: Results) -> list[str]:
    """A line per question: ours, theirs, their ratio and whether the goal is met."""
    return _grid(
        ("question", "holotrace", "compared with", "ratio", "goal", "met"),
        [_compared(row, results) if isinstance(row, Row) else _skipped(row) for row in rows],
    )


def measurements(results: Results) -> list[str]:
    """A line per program: how often it ran, its fastest and its median run, its peak memory."""
    lines = []
    for name, samples in results.samples.items():
        if not samples:
            lines.append((name, "0", results.failures[name], "", ""))
            continue
        seconds = sorted(sample["seconds"] for sample in samples)
        peak = max(sample["peak_bytes"] for sample in samples)
        lines.append((name, str(len(seconds)), f"{seconds[0]:.3f}", f"{median(seconds):.3f}", f"{peak / 1e6:.0f}"))
    return _grid(("program", "runs", "fastest, s", "median, s", "peak, MB"), lines)


def circumstances(bench: Bench, load_average: float) -> list[str]:
    """When, on what and with which versions; ``load_average`` is the machine's before anything was measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    rust = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    versions = {"Python": platform.python_version(), "Rust": rust, **_our_versions(), **bench.peers.versions}
    return [
        f"- {datetime.datetime.now(tz=datetime.timezone.utc):%Y-%m-%d}",
        f"- {_processor()}, {bench.cores} cores used, {memory:.0f} GiB of memory",
        f"- load average {load_average:.1f} before anything was measured; 0 is a quiet machine",
        "- " + ", ".join(f"{name} {version}" for name, version in versions.items()),
        *(f"- {trace}" for trace in bench.inputs.traces),
        f"- 8 ranks: {_job_size(bench.inputs.eight_ranks)}",
    ]


def _compared(row: Row, results: Results) -> Sequence[str]:
    failed = [need.name for side in (row.ours, row.theirs) for need in side.needs if need.name in results.failures]
    if failed:
        return row.question, row.ours.label, row.theirs.label, f"{failed[0]} failed", row.goal.text, "?"
    ours, theirs = row.ours.value(results), row.theirs.value(results)
    if isnan(ours) or isnan(theirs):
        silent = row.ours if isnan(ours) else row.theirs
        return (
            row.question,
            _spelled(row.ours, ours),
            _spelled(row.theirs, theirs),
            "",
            row.goal.text,
            f"{silent.label} fails",
        )
    ratio = row.goal.ratio(ours, theirs)
    met = "yes" if row.goal.is_met(ratio) else "no"
    return row.question, _spelled(row.ours, ours), _spelled(row.theirs, theirs), f"{ratio:.2f}", row.goal.text, met


def _skipped(row: Skipped) -> Sequence[str]:
    return row.question, "", row.reason, "", "", "not asked"


def _spelled(quantity: Quantity, value: float) -> str:
    if isnan(value):
        return f"none ({quantity.label})"
    number = f"{value:.3f}" if quantity.unit == "s" else f"{value:.0f}"
    return f"{number} {quantity.unit} ({quantity.label})"


def _grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in (head, *lines)) for column in range(len(head))]
    rule = ["-" * width for width in widths]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in (head, rule, *lines)
    ]


def _our_versions() -> dict[str, str]:
    return {name: version(name) for name in _OURS}


def _processor() -> str:
    """The processor's name, as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _job_size(job: Path) -> str:
    files = list(job.glob("*.json*"))
    return f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB gzipped"
