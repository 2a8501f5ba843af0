"""The sample model: a transformer's layers, its loss, its optimizer and its collectives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from holotrace.sample.model import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    GET_ATTRIBUTES,
    IS_CAPTURING,
    MULTIPROCESSORS,
    OCCUPANCY,
    RECORD_DONE,
    RECORD_EVENT,
    Call,
    Op,
    Work,
    kernel,
    launch,
    shapes,
    transfer,
    wait_event,
)

TOKENS, WIDTH, HIDDEN, HEADS, VOCABULARY = 4096, 2048, 8192, 16, 50304
_HEAD = WIDTH // HEADS

_FUNCTOR = "at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>"
_ADD_NAME = f"void at::native::vectorized_elementwise_kernel<8, {_FUNCTOR} >(int, {_FUNCTOR})"
_NORM_NAME = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, true>"
    "(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)"
)
_TILE = "cute::tuple<cute::C<128>, cute::C<128>, cute::C<128> >"
_FLASH_FORWARD = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90"
    f"<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, {_TILE}, 128, cutlass::bfloat16_t, float, "
    "cutlass::arch::Sm90, true, false, false, true>, flash::StaticPersistentTileScheduler<false> > > >(Params)"
)
_FLASH_BACKWARD = _FLASH_FORWARD.replace("Fwd", "Bwd")
_MULTI_TENSOR = "at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>"
_ADAM_NAME = (
    f"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<{_MULTI_TENSOR}, "
    "at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, "
    f"float const*, double, double>({_MULTI_TENSOR})"
)


def _gemm(name: str, duration_ns: int, tiles: tuple[int, int]) -> Call:
    grid = (*tiles, 1)
    return launch(kernel(name, duration_ns, grid, 384, registers=168, shared_bytes=213_148, scales=True))


def _pointwise(name: str, duration_ns: int, occupancy: int = 75) -> Work:
    return kernel(name, duration_ns, (8192, 1, 1), 128, occupancy=occupancy)


def _view(name: str, *dims: list[int], inside: tuple[Op, ...] = ()) -> Op:
    return Op(name, shapes(*dims, scalars=("0", "1")), inside)


def _transposed(weight: list[int]) -> Op:
    strided = _view("aten::as_strided", weight)
    return Op("aten::t", shapes(weight), (_view("aten::transpose", weight, inside=(strided,)),))


def _linear(rows: int, columns: int, duration_ns: int, tile: str) -> Op:
    """aten::linear over a [rows, columns] weight."""
    weight, data = [rows, columns], [TOKENS, columns]
    work = _gemm(f"nvjet_tst_{tile}_2x1_v_bz_coopB_TNN", duration_ns, (rows // 128, 16))
    product = Op("aten::mm", shapes(data, weight[::-1]), (IS_CAPTURING, OCCUPANCY, work), autograd="forward", flow=True)
    body = (_transposed(weight), _view("aten::view", data), product, _view("aten::_unsafe_view", [TOKENS, rows]))
    frames = ("nn.Module: Linear", "torch/nn/modules/linear.py(134): forward", "<built-in function linear>")
    return Op("aten::linear", shapes([1, *data], weight), body, autograd="forward", frames=frames)


def _backward(node: str, *body: Op | Call, inputs: str) -> Op:
    """The autograd engine's step for one operator of the forward pass."""
    inner = Op(node, inputs, body, autograd="backward", flow=True)
    accumulate = (_view("aten::detach", [WIDTH]),) if node == "MmBackward0" else ()
    return Op(f"autograd::engine::evaluate_function: {node}", "", (inner, *accumulate), autograd="backward")


