"""Args that PyTorch's profiler is known to write, and which of them are read together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hta.configs.default_values import AttributeSpec, EventArgs, ValueType, YamlVersion

_FIRST = YamlVersion(1, 0, 0)


def _spec(
    name: str, raw_name: str, value_type: ValueType, default_value: Any, version: YamlVersion = _FIRST
) -> AttributeSpec:
    return AttributeSpec(name, raw_name, value_type, default_value, version)


_INT, _FLOAT, _STRING, _OBJECT = ValueType.Int, ValueType.Float, ValueType.String, ValueType.Object

_AVAILABLE = {
    "index::ev_idx": _spec("ev_idx", "Ev Idx", _INT, -1),
    "index::external_id": _spec("external_id", "External id", _INT, -1),
    "index::python_id": _spec("python_id", "Python id", _INT, -1),
    "index::python_parent_id": _spec("python_parent_id", "Python parent id", _INT, -1),
    "cpu_op::concrete_inputs": _spec("concrete_inputs", "Concrete Inputs", _OBJECT, "[]"),
    "cpu_op::fwd_thread": _spec("fwd_thread_id", "Fwd thread id", _INT, -1),
    "cpu_op::input_dims": _spec("input_dims", "Input Dims", _OBJECT, "-1"),
    "cpu_op::input_type": _spec("input_type", "Input type", _OBJECT, "-1"),
    "cpu_op::input_strides": _spec("input_strides", "Input Strides", _OBJECT, "-1"),
    "cpu_op::sequence_number": _spec("sequence", "Sequence number", _INT, -1),
    "cpu_op::kernel_backend": _spec("kernel_backend", "kernel_backend", _STRING, ""),
    "cpu_op::kernel_hash": _spec("kernel_hash", "kernel_hash", _STRING, "", YamlVersion(1, 1, 0)),
    "correlation::cbid": _spec("cbid", "cbid", _INT, -1),
    "correlation::cpu_gpu": _spec("correlation", "correlation", _INT, -1),
    "sm::blocks": _spec("blocks_per_sm", "blocks per SM", _OBJECT, "[]"),
    "sm::occupancy": _spec("est_occupancy", "est. achieved occupancy %", _INT, -1),
    "sm::warps": _spec("warps_per_sm", "warps per SM", _FLOAT, 0.0),
    "data::bytes": _spec("bytes", "bytes", _INT, -1),
    "data::bandwidth": _spec("memory_bw_gbps", "memory bandwidth (GB/s)", _FLOAT, 0.0),
    "cuda::context": _spec("context", "context", _INT, -1),
    "cuda::device": _spec("device", "device", _INT, -1),
    "cuda::stream": _spec("stream", "stream", _INT, -1),
    "kernel::queued": _spec("queued", "queued", _INT, -1),
    "kernel::shared_memory": _spec("shared_memory", "shared memory", _INT, -1),
    "threads::block": _spec("block", "block", _OBJECT, "[]"),
    "threads::grid": _spec("grid", "grid", _OBJECT, "[]"),
    "threads::registers": _spec("registers_per_thread", "registers per thread", _INT, -1),
    "cuda_sync::stream": _spec("wait_on_stream", "wait_on_stream", _INT, -1),
    "cuda_sync::event": _spec("wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_record_corr_id", _INT, -1),
    "info::finished": _spec("finished", "finished", _STRING, ""),
    "info::labels": _spec("labels", "labels", _STRING, ""),
    "info::name": _spec("name", "name", _INT, -1),
    "info::op_count": _spec("op_count", "Op count", _INT, -1),
    "info::sort_index": _spec("sort_index", "sort_index", _INT, -1),
    "nccl::collective_name": _spec("collective_name", "Collective name", _STRING, ""),
    "nccl::in_msg_nelems": _spec("in_msg_nelems", "In msg nelems", _INT, 0),
    "nccl::out_msg_nelems": _spec("out_msg_nelems", "Out msg nelems", _INT, 0),
    "nccl::in_msg_size": _spec("in_msg_size", "In msg size", _INT, 0),
    "nccl::out_msg_size": _spec("out_msg_size", "Out msg size", _INT, 0),
    "nccl::group_size": _spec("group_size", "Group size", _INT, 0),
    "nccl::dtype": _spec("msg_dtype", "dtype", _STRING, ""),
    "nccl::in_split_size": _spec("in_split_size", "In split size", _OBJECT, "[]"),
    "nccl::out_split_size": _spec("out_split_size", "Out split size", _OBJECT, "[]"),
    "nccl::input_tensors_start": _spec(
        "input_tensors_start", "Input Tensors start", _OBJECT, "[]", YamlVersion(1, 2, 0)
    ),
    "nccl::output_tensors_start": _spec(
        "output_tensors_start", "Output Tensors start", _OBJECT, "[]", YamlVersion(1, 2, 0)
    ),
    "nccl::process_group_name": _spec("process_group_name", "Process Group Name", _STRING, ""),
    "nccl::process_group_desc": _spec("process_group_desc", "Process Group Description", _STRING, ""),
    "nccl::process_group_ranks": _spec("process_group_ranks", "Process Group Ranks", _OBJECT, "[]"),
    "nccl::rank": _spec("process_rank", "Rank", _INT, -1),
    "nccl::seq": _spec("seq_num", "Seq", _INT, -1),
    "inference::batch_size": _spec("batch_size", "batchSize", _INT, -1),
    "inference::batch_id": _spec("batch_id", "batchId", _STRING, ""),
}


Args = Mapping[str, AttributeSpec]
Group = Callable[[Args], list[AttributeSpec]]


def _group(*keys: str) -> Group:
    """The args with these keys, as far as they are there."""
    return lambda available: [available[key] for key in keys if key in available]


def _together(*groups: Group) -> Group:
    return lambda available: [arg for group in groups for arg in group(available)]


# The names of these functions are HTA's.
ARGS_MINIMUM_FUNC = _group("cuda::stream", "correlation::cpu_gpu")
ARGS_BANDWIDTH_FUNC = _group("data::bytes", "data::bandwidth")
ARGS_SYNC_FUNC = _group("cuda_sync::stream", "cuda_sync::event")
ARGS_INPUT_SHAPE_FUNC = _group("cpu_op::input_dims", "cpu_op::input_type", "cpu_op::input_strides")
ARGS_INDEX_FUNC = _group("index::external_id", "index::python_id", "index::python_parent_id")
ARGS_COMMUNICATION_FUNC = _group(
    "nccl::collective_name",
    "nccl::in_msg_nelems",
    "nccl::out_msg_nelems",
    "nccl::dtype",
    "nccl::group_size",
    "nccl::rank",
    "nccl::in_split_size",
    "nccl::out_split_size",
)
ARGS_INFO_FUNC = _group("info::labels", "info::name", "info::sort_index")
ARGS_TRITON_KERNELS_FUNC = _group("cpu_op::kernel_backend", "cpu_op::kernel_hash")
ARGS_DEFAULT_FUNC = _together(
    ARGS_MINIMUM_FUNC,
    ARGS_BANDWIDTH_FUNC,
    ARGS_SYNC_FUNC,
    ARGS_INPUT_SHAPE_FUNC,
    ARGS_INDEX_FUNC,
    ARGS_COMMUNICATION_FUNC,
)


def ARGS_COMPLETE_FUNC(available: Args) -> list[AttributeSpec]:
    """All args of events with a duration, which labels and the like are not."""
    return [spec for key, spec in available.items() if not key.startswith("info::")]


EVENT_ARGS = EventArgs(
    AVAILABLE_ARGS=_AVAILABLE,
    ARGS_INPUT_SHAPE=ARGS_INPUT_SHAPE_FUNC(_AVAILABLE),
    ARGS_BANDWIDTH=ARGS_BANDWIDTH_FUNC(_AVAILABLE),
    ARGS_SYNC=ARGS_SYNC_FUNC(_AVAILABLE),
    ARGS_MINIMUM=ARGS_MINIMUM_FUNC(_AVAILABLE),
    ARGS_COMPLETE=ARGS_COMPLETE_FUNC(_AVAILABLE),
    ARGS_INFO=ARGS_INFO_FUNC(_AVAILABLE),
    ARGS_COMMUNICATION=ARGS_COMMUNICATION_FUNC(_AVAILABLE),
    ARGS_TRITON_KERNELS=ARGS_TRITON_KERNELS_FUNC(_AVAILABLE),
    ARGS_DEFAULT=ARGS_DEFAULT_FUNC(_AVAILABLE),
)
