"""Profiles of XLA that begin and end anywhere, at other times on each host, as those that are asked for from afar."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import xla_jobs
from xla_jobs import TORCH, Job
from xla_jobs.faults import DEVICES, GPU

import holotrace
from holotrace.diagnosis.words.classes import COSTLESS, INPUT, SLOW_DEVICE, SYNCHRONIZATION, UNRECORDED
from quick import every
from xplane_cut import cut

HOSTS = Job(hosts=2, cores=2, steps=8, layers=2)
HEALTHY = {
    "of marked steps": HOSTS,
    "of PyTorch/XLA": replace(HOSTS, framework=TORCH, sharded=True),
    "without steps": replace(HOSTS, hosts=4, cores=1, marks=False),
    "without hosts": replace(HOSTS, records=DEVICES, marks=False),
    "on a GPU": replace(HOSTS, hosts=1, accelerator=GPU, host_ratio=0.2),
    "on GPUs of two hosts": replace(HOSTS, accelerator=GPU, protos=True),
}


def told(folder: Path, job: Job, seed: int, share: float) -> list[tuple[str, list[int], str | None]]:
    """The causes that are told of this share of the job, by class, ranks and what is responsible."""
    xla_jobs.write(folder, job)
    cut(folder, seed, share)
    found = holotrace.open(folder).causes().filter(~pl.col("cause").is_in(COSTLESS))
    return found.select("cause", "ranks", "responsible").rows()


@pytest.mark.parametrize("share", every(3, [0.2, 0.12, 0.35]))
@pytest.mark.parametrize("kind", HEALTHY)
@pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")
def test_of_a_part_of_a_healthy_job_nothing_is_told(kind: str, share: float, tmp_path: Path) -> None:
    """The host that had recorded more of a program had more work; and GPUs stood still for what ran unrecorded."""
    for seed in range(4):
        job = replace(HEALTHY[kind], seed=seed)
        assert told(tmp_path / str(seed), job, seed, share) == []


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")
def test_what_hosts_are_in_as_recordings_begin_is_no_launching(seed: int, tmp_path: Path) -> None:
    """Input that had begun before is not in the recording, and all that is of that gap is what launches the program."""
    for marks in (True, False):
        job = replace(HOSTS, hosts=1, faults=("input-of-all",), seed=seed, marks=marks, host_ratio=0.3)
        found = told(tmp_path / str(marks), job, seed, 0.3)
        assert {cause for cause, *_ in found} <= {INPUT, UNRECORDED}


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")
def test_a_slow_core_is_told_by_what_each_core_of_its_host_ran_as_often(seed: int, tmp_path: Path) -> None:
    """In as little as one step cores have recorded different parts of programs, and the same operations of others."""
    job = replace(HOSTS, hosts=1, cores=4, faults=("slow-core",), seed=seed)
    assert {cause for cause, *_ in told(tmp_path, job, seed, 0.14)} == {SLOW_DEVICE}


@pytest.mark.parametrize("seed", [1, 2, 6])
@pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")
def test_launching_that_a_wait_before_the_recording_exposed_is_not_told(seed: int, tmp_path: Path) -> None:
    """In less than a step nothing tells that the host had read its result before: it was said to be launch-bound."""
    job = replace(HOSTS, hosts=1, faults=("read",), host_ratio=0.3, seed=seed)
    assert {cause for cause, *_ in told(tmp_path, job, seed, 0.1)} <= {UNRECORDED}


@pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")
def test_a_pause_as_the_recording_begins_is_no_launching_where_steps_begin_with_programs(tmp_path: Path) -> None:
    """Steps that were inferred were taken to be recorded of the host, and every rank was said to be launch-bound."""
    job = replace(HOSTS, cores=1, faults=("pause",), marks=False, host_ratio=0.4, noise=0.005, seed=3)
    assert {(cause, *ranks) for cause, ranks, _ in told(tmp_path, job, 3, 0.7)} == {(UNRECORDED, 0)}


@pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")
def test_code_that_only_waits_for_results_is_not_told_beside_its_waits(tmp_path: Path) -> None:
    """In a range that few steps have nothing but a result was read: what came after it was told by its name."""
    job = replace(HOSTS, framework=TORCH, faults=("result",), seed=6)
    assert [cause for cause, *_ in told(tmp_path, job, 6, 0.6)] == [SYNCHRONIZATION]


@pytest.mark.parametrize(("fault", "seed"), [("longer", 2), ("longer", 3), ("slow-core", 2)])
@pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")
def test_a_device_takes_longer_also_in_what_had_been_launched_before(fault: str, seed: int, tmp_path: Path) -> None:
    """Of what hosts that are ahead had launched before the recording no step is known: of a half nothing was said."""
    job = replace(HOSTS, hosts=4, cores=1, noise=0.005, faults=(fault,), seed=seed)
    (truth,), whole_us = xla_jobs.write(tmp_path, job)
    cut(tmp_path, seed, 0.6)
    found = holotrace.open(tmp_path).causes().row(0, named=True)
    assert (found["cause"], found["ranks"]) == (truth.kind.cause, [*truth.ranks])
    assert found["share_ratio"] == pytest.approx(truth.cost_us / whole_us, rel=0.2)


@pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")
def test_devices_are_not_idle_in_steps_of_hosts_that_are_further_ahead_than_the_recording_is_long(
    tmp_path: Path,
) -> None:
    """All had one step of 1.5 ms in common, whose program ran later: the operation then under way was a gap."""
    job = replace(HOSTS, hosts=4, cores=1, noise=0.005, faults=("slow-core",), reads_previous=False)
    assert {cause for cause, *_ in told(tmp_path, job, 1, 0.6)} <= {SLOW_DEVICE}
