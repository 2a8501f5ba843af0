"""Causes of made-up jobs of XLA with several hosts and cores, of which is known what is wrong with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xla_jobs
from xla_jobs import JAX, TORCH, Job

import holotrace

HOSTS = Job(hosts=2, cores=2, steps=6, layers=2)
ALONE = Job(hosts=1, cores=2, steps=6, layers=2)


def causes(tmp_path: Path, job: Job) -> tuple[xla_jobs.Truth, list[dict[str, Any]]]:
    (truth,), _ = xla_jobs.write(tmp_path, job)
    return truth, holotrace.open(tmp_path).causes().to_dicts()


def assert_only(truth: xla_jobs.Truth, found: list[dict[str, Any]], cause: str, ranks: list[int]) -> dict[str, Any]:
    (row,) = found
    assert (row["cause"], row["ranks"]) == (cause, ranks)
    assert row["cost_ns"] == pytest.approx(1e3 * truth.cost_us, rel=0.2)
    return row


@pytest.mark.parametrize("meets_all", [True, False])
def test_a_late_host_is_told_whether_others_wait_at_a_barrier_or_in_a_collective(
    meets_all: bool, tmp_path: Path
) -> None:
    """Programs of TPUs begin at a barrier of their cores: nothing was said of hosts that came late to it."""
    truth, found = causes(tmp_path, replace(HOSTS, faults=("function",), meets_all=meets_all))
    row = assert_only(truth, found, "python-function", [truth.fault.host or 0])
    assert row["responsible"] == "score_samples"


def test_what_took_the_host_longest_is_the_cause_and_not_what_it_did_last(tmp_path: Path) -> None:
    """A slow loader was told as the function after it, in which devices happened to run dry."""
    job = replace(ALONE, faults=("input-of-all",), host_ratio=0.3, works_in_calls=False)
    truth, found = causes(tmp_path, job)
    assert assert_only(truth, found, "input", [0])["responsible"] == "data_load"


def test_a_batch_of_tf_data_is_input_where_the_thread_of_the_program_waits_for_it(tmp_path: Path) -> None:
    job = replace(ALONE, faults=("input-of-all",), loader="tf.data", seed=3)
    truth, found = causes(tmp_path, job)
    assert assert_only(truth, found, "input", [0])["responsible"] == "IteratorGetNext"


def test_inputs_that_are_on_their_way_keep_a_program_that_was_launched_in_time(tmp_path: Path) -> None:
    """It was said that programs began late, and not what they waited for."""
    truth, found = causes(tmp_path, replace(ALONE, faults=("upload",), seed=1))
    assert assert_only(truth, found, "upload", [0])["responsible"] == "H2D Dispatch"


def test_a_checkpoint_has_what_it_reads_back(tmp_path: Path) -> None:
    """A fifth of its time was laid to reading back, and half of the code around a read to logging."""
    truth, found = causes(tmp_path, replace(ALONE, faults=("checkpoint",)))
    assert_only(truth, found, "checkpoint", [0])


@pytest.mark.parametrize("framework", [JAX, TORCH])
def test_what_a_read_exposes_is_a_part_of_it(framework: str, tmp_path: Path) -> None:
    """Sending the next batch, and code around the read, were causes beside it."""
    job = replace(ALONE, framework=framework, faults=("read",), steps=12, layers=3, host_ratio=0.3)
    truth, found = causes(tmp_path, job)
    assert assert_only(truth, found, "synchronization", [0])["responsible"] == "log_loss"


def test_a_host_all_of_whose_calls_take_longer_is_slow(tmp_path: Path) -> None:
    truth, found = causes(tmp_path, replace(HOSTS, framework=TORCH, faults=("slow-host",), host_ratio=0.2))
    assert_only(truth, found, "slow-host", [truth.fault.host or 0])


def test_barriers_of_each_host_are_none_of_all_though_one_comes_as_late_to_each_of_its_own(tmp_path: Path) -> None:
    """Clocks were set by them, so that the late host was in time, and nothing was said."""
    job = Job(TORCH, hosts=2, cores=2, steps=20, seed=61, faults=("slow-host",), noise=0.03, layers=2, sharded=True)
    truth, found = causes(tmp_path, replace(job, meets_all=False, loader="tf.data", host_ratio=0.11))
    assert_only(truth, found, "slow-host", [truth.fault.host or 0])


def test_a_pause_of_which_nothing_is_recorded_is_no_code_around_it(tmp_path: Path) -> None:
    """It was told as the function in whose span most of the rest of the gap was."""
    job = replace(HOSTS, faults=("pause",), python=True, host_ratio=0.2, steps=8)
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, "unrecorded-host", [truth.fault.host or 0])


def test_ranks_are_matched_by_their_steps_where_transfers_are_over_before_they_are_awaited(tmp_path: Path) -> None:
    """One that stood still in every second step was matched with the step before on others, and cost a third."""
    job = replace(HOSTS, faults=("collection",), meets_all=False, seed=3, host_ratio=0.3, layers=4)
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, "garbage-collection", [truth.fault.host or 0])


def test_a_core_with_more_work_costs_what_other_hosts_wait_for_it(tmp_path: Path) -> None:
    """Its host ends a transfer later than others: so clocks were set by that, and the wait was lost."""
    job = Job(TORCH, hosts=4, cores=1, steps=12, faults=("longer",), layers=3, sharded=True, host_ratio=0.2)
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, "more-work", [truth.fault.host or 0])


def test_a_link_is_slow_if_only_its_group_stands_still_in_transfers(tmp_path: Path) -> None:
    """How long transfers take that are hidden is not known: it was taken for the time until somebody looked."""
    job = Job(hosts=4, cores=2, steps=8, faults=("slow-link",), sharded=True, layers=3)
    truth, found = causes(tmp_path, job)
    half = [0, 1] if truth.fault.host == 0 else [2, 3]
    assert "takes at least" in assert_only(truth, found, "slow-link", half)["message"]


def test_an_operation_far_from_its_limits_is_named_and_what_it_takes_too_long(tmp_path: Path) -> None:
    truth, found = causes(tmp_path, replace(ALONE, faults=("inefficient",)))
    row = assert_only(truth, found, "inefficient-kernels", [0])
    assert row["responsible"].startswith("transpose_fusion")
    assert "model.py:88" in row["evidence"]


def test_a_faster_device_begins_nothing_before_its_late_host_has_launched_it(tmp_path: Path) -> None:
    """Of 16 % that an operation was said to cost, a third was only waited for longer."""
    xla_jobs.write(tmp_path, replace(HOSTS, faults=("function", "inefficient"), reads_previous=False))
    found = holotrace.open(tmp_path).causes()
    assert set(found["cause"]) == {"inefficient-kernels", "python-function"}
    assert found.filter(cause="inefficient-kernels")["share_ratio"].item() < 0.12


def test_copies_within_a_device_are_told_with_what_makes_them_needless(tmp_path: Path) -> None:
    truth, found = causes(tmp_path, replace(ALONE, faults=("copies",)))
    assert "donate" in assert_only(truth, found, "copy", [0])["advice"]


@pytest.mark.parametrize("seed", range(1, 5))
def test_nothing_is_said_of_a_job_without_a_fault(seed: int, tmp_path: Path) -> None:
    xla_jobs.write(tmp_path, xla_jobs.any_job((), seed))
    assert holotrace.open(tmp_path).causes().is_empty()
