"""What hosts stand still for is told as that, also where they would hide it if they never waited for their devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import write_trace

STEPS, TURNS, LAYERS = 6, 10, 8
KERNEL_US, PREPARE_US, LAUNCH_US, LOGGING_US = 1_000, 200, 20, 15_000


def _event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


class _Policy:
    """A rank that reads each token that it generates, and then trains without waiting for its device."""

    def __init__(self, *, logs: bool) -> None:
        self.events: list[dict[str, Any]] = []
        self.host = self.device = 0
        for step in range(STEPS):
            begin = self.host
            for _ in range(TURNS):
                self._call("cpu_op", "aten::view", PREPARE_US)
                self._launch("decode")
                self._wait()
            for layer in range(LAYERS):
                if logs and layer == LAYERS // 2:
                    self._call("user_annotation", "log_scalars", LOGGING_US)
                self._launch("gemm")
            self.events.append(_event("user_annotation", f"ProfilerStep#{step}", begin, self.host - begin))

    def _call(self, cat: str, name: str, us: int, **args: int) -> None:
        self.events.append(_event(cat, name, self.host, us, **args))
        self.host += us

    def _launch(self, kernel: str) -> None:
        number = len(self.events)
        self._call("cuda_runtime", "cudaLaunchKernel", LAUNCH_US, correlation=number)
        begin = max(self.host, self.device)
        args = {"correlation": number, "stream": 7, "device": 0}
        self.events.append(_event("kernel", kernel, begin, KERNEL_US, **args))
        self.device = begin + KERNEL_US

    def _wait(self) -> None:
        until = max(self.host, self.device) + 5
        self.events.append(_event("cpu_op", "aten::item", self.host, until - self.host))
        self._call("cuda_runtime", "cudaStreamSynchronize", until - self.host)


@pytest.fixture
def causes(tmp_path: Path) -> dict[bool, dict[str, float]]:
    """What each cause costs in ms, with logging and without, dearest first."""
    told = {}
    for logs in (False, True):
        folder = tmp_path / str(logs)
        folder.mkdir()
        write_trace(folder / "rank-0.json", events=_Policy(logs=logs).events)
        found = holotrace.open(folder).causes()
        told[logs] = {cause: cost / 1e6 for cause, cost in found.select("cause", "cost_ns").rows()}
    return told


def test_a_wait_does_not_cost_what_its_host_logs_later(causes: dict[bool, dict[str, float]]) -> None:
    """Logging in the training of a policy was told as waits for each token: without them it would be hidden."""
    assert [*causes[False]] == ["synchronization"]
    assert [*causes[True]] == ["logging", "synchronization"]
    device_ns = LAYERS // 2 * KERNEL_US
    assert causes[True]["logging"] == pytest.approx(STEPS * (LOGGING_US - device_ns) / 1e3, rel=0.05)
    assert causes[True]["synchronization"] == pytest.approx(causes[False]["synchronization"], rel=0.05)
