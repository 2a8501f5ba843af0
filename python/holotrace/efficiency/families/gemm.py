"""Products of matrices: one, a batch, with a bias."""

from __future__ import annotations

from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_FLOPS, _MOVED = "2·M·N·K, times the batch", "both matrices, what is added, and the result"
_FACTORS = 5  # arguments of a product and sum; one more, but for a given result, is the type of the result
_BINARY = 5  # arguments of a layer of oneDNN that takes another tensor; one that does not has six


def product(a: Tensor, b: Tensor, *, batches: bool = False) -> tuple[int, tuple[int, ...]]:
    """Floating-point operations and dims of the product of two matrices, or of two batches of matrices."""
    if (
        len(a.dims) != len(b.dims)
        or len(a.dims) != 2 + batches
        or a.dims[-1] != b.dims[-2]
        or a.dims[:-2] != b.dims[:-2]
    ):
        raise Unknown("the dims are not those of matrices to multiply")
    dims = (*a.dims[:-1], b.dims[-1])
    return 2 * prod(dims) * a.dims[-1], dims


def by_rows(a: Tensor, weight: Tensor) -> tuple[int, tuple[int, ...]]:
    """The same of rows ``[..., K]`` and a weight ``[N, K]``, as layers have it."""
    if not a.dims or len(weight.dims) not in (1, 2) or weight.dims[-1] != a.dims[-1]:
        raise Unknown("the dims are not those of a layer and its input")
    dims = (*a.dims[:-1], *weight.dims[:-1])
    return 2 * prod(dims) * a.dims[-1], dims


def _written(a: Arguments, place: int, dims: tuple[int, ...], like: Tensor) -> Tensor:
    return a.out(place) or like.like(dims)


@model("matrix product", "gemm", r"aten::(mm|bmm)", flops=_FLOPS, moved=_MOVED, is_matrix=True)
def matrix_product(a: Arguments) -> Figures:
    left, right = a.tensor(0), a.tensor(1)
    flops, dims = product(left, right, batches=a.name.endswith("bmm"))
    # bmm may take the type of its result before the result itself.
    given = next((place for place in range(2, len(a)) if a.is_tensor(place)), -1)
    out = a.out(given) or left.like(dims, a.type_at(2, left.type))
    return Figures(flops, total_bytes(left, right, out))


