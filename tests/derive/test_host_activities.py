"""What a host thread is doing, by the names of its spans."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace import UsageError
from holotrace.derive.host_activities import INPUT_RANGES, of_calls, of_ranges


@pytest.mark.parametrize(
    ("activity", "names"),
    [
        (
            "compilation",
            ["backend_compile_and_load", "XLAGraphExecutor::Compile", "TfrtTpuCompiler::Compile", "Codegen"],
        ),
        ("compilation", ["lower_sharding_computation", "trace_to_jaxpr_dynamic", "XLA::TPU run hlo passes"]),
        ("read_back", ["PjRtComputationClient::TransferFromDevice", "TransferFromServer", "np.asarray(jax.Array)"]),
        # From memory that is not pinned it is copied before the call returns.
        ("read_back", ["ArrayImpl.copy_to_host_async"]),
        ("upload", ["TransferToServerInternal", "batched_device_put", "BufferFromHostBuffer", "H2D Dispatch"]),
        # JAX on GPUs names what sends data after what compiles: each step was said to compile.
        ("upload", ["PjRtCApiCompiler::BufferFromHostBuffer(s32[8,1025])"]),
        ("input", ["Iterator::Prefetch::TFRecord", "$dataloader.py:700 __next__", "$grain/reader.py:3 read"]),
        ("tracing", ["StepMarker", "SyncTensorsGraphInternal", "SyncLiveTensorsGraph", "RunPostOrder"]),
        ("dispatch", ["PjitFunction(step)", "DoEnqueueProgram", "ExecuteReplicated", "hipModuleLaunchKernel"]),
        ("wait", ["Wait for donation holds", "ThunkExecutor::Execute (wait for completion)", "Rendezvous"]),
        ("program", ["$train.py:29 transformer_block"]),
        # A function is told by its own name, whatever its file is called, and a library's may only look something up.
        (
            "program",
            ["$recompile_launcher.py:4 main", "$h2d.py:3 step", "$pxla.py:1209 compile", "$ck.py:9 compiles"],
        ),
        ("compilation", ["$compiler.py:292 backend_compile_and_load", "$partial_eval.py:2268 trace_to_jaxpr"]),
        ("upload", ["$api.py:2035 device_put"]),
        ("input", ["$gen.py:6 loader", "$gen.py:9 train_batches"]),
        (None, ["ThunkExecutor::Execute", "tpu::System::Execute=>Done", "MemoryAllocation", "Transpose::Execute"]),
        # It runs, it is not made.
        (None, ["CompiledFunction", "CompleteCallbacks"]),
        # What such a thread does is told by what it calls.
        (None, ["$threading.py:1028 _bootstrap_inner", "$threading.py:971 run"]),
        ("program", ["$threading.py:9 read_all", "$train.py:971 run"]),
        # Operations of JAX that are not compiled are started in it.
        ("dispatch", ["$traceback_util.py:191 reraise_with_filtered_traceback", "$graphlib.py:882 _graph_flatten"]),
        ("input", ["$dataset_ops.py:4775 __next__", "$py_dataset_adapter.py:257 _finite_generator"]),
        # Iterators of other libraries, and of the program: a wait in one was told as that of a queue.
        ("input", ["$data_loader.py:412 __next__", "$dataset.py:1110 __next__", "$prefetch.py:88 __next__"]),
    ],
)
def test_a_call_tells_what_its_thread_does(activity: str | None, names: list[str]) -> None:
    assert of_calls(pl.Series(names)).to_list() == [activity] * len(names)


def test_a_range_is_the_programs_own_code_unless_it_moves_data() -> None:
    names = ["data_loading", "h2d", "forward", "compile_metrics", "Execute plan"]
    told = of_ranges(pl.Series(names), INPUT_RANGES).to_list()
    assert told == ["input", "upload", "program", "program", "program"]


def test_a_program_says_which_of_its_ranges_are_input() -> None:
    assert of_ranges(pl.Series(["next_image", "data"]), "image").to_list() == ["input", "program"]


def test_a_pattern_that_is_none_is_refused_with_a_way_out() -> None:
    with pytest.raises(UsageError, match="is no pattern"):
        of_ranges(pl.Series(["data"]), "(")


def test_a_span_without_a_name_tells_nothing() -> None:
    assert of_calls(pl.Series([None], dtype=pl.String())).to_list() == [None]
