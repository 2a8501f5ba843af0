"""What the host of a PyTorch job did in gaps of its device and in steps."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import holotrace
from drawing import draw
from holotrace import sample
from holotrace.diagnosis.rank.host_parts import PARTS
from holotrace.diagnosis.words.classes import CHECKPOINT, COMPILATION, EVALUATION, LOGGING, beside, named, traits
from holotrace.job import Job
from trace_files import REAL_TRACES, write_trace

_NS = [f"{part}_ns" for part in PARTS]


def gap(job: Job) -> dict[str, object]:
    (row,) = job.gaps(min_gap_ns=1_000).to_dicts()
    return {name: value for name, value in row.items() if value not in (0, None) and name not in ("rank", "after_ns")}


def test_a_gap_belongs_to_the_operator_that_was_innermost_before_the_next_launch() -> None:
    job = draw("""
        compute |AA......BB|
        host    |A......B..|
        op      |..MMMMMM..|
    """)
    assert gap(job) == {
        "start_ns": 2_000,
        "idle_ns": 6_000,
        "cause": "dispatch",
        "detail": "M",
        "operator": "M",
        "dispatch_ns": 6_000,
        "call": "cudaLaunchKernel",
    }


def test_a_gap_before_work_that_was_launched_in_time_was_queued() -> None:
    found = gap(draw("compute |AA..BB|\nhost    |AB....|"))
    assert (found["cause"], found["queued_ns"], found["idle_ns"]) == ("queued", 2_000, 2_000)


def test_what_nothing_was_open_in_for_long_is_unattributed(tmp_path: Path) -> None:
    """Between two calls hosts interpret, also where no range is around; for longer than 1 ms none does."""
    found = gap(draw("compute |AA....BB|\nhost    |A....B..|\nop      |..MM....|"))
    assert (found["dispatch_ns"], found["program_ns"], found["idle_ns"]) == (3_000, 1_000, 4_000)
    times = ((0, 10), (3_000, 10))
    calls = [{"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1} for _ in times]
    work = [{"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7} for _ in times]
    events = [
        {"ph": "X", **event, "ts": ts, "dur": dur, "args": {"correlation": number, "stream": 7, "device": 0}}
        for of in (calls, work)
        for number, (event, (ts, dur)) in enumerate(zip(of, times, strict=True))
    ]
    write_trace(tmp_path / "rank-0.json", events=events)
    assert gap(holotrace.open(tmp_path))["unattributed_ns"] == pytest.approx(2_990_000, rel=0.01)


def test_every_queue_has_gaps_of_its_own() -> None:
    job = draw("compute |AA..BB..|\ncompute |..CC..DD|\nhost |ACBD....|")
    assert job.gaps(min_gap_ns=1_000).is_empty()
    assert job.gaps(min_gap_ns=1_000, by_stream=True).select("stream", "idle_ns").sort("stream").rows() == [
        (0, 2_000),
        (1, 2_000),
    ]


@pytest.mark.parametrize("fault", ["input", "allocator", "synchronization", "compilation"])
def test_parts_of_gaps_and_of_steps_add_up_and_name_the_fault(tmp_path: Path, fault: str) -> None:
    truth = sample.write(tmp_path, ranks=4, steps=4, seed=2, faults=[fault], stacks=True, compress=False)
    (planted,) = truth.costs_ns
    job = holotrace.open(tmp_path)
    gaps, steps = job.gaps(), job.host_steps()
    assert gaps.select(pl.sum_horizontal(_NS)).to_series().to_list() == gaps["idle_ns"].to_list()
    parts = [name for name in _NS if name in steps.columns]
    assert steps.select(pl.sum_horizontal(parts)).to_series().to_list() == steps["step_ns"].to_list()
    worst = gaps.filter(pl.col("rank").is_in(planted.ranks or [0])).row(0, named=True)
    part = {"allocator": "allocation", "synchronization": "read_back"}.get(fault, fault)
    assert worst[f"{part}_ns"] > 0


def test_an_allocation_that_holds_a_real_device_up_is_named_with_who_asked_for_it() -> None:
    path = REAL_TRACES / "torchrec/examples/golden_training/trace/sst_sleep_pl_dense_after_backward_2"
    if not path.is_dir():
        pytest.skip(f"{path} is not there")
    worst = holotrace.open(path).only(0).gaps().row(0, named=True)
    assert (worst["cause"], worst["detail"], worst["operator"]) == ("allocation", "cudaFree", "aten::cat")
    assert worst["allocation_ns"] > 90_000_000


@pytest.mark.parametrize("call", ["cudaFree", "hipMalloc", "urUSMFree", "zeMemAllocDevice"])
def test_memory_of_every_vendor_is_allocated(call: str) -> None:
    assert traits(call, "xpu_runtime") == traits("cudaMalloc", "cuda_runtime")


def test_categories_of_older_recorders_are_known() -> None:
    assert traits("cudaFree", "Runtime") == traits("cudaFree", "cuda_runtime")
    assert traits("aten::mm", "Operator") == traits("aten::mm", "cpu_op")


def test_extensions_that_are_built_are_compiled() -> None:
    assert named("torch/utils/cpp_extension.py(2020): _jit_compile") == COMPILATION


@pytest.mark.parametrize(
    "name", ["train.py(230): run_validation", "nanogpt.py(215): estimate_loss", "fit.py(9): do_eval", "eval"]
)
def test_names_that_say_that_the_model_is_evaluated(name: str) -> None:
    """An evaluation in a function of another name was told as more work, and the batches that it reads as input."""
    assert (named(name), beside(name)) == (EVALUATION, EVALUATION)


@pytest.mark.parametrize(
    "name", ["torch/nn/modules/module.py(2860): eval", "<built-in function eval>", "cfg.py(3): val"]
)
def test_names_that_have_eval_in_them_and_evaluate_no_model(name: str) -> None:
    assert named(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "torch/_inductor/runtime/triton_heuristics.py(900): autotune_to_one_config",
        "triton/testing.py(96): do_bench",
        "torch/_inductor/runtime/benchmarking.py(200): benchmark_gpu",
    ],
)
def test_kernels_that_are_tried_out_are_compiled(name: str) -> None:
    assert (named(name), beside(name)) == (COMPILATION, COMPILATION)
    # What only compiles launches nothing, and what runs what was compiled is the step's own.
    assert beside("torch/_dynamo/convert_frame.py(715): compile_inner") is None
    assert named("triton/runtime/autotuner.py(156): run") is None


@pytest.mark.parametrize(
    "name", ["training.py(310): training_log", "log.py(8): maybe_log", "tqdm/std.py(1200): refresh"]
)
def test_names_that_say_that_something_is_logged(name: str) -> None:
    assert named(name) == LOGGING
    assert named("model.py(8): log_softmax_loss") is None


@pytest.mark.parametrize(
    "name",
    [
        "nn.Module: CheckpointWrapper_2",
        "transformers/modeling_layers.py(83): _gradient_checkpointing_func",
        "megatron/core/tensor_parallel/random.py(487): checkpoint",
        "deepspeed/runtime/activation_checkpointing/checkpointing.py(990): checkpoint",
    ],
)
def test_activations_that_are_computed_again_are_no_checkpoint(name: str) -> None:
    assert named(name) is None
    assert named("trainer/io.py(30): save_checkpoint") == CHECKPOINT
