"""A host that pauses, and what its device does in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import write_trace


def causes(
    folder: Path, *, copy: str, copied_in: tuple[int, ...], copy_us: int = 4_000, step_name: str = "ProfilerStep#"
) -> list[dict[str, Any]]:
    """The causes of four steps of 10 ms, in the third of which the host pauses three times for 8 ms.

    In the steps ``copied_in`` the device copies three times for ``copy_us``.
    """
    events: list[dict[str, Any]] = []
    at = 0

    def launched(category: str, name: str, call: str, dur: int) -> None:
        nonlocal at
        ids = {"correlation": len(events) + 1}
        device = {"pid": 0, "tid": 7, "args": {**ids, "stream": 7, "device": 0}}
        host = {"pid": 1, "tid": 1, "args": ids}
        events.append({"ph": "X", "cat": "cuda_runtime", "name": call, "ts": at, "dur": 8, **host})
        events.append({"ph": "X", "cat": category, "name": name, "ts": at + 10, "dur": dur, **device})
        at += 10 + dur

    for step in range(4):
        begun = at
        launched("kernel", "gemm", "cudaLaunchKernel", 10_000)
        for _ in range(3):
            if step in copied_in:
                launched("gpu_memcpy", copy, "cudaMemcpyAsync", copy_us)
            at += 8_000 if step == 2 else 0
        place = {"pid": 1, "tid": 1, "args": {}}
        mark = f"{step_name}{step}"
        events.append({"ph": "X", "cat": "user_annotation", "name": mark, "ts": begun, "dur": at - begun, **place})
    write_trace(folder / "rank-0.json", events=events)
    return holotrace.open(folder).causes().to_dicts()


def test_copies_to_the_host_in_the_steps_in_which_it_pauses_are_a_part_of_what_it_does(tmp_path: Path) -> None:
    (found,) = causes(tmp_path, copy="Memcpy DtoH (Device -> Pageable)", copied_in=(2,))
    assert found["cause"] in ("host-pause", "unrecorded-host")
    assert "between copies from the device, as in saving a checkpoint" in found["message"]
    assert "async_save" in found["advice"]
    assert found["cost_ns"] == pytest.approx(36e6, rel=0.01)


def test_copies_that_take_longer_than_the_pauses_between_them_are_the_cause(tmp_path: Path) -> None:
    """A GPU copied its predictions for 107 of 145 ms, and was told to have nothing to do while its host paused."""
    (found,) = causes(tmp_path, copy="Memcpy DtoH (Device -> Pageable)", copied_in=(2,), copy_us=12_000)
    assert (found["cause"], found["responsible"]) == ("copy", "Memcpy DtoH (Device -> Pageable)")
    assert found["cost_ns"] == pytest.approx(60e6, rel=0.01)
    assert found["advice"].startswith("Copy less to the host")


def test_waits_in_copies_to_the_host_are_a_part_of_these(tmp_path: Path) -> None:
    """The host waits for a kernel of 5 ms and a copy of 6 ms, and launches the next 2 ms later.

    An optimizer on the CPU was told as copies of 93 ms, and as waits of 87 ms in the same calls.
    """
    events: list[dict[str, Any]] = []
    for step in range(4):
        at, host, device = step * 13_000, {"pid": 1, "tid": 1}, {"pid": 0, "tid": 7}
        for number, (category, name, call, took, begun, lasted) in enumerate(
            [
                ("kernel", "gemm", "cudaLaunchKernel", 8, at + 10, 4_990),
                ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", "cudaMemcpyAsync", 10_980, at + 5_000, 6_000),
            ]
        ):
            ids = {"correlation": 2 * step + number + 1}
            on_device = {**device, "args": {**ids, "stream": 7, "device": 0}}
            runtime = {"cat": "cuda_runtime", "name": call, "ts": at + 10 * number, "dur": took, **host, "args": ids}
            events.append({"ph": "X", **runtime})
            events.append({"ph": "X", "cat": category, "name": name, "ts": begun, "dur": lasted, **on_device})
        for category, name, begun, lasted in (
            ("cpu_op", "aten::_to_copy", at + 9, 10_985),
            ("user_annotation", f"ProfilerStep#{step}", at, 13_000),
        ):
            events.append({"ph": "X", "cat": category, "name": name, "ts": begun, "dur": lasted, **host, "args": {}})
    write_trace(tmp_path / "rank-0.json", events=events)
    (found,) = holotrace.open(tmp_path).causes().to_dicts()
    assert (found["cause"], found["responsible"]) == ("copy", "Memcpy DtoH (Device -> Pageable)")
    assert found["cost_ns"] == pytest.approx(4 * (6e6 + 2e6), rel=0.05)


@pytest.mark.parametrize(
    ("copy", "copied_in"), [("Memcpy HtoD (Pageable -> Device)", (2,)), ("Memcpy DtoH (Device -> Pageable)", (1, 2))]
)
def test_copies_to_the_device_and_in_other_steps_are_their_own_cause(
    tmp_path: Path, copy: str, copied_in: tuple[int, ...]
) -> None:
    found = causes(tmp_path, copy=copy, copied_in=copied_in)
    assert sorted(cause["cause"] == "copy" for cause in found) == [False, True]


@pytest.mark.parametrize("step_name", ["ProfilerStep#", "training_step "])
def test_to_pause_in_a_step_is_to_pause_anywhere(tmp_path: Path, step_name: str) -> None:
    """Of 32 ranks that pause in turns those were named that did so in `training_step 20`."""
    (found,) = causes(tmp_path, copy="", copied_in=(), step_name=step_name)
    assert found["responsible"] is None
    assert step_name not in found["message"]


def test_a_thread_that_waits_for_those_of_autograd_is_in_no_function(tmp_path: Path) -> None:
    """A pause in the backward pass was told as a slow function, that which runs the pass."""

    def event(cat: str, name: str, ts: int, dur: int, tid: int, **args: int) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": int(cat != "kernel"), "tid": tid, "ts": ts, "dur": dur} | {
            "args": args
        }

    run = "<built-in method run_backward of torch._C._EngineBase object at 0x7f22>"
    events = [event("user_annotation", "ProfilerStep#1", 0, 21_000, 1), event("python_function", run, 5, 20_900, 1)]
    for number, at in enumerate((100, 20_000)):
        events += [
            event("cpu_op", "aten::mm", at, 50, 2),
            event("cuda_runtime", "cudaLaunchKernel", at + 10, 10, 2, correlation=number),
            event("kernel", "gemm", at + 30, 800, 7, correlation=number, stream=7, device=0),
        ]
    write_trace(tmp_path / "rank-0.json", events=events)
    found = holotrace.open(tmp_path).causes().row(0, named=True)
    assert found["cause"] == "host-pause"
    assert "(<built-in" not in found["message"]


def test_a_pause_of_the_backward_pass_is_no_function(tmp_path: Path) -> None:
    """The thread that opened its range waits for that of autograd, and launches nothing in it."""
    events: list[dict[str, Any]] = []
    at = 0
    for step in range(4):
        begun = at
        for kernel in range(8):
            ids = {"correlation": len(events) + 1}
            device = {"pid": 0, "tid": 7, "args": {**ids, "stream": 7, "device": 0}}
            host = {"pid": 1, "tid": 2 if kernel > 3 else 1, "args": ids}
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at, "dur": 8, **host})
            events.append({"ph": "X", "cat": "kernel", "name": "gemm", "ts": at + 10, "dur": 900, **device})
            at += 8_000 if (kernel, step) == (5, 2) else 912
        own = {"pid": 1, "tid": 1, "args": {}}
        ranges = [(f"ProfilerStep#{step}", begun), ("## backward ##", begun + 4 * 912 - 2)]
        events += [
            {"ph": "X", "cat": "user_annotation", "name": name, "ts": since, "dur": at - since - place, **own}
            for place, (name, since) in enumerate(ranges)
        ]
    write_trace(tmp_path / "rank-0.json", events=events)
    (found,) = holotrace.open(tmp_path).causes().to_dicts()
    assert found["cause"] == "host-pause"
    assert "in ## backward ##" in found["message"]


def test_a_pause_that_began_while_the_device_worked_is_no_launching(tmp_path: Path) -> None:
    """A host that collected garbage in each step was launch-bound for 6.8 of 11.1 ms, and paused for the others."""
    events: list[dict[str, Any]] = []
    for step in range(6):
        at, host, device = step * 9_000, {"pid": 1, "tid": 1}, {"pid": 0, "tid": 7}
        begun, free = at, at + 10
        for number in range(8):
            at += 4_800 if number == 4 else 0
            ids = {"correlation": len(events) + 1}
            event = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at, "dur": 8}
            events.append(event | {"args": ids} | host)
            free = max(free, at + 10)
            kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": free, "dur": 1_000}
            events.append(kernel | {"args": ids | {"stream": 7, "device": 0}} | device)
            at, free = at + 20, free + 1_000
        wait = {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "ts": at, "dur": free + 5 - at}
        events.append(wait | {"args": {"correlation": 1_000 + step}} | host)
        mark = {"ph": "X", "cat": "user_annotation", "name": "forward", "ts": begun, "dur": free + 10 - begun}
        events.append(mark | {"args": {}} | host)
    write_trace(tmp_path / "rank-0.json", events=events)
    assert [each["cause"] for each in holotrace.open(tmp_path).causes().to_dicts()] == ["host-pause"]
