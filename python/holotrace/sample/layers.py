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
_SHORTEST_NS = 1_800  # of a kernel that has next to nothing to do

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


def _scaled(duration_ns: int, tokens: int) -> int:
    """How long a kernel takes for ``tokens``, if it takes ``duration_ns`` for as many as a micro-batch usually has."""
    return max(_SHORTEST_NS, duration_ns * tokens // TOKENS)


def _gemm(name: str, duration_ns: int, tiles: tuple[int, int]) -> Call:
    grid = (*tiles, 1)
    return launch(kernel(name, duration_ns, grid, 384, registers=168, shared_bytes=213_148, scales=True))


def _pointwise(tokens: int, name: str, duration_ns: int, occupancy: int = 75) -> Work:
    return kernel(name, _scaled(duration_ns, tokens), (2 * tokens, 1, 1), 128, occupancy=occupancy)


def _view(name: str, *dims: list[int], inside: tuple[Op, ...] = ()) -> Op:
    return Op(name, shapes(*dims, scalars=("0", "1")), inside)


def _transposed(weight: list[int]) -> Op:
    strided = _view("aten::as_strided", weight)
    return Op("aten::t", shapes(weight), (_view("aten::transpose", weight, inside=(strided,)),))


def _linear(tokens: int, rows: int, columns: int, duration_ns: int, tile: str) -> Op:
    """aten::linear over a [rows, columns] weight."""
    weight, data = [rows, columns], [tokens, columns]
    work = _gemm(f"nvjet_tst_{tile}_2x1_v_bz_coopB_TNN", _scaled(duration_ns, tokens), (rows // 128, -(-tokens // 256)))
    product = Op("aten::mm", shapes(data, weight[::-1]), (IS_CAPTURING, OCCUPANCY, work), autograd="forward", flow=True)
    body = (_transposed(weight), _view("aten::view", data), product, _view("aten::_unsafe_view", [tokens, rows]))
    frames = ("nn.Module: Linear", "torch/nn/modules/linear.py(134): forward", "<built-in function linear>")
    return Op("aten::linear", shapes([1, *data], weight), body, autograd="forward", frames=frames)


def _backward(node: str, *body: Op | Call, inputs: str) -> Op:
    """The autograd engine's step for one operator of the forward pass."""
    inner = Op(node, inputs, body, autograd="backward", flow=True)
    accumulate = (_view("aten::detach", [WIDTH]),) if node == "MmBackward0" else ()
    return Op(f"autograd::engine::evaluate_function: {node}", "", (inner, *accumulate), autograd="backward")


def _linear_backward(tokens: int, rows: int, columns: int, duration_ns: int, tile: str) -> Op:
    weight, data, gradient = [rows, columns], [tokens, columns], [tokens, rows]
    duration_ns = _scaled(duration_ns, tokens)
    by_weight = _gemm(f"nvjet_tst_{tile}_2x1_v_bz_coopA_NTN", duration_ns, (columns // 128, rows // 128))
    by_data = _gemm(f"nvjet_tst_{tile}_1x2_h_bz_coopB_NNN", duration_ns, (columns // 128, -(-tokens // 256)))
    return _backward(
        "MmBackward0",
        _transposed(gradient),
        Op("aten::mm", shapes(gradient[::-1], data), (IS_CAPTURING, OCCUPANCY, by_weight)),
        _transposed(weight),
        Op("aten::mm", shapes(gradient, weight), (IS_CAPTURING, OCCUPANCY, by_data)),
        inputs=shapes(gradient),
    )


def _norm(tokens: int) -> Op:
    data = [1, tokens, WIDTH]
    body = (_view("aten::empty", data), _view("aten::empty", data), launch(_pointwise(tokens, _NORM_NAME, 17_800)))
    inner = Op("aten::native_layer_norm", shapes(data, [WIDTH]), body, autograd="forward", flow=True)
    frames = ("nn.Module: LayerNorm", "torch/nn/modules/normalization.py(227): forward")
    return Op("aten::layer_norm", shapes(data, [WIDTH]), (inner,), autograd="forward", frames=frames)


def _fused(tokens: int, name: str, duration_ns: int) -> Op:
    data = [1, tokens, HIDDEN]
    return Op(name, shapes(data), (launch(_pointwise(tokens, name, duration_ns)),), autograd="forward", flow=True)


def _add(tokens: int) -> Op:
    data = [1, tokens, WIDTH]
    work = launch(_pointwise(tokens, _ADD_NAME, 19_600))
    return Op("aten::add", shapes(data, data, scalars=("1",)), (GET_ATTRIBUTES, work), autograd="forward", flow=True)


def _attention_kernel(name: str, duration_ns: int, *, occupancy: int) -> Work:
    # Its blocks stay: one per multiprocessor.
    grid = (MULTIPROCESSORS, 1, 1)
    return kernel(name, duration_ns, grid, 384, registers=168, shared_bytes=221_184, occupancy=occupancy)


def _attention(tokens: int) -> Op:
    data = [1, tokens, HEADS, _HEAD]
    work = _attention_kernel(_FLASH_FORWARD, _scaled(141_000, tokens), occupancy=18)
    body = (_view("aten::empty_like", data), _view("aten::empty", [HEADS, tokens]), GET_ATTRIBUTES, launch(work))
    inner = Op("flash_attn::_flash_attn_forward", shapes(data, data, data), body, autograd="forward", flow=True)
    frames = ("nn.Module: Attention", "flash_attn/flash_attn_interface.py(1203): flash_attn_func")
    return Op("FlashAttnFunc", shapes(data, data, data), (inner,), autograd="forward", frames=frames)


def _attention_backward(tokens: int) -> Op:
    data = [1, tokens, HEADS, _HEAD]
    work = _attention_kernel(_FLASH_BACKWARD, _scaled(352_000, tokens), occupancy=12)
    zero = launch(transfer("gpu_memset", "Memset (Device)", 8_388_608, 4_100, COMPUTE))
    inner = Op("flash_attn::_flash_attn_backward", shapes(data, data), (zero, GET_ATTRIBUTES, launch(work)))
    return _backward("FlashAttnFuncBackward", _view("aten::empty_like", data), inner, inputs=shapes(data))


def _pointwise_backward(tokens: int, node: str, kernel_name: str, duration_ns: int) -> Op:
    inner = Op(kernel_name, shapes([tokens, WIDTH]), (launch(_pointwise(tokens, kernel_name, duration_ns)),))
    return _backward(node, inner, inputs=shapes([1, tokens, WIDTH]))


_NORM_BACKWARD = "triton_per_fused_native_layer_norm_native_layer_norm_backward_5"


@dataclass(frozen=True)
class Layers:
    """The operators of one layer and of the loss, for batches of so many tokens."""

    forward: tuple[Op, ...]
    backward: tuple[Op, ...]
    loss: Op
    loss_backward: Op


@cache
def layers(tokens: int = TOKENS) -> Layers:
    """What a micro-batch of ``tokens`` runs; its kernels take as long as its tokens are many."""
    added = _backward("AddBackward0", _view("aten::detach", [WIDTH]), inputs=shapes([1, tokens, WIDTH]))
    return Layers(
        forward=(
            _norm(tokens),
            _linear(tokens, 3 * WIDTH, WIDTH, 172_000, "256x128_64x4"),
            _attention(tokens),
            _linear(tokens, WIDTH, WIDTH, 58_000, "192x192_64x3"),
            _add(tokens),
            _norm(tokens),
            _linear(tokens, HIDDEN, WIDTH, 229_000, "256x128_64x4"),
            _fused(tokens, "triton_poi_fused_gelu_view_2", 46_000),
            _linear(tokens, WIDTH, HIDDEN, 231_000, "128x256_64x4"),
            _add(tokens),
        ),
        backward=(
            added,
            _linear_backward(tokens, WIDTH, HIDDEN, 231_000, "128x256_64x4"),
            _pointwise_backward(tokens, "GeluBackward0", "triton_poi_fused_gelu_backward_view_4", 58_000),
            _linear_backward(tokens, HIDDEN, WIDTH, 229_000, "256x128_64x4"),
            _pointwise_backward(tokens, "NativeLayerNormBackward0", _NORM_BACKWARD, 31_000),
            added,
            _linear_backward(tokens, WIDTH, WIDTH, 58_000, "192x192_64x3"),
            _attention_backward(tokens),
            _linear_backward(tokens, 3 * WIDTH, WIDTH, 172_000, "256x128_64x4"),
            _pointwise_backward(tokens, "NativeLayerNormBackward0", _NORM_BACKWARD, 31_000),
        ),
        loss=_fused(tokens, "triton_red_fused__log_softmax_nll_loss_forward_3", 96_000),
        loss_backward=_pointwise_backward(
            tokens, "NllLossBackward0", "triton_poi_fused__log_softmax_nll_loss_backward_6", 88_000
        ),
    )


_BATCH = shapes([1, TOKENS], dtype="long int")
_UPLOAD = launch(transfer("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 8 * TOKENS, 2_900, COPY))
_COPY_BATCH = Op("aten::copy_", _BATCH, (_UPLOAD, RECORD_EVENT, wait_event(COMPUTE, on=COPY)))
_TO_COPY = Op("aten::_to_copy", _BATCH, (_view("aten::empty_strided", [1, TOKENS]), _COPY_BATCH))
UPLOAD = Op("aten::to", _BATCH, (_TO_COPY,), frames=("train.py(41): to_device",))


def pageable_upload(duration_ns: int) -> Op:
    """A batch that is copied from pageable memory, on the compute stream, for so long."""
    nbytes = duration_ns * 6  # 6 GB/s
    copied = launch(transfer("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", nbytes, duration_ns, COMPUTE))
    batch = shapes([nbytes // 8], dtype="long int")
    inner = Op("aten::copy_", batch, (copied,))
    copy = Op("aten::_to_copy", batch, (_view("aten::empty_strided", [nbytes // 8]), inner))
    return Op("aten::to", batch, (copy,), frames=("train.py(41): to_device",))


COMPILED = "_compile.compile_inner (dynamo_timed)"


@cache
def allocation(duration_ns: int) -> Op:
    """A tensor for which the allocator frees its cache and asks the driver for memory, which takes so long."""
    calls = (Call("cudaFree", 22, duration_ns // 2), Call("cudaMalloc", 20, duration_ns // 2))
    return Op("aten::empty", shapes([1 << 28]), calls)


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

    def describe(self, world: tuple[int, ...], rank: int, sequence: int, *, of_all: bool) -> str:
        """Args text of one run of it, on the host's and on the device's side."""
        of_one = self.elements // len(world)
        inputs = of_one if self.gathers else self.elements
        outputs = of_one if self.scatters else self.elements
        return (
            f'"Collective name": "{self.name}", "In msg nelems": {inputs}, "Out msg nelems": {outputs}, '
            f'"Group size": {len(world)}, "dtype": "{self.dtype}", "In split size": "[]", "Out split size": "[]", '
            f'"Process Group Name": "{0 if of_all else 1}", '
            f'"Process Group Description": "{"default_pg" if of_all else "expert_parallel"}", '
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
