"""Causes of made-up jobs of XLA with several hosts and cores, of which is known what is wrong with them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import xla_jobs
from xla_jobs import JAX, TORCH, Job
from xla_jobs.faults import CPU, DEVICES, GPU, PROGRAMS, planted

import holotrace

HOSTS = Job(hosts=2, cores=2, steps=6, layers=2)
ALONE = Job(hosts=1, cores=2, steps=6, layers=2)
ON_GPU = Job(hosts=1, cores=1, steps=6, layers=3, accelerator=GPU, protos=False, host_ratio=0.2)


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


def test_what_a_checkpoint_exposes_is_a_part_of_it(tmp_path: Path) -> None:
    """Collecting the graph of the step after it, which devices wait for once, was a cause beside it."""
    job = replace(ALONE, framework=TORCH, faults=("checkpoint",), cores=1, steps=4, host_ratio=0.7)
    truth, found = causes(tmp_path, job)
    row = assert_only(truth, found, "checkpoint", [0])
    assert row["steps"] == [100 + truth.fault.first]


@pytest.mark.parametrize("framework", [JAX, TORCH])
def test_what_a_read_exposes_is_a_part_of_it(framework: str, tmp_path: Path) -> None:
    """Sending the next batch, and code around the read, were causes beside it."""
    job = replace(ALONE, framework=framework, faults=("read",), steps=12, layers=3, host_ratio=0.3)
    truth, found = causes(tmp_path, job)
    assert assert_only(truth, found, "synchronization", [0])["responsible"] == "log_loss"


def test_a_graph_that_is_cut_off_to_read_a_result_is_computed_twice(tmp_path: Path) -> None:
    """Only what the device waited for was told, which may be less than half: the step's own graph repeats the rest."""
    truth, found = causes(tmp_path, replace(ALONE, framework=TORCH, faults=("cut",), cores=1, steps=4))
    assert assert_only(truth, found, "synchronization", [0])["responsible"] == "log_loss"


def test_a_host_all_of_whose_calls_take_longer_is_slow(tmp_path: Path) -> None:
    truth, found = causes(tmp_path, replace(HOSTS, framework=TORCH, faults=("slow-host",), host_ratio=0.2))
    assert_only(truth, found, "slow-host", [truth.fault.host or 0])


def test_hosts_that_are_far_ahead_have_steps_to_compare_though_none_is_marked(tmp_path: Path) -> None:
    """All was launched before the first step of a device began, so that nothing of it was any step's."""
    job = replace(HOSTS, hosts=3, cores=1, steps=5, faults=("slow-core",), marks=False, reads_previous=False)
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, "slow-device", [truth.fault.host or 0])


def test_what_a_host_does_beyond_others_after_all_have_waited_is_no_launching(tmp_path: Path) -> None:
    """A pause of one host, after which it launched late, was launching of that host beside the pause, or instead."""
    job = Job(hosts=2, cores=1, steps=5, layers=2, seed=4, faults=("read", "pause"), host_ratio=0.05)
    truths, _ = xla_jobs.write(tmp_path, job)
    found = {row["cause"]: row for row in holotrace.open(tmp_path).causes().to_dicts()}
    assert sorted(found) == ["synchronization", "unrecorded-host"]
    (pause,) = (truth for truth in truths if truth.fault.kind == "pause")
    assert found["unrecorded-host"]["ranks"] == [*pause.ranks]
    assert found["unrecorded-host"]["cost_ns"] == pytest.approx(1e3 * pause.cost_us, rel=0.05)


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
    """An operation was said to cost as much as if no host were late then; the other host's function is hidden by it."""
    job = replace(HOSTS, faults=("function", "inefficient"), seed=48)
    (dearest, hidden), _ = xla_jobs.write(tmp_path, job)
    (row,) = holotrace.open(tmp_path).causes().to_dicts()
    assert (row["cause"], hidden.cost_us) == ("inefficient-kernels", 0)
    assert row["cost_ns"] == pytest.approx(1e3 * dearest.cost_us, rel=0.05)


