"""Do all analyses together take at most 0.3 of the time of the load before them?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench import Bench
from harness.question import Row, Skipped, at_most, seconds


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    for trace in bench.inputs.traces:
        for form, path in (("plain", trace.plain), ("gzip", trace.gzip)):
            both = bench.ours(f"load and analyses, {trace.name}, {form}", "analyses", path)
            yield Row(
                f"analyses of {trace.name} {form} against its load",
                seconds(both, "analyses"),
                seconds(both, "load", "load_s"),
                at_most(0.3),
            )
