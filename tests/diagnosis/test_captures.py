"""What is said of steps recorded on an H100, with a fault and timed with and without it, outside of the profiler.

Of most jobs one step was kept, and of its calls those that launched work.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import holotrace
from holotrace.core.analysis import Finding

RECORDED = Path(__file__).parents[1] / "data" / "h100"
# What recordings of a step without the one before it and after it have too: the host ran ahead.
CUT = {"host-pause", "launch-bound", "unrecorded-host"}


def told(name: str) -> list[Finding]:
    return [found for found in holotrace.open(RECORDED / f"{name}.json.gz").findings() if found.rule not in CUT]


@pytest.mark.parametrize(
    ("name", "rule", "with_fault_ms", "without_ms"),
    [
        # A model in fp32, without and with TF32.
        ("fp32", "wrong-type", 158.79, 52.69),
        # Attention written out, and scaled_dot_product_attention.
        ("attention_math", "unfused-attention", 125.442, 48.169),
        # AdamW with foreach=False, and with fused=True.
        ("optimizer_loop", "unfused-optimizer", 52.068, 48.245),
        # Convolutions with channels first, and with channels last and cudnn.benchmark.
        ("convs", "channels-first", 25.302, 13.18),
    ],
)
def test_a_fault_of_computing_is_the_only_one_told_and_worth_what_the_job_gains_without_it(
    name: str, rule: str, with_fault_ms: float, without_ms: float
) -> None:
    (found,) = [finding for finding in told(name) if finding.severity != "info"]
    assert found.rule == rule
    assert found.cost_ns == pytest.approx((with_fault_ms - without_ms) * 1e6, rel=0.2)


def test_checkpoints_of_activations_are_a_choice_told_with_its_time() -> None:
    """The same model takes 48.042 ms a step without them, and 55.374 with."""
    found = told("clean_recompute")
    assert {finding.severity for finding in found} == {"info"}
    (again,) = [finding for finding in found if finding.rule == "much-recomputation"]
    assert again.cost_ns == pytest.approx(7.332e6, rel=0.2)


def test_a_mask_of_which_the_size_is_read_is_a_wait_and_what_recording_takes_is_no_cause() -> None:
    """Three steps of 55.7 ms each as they were recorded, 35.175 without the profiler, and 31.108 without the mask."""
    causes = holotrace.open(RECORDED / "mask.json.gz").causes()
    assert causes["cause"].to_list() == ["synchronization", "recording"]
    assert "aten::nonzero (pt.py(89): mask_padding)" in causes["message"][0]
    assert causes["cost_per_step_ns"][0] == pytest.approx((35.175 - 31.108) * 1e6, rel=0.4)
    recorded_ns = 55.7e6
    assert causes["profiler_ns"][0] / 3 == pytest.approx(recorded_ns - 35.175e6, rel=0.2)