@pytest.mark.parametrize("faults", [("logging", "pause"), ("function", "input")])
def test_two_things_that_a_host_does_cost_what_each_takes_though_one_took_longest(
    faults: tuple[str, str], tmp_path: Path
) -> None:
    """All of each gap was laid to the longest, so that the other was worth a few microseconds of a step."""
    job = next(
        job
        for seed in range(1, 20)
        for job in [replace(HOSTS, faults=faults, seed=seed, framework=TORCH if "function" in faults else JAX)]
        if len({planted(job, fault, 0.5).host for fault in faults}) == 1
    )
    truths, _ = xla_jobs.write(tmp_path, job)
    found = holotrace.open(tmp_path).causes().to_dicts()
    assert len(found) == 2
    for truth, row in zip(truths, found, strict=True):
        assert row["cost_ns"] == pytest.approx(1e3 * truth.cost_us, rel=0.2)


def test_what_all_hosts_do_is_told_beside_what_one_of_them_does_too(tmp_path: Path) -> None:
    """In the gaps of that host each hid the other, so that loading, the dearer one, was not told."""
    job = Job(TORCH, hosts=4, cores=2, steps=6, seed=13140, layers=2, host_ratio=0.26)
    truths, _ = xla_jobs.write(tmp_path, replace(job, faults=("input-of-all", "function")))
    found = holotrace.open(tmp_path).causes().select("cause", "ranks", "cost_ns").rows()
    assert [row[:2] for row in found] == [("input", []), ("python-function", [1])]
    assert [row[2] for row in found] == pytest.approx([1e3 * truth.cost_us for truth in truths], rel=0.2)


def test_without_what_one_host_does_the_job_waits_for_the_other(tmp_path: Path) -> None:
    """It was said to gain all the time for which the later of two late hosts was late."""
    job = replace(HOSTS, faults=("collection", "input"), seed=2)
    assert {planted(job, fault, 0.5).host for fault in job.faults} == {0, 1}
    (dearest, _), _ = xla_jobs.write(tmp_path, job)
    first = holotrace.open(tmp_path).causes().row(0, named=True)
    assert first["cost_ns"] == pytest.approx(1e3 * dearest.cost_us, rel=0.2)


def test_code_that_one_host_is_in_is_named_though_others_collect_graphs_by_running_theirs(tmp_path: Path) -> None:
    """It was told as launching, which is what such code is for where all run it."""
    job = replace(HOSTS, framework=TORCH, faults=("function",), host_ratio=0.2)
    truth, found = causes(tmp_path, job)
    row = assert_only(truth, found, "python-function", [truth.fault.host or 0])
    assert row["responsible"] == "score_samples"


def test_a_function_that_takes_a_slow_host_as_much_longer_as_all_else_is_not_blamed(tmp_path: Path) -> None:
    job = replace(HOSTS, faults=("slow-host",), works_in_calls=False, host_ratio=0.2)
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, "slow-host", [truth.fault.host or 0])


def test_programs_that_were_launched_before_the_recording_are_of_no_step(tmp_path: Path) -> None:
    """Of some cores only the end of the launch was recorded, which put their runs a step ahead of the others'."""
    job = Job(hosts=4, cores=2, steps=4, seed=1002, faults=("collection",), reads_previous=False, protos=False)
    truth, found = causes(tmp_path, replace(job, loader="tf.data", host_ratio=0.14, meets_all=False))
    assert_only(truth, found, "garbage-collection", [truth.fault.host or 0])
    runs = holotrace.open(tmp_path).table("modules").sort("rank", "device", "start_ns")
    place = pl.int_range(pl.len()).over("rank", "device")
    assert (
        runs.group_by("rank", place=place).agg(pl.col("step").n_unique())["step"].to_list().count(1) == runs.height // 2
    )


def test_a_compiled_program_that_no_call_names_is_what_was_launched_next(tmp_path: Path) -> None:
    """Compilers of TPUs tell nothing of what they compile, so that nobody knew what PyTorch/XLA had compiled again."""
    truth, found = causes(tmp_path, replace(ALONE, framework=TORCH, faults=("recompile",)))
    assert assert_only(truth, found, "compilation", [0])["responsible"] == "SyncTensorsGraph.1603"
    assert "SyncTensorsGraph.1603" in holotrace.open(tmp_path).compilations()["module"].to_list()


