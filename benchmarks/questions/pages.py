"""Is a report small, painted within 1 s, and drawn in time for 60 frames a second, at 1, 64 and 1,024 ranks?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness.bench import Bench
from harness.measure import Measurement, Results
from harness.peers import WORK
from harness.question import Quantity, Row, Skipped, at_most, constant, typical
from page_in_browser import CHROMIUM

from questions.many_ranks import report_of

_FRAME_MS = 1000 / 60
# What is told of a page: its field, its unit and the field's size in it, and the most that it may be.
_TOLD = (
    ("timeline in the page, compressed", "timeline_bytes", "MB", 1e-6, 1.5),
    ("first paint", "first_paint_ms", "s", 1e-3, 1.0),
    ("a frame of scrolling, main thread", "scroll_frame_ms", "ms", 1.0, _FRAME_MS),
    ("a frame of 10,000 events, main thread", "timeline_frame_ms", "ms", 1.0, _FRAME_MS),
)


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    if CHROMIUM is None:
        yield Skipped("reports in a browser", "there is no Chromium")
        return
    inputs = bench.inputs
    jobs = (
        (inputs.one_rank, "1 rank", 2.0, ()),
        (inputs.many_ranks, "64 ranks", 8.0, ("--workers", "2")),
        (inputs.thousand_ranks, "1,024 ranks", 8.0, ()),
    )
    for job, ranks, most_mb, options in jobs:
        # It writes the page that is visited.
        needs = (report_of(job, *options), Measurement(f"Chromium, report of {ranks}", _visit(job)))
        for label, field, unit, factor, most in (("page", "page_bytes", "MB", 1e-6, most_mb), *_TOLD):
            value = partial(_value, visit=needs[1], field=field, factor=factor)
            limit = constant(most, unit, "limit")
            yield Row(f"report of {ranks}: {label}", Quantity(label, unit, needs, value), limit, at_most(1))


def _visit(job: Path) -> tuple[str | Path, ...]:
    return sys.executable, "-m", "page_in_browser", WORK / f"{job.name}.html"


def _value(results: Results, visit: Measurement, field: str, factor: float) -> float:
    return factor * typical(results, visit, field)
