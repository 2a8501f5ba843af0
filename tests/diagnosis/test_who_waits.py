"""Whose code waits for the device: the program's, or that of the framework that it runs in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import write_trace

MAIN, EPOCH = "train.py(9): main", "transformers/trainer.py(1882): _run_epoch"
MASK, MODULE = "transformers/masking_utils.py(729): find_packed_sequence_indices", "nn.Module: GPT2Model_0"
LOSS, NORMS = "train.py(30): read_loss", "train.py(40): read_norms"
STEPS = 5


def event(cat: str, name: str, ts: float, dur: float, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


def worked(number: int, ts: float, kernel_us: float, late_us: float, *around: str) -> list[dict[str, Any]]:
    """A kernel that some code waits for, and what comes before the next is launched."""
    end = ts + 10 + kernel_us
    calls = (*around, "aten::item", "aten::_local_scalar_dense")
    item = [(name, ts + 6 + place / 10, end + 9 - place / 10) for place, name in enumerate(calls)]
    return [
        event("cuda_runtime", "cudaLaunchKernel", ts, 5, correlation=number),
        event("kernel", "gemm", ts + 10, kernel_us, correlation=number, stream=7, device=0),
        *(
            event("cpu_op" if name.startswith("aten") else "python_function", name, since, until - since)
            for name, since, until in item
        ),
        event("cuda_runtime", "cudaStreamSynchronize", ts + 8, end - ts),
        event("cpu_op", "aten::view", end + 12, late_us - 15),
    ]


def whose(folder: Path, waits: Sequence[tuple[float, float, tuple[str, ...]]], *around: str) -> str:
    """What is told of steps with such waits: how long each kernel takes, how late the next is, what waits."""
    events: list[dict[str, Any]] = []
    ts, number = 100.0, 0
    for step in range(STEPS):
        begun = ts
        for kernel_us, late_us, code in waits:
            number += 1
            events += worked(number, ts, kernel_us, late_us, *code)
            ts += 10 + kernel_us + late_us
        events.append(event("user_annotation", f"ProfilerStep#{step}", begun, ts - begun))
    events += [event("python_function", name, place, ts + 200 - 2 * place) for place, name in enumerate(around)]
    write_trace(folder / "rank-0.json", events=events)
    (message,) = holotrace.open(folder).causes().filter(cause="synchronization")["message"]
    return str(message)


def test_many_short_waits_are_told_rather_than_one_that_is_longer(tmp_path: Path) -> None:
    """A callback that read 296 norms in each step was not named, but the loop that reads the loss."""
    short = [(300.0, 300.0, (NORMS,))] * 8
    assert f"aten::item ({NORMS})" in whose(tmp_path, [*short, (500.0, 500.0, (LOSS,))], MAIN)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        pytest.param((EPOCH,), EPOCH, id="its loop"),
        pytest.param((EPOCH, LOSS), LOSS, id="a function of the program that it calls"),
        pytest.param((EPOCH, MODULE, MASK), MASK, id="its own module"),
        pytest.param((EPOCH, MODULE), EPOCH, id="a module with nothing of its own around the wait"),
    ],
)
def test_waits_within_a_framework_are_told_with_its_function(tmp_path: Path, code: tuple[str, ...], told: str) -> None:
    """Every wait of a trainer was told to be in the function that starts it."""
    assert f"aten::item ({told})" in whose(tmp_path, [(2_000.0, 600.0, code)], MAIN)


def test_a_module_that_only_the_program_has_around_it_is_told(tmp_path: Path) -> None:
    assert f"aten::item ({MODULE})" in whose(tmp_path, [(2_000.0, 600.0, (MODULE,))], MAIN)


def test_no_host_waits_for_what_its_device_copies_within_itself(tmp_path: Path) -> None:
    """Launching late was laid to `aten::clone`, though nothing waits for that."""
    events: list[dict[str, Any]] = []
    for place in range(200):
        ts, copy = place * 120, {"correlation": 2 * place + 2}
        events += [
            event("cuda_runtime", "cudaLaunchKernel", ts, 5, correlation=2 * place + 1),
            event("kernel", "gemm", ts + 8, 30, correlation=2 * place + 1, stream=7, device=0),
            event("cpu_op", "aten::clone", ts + 60, 45),
            event("cuda_runtime", "cudaMemcpyAsync", ts + 70, 30, **copy),
            event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", ts + 95, 5, **copy, stream=7, device=0)
            | {"pid": 0, "tid": 7},
        ]
    write_trace(tmp_path / "rank-0.json", events=events)
    assert "synchronization" not in holotrace.open(tmp_path).causes()["cause"]
