"""Is loading plain JSON faster than pysimdjson only parses it?"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

from harness.bench import Bench
from harness.measure import Measurement
from harness.question import Row, Skipped, faster, seconds


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    for trace in bench.inputs.traces:
        theirs = Measurement(f"pysimdjson, {trace.name}, plain", bench.theirs("questions.parse_alone", trace.plain))
        for columns in ("analyses", "every"):
            yield Row(
                f"load {trace.name} plain against pysimdjson",
                seconds(bench.load(trace, "plain", columns), bench.columns[columns]),
                seconds(theirs, "parse alone"),
                faster(),
            )


def measure(path: str) -> float:
    """Seconds to have a document nobody has looked into."""
    import simdjson

    parser = simdjson.Parser()
    started = time.perf_counter()
    parser.load(path)
    return time.perf_counter() - started


if __name__ == "__main__":
    print(json.dumps({"seconds": measure(sys.argv[1])}))
