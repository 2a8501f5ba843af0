"""Is loading 4 times faster than with Perfetto's native trace processor?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench import Bench
from harness.measure import Measurement
from harness.peers import WORK
from harness.question import Row, Skipped, seconds, seconds_beyond, times_faster


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    shell = bench.peers.perfetto
    if shell is None:
        yield Skipped("load against Perfetto", bench.peers.missing["perfetto"])
        return
    # A query makes it load the trace to its end.
    query = WORK / "inputs" / "nothing.sql"
    query.write_text("SELECT 1;\n")
    nothing = WORK / "inputs" / "nothing.json"
    nothing.write_text('{"traceEvents": []}\n')
    start = Measurement("Perfetto, no events", (shell, "-q", query, nothing))
    for trace in bench.inputs.traces:
        for form, path in (("plain", trace.plain), ("gzip", trace.gzip)):
            theirs = Measurement(f"Perfetto, {trace.name}, {form}", (shell, "-q", query, path))
            for columns in ("analyses", "every"):
                yield Row(
                    f"load {trace.name} {form} against Perfetto",
                    seconds(bench.load(trace, form, columns), bench.columns[columns]),
                    seconds_beyond(theirs, start, "process, less its start"),
                    times_faster(4),
                )
