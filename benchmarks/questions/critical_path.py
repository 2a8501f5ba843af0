"""Is the critical path of a step of 50,000 nodes found within 0.3 s?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench import Bench
from harness.measure import Measurement
from harness.question import Row, Skipped, at_most, constant, seconds

_METHOD = "critical_path_analysis"


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    # A step of its 350,000 entries has 71,000 nodes.
    (trace,) = bench.inputs.one_rank.glob("*.gz")
    path = Measurement(f"hta: {_METHOD}, 1 rank", (*bench.ours_of("questions.hta_methods", trace), _METHOD))
    found = seconds(path, "graph and path", _METHOD)
    yield Row("critical path of a step", found, constant(0.3, "s", "limit"), at_most(1))
