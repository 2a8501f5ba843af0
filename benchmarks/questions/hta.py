"""Is loading a .json.gz 80 times faster than with HTA?"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

from harness.bench import Bench
from harness.measure import Measurement
from harness.question import Row, Skipped, seconds, times_faster


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    for trace in bench.inputs.traces:
        theirs = Measurement(f"HTA, {trace.name}, gzip", bench.theirs("questions.hta", trace.gzip), most_rounds=2)
        for columns in ("analyses", "every"):
            yield Row(
                f"load {trace.name} .json.gz against HTA",
                seconds(bench.load(trace, "gzip", columns), bench.columns[columns]),
                seconds(theirs, "TraceAnalysis()"),
                times_faster(80),
            )


def measure(path: str) -> float:
    """Seconds to have the frame from which HTA answers everything."""
    from hta.trace_analysis import TraceAnalysis

    started = time.perf_counter()
    TraceAnalysis(trace_files={0: path})
    return time.perf_counter() - started


if __name__ == "__main__":
    print(json.dumps({"seconds": measure(sys.argv[1])}))
