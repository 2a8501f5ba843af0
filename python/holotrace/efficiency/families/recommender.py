"""Operators of FBGEMM: tables of embeddings looked up at once, sparse numbers, and narrow types for communication."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_WHOLE = ("long int", "long", "int")
_BEHIND_A_ROW = 8  # bytes: scale and offset of a row, or its scale and padding
_STARTS = "where sequences begin is told by whole numbers of 8 bytes"
_WRITTEN = "as much is written as is read"


@model(
    "lookup in many tables",
    "embedding",
    r"fbgemm::split_embedding\w*|torch::autograd::CppNode<Split\w*Lookup\w*>|fbgemm::\w*tbe_(forward|backward)\w*",
    moved="numbers, offsets, gradient or weights of samples only; rows of tables are not recorded",
)
def lookup(a: Arguments) -> Figures:
    """Which rows are looked up and how wide they are is not recorded; the tables themselves are among its tensors."""
    given = [tensor for _, tensor in _present(a)]
    numbers = [tensor for tensor in given if tensor.type in _WHOLE and len(tensor.dims) == 1]
    gradients = [tensor for tensor in given if len(tensor.dims) == 2]
    counted = [*numbers, *gradients]
    if not counted:
        raise Unknown("numbers and gradients are not recorded")
    said = "which rows of the tables are read is not recorded: the bytes are those of numbers and gradients"
    return Figures(None, total_bytes(*counted), said, is_partial=True)


def _present(a: Arguments) -> list[tuple[int, Tensor]]:
    """Tensors that have elements, with their places: unused ones are empty."""
    return [(place, one) for place in range(len(a)) if (one := a.out(place)) is not None]


@model(
    "order of pooled embeddings",
    "embedding",
    r"fbgemm::permute_pooled_embs\w*|fbgemm::permute_duplicate_pooled_embs\w*|fbgemm::recat_embedding_grad\w*"
    r"|torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbs\w*.*>",
    flops="0",
    moved="embeddings, read and written, and their order",
)
def order(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(0, total_bytes(*(tensor for _, tensor in _present(a)), x.like()))


@model(
    "order of sparse numbers",
    "embedding",
    r"(fbgemm|fb)::(permute_(1D|2D)?_?\w*sparse\w*|permute_sparse\w*|block_bucketize\w*|reorder_batched\w*|jagged_\w+"
    r"|dense_to_jagged\w*|batched_\w+|stacked_jagged\w*|keyed_jagged\w*|segment_sum_csr|lengths_range\w*|offsets_range"
    r"|expand_into_jagged_permute|asynchronous_\w*cumsum|pack_segments\w*|invert_permute|index_select_dim0)",
    moved="all its tensors, and as much written",
)
def sparse(a: Arguments) -> Figures:
    given = [tensor for _, tensor in _present(a)]
    if not given:
        raise Unknown("its tensors are not recorded")
    return Figures(None, 2 * total_bytes(*given), _WRITTEN)


@model(
    "sequences of unequal lengths, padded",
    "copy",
    r"aten::(_jagged_to_padded_dense_forward|_padded_dense_to_jagged_forward)",
    flops="0",
    moved="elements of the sequences, where each begins, and the result",
)
def padded(a: Arguments) -> Figures:
    """values [L, ...], list of starts, greatest lengths; or padded [B, N, ...], list of starts, L."""
    x, starts = a.tensor(0), a.tensors(1, "long int")
    if a.name.endswith("_to_jagged_forward"):
        inner, whole = x.dims[1 + len(starts) :], a.size(2)
        out = x.like((whole, *inner))
        return Figures(0, total_bytes(*starts, out, out), _STARTS)
    lengths = a.integers(2)
    if len(lengths) != len(starts) or len(starts[0].dims) != 1 or min(lengths) < 0:
        raise Unknown("the dims are not those of sequences and their lengths")
    return Figures(0, total_bytes(x, *starts, x.like((starts[0].count - 1, *lengths, *x.dims[1:]))), _STARTS)


@model(
    "check of numbers",
    "embedding",
    r"fbgemm::bounds_check_indices\w*",
    flops="0",
    moved="rows of tables, numbers and offsets",
)
def bounds(a: Arguments) -> Figures:
    given = [tensor for _, tensor in _present(a)]
    if not given:
        raise Unknown("its tensors are not recorded")
    return Figures(0, total_bytes(*given), "no number is beyond its table")


@model(
    "sums of embeddings of bytes",
    "embedding",
    r"quantized::embedding_bag_(byte|4bit|2bit)_rowwise_offsets",
    flops="2 an element of each row",
    moved="numbers, offsets, rows with the scales behind them, and sums of 4 bytes an element",
)
def bag_of_bytes(a: Arguments) -> Figures:
    """weights, numbers, offsets, by frequency, mode, pruned, weights of numbers, map of rows, with last offset."""
    weight, chosen, offsets = a.tensor(0), a.tensor(1), a.optional(2)
    if len(weight.dims) != 2 or (offsets is None and len(chosen.dims) != 2) or a.is_tensor(7):
        raise Unknown("the dims are not those of an embedding and its numbers")
    in_a_byte = {"byte": 1, "4bit": 2, "2bit": 4}[a.name.split("_")[2]]
    behind = _BEHIND_A_ROW if in_a_byte == 1 else _BEHIND_A_ROW // 2
    width = in_a_byte * (weight.dims[1] - behind)
    bags = chosen.dims[0] if offsets is None else offsets.count - a.flag(8, False)
    if width < 1 or bags < 1:
        raise Unknown("the rows are too short")
    rows = weight.like((min(chosen.count, weight.dims[0]), weight.dims[1]))
    moved = total_bytes(chosen, offsets, rows, a.optional(6), weight.like((bags, width), "float"))
    return Figures(2 * chosen.count * width, moved, "every number chooses another element")


@model(
    "narrow types for communication",
    "elementwise",
    r"fbgemm::(Float|Half|Bfloat16|FloatOrHalf)To(FP8Rowwise|Fused8BitRowwise|HFP8)Quantized\w*",
    flops="2 an element",
    moved="input, a byte for each element, and 8 bytes behind each row",
)
def narrowed(a: Arguments) -> Figures:
    x = a.tensor(0)
    rows = 0 if "HFP8" in a.name or not x.dims else x.count // x.dims[-1]
    return Figures(2 * x.count, x.bytes + x.count + rows * _BEHIND_A_ROW)


@model(
    "values of narrow types",
    "elementwise",
    r"fbgemm::(FP8Rowwise|Fused8BitRowwise|HFP8)QuantizedTo(Float|Half|Bfloat16)\w*",
    flops="2 an element",
    moved="bytes of the input, and its elements in the type of the result",
)
def widened(a: Arguments) -> Figures:
    x = a.tensor(0)
    if x.element_bytes != 1 or not x.dims:
        raise Unknown("the input is not of bytes")
    is_plain = "HFP8" in a.name
    width = x.dims[-1] if is_plain else x.dims[-1] - _BEHIND_A_ROW
    if width < 1:
        raise Unknown("the rows are too short")
    kind = "float" if a.name.split("QuantizedTo")[1].startswith("Float") else "c10::Half"
    written = x.like((*x.dims[:-1], width), kind)
    return Figures(2 * written.count, total_bytes(x, written))
