"""Causes of lost time in profiles of XLA: what the host did, and what it costs."""

from __future__ import annotations

import pytest

import holotrace
from drawing import draw
from holotrace.core.analysis import Finding
from trace_files import REAL_TRACES

XLA = REAL_TRACES.parent / "xla"


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


def test_the_recompilation_of_a_jax_program_comes_first_with_the_shape_that_changed() -> None:
    first = found("ours/jax_cpu_gaps")[0]
    assert (first.rule, first.ranks) == ("compilation", (0,))
    assert first.message.endswith("compiles in jit_train_step, in step 5")
    assert abs((first.cost_ns or 0) - 1_057_681_520) < 1_000_000
    assert first.what_to_do.startswith("Inputs changed: s32[4,64] became s32[4,96].")
    assert {"recompilation", "idle-device", "late-host"} <= set(first.explains)


def test_loader_stalls_and_compilations_of_torch_xla_are_told_once_each() -> None:
    causes = [finding for finding in found("ours/torch_xla_cpu_gaps") if finding.analysis == "causes"]
    assert [cause.rule for cause in causes] == ["compilation", "launch-bound", "input"]
    assert causes[2].message.endswith("waits for input in data_loading, in steps 6, 11")
    assert "input-stall" in causes[2].explains


def test_copies_that_run_at_once_are_one_cause_that_costs_no_more_than_the_time_they_cover() -> None:
    causes = found("found/openxla_xprof/tpu_inference_2.xplane.pb")
    copies = [cause for cause in causes if cause.rule == "copy"]
    assert len(copies) == 1
    assert 60e9 < (copies[0].cost_ns or 0) < 80e9
    assert "copy-done" in copies[0].message


def test_a_tpu_that_computes_nearly_all_the_time_has_no_cause() -> None:
    assert not [finding for finding in found("found/vllm_tpu") if finding.analysis == "causes"]