def _linear_backward(rows: int, columns: int, duration_ns: int, tile: str) -> Op:
    weight, data, gradient = [rows, columns], [TOKENS, columns], [TOKENS, rows]
    by_weight = _gemm(f"nvjet_tst_{tile}_2x1_v_bz_coopA_NTN", duration_ns, (columns // 128, rows // 128))
    by_data = _gemm(f"nvjet_tst_{tile}_1x2_h_bz_coopB_NNN", duration_ns, (columns // 128, 16))
    return _backward(
        "MmBackward0",
        _transposed(gradient),
        Op("aten::mm", shapes(gradient[::-1], data), (IS_CAPTURING, OCCUPANCY, by_weight)),
        _transposed(weight),
        Op("aten::mm", shapes(gradient, weight), (IS_CAPTURING, OCCUPANCY, by_data)),
        inputs=shapes(gradient),
    )


def _norm() -> Op:
    data = [1, TOKENS, WIDTH]
    body = (_view("aten::empty", data), _view("aten::empty", data), launch(_pointwise(_NORM_NAME, 17_800)))
    inner = Op("aten::native_layer_norm", shapes(data, [WIDTH]), body, autograd="forward", flow=True)
    frames = ("nn.Module: LayerNorm", "torch/nn/modules/normalization.py(227): forward")
    return Op("aten::layer_norm", shapes(data, [WIDTH]), (inner,), autograd="forward", frames=frames)


def _fused(name: str, duration_ns: int) -> Op:
    data = [1, TOKENS, HIDDEN]
    return Op(name, shapes(data), (launch(_pointwise(name, duration_ns)),), autograd="forward", flow=True)


def _add() -> Op:
    data = [1, TOKENS, WIDTH]
    work = launch(_pointwise(_ADD_NAME, 19_600))
    return Op("aten::add", shapes(data, data, scalars=("1",)), (GET_ATTRIBUTES, work), autograd="forward", flow=True)


def _attention_kernel(name: str, duration_ns: int) -> Work:
    # Its blocks stay: one per multiprocessor.
    grid = (MULTIPROCESSORS, 1, 1)
    return kernel(name, duration_ns, grid, 384, registers=168, shared_bytes=221_184, occupancy=18)


def _attention() -> Op:
    data = [1, TOKENS, HEADS, _HEAD]
    work = kernel(
        _FLASH_FORWARD, 141_000, (MULTIPROCESSORS, 1, 1), 384, registers=168, shared_bytes=221_184, occupancy=18
    )
    body = (_view("aten::empty_like", data), _view("aten::empty", [HEADS, TOKENS]), GET_ATTRIBUTES, launch(work))
    inner = Op("flash_attn::_flash_attn_forward", shapes(data, data, data), body, autograd="forward", flow=True)
    frames = ("nn.Module: Attention", "flash_attn/flash_attn_interface.py(1203): flash_attn_func")
    return Op("FlashAttnFunc", shapes(data, data, data), (inner,), autograd="forward", frames=frames)


def _attention_backward() -> Op:
    data = [1, TOKENS, HEADS, _HEAD]
    work = kernel(
        _FLASH_BACKWARD, 352_000, (MULTIPROCESSORS, 1, 1), 384, registers=168, shared_bytes=221_184, occupancy=12
    )
    zero = launch(transfer("gpu_memset", "Memset (Device)", 8_388_608, 4_100, COMPUTE))
    inner = Op("flash_attn::_flash_attn_backward", shapes(data, data), (zero, GET_ATTRIBUTES, launch(work)))
    return _backward("FlashAttnFuncBackward", _view("aten::empty_like", data), inner, inputs=shapes(data))


def _pointwise_backward(node: str, kernel_name: str, duration_ns: int) -> Op:
    inner = Op(kernel_name, shapes([TOKENS, WIDTH]), (launch(_pointwise(kernel_name, duration_ns)),))
    return _backward(node, inner, inputs=shapes([1, TOKENS, WIDTH]))


FORWARD: tuple[Op, ...] = (
    _norm(),
    _linear(3 * WIDTH, WIDTH, 172_000, "256x128_64x4"),
    _attention(),
    _linear(WIDTH, WIDTH, 58_000, "192x192_64x3"),
    _add(),
    _norm(),
    _linear(HIDDEN, WIDTH, 229_000, "256x128_64x4"),
    _fused("triton_poi_fused_gelu_view_2", 46_000),
    _linear(WIDTH, HIDDEN, 231_000, "128x256_64x4"),
    _add(),
)
_NORM_BACKWARD = "triton_per_fused_native_layer_norm_native_layer_norm_backward_5"
BACKWARD: tuple[Op, ...] = (
    _backward("AddBackward0", _view("aten::detach", [WIDTH]), inputs=shapes([1, TOKENS, WIDTH])),
    _linear_backward(WIDTH, HIDDEN, 231_000, "128x256_64x4"),
    _pointwise_backward("GeluBackward0", "triton_poi_fused_gelu_backward_view_4", 58_000),
    _linear_backward(HIDDEN, WIDTH, 229_000, "256x128_64x4"),
    _pointwise_backward("NativeLayerNormBackward0", _NORM_BACKWARD, 31_000),
    _backward("AddBackward0", _view("aten::detach", [WIDTH]), inputs=shapes([1, TOKENS, WIDTH])),
    _linear_backward(WIDTH, WIDTH, 58_000, "192x192_64x3"),
    _attention_backward(),
    _linear_backward(3 * WIDTH, WIDTH, 172_000, "256x128_64x4"),
    _pointwise_backward("NativeLayerNormBackward0", _NORM_BACKWARD, 31_000),
)
LOSS = _fused("triton_red_fused__log_softmax_nll_loss_forward_3", 96_000)
LOSS_BACKWARD = _pointwise_backward("NllLossBackward0", "triton_poi_fused__log_softmax_nll_loss_backward_6", 88_000)

_BATCH = shapes([1, TOKENS], dtype="long int")
_UPLOAD = launch(transfer("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 8 * TOKENS, 2_900, COPY))
_COPY_BATCH = Op("aten::copy_", _BATCH, (_UPLOAD, RECORD_EVENT, wait_event(COMPUTE, on=COPY)))
_TO_COPY = Op("aten::_to_copy", _BATCH, (_view("aten::empty_strided", [1, TOKENS]), _COPY_BATCH))
UPLOAD = Op("aten::to", _BATCH, (_TO_COPY,), frames=("train.py(41): to_device",))

OPTIMIZER = Op(
    "aten::_fused_adamw_",
    shapes([3 * WIDTH, WIDTH], [3 * WIDTH, WIDTH], dtype="float"),
    (launch(kernel(_ADAM_NAME, 128_000, (320, 1, 1), 512, registers=40, occupancy=62)),),
)
READ_LOSS = Op(
    "aten::item",
    shapes([]),
    (
        Op(
            "aten::_local_scalar_dense",
            shapes([]),
            (
                launch(transfer("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 4, 1_500, COMPUTE)),
                Call("cudaStreamSynchronize", 131, 2_500, Work("cuda_sync", "Stream Sync", COMPUTE, 0, "")),
            ),
        ),
    ),
    frames=("<built-in method item of Tensor object>",),
)


WAIT = Op("_c10d_functional::wait_tensor", "", (wait_event(COMPUTE, on=COMMUNICATION),))


@dataclass(frozen=True)
class Collective:
    """A collective operation: how many elements, how long they take once every rank is there, what the host does."""

    name: str
    dtype: str
    elements: int
    transfer_ns: int
    # ``elements`` are those of all ranks; what each gives to a gather, or gets of a scatter, is its part of them.
    gathers: bool
    scatters: bool
    op: Op

    def describe(self, world: tuple[int, ...], rank: int, sequence: int) -> str:
        """Args text of one run of it, on the host's and on the device's side."""
        of_one = self.elements // len(world)
        inputs = of_one if self.gathers else self.elements
        outputs = of_one if self.scatters else self.elements
        return (
            f'"Collective name": "{self.name}", "In msg nelems": {inputs}, "Out msg nelems": {outputs}, '
            f'"Group size": {len(world)}, "dtype": "{self.dtype}", "In split size": "[]", "Out split size": "[]", '
            f'"Process Group Name": "0", "Process Group Description": "default_pg", '
            f'"Process Group Ranks": "{list(world)}", "Rank": {world.index(rank)}, "Seq": {sequence}'
        )


@cache
def collective(kind: str, elements: int, transfer_ns: int) -> Collective:
    """The collective called ``kind``, one of _COLLECTIVES."""
    name, host_op, kernel_name, annotation = _COLLECTIVES[kind]
    work = kernel(
        f"{kernel_name}(ncclDevKernelArgsStorage<4096ul>)",
        transfer_ns,
        (24, 1, 1),
        544,
        registers=96,
        shared_bytes=103_808,
        stream=COMMUNICATION,
    )
    calls = (IS_CAPTURING, RECORD_EVENT, wait_event(COMMUNICATION, on=COMPUTE), launch(work), RECORD_DONE)
    annotated = Op(annotation, shapes([elements]), calls, category="user_annotation")
    recorded = Op("record_param_comms", shapes([elements]), (annotated,), collective=True)
    op = Op(host_op, shapes([elements], [elements], scalars=("True", "-1")), (recorded,))
    return Collective(name, "BFloat16", elements, transfer_ns, kind == "all_gather", kind == "reduce_scatter", op)


# kind: (Collective name, host operator, kernel, annotation)
_COLLECTIVES = {
    "all_to_all": ("all_to_allv", "c10d::alltoall_base_", "ncclDevKernel_SendRecv", "nccl:all_to_all"),
    "reduce_scatter": (
        "_reduce_scatter_base",
        "c10d::_reduce_scatter_base_",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
        "nccl:_reduce_scatter_base",
    ),
    "all_reduce": (
        "allreduce",
        "c10d::allreduce_",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        "nccl:all_reduce",
    ),
    "all_gather": (
        "_allgather_base",
        "c10d::_allgather_base_",
        "ncclDevKernel_AllGather_RING_LL",
        "nccl:_all_gather_base",
    ),
}
