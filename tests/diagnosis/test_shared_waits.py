"""Code that waits for the device where other code does, too, costs what its own waits lose."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.core.trace import RankTrace
from holotrace.diagnosis.rank import host, shared_waits
from trace_files import write_trace

STEPS, LAYERS, LAUNCH_US, PREPARE_US, KERNEL_US, BACKWARD_US = 6, 12, 20, 200, 150, 3_000
COUNT, CLIP, READ = "model.py(30): count_tokens", "model.py(50): clip", "train.py(70): read_loss"


def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


@dataclass
class Apart:
    """What is made of these gaps of a rank."""

    gaps: pl.DataFrame

    def __call__(self, rank: RankTrace) -> pl.DataFrame:
        return shared_waits.apart(self.gaps, rank)


class Drawn:
    """A job whose layers wait in some code in turns, each before it prepares the next one, and that reads its loss."""

    def __init__(
        self, *turns: tuple[str, ...], without: str = "", operators: tuple[str, ...] = ("aten::item",)
    ) -> None:
        self.operators = cycle(operators)
        self.events: list[dict[str, Any]] = []
        self.host = self.device = self.correlation = 0
        for step in range(STEPS):
            begin = self.host
            for layer in range(LAYERS):
                self._launch("gemm", KERNEL_US)
                for code in turns[layer % len(turns)]:
                    if code != without:
                        self._wait(code)
                for _ in range(PREPARE_US // 40):
                    self.events.append(event("cpu_op", "aten::view", self.host, 39))
                    self.host += 40
            self._launch("backward", BACKWARD_US)
            self._wait(READ)
            self.events.append(event("user_annotation", f"ProfilerStep#{step}", begin, self.host - begin))
        self.end = max(self.host, self.device)

    def _launch(self, name: str, took_us: int) -> None:
        self.correlation += 1
        begun = max(self.device, self.host + 8)
        self.events += [
            event("cuda_runtime", "cudaLaunchKernel", self.host, LAUNCH_US - 2, correlation=self.correlation),
            event("kernel", name, begun, took_us, correlation=self.correlation, stream=7, device=0),
        ]
        self.host, self.device = self.host + LAUNCH_US, begun + took_us

    def _wait(self, code: str) -> None:
        until = max(self.host, self.device) + 6
        self.events += [
            event("python_function", code, self.host, until - self.host),
            event("cpu_op", next(self.operators), self.host + 1, until - self.host - 2),
            event("cpu_op", "aten::_local_scalar_dense", self.host + 2, until - self.host - 4),
            event("cuda_runtime", "cudaStreamSynchronize", self.host + 3, until - self.host - 6),
        ]
        self.host = until + 2


def waits(folder: Path, *turns: tuple[str, ...]) -> dict[str, float]:
    """By the code that is told to wait what the job would gain, in microseconds."""
    write_trace(folder / "rank-0.json", events=Drawn(*turns).events)
    told = holotrace.open(folder).causes().filter(cause="synchronization")
    codes = (next(code for code in (COUNT, CLIP, READ) if code in message) for message in told["message"])
    return dict(zip(codes, told["cost_ns"] / 1e3, strict=True))


def gained_us(code: str, *turns: tuple[str, ...]) -> float:
    """What the job really gains if that code does not wait."""
    return Drawn(*turns).end - Drawn(*turns, without=code).end


def test_waits_cost_no_more_than_the_job_gains_while_others_stay(tmp_path: Path) -> None:
    """All that comes too late was told, though the host, which waits for its loss, too, cannot be ahead of it all."""
    told = waits(tmp_path, (COUNT,))
    assert told == {COUNT: pytest.approx(gained_us(COUNT, (COUNT,)), rel=0.1)}


def test_waits_in_different_code_are_told_apart(tmp_path: Path) -> None:
    """They were one cause, as both call aten::item, with the line of one of them and the worth of both."""
    turns = ((COUNT,), (CLIP,), (CLIP,))
    told = waits(tmp_path, *turns)
    assert told == {code: pytest.approx(gained_us(code, *turns), rel=0.1) for code in (COUNT, CLIP)}


def test_waits_that_cost_nothing_unless_all_go_are_told_together(tmp_path: Path) -> None:
    """Without one of two waits in a row the other waits as long."""
    turns = ((COUNT, CLIP),)
    assert gained_us(COUNT, *turns) < 0.06 * gained_us(CLIP, (CLIP,))
    assert list(waits(tmp_path, *turns).values()) == [pytest.approx(14_640, rel=0.1)]


def test_waits_with_nothing_late_after_them_are_no_cause(tmp_path: Path) -> None:
    """Gaps that are laid to a call that is no wait of a thread that launches were not expected."""
    gaps = pl.DataFrame({"cause": ["synchronization"], "event_id": [10**6], "share_ns": [5], "end_ns": [9]})
    write_trace(tmp_path / "rank-0.json", events=Drawn((COUNT,)).events)
    told = gaps.with_columns(start_ns=0, event_id=pl.col("event_id").cast(pl.UInt32))
    (found,) = holotrace.open(tmp_path).map(Apart(told), host.READS)
    assert found.equals(told)


def test_one_function_that_waits_in_several_operators_is_one_cause(tmp_path: Path) -> None:
    """A function that counts the tokens of each expert waited in three operators, and was three causes."""
    drawn = Drawn((COUNT,), operators=("aten::item", "aten::_to_copy"))
    write_trace(tmp_path / "rank-0.json", events=drawn.events)
    told = holotrace.open(tmp_path).causes().filter(cause="synchronization")
    (cost_ns,) = told.filter(pl.col("message").str.contains(COUNT, literal=True))["cost_ns"]
    assert cost_ns / 1e3 == pytest.approx(gained_us(COUNT, (COUNT,)), rel=0.1)


def test_code_that_hardly_waits_is_no_second_one() -> None:
    """Norms of all gradients were told with a fifth of their time, as one wait of the recording was other code's."""
    waits = pl.DataFrame({"asker": [COUNT, COUNT, READ], "began_ns": [0, 50_000, 90_000]})
    waits = waits.with_columns(returned_ns=pl.col("began_ns") + pl.Series([30_000, 30_000, 300]))
    assert not shared_waits._are_several(waits)
    assert shared_waits._are_several(
        waits.with_columns(returned_ns="began_ns").with_columns(pl.col("returned_ns") + 30_000)
    )
