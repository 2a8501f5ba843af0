"""Is loading plain JSON 5 times faster than decoding it into typed objects with msgspec and making columns of them?"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from harness.bench import Bench
from harness.measure import Measurement
from harness.question import Row, Skipped, seconds, times_faster


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    for trace in bench.inputs.traces:
        command = bench.theirs("questions.typed_decode", trace.plain)
        theirs = Measurement(f"msgspec, {trace.name}, plain", command, most_rounds=5)
        # Ten columns: the same of every event, as there.
        for columns in ("analyses", "ten"):
            yield Row(
                f"load {trace.name} plain against msgspec",
                seconds(bench.load(trace, "plain", columns), bench.columns[columns]),
                seconds(theirs, "typed decode, ten columns"),
                times_faster(5),
            )


def measure(path: str) -> dict[str, float]:
    """Seconds to have ten columns of every event in Polars."""
    import msgspec
    import polars as pl

    number, text, mixed = float | None, str | None, int | str | None
    args = [(key, mixed, None) for key in ("stream", "device", "correlation")]
    fields = [("ph", str), ("cat", text, None), ("name", text, None), ("pid", mixed, None), ("tid", mixed, None)]
    fields += [("ts", number, None), ("dur", number, None)]
    # Objects that need no garbage collector are msgspec's fastest.
    Args = msgspec.defstruct("Args", args, gc=False)
    Entry = msgspec.defstruct("Entry", [*fields, ("args", Args | None, None)], gc=False)
    Trace = msgspec.defstruct("Trace", [("traceEvents", list[Entry])], gc=False)

    decoder = msgspec.json.Decoder(Trace)
    started = time.perf_counter()
    entries = decoder.decode(Path(path).read_bytes()).traceEvents
    decoded = time.perf_counter()
    events = [entry for entry in entries if entry.ph == "X"]
    no_args = Args()
    event_args = [entry.args or no_args for entry in events]
    columns = {
        "ph": pl.Series([entry.ph for entry in events], dtype=pl.String),
        "cat": pl.Series([entry.cat for entry in events], dtype=pl.String),
        "name": pl.Series([entry.name for entry in events], dtype=pl.String),
        # Numbers of some events, names of others.
        "pid": pl.Series([entry.pid for entry in events], dtype=pl.String, strict=False),
        "tid": pl.Series([entry.tid for entry in events], dtype=pl.String, strict=False),
        "ts": pl.Series([entry.ts for entry in events], dtype=pl.Float64),
        "dur": pl.Series([entry.dur for entry in events], dtype=pl.Float64),
        "stream": pl.Series([arg.stream for arg in event_args], dtype=pl.Int64, strict=False),
        "device": pl.Series([arg.device for arg in event_args], dtype=pl.Int64, strict=False),
        "correlation": pl.Series([arg.correlation for arg in event_args], dtype=pl.Int64, strict=False),
    }
    frame = pl.DataFrame(columns)
    ended = time.perf_counter()
    return {"seconds": ended - started, "decode_s": decoded - started, "rows": frame.height}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
