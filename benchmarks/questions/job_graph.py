"""Is the graph of 1.4 million events made and replayed within 1 s, and are 100 counterfactuals answered within 1 s?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench import Bench
from harness.question import Row, Skipped, at_most, constant, seconds


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    # One rank with as many activities as a step of 100,000 on each of eight.
    sample = bench.inputs.traces[0]
    graph = bench.ours(f"graph of the job, {sample.name}, plain", "graph", sample.plain)
    second = constant(1.0, "s", "limit")
    yield Row(f"graph and replay of {sample.name}", seconds(graph, "from frames"), second, at_most(1))
    yield Row(f"100 counterfactuals of {sample.name}", seconds(graph, "replays", "hundred_s"), second, at_most(1))
