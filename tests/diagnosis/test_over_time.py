"""What some steps take longer for than others, on all ranks alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.diagnosis.job import over_time, transfers
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.words.classes import SLOW_DEVICE, SLOW_LINK
from trace_files import write_trace

FLAT = [100] * 6
KERNELS = ("mm", "add", "norm")


def job(times: Sequence[int], *, of_others: Sequence[int] | None = None) -> Job:
    """Two ranks whose three kernels take so long in each step."""
    rows: list[dict[str, object]] = [
        {"row": "work", "rank": rank, "step": step, "name": kernel, "operator": kernel, "time_ns": time_ns}
        for rank in range(2)
        for step, time_ns in enumerate(times if rank == 0 or of_others is None else of_others)
        for kernel in KERNELS
    ]
    rows += [
        {"row": "segment", "rank": rank, "step": step, "time_ns": 3 * time_ns}
        for rank in range(2)
        for step, time_ns in enumerate(times)
    ]
    known = {"cause": pl.String, "name": pl.String, "operator": pl.String, "detail": pl.String, "event_id": pl.UInt32}
    frame = pl.DataFrame(rows, schema_overrides={**known, "rank": pl.Int32}, infer_schema_length=None)
    missing = [pl.lit(None, kind).alias(name) for name, kind in known.items() if name not in frame.columns]
    placed = frame.with_columns(*missing, at_ns=1_000 * pl.col("step") + 900, start_ns=1_000 * pl.col("step"), count=1)
    return Job(placed, pl.DataFrame(), (0, 1), 10)


def removed(found: Candidate) -> dict[int, int]:
    """How much each rank would not spend."""
    return {rank: round(sum(ns for _, ns in parts)) for rank, parts in found.change.removed.items()}


def test_devices_that_all_become_slow_are_slow_since_that_step() -> None:
    """Where every device throttles none is slower than another, so that nothing was said."""
    (found,) = over_time.causes(job([100, 100, 100, 130, 130, 130]))
    assert (found.cause, found.ranks, found.steps) == (SLOW_DEVICE, (), (3, 4, 5))
    assert found.evidence["time_ratio"] == 1.3
    assert removed(found) == {0: 270, 1: 270}


@pytest.mark.parametrize(
    "times",
    [
        FLAT,
        [130, 130, 100, 100, 100, 100],  # warming up
        [100, 100, 100, 130, 100, 100],  # one step
        [100, 130, 100, 130, 100, 130],  # now and then, as where the data differ
        [100, 103, 100, 104, 107, 106],  # clocks of a device that gets warm
    ],
)
def test_devices_that_differ_from_step_to_step_are_not_slow(times: list[int]) -> None:
    assert list(over_time.causes(job(times))) == []


def test_a_device_that_becomes_slow_alone_is_no_matter_of_all() -> None:
    assert list(over_time.causes(job(FLAT, of_others=[100, 100, 100, 130, 130, 130]))) == []


@pytest.mark.parametrize(("later_ns", "steps"), [(8_000, (3, 4, 5)), (1_500, ())])
def test_a_link_that_becomes_slow_is_told_by_the_steps_before(later_ns: int, steps: tuple[int, ...]) -> None:
    """Transfers of all steps were told as exposed, as there was no other group to compare with."""
    rows = [
        {"match": step, "rank": rank, "step": step, "arrival_ns": 20_000 * step, "start_ns": 20_000 * step}
        | {"left_ns": 20_000 * step + (later_ns if step > 2 else 1_000), "exposed_ns": 0, "group_size": 2}
        | {"group_ranks": "[0, 1]", "collective": "allreduce", "element_count": None, "element_type": None}
        for step in range(6)
        for rank in range(2)
    ]
    found = list(transfers.causes(Job(pl.DataFrame(), pl.DataFrame(rows), (0, 1), 0)))
    assert [each.steps for each in found if each.cause == SLOW_LINK] == ([steps] if steps else [])
    for each in found:
        assert (each.ranks, each.change.transfer) == ((), {3: 0.125, 4: 0.125, 5: 0.125})


def test_a_host_that_waits_in_each_step_gains_from_faster_devices_in_all_of_them(tmp_path: Path) -> None:
    """What a step computes longer was taken off when the next one computes: after its host had waited for it."""
    events: list[dict[str, Any]] = []

    def event(cat: str, name: str, ts: int, dur: int, **args: int) -> None:
        place = {"pid": 0, "tid": 7} if "stream" in args else {"pid": 1, "tid": 1}
        events.append({"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args})

    at = number = 0
    for step in range(6):
        begins = at + 20
        work = [("Memcpy HtoD (Pinned -> Device)", 50), *((name, 1_000 if step < 3 else 1_300) for name in KERNELS)]
        for place, (name, lasts) in enumerate(work):
            number += 1
            call, kind = ("cudaLaunchKernel", "kernel") if place else ("cudaMemcpyAsync", "gpu_memcpy")
            event("cuda_runtime", call, at + 10 * place, 9, correlation=number)
            event(kind, name, begins, lasts - 1, correlation=number, stream=7, device=0)
            begins += lasts
        event("cuda_runtime", "cudaStreamSynchronize", at + 60, begins + 5 - at - 60)
        event("user_annotation", f"ProfilerStep#{step}", at, begins + 10 - at)
        at = begins + 10
    write_trace(tmp_path / "rank-0.json", events=events)
    found = holotrace.open(tmp_path).causes().filter(cause="slow-device").row(0, named=True)
    assert (found["steps"], found["cost_ns"]) == ([3, 4, 5], pytest.approx(3 * 3 * 300_000, rel=0.01))


@pytest.mark.parametrize(("longer", "cost_us"), [(1.3, 90 * 300), (1.0, None)])
def test_devices_become_slow_in_recordings_without_steps_too(
    tmp_path: Path, longer: float, cost_us: int | None
) -> None:
    """Nothing was compared with anything there; kernels that take longer for their data make no device slow."""
    events: list[dict[str, Any]] = []
    at = number = 0
    for turn in range(80):
        for name in KERNELS:
            number += 1
            is_slow = turn >= 50
            lasts = round(1_000 * (longer if is_slow else 1))
            if name == "norm" and is_slow and longer == 1.0:
                lasts = 1_400
            call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": number}
            events.append(call | {"dur": 1, "args": {"correlation": number}})
            kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at + 300, "dur": lasts - 1}
            events.append(kernel | {"args": {"correlation": number, "stream": 7, "device": 0}})
            at += lasts
    write_trace(tmp_path / "rank-0.json", events=events)
    found = holotrace.open(tmp_path).causes().filter(cause="slow-device")
    assert found["cost_ns"].to_list() == ([] if cost_us is None else [pytest.approx(1_000 * cost_us, rel=0.03)])


@pytest.mark.parametrize(
    ("ratios", "stretches"),
    [
        # It began in the third, or in the second of them.
        ([1.0, 1.0, 1.11, 1.3, 1.3, 1.3, 1.3, 1.3], (2, 3, 4, 5, 6, 7)),
        ([1.0, 1.06, 1.3, 1.3, 1.3, 1.3, 1.3, 1.3], (2, 3, 4, 5, 6, 7)),
        ([1.0, 1.06, 1.0, 1.3, 1.3, 1.3, 1.3, 1.3], ()),
    ],
)
def test_of_stretches_the_one_in_which_devices_become_slow_is_slow_in_part(
    ratios: list[float], stretches: tuple[int, ...]
) -> None:
    assert over_time.slow(dict(enumerate(ratios)), 1.08, are_stretches=True) == stretches
