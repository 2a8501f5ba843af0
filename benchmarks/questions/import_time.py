"""Is holotrace imported within 0.3 s?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench import Bench
from harness.question import Row, Skipped, at_most, constant, seconds


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    yield Row("import holotrace", seconds(bench.importing, "import"), constant(0.3, "s", "limit"), at_most(1))
