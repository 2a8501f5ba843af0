"""Causes of lost time in profiles of XLA: what the host did, and what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

import holotrace
from drawing import draw
from holotrace.core.analysis import Finding
from holotrace.job import Job
from trace_files import REAL_TRACES
from xplane_files import capture

XLA = REAL_TRACES.parent / "xla"
GPU = Path(__file__).parent.parent / "data" / "jax_gpu"


def found(path: str) -> list[Finding]:
    if not (XLA / path).exists():
        pytest.skip(f"{XLA / path} is not there")
    return [finding for finding in holotrace.open(XLA / path).findings() if finding.severity != "info"]


def test_time_in_which_the_host_reads_input_is_worth_its_length_and_says_how_to_load_ahead() -> None:
    waiting = "I" * 300
    job = draw(f"""
        step |{"1" * 500}{"2" * 500}|
        tpu  |{"A" * 200}{"." * 300}{"B" * 500}|
        call |{"." * 200}{waiting}b{"." * 499}|
        I = Iterator::Next
    """)
    (cause,) = job.causes().to_dicts()
    assert (cause["cause"], cause["ranks"], cause["steps"], cause["cost_ns"]) == ("input", [0], [1], 300_000)
    assert cause["responsible"] == "Iterator::Next"
    assert "grain" in cause["advice"]


def held_by(name: str) -> Job:
    """A job whose host is in ``name`` for 2.8 of 4 ms of a step, while the device waits."""
    return draw(f"""
        step |{"1" * 4000}{"2" * 1000}|
        tpu  |{"A" * 1000}{"." * 3000}{"B" * 1000}|
        call |{"." * 1000}{"F" * 2800}{"b" * 200}{"." * 1000}|
        F = {name}
    """)


@pytest.mark.parametrize(
    ("name", "cause"), [("$train.py:7 augment", "python-function"), ("$train.py:9 load_batch", "input")]
)
def test_a_function_of_the_program_that_holds_the_host_is_named(name: str, cause: str) -> None:
    """A JAX program that computed its batches on the host was said to be launch-bound."""
    found = held_by(name).causes().row(0, named=True)
    assert (found["cause"], found["responsible"]) == (cause, name)
    assert 2_800_000 <= found["cost_ns"] <= 3_000_000


def test_reads_of_a_jax_program_on_a_gpu_cost_the_host_its_lead_and_their_line_is_named() -> None:
    """Recorded on an H100: with `float(loss)` after each step it took 9.163 ms and without 7.715 ms."""
    (found,) = holotrace.open(GPU / "read.xplane.pb.gz").causes().to_dicts()
    assert found["cause"] == "synchronization"
    assert "jaxjobs.py:36 step" in found["message"]
    assert found["cost_per_step_ns"] == pytest.approx(9_163_000 - 7_715_000, rel=0.2)


def test_nothing_is_said_of_that_program_without_reads() -> None:
    assert holotrace.open(GPU / "clean.xplane.pb.gz").causes().is_empty()


def test_the_recompilation_of_a_jax_program_comes_first_with_the_shape_that_changed() -> None:
    first = found("ours/jax_cpu_gaps")[0]
    assert (first.rule, first.ranks) == ("compilation", (0,))
    assert first.message.endswith("compiles in jit_train_step, in step 5")
    assert abs((first.cost_ns or 0) - 1_057_681_520) < 1_000_000
    assert first.what_to_do.startswith("Inputs changed: s32[4,64] became s32[4,96].")
    assert {"recompilation", "idle-device", "late-host"} <= set(first.explains)


@pytest.mark.slow
def test_loader_stalls_and_compilations_of_torch_xla_are_told_once_each() -> None:
    causes = [finding for finding in found("ours/torch_xla_cpu_gaps") if finding.analysis == "causes"]
    assert [cause.rule for cause in causes] == ["compilation", "launch-bound", "input"]
    assert causes[2].message.endswith("waits for input in data_loading, in steps 6, 11")
    assert "input-stall" in causes[2].explains


@pytest.mark.slow
def test_copies_that_run_at_once_are_one_cause_that_costs_no_more_than_the_time_they_cover() -> None:
    causes = found("found/openxla_xprof/tpu_inference_2.xplane.pb")
    copies = [cause for cause in causes if cause.rule == "copy"]
    assert len(copies) == 1
    assert 60e9 < (copies[0].cost_ns or 0) < 80e9
    assert "copy-done" in copies[0].message


@pytest.mark.slow
def test_a_tpu_that_computes_nearly_all_the_time_has_no_cause() -> None:
    assert not [finding for finding in found("found/vllm_tpu") if finding.analysis == "causes"]


def test_a_collective_of_several_devices_holds_their_host_until_the_first_of_them_leaves(tmp_path: Path) -> None:
    """Half of this job's time was an exposed all-reduce, which was not told: threads of CPU devices leave late."""
    (cause,) = holotrace.open(capture("jax_cpu_multihost2x2", tmp_path)).causes().to_dicts()
    assert (cause["cause"], cause["ranks"], cause["responsible"]) == ("exposed-transfer", [], "allreduce")
    assert 0.4 < cause["share_ratio"] < 0.55
