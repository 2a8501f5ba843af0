"""What some steps take longer for than others, on all ranks alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis import account, causes, over_time, transfers
from holotrace.diagnosis.candidates import Candidate, Job
from holotrace.diagnosis.classes import COMPILATION, EVALUATION, SLOW_DEVICE, SLOW_LINK

FLAT = [100] * 6


def job(times: Sequence[int], *, evaluates: Sequence[int] = (), of_others: Sequence[int] | None = None) -> Job:
    """Two ranks whose three kernels take so long in each step, and half as long again for evaluating in some."""
    rows: list[dict[str, object]] = [
        {"row": "work", "rank": rank, "step": step, "name": kernel, "operator": kernel, "time_ns": time_ns}
        for rank in range(2)
        for step, time_ns in enumerate(times if rank == 0 or of_others is None else of_others)
        for kernel in ("mm", "add", "norm")
    ]
    rows += [
        {"row": "work", "rank": rank, "step": step, "name": "mm", "operator": "train.py(7): evaluate", "time_ns": 150}
        | {"cause": EVALUATION, "detail": "[18000, 1, 1]|[128, 1, 1]|[[8192, 16384]]"}
        for rank in range(2)
        for step in evaluates
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


def test_kernels_that_all_ranks_try_out_in_a_step_are_compiling() -> None:
    """Autotuning keeps devices busy, so that only the waits between its kernels were told, as synchronization."""
    tried = job(FLAT, evaluates=[2])
    rows = tried.rows.with_columns(cause=pl.when(cause=EVALUATION).then(pl.lit(COMPILATION)))
    (found,) = over_time.causes(replace(tried, rows=rows))
    assert (found.cause, found.ranks, found.steps) == (COMPILATION, (), (2,))
    assert removed(found) == {0: 150, 1: 150}


def test_what_an_evaluation_takes_of_host_and_device_is_one_cause_before_it_is_too_little() -> None:
    """Of an evaluation worth 7 % of the job, 3 % its host's and 4 % its device's, nothing was told."""
    rows = [
        {"row": "window", "start_ns": 0, "at_ns": 1_000_000, "time_ns": 1_000_000, "count": 1},
        {"row": "step", "step": 1, "start_ns": 0, "at_ns": 1_000_000, "time_ns": 1_000_000, "count": 1},
        {"row": "gap", "step": 1, "cause": EVALUATION, "name": "evaluate", "start_ns": 0, "at_ns": 30_000}
        | {"time_ns": 30_000, "count": 1},
        {"row": "work", "step": 1, "cause": EVALUATION, "name": "mm", "operator": "evaluate", "start_ns": 30_000}
        | {"at_ns": 70_000, "time_ns": 40_000, "count": 1},
    ]
    own = filled(pl.DataFrame(rows, infer_schema_length=None), account.COLUMNS)
    found, _ = causes.of_rows(own.with_columns(rank=pl.lit(0, pl.Int64)))
    assert [(one.candidate.cause, one.cost_ns) for one in found] == [(EVALUATION, 70_000)]


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


def test_evaluating_on_all_ranks_is_a_cause_though_their_devices_are_busy() -> None:
    """An evaluation in which devices always compute was not told, as no rank had more of it than others."""
    (found,) = over_time.causes(job(FLAT, evaluates=[2]))
    assert (found.cause, found.ranks, found.steps) == (EVALUATION, (), (2,))
    assert (found.responsible, removed(found)) == ("train.py(7): evaluate", {0: 150, 1: 150})
    # The sentence said grid, block and shapes of a kernel as what the evaluation was around.
    assert found.detail is None


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
