"""What hosts do only while their devices work, and what it costs when they stand still for something else later."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.capture import UNPROFILED_STEP_NS
from holotrace.core.schema import filled
from holotrace.diagnosis.job import less_ahead
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.rank import account
from trace_files import write_trace

COLLECT, SAVE = "<built-in function collect>", "train.py(88): save_checkpoint"


def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


def kernels(times: Iterable[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """Kernels by when each was launched, began and how long it took, in microseconds."""
    return [
        part
        for number, (launched, began, took) in enumerate(times)
        for part in (
            event("cuda_runtime", "cudaLaunchKernel", launched, 5, correlation=number),
            event("kernel", "mm", began, took, correlation=number, stream=7, device=0),
        )
    ]


def found_in(
    tmp_path: Path,
    before: dict[str, Any],
    launching: dict[str, Any] | None = None,
    beside: dict[str, Any] | None = None,
) -> list[tuple[object, ...]]:
    """What is told of a device that works for 12 ms, while its host saves a checkpoint until 20 ms.

    Args:
        tmp_path: Where the trace is written.
        before: What the host does before that.
        launching: How it launches the second kernel, if not as the others.
        beside: What it calls in that.
    """
    times = ((0, 10, 10_000), (3_000, 10_010, 2_000), (20_000, 20_010, 2_000))
    work = kernels(times)
    work[2] = launching or work[2]
    write_trace(
        tmp_path / "rank-0.json",
        events=[*work, before, *([beside] if beside else ()), event("python_function", SAVE, 4_000, 15_900)],
    )
    told = holotrace.open(tmp_path).causes()
    return list(told.select("cause", (pl.col("cost_ns") / 1e6).round(), "low_ns", "message").iter_rows())


def test_what_a_host_does_before_it_stands_still_makes_that_longer(tmp_path: Path) -> None:
    """Garbage that is collected while the device works cost nothing, though without it a checkpoint was hidden."""
    saving, collecting = found_in(tmp_path, event("python_function", COLLECT, 500, 2_000))
    assert saving[:2] == ("checkpoint", 8.0)
    assert collecting[:3] == ("garbage-collection", 2.0, 0)
    assert "the host is in <built-in function collect> while the device works" in str(collecting[3])


def test_before_its_first_work_no_device_works(tmp_path: Path) -> None:
    """Memory that was allocated before a device had anything to do was said to be so while it worked."""
    allocating = event("cuda_runtime", "cudaMalloc", -3_000, 2_000)
    assert [cause for cause, *_ in found_in(tmp_path, allocating)] == ["checkpoint"]


def test_freeing_memory_waits_and_makes_what_comes_later_longer(tmp_path: Path) -> None:
    assert found_in(tmp_path, event("cuda_runtime", "cudaFree", 500, 2_000))[1][:3] == ("allocator", 2.0, 0)


def test_what_frees_memory_would_wait_however_early_a_host_comes_to_it(tmp_path: Path) -> None:
    """As the device had nothing to do, it did not, and what came before was worth what getting memory takes, too."""
    times = [(20_000 * turn, 20_000 * turn + 10, 10_000) for turn in range(4)]
    host = [
        event(cat, name, 20_000 * turn + at, dur)
        for turn in range(3)
        for cat, name, at, dur in (
            ("python_function", "train.py(7): log", 100, 14_900),
            ("cuda_runtime", "cudaFree", 15_000, 10),
            ("cuda_runtime", "cudaMalloc", 15_020, 4_900),
        )
    ]
    write_trace(tmp_path / "rank-0.json", events=[*kernels(times), *host])
    told = {row["cause"]: row["cost_ns"] for row in holotrace.open(tmp_path).causes().to_dicts()}
    assert told["python-function"] == pytest.approx(3 * 5_000_000, rel=0.03)


@pytest.mark.parametrize(
    ("memory", "call", "called_us", "cause"),
    [
        ("Pageable", "cudaMemcpyAsync", 20, "copy"),
        # That call waits itself.
        ("Pageable", "hipMemcpyWithStream", 2_420, "copy"),
        ("Pinned", "cudaMemcpyAsync", 20, None),
    ],
)
def test_who_copies_from_memory_that_is_not_pinned_waits_and_is_less_far_ahead(
    tmp_path: Path, memory: str, call: str, called_us: int, cause: str | None
) -> None:
    """Without that the checkpoint of one rank was hidden in part; nothing was told of what all ranks copy."""
    copying = [
        event("cpu_op", "aten::_to_copy", 500, 2_500),
        event("cuda_runtime", call, 510, called_us, correlation=9),
        event("kernel", f"Memcpy HtoD ({memory} -> Device)", 10_000, 5, correlation=9, stream=7, device=0),
    ]
    if called_us < 2_400:
        copying.append(event("cuda_runtime", "cudaStreamSynchronize", 540, 2_400))
    copying[2]["cat"] = "gpu_memcpy"
    work = kernels(((0, 10, 9_990), (3_000, 10_010, 2_000), (20_000, 20_010, 2_000)))
    save = event("python_function", SAVE, 4_000, 15_900)
    write_trace(tmp_path / "rank-0.json", events=[*work, *copying, save])
    saving, *others = holotrace.open(tmp_path).causes().to_dicts()
    assert saving["cause"] == "checkpoint"
    told = [(row["cause"], row["responsible"], round(row["cost_ns"] / 1e6, 1)) for row in others]
    assert told == ([(cause, "Memcpy HtoD (Pageable -> Device)", 2.4)] if cause else [])
    assert all("waits for Memcpy HtoD" in row["message"] for row in others)


def test_a_copy_that_is_not_made_keeps_its_device_as_much_less_as_its_host(tmp_path: Path) -> None:
    """Copies of 24.8 ms from memory that is not pinned were worth 37.9: an input after them was not hidden by them."""
    copying = [
        event("cpu_op", "aten::_to_copy", 10_100, 5_000),
        event("cuda_runtime", "cudaMemcpyAsync", 10_110, 20, correlation=9),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 10_130, 4_900, correlation=9, stream=7, device=0),
        event("cuda_runtime", "cudaStreamSynchronize", 10_140, 4_900),
    ]
    work = kernels(((0, 10, 9_990), (19_200, 19_210, 20_000)))
    loading = event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 15_150, 4_000)
    write_trace(tmp_path / "rank-0.json", events=[*work, *copying, loading])
    found = holotrace.open(tmp_path).causes().select("cause", pl.col("cost_ns") // 1_000_000).rows()
    assert found == [("copy", 4), ("input", 4)]


def test_what_a_checkpoint_waits_for_is_a_part_of_that(tmp_path: Path) -> None:
    """Checkpoints were worth 61 of 83 ms: the input of the next step, which is hidden without them, was missing."""
    saving = [
        event("python_function", SAVE, 500, 14_500),
        event("cuda_runtime", "cudaStreamSynchronize", 550, 9_500),
    ]
    # For 9.5 ms the checkpoint waits for the device, which it keeps waiting for 5 ms, as does the input after it.
    loading = event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 15_050, 4_000)
    work = kernels(((0, 10, 9_990), (19_100, 19_110, 20_000)))
    write_trace(tmp_path / "rank-0.json", events=[*work, *saving, loading])
    found = holotrace.open(tmp_path).causes().select("cause", pl.col("cost_ns", "low_ns") // 1_000_000).rows()
    assert found == [("checkpoint", 9, 5), ("input", 4, 4)]


def test_what_an_evaluation_waits_for_is_a_part_of_that(tmp_path: Path) -> None:
    """Its reads of losses were told as waits of the step, so that most of what it cost was missing."""
    reading = event("cuda_runtime", "cudaStreamSynchronize", 550, 1_900)
    evaluating, *_ = [*found_in(tmp_path, event("user_annotation", "evaluate", 500, 2_000), beside=reading)][1:]
    assert (evaluating[0], evaluating[1]) == ("evaluation", 2.0)


def test_a_range_around_what_another_thread_launches_is_nothing_that_a_host_does(tmp_path: Path) -> None:
    """A range around a backward pass seemed to stand still, though that ran on a thread of its own."""
    around = event("user_annotation", "Engine.backward", 500, 3_400)
    launching = event("cuda_runtime", "cudaLaunchKernel", 3_000, 5, correlation=1) | {"tid": 2}
    assert [cause for cause, *_ in found_in(tmp_path, around, launching)] == ["checkpoint"]


def test_waiting_for_the_thread_of_autograd_is_nothing_that_a_host_does(tmp_path: Path) -> None:
    waiting = "<built-in method run_backward of torch._C._EngineBase object at 0x7f1>"
    assert [cause for cause, *_ in found_in(tmp_path, event("python_function", waiting, 500, 2_000))] == ["checkpoint"]


@pytest.mark.parametrize(("of_others_ns", "ranks"), [(3_000_000, ()), (0, (2,))])
def test_what_all_hosts_do_is_of_all_though_only_one_stands_still_later(
    of_others_ns: int, ranks: tuple[int, ...]
) -> None:
    rows: list[dict[str, object]] = [
        {"row": "function", "rank": rank, "step": 1, "name": COLLECT, "count": 1}
        | {"time_ns": 3_000_000 if rank == 2 else of_others_ns}
        for rank in range(4)
    ]
    rows.append(
        {"row": "recovered", "rank": 2, "step": 2, "cause": "garbage-collection", "name": COLLECT, "count": 1}
        | {"time_ns": 2_000_000, "start_ns": 20_000_000, "at_ns": 28_000_000, "event_id": 5}
    )
    table = pl.DataFrame(rows, infer_schema_length=None)
    every = filled(table.drop("rank"), account.COLUMNS).with_columns(table["rank"])
    job = Job(every, pl.DataFrame(), (0, 1, 2, 3), 100_000)
    (found,) = less_ahead.causes(job, [])
    assert (found.cause, found.ranks, found.steps) == ("garbage-collection", ranks, (1,))
    assert found.change.later == {2: [(28_000_000, 2_000_000.0)]}
    # What devices wait for has what it hides later, too.
    assert not list(less_ahead.causes(job, [Candidate("garbage-collection", Change(), responsible=COLLECT)]))


@pytest.mark.parametrize(("calling", "ranks"), [((0, 1, 3), ()), ((0,), (2,))])
def test_memory_that_all_hosts_free_is_freed_by_all_though_only_one_stands_still_later(
    calling: tuple[int, ...], ranks: tuple[int, ...]
) -> None:
    """Of eight ranks that freed memory in each step the one that collected garbage later was told to."""
    rows: list[dict[str, object]] = [
        {
            "row": "recovered",
            "rank": rank,
            "step": 2,
            "cause": "allocator",
            "name": "cudaFree",
            "count": 1,
            "event_id": 5,
        }
        | {"time_ns": 2_000_000 if rank == 2 else 0, "start_ns": 20_000_000, "at_ns": 28_000_000}
        for rank in (2, *calling)
    ]
    table = pl.DataFrame(rows, infer_schema_length=None)
    every = filled(table.drop("rank"), account.COLUMNS).with_columns(table["rank"])
    (found,) = less_ahead.causes(Job(every, pl.DataFrame(), (0, 1, 2, 3), 100_000), [])
    assert (found.ranks, found.change.later) == (ranks, {2: [(28_000_000, 2_000_000.0)]})


def test_memory_that_is_freed_before_nothing_that_its_host_stands_still_for_is_no_cause(tmp_path: Path) -> None:
    work = kernels(((0, 10, 10_000), (3_000, 10_010, 2_000)))
    write_trace(tmp_path / "rank-0.json", events=[*work, event("cuda_runtime", "cudaFree", 500, 2_000)])
    with holotrace.open(tmp_path) as job:
        assert job.causes().is_empty()


def test_what_is_done_in_gaps_now_and_then_makes_hosts_less_far_ahead_of_what_they_launch_too(tmp_path: Path) -> None:
    """A loader that devices also waited for once cost nothing more, though its hosts launched too late after it."""
    loading = "train.py(12): get_batch"
    times = ((0, 10, 10_000), (14_000, 14_010, 990), (15_305, 15_315, 2_000))
    work = kernels(times)
    host = [event("python_function", loading, at, took) for at, took in ((500, 4_000), (15_000, 300))]
    # One after the other, without which the device would have had enough to do.
    calls = [event("cpu_op", "aten::mm", at, 8) for at in range(4_510, 13_990, 10)]
    measured: dict[str, Any] = {UNPROFILED_STEP_NS: 18_000_000}
    write_trace(tmp_path / "rank-0.json", events=[*work, *host, *calls], **measured)
    told = holotrace.open(tmp_path).causes().filter(cause="input")
    assert 3_000_000 < told["cost_ns"].item() <= 4_315_000


@pytest.mark.parametrize(
    ("cause", "later_ns", "told"),
    [
        pytest.param("evaluation", 200, [None], id="an evaluation is told as such"),
        pytest.param("python-function", 200, [True], id="a function as what makes others wait later"),
        pytest.param("python-function", 5, [], id="too little"),
        pytest.param("synchronization", 200, [], id="waits are told by what they cost"),
    ],
)
def test_what_costs_little_by_itself_and_much_later_is_told(
    cause: str, later_ns: float, told: list[bool | None]
) -> None:
    """An evaluation of a fifth of the job was not told, since a pause after it hid what it took of the lead."""
    found = Candidate(cause, Change({0: [(5, 10.0)]}, later={0: [(9, later_ns)]}))

    class Replayed:
        def saved_ns(self, change: Change) -> int:
            return int(sum(ns for part in (change.removed, change.later) for of in part.values() for _, ns in of))

    meetings: Any = Replayed()
    rows = less_ahead.worth_saying([(found, 10)], meetings, 1_000, lambda _: 0.01)
    assert [each.evidence.get(less_ahead.LESS_AHEAD) for each, _ in rows] == told


@pytest.mark.parametrize(
    ("ranks", "steps", "later_ns", "left"),
    [
        pytest.param((0,), (2, 4, 6), 90.0, ["logging"], id="the same time"),
        pytest.param((0,), (2, 4, 6), 60.0, ["launch-bound", "logging"], id="a part of it"),
        pytest.param((1,), (2, 4, 6), 90.0, ["launch-bound", "logging"], id="another rank"),
        pytest.param((0,), (1, 3, 5), 90.0, ["launch-bound", "logging"], id="other steps"),
    ],
)
def test_what_is_launched_too_late_for_want_of_a_lead_is_told_once(
    ranks: tuple[int, ...], steps: tuple[int, ...], later_ns: float, left: list[str]
) -> None:
    """One rank logged in every second step, and "was launch-bound" by the same milliseconds in these."""
    launches = Candidate("launch-bound", Change({0: [(9, 100.0)]}), (0,), (2, 4, 6))
    logging = Candidate(
        "logging", Change(later={0: [(9, later_ns)]}), ranks, steps, evidence={less_ahead.LESS_AHEAD: True}
    )
    told = less_ahead.without_what_they_hide([(launches, 17), (logging, 16)])
    assert [each.cause for each, _ in told] == left
    # What is told hides the rest: what all save together has that, too.
    assert sum(ns for each, _ in told for _, ns in each.change.removed.get(0, ())) == 100
