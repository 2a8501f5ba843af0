"""Servers, which mark no steps, and read the tokens of each turn before they know what the next one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import write_trace

TURNS = 8


def server(folder: Path, *, reads: int, prepares_us: int, waits: str = "cudaStreamSynchronize") -> list[str]:
    """The causes of turns of so many parts, each read: the host then needs ``prepares_us`` until the next kernel runs.

    Kernels of a turn take 2 ms together.
    """
    events: list[dict[str, Any]] = []

    def event(cat: str, name: str, ts: int, dur: int, **args: int) -> None:
        place = {"pid": 0, "tid": 7} if "stream" in args else {"pid": 1, "tid": 1}
        events.append({"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args})

    at = number = 0
    for _ in range(TURNS):
        begin = at
        for _part in range(reads):
            at += prepares_us
            for name in ("attention", "gemm"):
                number += 1
                event("cuda_runtime", "cudaLaunchKernel", at - 20, 5, correlation=number)
                event("kernel", name, at, 1_000 // reads - 1, correlation=number, stream=7, device=0)
                at += 1_000 // reads
            event("cpu_op", "aten::item", at - 1_000 // reads - 1, 1_000 // reads + 5)
            event("cuda_runtime", waits, at - 1_000 // reads, 1_000 // reads + 3)
            at += 3
        event("user_annotation", "execute_model", begin, at - begin - 1)
    write_trace(folder / "rank-0.json", events=events)
    return list(holotrace.open(folder).causes()["cause"])


@pytest.mark.parametrize(
    ("reads", "prepares_us", "causes"),
    [
        (1, 200, []),
        # More than a server has to lose; and as much, where waits come several times in a turn.
        (1, 500, ["synchronization"]),
        (4, 50, ["synchronization"]),
    ],
)
def test_a_server_that_reads_the_tokens_of_each_turn_is_healthy(
    tmp_path: Path, reads: int, prepares_us: int, causes: list[str]
) -> None:
    """What it took from one turn to the next was told as a needless wait."""
    assert server(tmp_path, reads=reads, prepares_us=prepares_us) == causes


def test_who_waits_for_the_whole_device_in_each_turn_reads_no_tokens(tmp_path: Path) -> None:
    """As benchmarks do, whose range comes round like that of a server."""
    assert server(tmp_path, reads=1, prepares_us=200, waits="cudaDeviceSynchronize") == ["synchronization"]
