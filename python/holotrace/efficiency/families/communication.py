"""Communication between ranks: what its buffers hold; held against no limit of the device's memory."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown


@model(
    "communication",
    "communication",
    # Those with a product in them are more than communication.
    r"(?!.*matmul)(c10d|_c10d_functional(_autograd)?|symm_mem|nccl|gloo|vllm|sglang|sgl_kernel|_C_custom_ar|aiter|record_param_comms|deep_ep)"
    r"(::|:)\w*(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|send|recv|dispatch|combine|barrier|gather|scatter)\w*"
    r"|record_param_comms|c10d::reduce_|symm_mem::((nccl|nvshmem)_(get|put)|multimem_|(multi_root_)?tile_reduce|memcpy_to)\w*",
    flops="0",
    moved="its buffers once; in place, read and written",
)
def buffers(a: Arguments) -> Figures:
    given = [tensor for _, tensor in a.all_tensors()]
    if not given:
        # Lists of tensors have no type in a trace.
        listed = [
            tensor for place, kind in enumerate(a.types) if kind == "TensorList" for tensor in a.tensors(place, "float")
        ]
        if not listed:
            raise Unknown("the buffers are not recorded")
        return Figures(0, total_bytes(*listed), "the elements of lists are floats, and each is read or written once")
    times = 2 if a.name.endswith("_") and len(given) == 1 else 1
    return Figures(0, times * total_bytes(*given), "what the ranks exchange beyond their buffers is not counted")
