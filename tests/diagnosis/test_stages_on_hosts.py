"""Pipelines over backends of hosts, whose messages are ranges of the thread that computes, until it waits for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import write_trace

STEPS, MICRO_BATCHES, LAYER_US, ON_ITS_WAY_US = 4, 6, 700.0, 40.0
OPERATORS = ("aten::mm", "aten::gelu", "aten::native_layer_norm", "aten::_softmax")


class Rank:
    """What a rank does, and when, in microseconds."""

    def __init__(self, rank: int) -> None:
        self.rank, self.now = rank, 0.0
        self.events: list[dict[str, Any]] = []

    def span(
        self,
        name: str,
        start: float,
        end: float,
        category: str = "cpu_op",
        *,
        dims: list[list[int]] | None = None,
        inputs: list[str] | None = None,
    ) -> None:
        place = {"ph": "X", "cat": category, "pid": self.rank + 1, "tid": self.rank + 1, "name": name}
        known: dict[str, Any] = {"External id": len(self.events) + 1}
        known |= {"Input Dims": dims} if dims else {}
        known |= {"Concrete Inputs": inputs} if inputs else {}
        self.events.append({**place, "ts": round(start, 3), "dur": round(end - start, 3), "args": known})

    def computes(self, layers: int, times: float) -> None:
        for _ in range(layers):
            for name in OPERATORS:
                self.span(name, self.now, self.now + times * LAYER_US / 4, dims=[[64, 64], [64, 64]])
                self.now += times * LAYER_US / 4 + 25

    def asks(self, kind: str) -> tuple[str, float]:
        """Asks for a message; what is to be told of it once it was waited for."""
        name = "c10d::send" if kind == "send" else "c10d::recv_"
        self.span(name, self.now, self.now + 10, inputs=["", "", str(1 - self.rank), "0"])
        self.now += 15
        return kind, self.now - 3

    def waits(self, asked: tuple[str, float], there: float = 0.0) -> None:
        kind, since = asked
        self.now = max(self.now, there) + 8
        self.span(f"gloo:{kind}", since, self.now, "user_annotation", dims=[[64, 64]])
        self.now += 20


def simulated(folder: Path, layers: tuple[int, int]) -> float:
    """A pipeline of two stages of so many layers, which sends all micro-batches forward first; how long it takes."""
    first, last = ranks = Rank(0), Rank(1)
    for step in range(STEPS):
        begun = [rank.now for rank in ranks]
        sent, there = [], []
        for _ in range(MICRO_BATCHES):
            first.computes(layers[0], 1)
            sent.append(first.asks("send"))
            there.append(first.now + ON_ITS_WAY_US)
        # It asks for each as soon as it has worked on the one before.
        back = []
        for come in there:
            asked = last.asks("recv")
            last.waits(asked, come)
            last.computes(layers[1], 1)
            last.computes(layers[1], 2)
            back.append((last.asks("send"), last.now + ON_ITS_WAY_US))
        for _, come in back:
            asked = first.asks("recv")
            first.waits(asked, come)
            first.computes(layers[0], 2)
        # Sends were over long before.
        for asked in sent:
            first.waits(asked)
        for asked, _ in back:
            last.waits(asked)
        for rank, start in zip(ranks, begun, strict=True):
            rank.computes(1, 0.5)
            rank.span(f"ProfilerStep#{step}", start, rank.now, "user_annotation")
            rank.now += 5
    for rank in ranks:
        info = {"backend": "gloo", "rank": rank.rank, "world_size": 2, "pg_count": 1}
        write_trace(folder / f"rank-{rank.rank}.json", events=rank.events, distributedInfo=info)
    return max(rank.now for rank in ranks)


@pytest.mark.parametrize("slow", [0, 1])
def test_a_stage_with_more_layers_costs_what_the_pipeline_takes_longer(tmp_path: Path, slow: int) -> None:
    """Messages lasted until their ranks asked for them, and their senders had left before others came."""
    layers = (5, 3) if slow == 0 else (3, 5)
    whole, even = simulated(tmp_path / "faulty", layers), simulated(tmp_path / "healthy", (3, 3))
    told = holotrace.open(tmp_path / "faulty").causes()
    first = told.row(0, named=True)
    assert (first["cause"], first["ranks"]) == ("pipeline-bubble", [slow])
    assert first["cost_ns"] == pytest.approx(1_000 * (whole - even), rel=0.15)
    assert "pipeline-bubble" not in holotrace.open(tmp_path / "healthy").causes()["cause"].to_list()
