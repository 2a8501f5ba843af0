"""A device also waits before its first and after its last work: where no step is marked, names tell for what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.diagnosis.rank import open_calls
from trace_files import write_trace

KERNELS, KERNEL_US, HOST_US = 40, 500, 30_000
BEGUN_US = HOST_US + 50
ENDED_US = BEGUN_US + KERNELS * KERNEL_US


def event(cat: str, name: str, ts: int, dur: int, tid: int, **args: int) -> dict[str, Any]:
    pid = 0 if cat == "kernel" else 1
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def causes_of(
    folder: Path, function: str, at_us: int, tid: int = 1, before_us: tuple[int, ...] = ()
) -> list[tuple[Any, ...]]:
    """What is said of a device that is busy from BEGUN_US to ENDED_US, while its host is in a function at another time.

    It may have been there briefly before.

    The thread of the backward pass launches, too, and makes more calls than the main one.
    """
    events = [event("python_function", function, at_us, HOST_US, tid)]
    events += [event("python_function", function, begun_us, 5, tid) for begun_us in before_us]
    for number in range(1, KERNELS + 1):
        begun = BEGUN_US + (number - 1) * KERNEL_US
        thread = 1 if number % 4 == 1 else 2
        events += [
            event("cuda_runtime", "cudaLaunchKernel", BEGUN_US + number * 20 - 35, 9, thread, correlation=number),
            event("kernel", "gemm", begun, KERNEL_US, 7, correlation=number, stream=7, device=0),
        ]
    write_trace(folder / "rank-0.json", events=events)
    found = holotrace.open(folder).causes()
    return [(row["cause"], row["responsible"], row["cost_ns"]) for row in found.to_dicts()]


@pytest.mark.parametrize(
    ("cause", "function"), [("logging", "train.py(9): log_metrics"), ("checkpoint", "train.py(30): save_checkpoint")]
)
def test_what_the_host_does_after_the_last_work_counts(tmp_path: Path, cause: str, function: str) -> None:
    """In every n-th step means often in the last one, too."""
    ((found, responsible, cost_ns),) = causes_of(tmp_path, function, ENDED_US)
    assert (found, responsible) == (cause, function)
    assert cost_ns == pytest.approx(HOST_US * 1000, rel=0.05)


def test_what_the_host_does_before_the_first_work_counts(tmp_path: Path) -> None:
    loader = "torch/utils/data/dataloader.py(733): __next__"
    ((cause, responsible, cost_ns),) = causes_of(tmp_path, loader, 0)
    assert (cause, responsible) == ("input", loader)
    assert cost_ns == pytest.approx(HOST_US * 1000, rel=0.05)


@pytest.mark.parametrize("function", ["train.py(99): tear_down", "torch/profiler/profiler.py(800): stop"])
def test_functions_whose_names_tell_nothing_are_not_part_of_the_job(tmp_path: Path, function: str) -> None:
    assert causes_of(tmp_path, function, ENDED_US) == []


def test_a_function_that_the_program_calls_again_after_the_last_work_counts(tmp_path: Path) -> None:
    """Of one that came in the second and the last step only the first call was told, 45 of 92 ms."""
    function = "trainer/hooks.py(44): update_curriculum"
    ((cause, responsible, cost_ns),) = causes_of(tmp_path, function, ENDED_US, before_us=(BEGUN_US + 20,))
    assert (cause, responsible) == ("python-function", function)
    assert cost_ns == pytest.approx(HOST_US * 1000, rel=0.05)


def test_neither_are_threads_that_launch_nothing(tmp_path: Path) -> None:
    assert causes_of(tmp_path, "train.py(9): log_metrics", ENDED_US, tid=5) == []


@pytest.mark.parametrize(
    "mark", ["Optimizer.step#AdamW.step", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"]
)
def test_the_thread_of_the_training_loop_is_known_by_what_it_leaves_without_steps(mark: str) -> None:
    """What the loop did before the backward pass was not recorded, as that made more calls on its own thread."""
    calls = pl.DataFrame({"name": [mark, *["aten::mm"] * 5], "tid": [1, *[2] * 5]})
    known = calls.with_columns(pl.col("name").cast(pl.Categorical), pl.col("tid").cast(pl.UInt32))
    assert open_calls.main_thread(known) == 1
