"""What the analyses find in a capture of our own, in which all that happens was planted: tests/data/jax/capture.py."""

from __future__ import annotations

import polars as pl
import pytest

import holotrace
import xplane_files
from holotrace import Finding, Job
from holotrace.analyses.compilations import compilations
from holotrace.present.wording import sentence

STALLED, LONG, READ = 3, 5, 6
STALL_NS = 40_000_000


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return holotrace.open(xplane_files.capture("jax_cpu_2x4", tmp_path_factory.mktemp("capture")))


@pytest.fixture(scope="module")
def found(job: Job) -> list[Finding]:
    return list(job.findings())


def test_two_processes_of_four_devices_each_ran_eight_steps(job: Job) -> None:
    assert job.duty_cycle().group_by("rank").len().sort("rank").rows() == [(0, 4), (1, 4)]
    assert (
        job.host_steps().group_by("rank").agg(pl.col("step").sort()).sort("rank")["step"].to_list() == [[*range(8)]] * 2
    )


def test_the_sleep_is_input_of_the_process_that_slept_in_that_step(job: Job) -> None:
    input_ns = dict(job.host_steps().filter(step=STALLED).select("rank", "input_ns").iter_rows())
    assert STALL_NS <= input_ns[1] < 1.1 * STALL_NS
    assert input_ns[0] < 0.1 * STALL_NS


def test_the_other_process_waits_for_it_in_the_collective(job: Job) -> None:
    waited = job.stragglers(by_step=True).filter(step=STALLED).group_by("rank").agg(pl.col("waited_ns").median())
    by_rank = dict(waited.iter_rows())
    # A sleep is never shorter than asked for.
    assert STALL_NS <= by_rank[0] < 1.2 * STALL_NS
    assert by_rank[1] < 0.1 * STALL_NS


def test_the_recompilation_names_the_shape_that_changed_and_the_range(job: Job, found: list[Finding]) -> None:
    """The job is told of it once, as a cause."""
    (cause,) = [sentence(one) for one in found if one.rule in {"compilation", "recompilation"}]
    assert cause.endswith("while the host compiles in jit_train_step, in step 5")
    told = [sentence(one) for one in compilations.findings(job.compilations())]
    assert any(
        text.startswith("jit_train_step was compiled again in step 5")
        and text.endswith("called in dispatch, because f32[8,64] became f32[12,64]")
        for text in told
    )


def test_the_loss_that_is_read_names_its_range(found: list[Finding]) -> None:
    told = next(sentence(one) for one in found if one.rule == "early-read")
    assert told.endswith("in step 6 (log_loss)")


def test_donated_parameters_are_inputs_that_outputs_reuse_and_the_batch_is_not(job: Job) -> None:
    table = job.program_memory().filter(pl.col("module") == "jit_train_step", pl.col("run_count") == 28)
    parameters = 3 * 64 * 64 * 4
    assert table["reused_bytes"].to_list() == [parameters] * 2
    assert table["input_bytes"].to_list() == [8 * 64 * 4] * 2
    assert "donation-missed" not in {one.rule for one in job.findings()}


def test_the_scanned_layer_counts_for_itself_and_is_in_its_scope(job: Job) -> None:
    scopes = job.scopes()
    assert scopes.filter(pl.col("scope").str.contains(r"forward/.*\blayer$"))["total_ns"].sum() > 0
    loops = job.programs(depth=2).filter(category="while")
    whole = job.programs(depth=1).group_by("rank").agg(pl.col("leaf_ns").sum())
    assert not loops.is_empty()
    assert loops["self_ns"].sum() < whole["leaf_ns"].sum() / 10


def test_runs_of_the_program_before_and_after_the_recompilation_are_apart(job: Job) -> None:
    runs = job.program_launches().filter(rank=0, module="jit_train_step").select("run_count", "step_count")
    assert sorted(runs.rows()) == [(1, 1), (7, 7)]