@model(
    "matrix product with addition",
    "gemm",
    r"aten::(addmm_?|baddbmm_?|addbmm_?|_addmm_activation)",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def matrix_product_and_sum(a: Arguments) -> Figures:
    """What is added, both matrices, (type of the result,) factors of what is added and of the product."""
    added, left, right = a.optional(0), a.tensor(1), a.tensor(2)
    flops, dims = product(left, right, batches="bmm" in a.name)
    if "addbmm" in a.name and "baddbmm" not in a.name:
        dims = dims[1:]
    _spreads(added, dims)
    given = next((place for place in range(3, len(a)) if a.is_tensor(place)), -1)
    is_typed = (len(a) if given < 0 else given) > _FACTORS and not a.name.endswith("_activation")
    out = left.like(dims, a.type_at(3, left.type) if is_typed else None)
    if a.text(4 if is_typed else 3) in ("0", "0.", "0.0"):
        added = None
    return Figures(flops, total_bytes(added, left, right, a.out(given) or out))


def _spreads(added: Tensor | None, dims: tuple[int, ...]) -> None:
    if added is not None and broadcast(added.dims, dims) != dims:
        raise Unknown("what is added does not fit the product")


@model("matrix times vector", "gemm", r"aten::(mv|dot|vdot|addmv_?)", flops="2·M·K", moved=_MOVED)
def matrix_vector(a: Arguments) -> Figures:
    added = a.tensor(0) if "addmv" in a.name else None
    left, right = a.tensor(1 if added else 0), a.tensor(2 if added else 1)
    # A product of two vectors has a name of its own.
    rank = 1 if "dot" in a.name else 2
    if len(right.dims) != 1 or len(left.dims) != rank or left.dims[-1] != right.dims[0]:
        raise Unknown("the dims are not those of a matrix and a vector")
    _spreads(added, left.dims[:-1])
    return Figures(2 * left.count, total_bytes(added, left, right, left.like(left.dims[:-1])))


@model("outer product", "gemm", r"aten::addr_?", flops="2·M·N", moved=_MOVED)
def outer_product(a: Arguments) -> Figures:
    added, left, right = a.tensor(0), a.tensor(1), a.tensor(2)
    if len(left.dims) != 1 or len(right.dims) != 1:
        raise Unknown("the dims are not those of two vectors")
    out = left.like((*left.dims, *right.dims))
    _spreads(added, out.dims)
    return Figures(2 * out.count, total_bytes(added, left, right, out))


@model(
    "linear layer",
    "gemm",
    r"aten::(linear|_linear|mkldnn_linear|mkldnn_linear_pointwise)"
    r"|vllm::(rocm_)?(unquantized|aiter_tuned)_gemm(_impl)?|aiter::(gemm_a16w16\w*|gemm_a16w16_asm)",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def linear(a: Arguments) -> Figures:
    rows, weight = a.tensor(0), a.tensor(1)
    flops, dims = by_rows(rows, weight)
    bias = a.optional(2)
    if a.name.startswith("aten::"):
        _spreads(bias, dims)
    # A result that is given is as large as what is written.
    if bias is not None and bias.dims == dims and len(dims) > 1:
        return Figures(flops, total_bytes(rows, weight, bias))
    return Figures(flops, total_bytes(rows, weight, bias, rows.like(dims, a.type_at(3, rows.type))))


@model("linear layer of MKL", "gemm", r"mkl::_mkl_linear", flops=_FLOPS, moved=_MOVED, is_matrix=True)
def packed_linear(a: Arguments) -> Figures:
    """X, packed W, W, bias: the packed one is read, which is as large."""
    rows, weight = a.tensor(0), a.tensor(2)
    flops, dims = by_rows(rows, weight)
    return Figures(flops, total_bytes(rows, weight.like(), a.optional(3), rows.like(dims)))


@model(
    "linear layer of oneDNN",
    "gemm",
    r"(mkldnn|onednn)::_linear_pointwise",
    flops=_FLOPS,
    moved="input, weight, bias, a tensor that is added, and result",
    is_matrix=True,
)
def linear_pointwise(a: Arguments) -> Figures:
    """X, W, bias, activation, its numbers, algorithm; or X, another tensor, W, bias, what is done with both."""
    other = a.tensor(1) if len(a) == _BINARY else None
    weight = 1 if other is None else 2
    rows, matrix = a.tensor(0), a.tensor(weight)
    flops, dims = by_rows(rows, matrix)
    return Figures(flops, total_bytes(rows, matrix, other, a.optional(weight + 1), rows.like(dims)))


@model(
    "linear layer, backward",
    "gemm",
    r"aten::linear_backward",
    flops="2·M·N·K for the gradient of the input and for that of the weight, as they are asked for",
    moved="gradient of the result, what the asked gradients need, and the gradients",
    is_matrix=True,
)
def linear_backward(a: Arguments) -> Figures:
    """input, grad, weight, which gradients: of the input, the weight, the bias."""
    x, grad, weight = a.tensor(0), a.tensor(1), a.tensor(2)
    one, dims = by_rows(x, weight)
    if dims != grad.dims:
        raise Unknown("the gradient has not the dims of the layer's result")
    return _gradients((x, grad, weight), a.listed(3), one, grad.like((weight.dims[0],)))


@model(
    "product of matrices, backward",
    "gemm",
    r"aten::matmul_backward",
    flops="2·M·N·K times the batch, for each gradient that is asked for",
    moved="gradient of the result, what the asked gradients need, and the gradients",
    is_matrix=True,
)
def matmul_backward(a: Arguments) -> Figures:
    """grad, left, right, which gradients."""
    grad, left, right = a.tensor(0), a.tensor(1), a.tensor(2)
    one, dims = _spread(left, right)
    if prod(dims) != grad.count:
        raise Unknown("the gradient has not the dims of the product")
    return _gradients((left, grad, right), [*a.listed(3), False], one, None)


def _gradients(given: tuple[Tensor, Tensor, Tensor], mask: list[int], one: int, bias: Tensor | None) -> Figures:
    """Each factor's gradient needs the other factor."""
    left, grad, right = given
    if len(mask) != 3:  # one of each factor, and one of the bias
        raise Unknown("which gradients are asked for is not recorded")
    moved = grad.bytes + (total_bytes(right, left.like()) if mask[0] else 0)
    moved += (total_bytes(left, right.like()) if mask[1] else 0) + (total_bytes(bias) if mask[2] else 0)
    return Figures(one * (bool(mask[0]) + bool(mask[1])), moved)


@model("bilinear layer", "gemm", r"aten::(bilinear|_trilinear)", flops="2·B·N·K1·K2 + 2·B·N·K2", is_matrix=True)
def bilinear(a: Arguments) -> Figures:
    if a.name.endswith("_trilinear"):
        raise Unknown("the dims over which it sums are not read")
    first, second, weight = a.tensor(0), a.tensor(1), a.tensor(2)
    if len(weight.dims) != 3 or weight.dims[1:] != (first.dims[-1], second.dims[-1]):
        raise Unknown("the dims are not those of a bilinear layer")
    rows, (out, k1, k2) = prod(first.dims[:-1]), weight.dims
    written = first.like((rows, out))
    return Figures(2 * rows * out * k2 * (k1 + 1), total_bytes(first, second, weight, a.optional(3), written))


@model("matrix product", "gemm", r"aten::matmul", flops=_FLOPS, moved=_MOVED, is_matrix=True)
def matmul(a: Arguments) -> Figures:
    left, right = a.tensor(0), a.tensor(1)
    flops, dims = _spread(left, right)
    return Figures(flops, total_bytes(left, right, a.out(2) or left.like(dims)))


def _spread(left: Tensor, right: Tensor) -> tuple[int, tuple[int, ...]]:
    """Floating-point operations and dims of a product of whatever ranks, where a vector is a row or a column."""
    if not left.dims or not right.dims:
        raise Unknown("the dims are not those of matrices to multiply")
    rows = (1, *left.dims) if len(left.dims) == 1 else left.dims
    columns = (*right.dims, 1) if len(right.dims) == 1 else right.dims
    if rows[-1] != columns[-2]:
        raise Unknown("the dims are not those of matrices to multiply")
    dims = (*broadcast(rows[:-2], columns[:-2]), rows[-2], columns[-1])
    return 2 * prod(dims) * rows[-1], dims


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The dims that tensors of these dims have when they are spread to the same."""
    longest = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    dims = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise Unknown("the dims do not fit each other")
        dims.append(wide.pop() if wide else 1)
    return tuple(dims)


@model(
    "product into a given matrix",
    "gemm",
    r"(aiter|hipb?|rocb?)(::|_).*(hipb_mm|rocb_mm|hipb_findallsols)|aiter::(hipb|rocb)_mm",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def tuned_product(a: Arguments) -> Figures:
    left, right = a.tensor(0), a.tensor(1)
    flops, dims = product(left, right)
    return Figures(flops, total_bytes(left, right, a.optional(3), left.like(dims, a.type_at(4, left.type))))


@model(
    "batched product of rows",
    "gemm",
    r"aiter::batched_gemm_(bf16|a16w16)\w*",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def batched_rows(a: Arguments) -> Figures:
    left, right = a.tensor(0), a.tensor(1)
    if len(left.dims) != 3 or len(right.dims) != 3 or (left.dims[0], left.dims[2]) != (right.dims[0], right.dims[2]):
        raise Unknown("the dims are not those of two batches of rows")
    dims = (*left.dims[:2], right.dims[1])
    return Figures(2 * prod(dims) * left.dims[2], total_bytes(left, right, a.out(2) or left.like(dims)))


@model(
    "layer of Transformer Engine",
    "gemm",
    r"_(Linear|LayerNormLinear|LayerNormMLP)",
    flops="2·M·N·K of each weight matrix",
    moved="input, weights and result",
    is_matrix=True,
)
def transformer_engine(a: Arguments) -> Figures:
    """Weights are the matrices among its tensors, the input the one with the same last dim as the first of them."""
    found = [tensor for _, tensor in a.all_tensors() if len(tensor.dims) > 1]
    if a.name == "_Linear":
        if len(found) < 2:
            raise Unknown("the weight and the input are not both recorded")
        weight, rows = (found[0], found[1]) if len(found[0].dims) == 2 else (found[1], found[0])
        weights = [weight]
    else:
        rows, weights = found[0] if found else a.tensor(0), [tensor for tensor in found[1:] if len(tensor.dims) == 2]
    return _chain(rows, weights, 1 if a.name != "_LayerNormMLP" else 2)


def _chain(rows: Tensor, weights: list[Tensor], layers: int) -> Figures:
    if len(weights) < layers:
        raise Unknown("the weights are not recorded")
    tokens, width, flops = prod(rows.dims[:-1]), rows.dims[-1], 0
    for weight in weights[:layers]:
        # A gated activation halves what comes out of the layer before.
        if weight.dims[1] not in (width, width // 2):
            raise Unknown("the dims are not those of a layer and its input")
        flops += 2 * tokens * weight.count
        width = weight.dims[0]
    moved = total_bytes(rows, *weights[:layers], rows.like((tokens, width)))
    return Figures(flops, moved, "the weights are as wide as they are multiplied")


@model(
    "product of Transformer Engine",
    "gemm",
    r"(tex_ts|tex|transformer_engine)::(te_gemm_ts|te_gemm|te_cublas_gemm|generic_gemm)",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def transformer_engine_gemm(a: Arguments) -> Figures:
    """A, its scale, …, whether to transpose it, then the same of B, then D."""
    left, right, out = a.tensor(0), a.tensor(5), a.tensor(10)
    if len(left.dims) != 2 or len(right.dims) != 2:
        raise Unknown("the dims are not those of matrices to multiply")
    turned = a.flag(4, False)
    depth = left.dims[1] if turned else left.dims[0]
    if depth not in right.dims:
        raise Unknown("the dims are not those of matrices to multiply")
    return Figures(2 * left.count * (right.count // depth), total_bytes(left, right, out))


@model(
    "library's product into a given matrix",
    "gemm",
    r"(_C|sgl_kernel|trtllm|aiter)::(dsv3_(fused_a|router)_gemm\w*|cublas_mm|bf16_gemm)|nanogpt::mm|trtllm::cublas_mm",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def library_product(a: Arguments) -> Figures:
    """The result first where there is one, then rows [M, K], and the other matrix either way."""
    given = [tensor for _, tensor in a.all_tensors() if len(tensor.dims) == 2]
    if len(given) < 2:
        raise Unknown("the matrices are not recorded")
    out = given.pop(0) if len(given) > 2 and "dsv3" in a.name else None
    left, right = given[:2]
    (rows, depth), (first, second) = left.dims, right.dims
    if depth not in (first, second):
        raise Unknown("the dims are not those of matrices to multiply")
    dims = (rows, right.count // depth)
    written = out or left.like(dims, "c10::BFloat16")
    said = None if out else "the result is of two bytes an element"
    return Figures(2 * prod(dims) * depth, total_bytes(left, right, written), said)