def test_a_core_that_others_wait_for_is_told_once(tmp_path: Path) -> None:
    """That devices wait, and cores for other cores, was said beside it."""
    xla_jobs.write(tmp_path, replace(HOSTS, faults=("throttled",), seed=4))
    findings = holotrace.open(tmp_path).findings()
    assert [each.rule for each in findings if each.severity != "info"] == ["slow-device"]


def test_a_product_in_full_precision_is_far_from_what_others_reach(tmp_path: Path) -> None:
    truth, found = causes(tmp_path, replace(ALONE, faults=("fp32",)))
    assert "model.py:80" in assert_only(truth, found, "inefficient-kernels", [0])["evidence"]


def test_an_infeed_is_of_the_steps_whose_programs_stand_in_it_though_all_were_launched_in_the_first(
    tmp_path: Path,
) -> None:
    """Of a host that runs ahead, and marks no steps, all of them seemed to be in step 0."""
    job = replace(ALONE, faults=("infeed",), reads_previous=False, marks=False, steps=8)
    truth, found = causes(tmp_path, job)
    assert len(assert_only(truth, found, "input", [0])["steps"]) >= 8


@pytest.mark.parametrize(
    ("fault", "cause"),
    [("input-of-all", "input"), ("checkpoint", "checkpoint"), ("read", "synchronization"), ("copies", "copy")],
)
def test_causes_of_a_job_on_a_gpu_cost_all_that_stands_still_beside_the_copy_of_a_batch(
    fault: str, cause: str, tmp_path: Path
) -> None:
    """The copy splits each gap in two, each of which ends with a launch of its own."""
    truth, found = causes(tmp_path, replace(ON_GPU, faults=(fault,)))
    assert_only(truth, found, cause, [0])


def test_what_all_hosts_do_costs_nothing_beside_what_it_only_hides(tmp_path: Path) -> None:
    """Without their own code, hosts would be ahead by what one of them logs: both were told, with the same time."""
    job = Job(hosts=4, cores=2, steps=6, seed=3, faults=("logging",), noise=0.002, host_ratio=0.2535100080464314)
    job = replace(job, python=True, protos=False, works_in_calls=False, meets_all=False)
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, "logging", [truth.fault.host or 0])


def test_operations_of_which_all_are_far_from_their_limits_have_no_usual_rate(tmp_path: Path) -> None:
    """There were no causes of the job at all, but an error."""
    xla_jobs.write(tmp_path, replace(ON_GPU, protos=True, seed=6))
    holotrace.open(tmp_path).causes()


def test_copies_within_a_device_are_told_with_what_makes_them_needless(tmp_path: Path) -> None:
    truth, found = causes(tmp_path, replace(ALONE, faults=("copies",)))
    assert "donate" in assert_only(truth, found, "copy", [0])["advice"]


def test_groups_of_a_program_that_is_not_in_the_profile_do_not_meet_each_other(tmp_path: Path) -> None:
    """All hosts seemed to be in one group, whose collectives held each of them, so that nothing was worth anything."""
    job = Job(hosts=4, cores=2, steps=6, seed=3, faults=("function",), sharded=True, protos=False, meets_all=False)
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, "python-function", [truth.fault.host or 0])


def test_a_slow_link_costs_all_that_its_transfers_expose_wherever_in_a_step(tmp_path: Path) -> None:
    """The first gather of a step is always exposed, so that those of the slow link seemed to be as usual."""
    job = Job(hosts=4, cores=1, steps=6, seed=2, faults=("slow-link",), sharded=True, layers=4, host_ratio=0.2)
    truth, found = causes(tmp_path, job)
    row = assert_only(truth, found, "slow-link", [0, 1] if truth.fault.host == 0 else [2, 3])
    assert row["cost_ns"] == pytest.approx(1e3 * truth.cost_us, rel=0.05)


