"""What is said of recordings of real jobs: what an expert reads from their timelines."""

from __future__ import annotations

import pytest

import holotrace
from holotrace.core.analysis import Finding
from quick import every
from trace_files import REAL_TRACES

TORCHREC = "torchrec/examples/golden_training"
NANOGPT = "modded-nanogpt/records/track_1_short/2025-12-11_NorMuonOptimsAndFixes/profiler-example-traces"


def told(path: str, *, every: bool = False) -> list[Finding]:
    if not (REAL_TRACES / path).is_dir():
        pytest.skip(f"{REAL_TRACES / path} is not there")
    found = holotrace.open(REAL_TRACES / path, recursive=every).findings()
    return [finding for finding in found if finding.severity != "info"]


def test_the_rank_that_sleeps_in_every_step_is_named_first_with_the_range_it_sleeps_in() -> None:
    sleeping, allocating = told(f"{TORCHREC}/trace/sst_sleep_pl_dense_after_backward_2")
    assert (sleeping.rule, sleeping.ranks) == ("host-pause", (2,))
    assert "# running sparse arch" in sleeping.message
    # The others stand still in a collective for 3,070 ms, 37 ms of which are its own time.
    assert 2_700_000_000 < (sleeping.cost_ns or 0) < 3_070_000_000
    assert {"straggling-rank", "idle-device", "uneven-ranks"} <= set(sleeping.explains)
    assert (allocating.rule, allocating.ranks) == ("allocator", ())
    assert "cudaFree" in allocating.message


@pytest.mark.parametrize("variant", every(2, ["sst_long_a2a_optimizer_3", "sst_long_a2a_optimizer_5"]))
def test_freeing_memory_in_the_step_holds_every_rank_of_a_recommender_up(variant: str) -> None:
    first, second, *_ = told(f"{TORCHREC}/trace/{variant}")
    assert (first.rule, first.ranks) == ("allocator", ())
    assert first.message.endswith("in cudaFree, in step 4")
    # It sleeps for 20 ms in each step; the others stand still as long, since they wait for it.
    assert second.ranks == (2,)


def test_a_tiny_model_is_launch_bound_on_both_ranks_and_nobody_is_blamed() -> None:
    (first,) = told(f"{TORCHREC}/log/resnet18")
    assert (first.rule, first.ranks) == ("launch-bound", ())
    assert {"idle-device", "late-host", "straggling-rank"} <= set(first.explains)


@pytest.mark.slow
def test_decoding_of_experts_waits_for_their_exchange_but_not_where_micro_batches_overlap_it() -> None:
    exchange = told("lightllm/test/model/logs", every=True)[0]
    assert (exchange.rule, exchange.ranks) == ("exposed-transfer", ())
    assert "combine" in exchange.message
    assert "micro-batch" in exchange.what_to_do
    assert "FSDP" not in exchange.what_to_do
    # To launch the graph of a step takes 6 ms, in which nothing runs.
    (late,) = told("lightllm/test/model/logs_decode_overlap", every=True)
    assert (late.rule, late.ranks) == ("launch-bound", ())


@pytest.mark.slow
def test_hosts_of_a_fast_language_model_that_come_late_are_named_and_no_device() -> None:
    (late,) = told(NANOGPT)
    assert (late.rule, late.ranks) == ("launch-bound", (0, 1, 2))
