"""Is loading a .json.gz at most 1.3 times as long as the fastest inflater takes for inflating it and nothing else?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench import Bench
from harness.measure import Measurement
from harness.question import Row, Skipped, at_most, seconds

# ISA-L is the fastest, zlib-rs the fastest that needs no more than Rust. In blocks that stay in the cache, as a reader
# inflates them that scans each at once, or as a whole into memory, as who wants the text.
_ALONE = (
    ("isal", "512", "ISA-L alone, in blocks"),
    ("flate2 over zlib-rs", "512", "zlib-rs alone, in blocks"),
    ("isal", "whole", "ISA-L alone, into memory"),
)


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    for name, block, label in _ALONE:
        if name in bench.peers.missing:
            yield Skipped(f"load .json.gz against {label}", bench.peers.missing[name])
            continue
        for trace in bench.inputs.traces:
            command = (bench.peers.inflate, trace.gzip, name, "1", block)
            theirs = Measurement(f"{label}, {trace.name}", command, report=_seconds)
            yield Row(
                f"load {trace.name} .json.gz against inflating it",
                seconds(bench.load(trace, "gzip", "analyses"), bench.columns["analyses"]),
                seconds(theirs, label),
                at_most(1.3),
            )


def _seconds(output: str) -> dict[str, float]:
    """The best time is the last column but one."""
    return {"seconds": float(output.split()[-2])}
