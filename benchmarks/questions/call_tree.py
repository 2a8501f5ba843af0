"""Is the call tree of a million events made within 0.5 s?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench import Bench
from harness.question import Row, Skipped, at_most, constant, seconds


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    # Made with as many entries, most of them calls; a recorded trace has as many as it has.
    sample = bench.inputs.traces[0]
    tree = bench.ours(f"call tree, {sample.name}, plain", "calls", sample.plain)
    yield Row(f"call tree of {sample.name}", seconds(tree, "table of calls"), constant(0.5, "s", "limit"), at_most(1))