def test_equal_work_of_healthy_devices_differs_a_little(tmp_path: Path) -> None:
    """One of two was said to compute 1.7 % longer in the few steps that there were, which it had happened to do."""
    job = Job(hosts=2, cores=1, steps=4, seed=5020, noise=0.03, layers=2, marks=False, reads_previous=False)
    xla_jobs.write(tmp_path, replace(job, host_ratio=0.033681243085645046, works_in_calls=False))
    assert holotrace.open(tmp_path).causes().is_empty()


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_device_may_run_what_it_began_before_the_recording_where_only_programs_are_recorded(
    hosts: int, tmp_path: Path
) -> None:
    """It seemed to stand still until the first program that is recorded, however long that had been launched before."""
    xla_jobs.write(tmp_path, Job(TORCH, hosts=hosts, cores=2, steps=8, seed=3, loader="tf.data", records=PROGRAMS))
    assert holotrace.open(tmp_path).causes().is_empty()


def test_programs_as_a_whole_tell_no_slow_device(tmp_path: Path) -> None:
    """They wait for other hosts, so that one that was never late seemed to have the slow device."""
    job = Job(TORCH, hosts=2, cores=4, steps=6, seed=20001, faults=("function",), noise=0.002, layers=4)
    job = replace(job, loader="tf.data", host_ratio=0.34, records=PROGRAMS)
    truth, found = causes(tmp_path, job)
    assert [(row["cause"], row["ranks"]) for row in found] == [("python-function", [truth.fault.host])]


def test_short_programs_are_launched_late_though_each_was_before_the_one_before_it_ended(tmp_path: Path) -> None:
    """Programs last a little longer than their operations: gaps between them seemed to be within them."""
    job = xla_jobs.any_job(("small",), 20002)
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, "launch-bound", [0])


def test_healthy_devices_do_not_take_turns_at_being_slow(tmp_path: Path) -> None:
    xla_jobs.write(tmp_path, xla_jobs.any_job((), 20014))
    assert holotrace.open(tmp_path).causes().is_empty()


def test_what_devices_do_is_told_without_anything_of_hosts(tmp_path: Path) -> None:
    truth, found = causes(tmp_path, replace(HOSTS, faults=("slow-core",), records=DEVICES))
    assert_only(truth, found, "slow-device", [truth.fault.host or 0])


@pytest.mark.parametrize(
    ("fault", "cause"), [("function", "python-function"), ("input", "input"), ("slow-core", "slow-device")]
)
def test_causes_of_a_job_on_gpus_of_two_hosts(fault: str, cause: str, tmp_path: Path) -> None:
    """Kernels of several GPUs are launched by threads of their own, which wait for nothing and hold no steps."""
    job = replace(ON_GPU, hosts=2, cores=2, protos=True, marks=False, faults=(fault,))
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, cause, [truth.fault.host or 0])


def test_a_server_that_looks_at_what_it_answered_before_waits_for_nothing_later(tmp_path: Path) -> None:
    """It seemed to wait for the last program that was over, so that without its function nothing would be gained."""
    job = Job(hosts=2, cores=2, steps=20, seed=19001, faults=("function",), accelerator=GPU, serves=True, layers=2)
    job = replace(job, marks=False, reads_previous=False, protos=False, noise=0.002, host_ratio=0.08)
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, "python-function", [truth.fault.host or 0])


@pytest.mark.parametrize(("fault", "cause"), [("function", "python-function"), ("upload", "upload")])
def test_a_wait_for_what_was_launched_before_the_last_program_exposes_nothing(
    fault: str, cause: str, tmp_path: Path
) -> None:
    """Without it the host would have been further ahead in all steps before, so that what it does since was hidden."""
    framework = TORCH if fault == "function" else JAX
    job = xla_jobs.any_job((fault,), 41004)
    assert (job.framework, job.reads_previous) == (framework, True)
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, cause, [] if truth.fault.host is None else [truth.fault.host])


def test_what_a_host_reads_late_anyway_is_no_cause_beside_what_makes_it_late(tmp_path: Path) -> None:
    """Without any wait it would have been so far ahead that its input was hidden: that was said beside the input."""
    truth, found = causes(tmp_path, xla_jobs.any_job(("input-of-all",), 50003))
    assert_only(truth, found, "input", [])


