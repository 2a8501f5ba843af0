"""Does loading need less memory than the JSON text has bytes?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench import Bench
from harness.question import Row, Skipped, at_most, constant, memory_beyond

# What it may come to, in sizes of the text.
_GOALS = {"analyses": 0.5, "every": 1.0}


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    for trace in bench.inputs.traces:
        text = constant(trace.text_bytes / 1e6, "MB", "JSON text")
        for form in ("plain", "gzip"):
            for columns, most in _GOALS.items():
                yield Row(
                    f"peak memory of loading {trace.name} {form}",
                    memory_beyond(bench.load(trace, form, columns), bench.importing, bench.columns[columns]),
                    text,
                    at_most(most),
                )