def test_what_one_host_does_beside_slow_input_of_all_is_told_too(tmp_path: Path) -> None:
    """Input took all hosts longer, so that all gaps of the one were laid to that: of 75 ms, nothing was said of 28."""
    truths, _ = xla_jobs.write(tmp_path, xla_jobs.any_job(("input-of-all", "function"), 2))
    found = holotrace.open(tmp_path).causes().to_dicts()
    told = [(cause["cause"], cause["ranks"]) for cause in found]
    assert told == [(truth.kind.cause, [*truth.ranks]) for truth in truths]
    assert [cause["cost_ns"] for cause in found] == pytest.approx([1e3 * truth.cost_us for truth in truths], rel=0.05)


def test_causes_of_hosts_whose_devices_are_their_own_threads(tmp_path: Path) -> None:
    job = Job(hosts=2, cores=2, steps=6, layers=2, accelerator=CPU, host_ratio=0.005, faults=("function",))
    truth, found = causes(tmp_path, job)
    assert_only(truth, found, "python-function", [truth.fault.host or 0])


@pytest.mark.parametrize("seed", range(1, 5))
def test_nothing_is_said_of_a_job_without_a_fault(seed: int, tmp_path: Path) -> None:
    xla_jobs.write(tmp_path, xla_jobs.any_job((), seed))
    assert holotrace.open(tmp_path).causes().is_empty()


def test_a_range_of_few_steps_collects_no_graph(tmp_path: Path) -> None:
    """What a PyTorch/XLA job computed on its host in every third step was told as starting programs."""
    job = replace(ALONE, framework=TORCH, steps=12, faults=("function",))
    truth, found = causes(tmp_path, job)
    assert truth.fault.every == 3
    row = assert_only(truth, found, "python-function", [0])
    assert row["responsible"] == "score_samples"


def test_what_all_hosts_do_is_everybodys_though_devices_of_one_stand_still_for_it(tmp_path: Path) -> None:
    """Devices of the other host stood at a barrier meanwhile: sending was told of the one that logs, too."""
    job = replace(HOSTS, framework=TORCH, faults=("logging", "upload"), host_ratio=0.02, seed=4)
    truths, _ = xla_jobs.write(tmp_path, job)
    rows = holotrace.open(tmp_path).causes().to_dicts()
    found = {row["cause"]: (row["ranks"], row["cost_ns"]) for row in rows}
    told = {truth.kind.cause: (list(truth.ranks), pytest.approx(1e3 * truth.cost_us, rel=0.2)) for truth in truths}
    assert found == told
    assert told["upload"][0] == []


def test_two_cores_of_one_host_are_told_and_cost_what_the_rank_gains_without_each(tmp_path: Path) -> None:
    """Only one was, and worth what all others but the other one stood still for."""
    job = Job(hosts=1, cores=4, steps=6, layers=2, faults=("longer", "throttled"), seed=1)
    truths, _ = xla_jobs.write(tmp_path, job)
    rows = holotrace.open(tmp_path).causes().to_dicts()
    assert [row["cause"] for row in rows] == [truth.kind.cause for truth in truths]
    assert len({json.loads(row["evidence"])["device"] for row in rows}) == 2
    assert [row["cost_ns"] for row in rows] == pytest.approx([1e3 * truth.cost_us for truth in truths], rel=0.2)


def test_an_operation_far_from_its_limits_is_told_though_it_is_little_of_the_job(tmp_path: Path) -> None:
    job = Job(hosts=2, cores=2, steps=6, layers=2, faults=("function-of-all", "fp32"), works_in_calls=False, seed=1)
    truths, job_us = xla_jobs.write(tmp_path, job)
    cost_us = {truth.kind.cause: truth.cost_us for truth in truths}["inefficient-kernels"]
    assert 0.015 * job_us < cost_us < 0.05 * job_us
    (row,) = holotrace.open(tmp_path).causes().filter(cause="inefficient-kernels").to_dicts()
    assert row["cost_ns"] == pytest.approx(1e3 * cost_us, rel=0.2)


def test_what_programs_did_before_the_recording_is_no_part_of_what_a_fault_costs(tmp_path: Path) -> None:
    (truth,), _ = xla_jobs.write(tmp_path, replace(ALONE, faults=("callback",), host_ratio=0.02))
    assert truth.cost_us == pytest.approx(ALONE.steps * truth.fault.amount, rel=0.05)
