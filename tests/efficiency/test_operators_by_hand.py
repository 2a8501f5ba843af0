"""Operators of which one family or another had a wrong idea, with their figures by hand."""

from __future__ import annotations

from typing import Any

import pytest

import holotrace

BF16, HALF, FLOAT, DOUBLE = "c10::BFloat16", "c10::Half", "float", "double"
LONG, INT, BOOL, BYTE, COMPLEX = "long int", "int", "bool", "unsigned char", "c10::complex<float>"
ULONG, CHAR = "long unsigned int", "signed char"


def dense(dims: list[int]) -> list[int]:
    strides = [1] * len(dims)
    for at in range(len(dims) - 2, -1, -1):
        strides[at] = strides[at + 1] * max(dims[at + 1], 1)
    return strides


def told(name: str, *arguments: Any, scalars: bool = True) -> holotrace.OperatorWork:
    """Tensors are dims and type, other arguments texts; an empty one was not given."""
    is_tensor = [isinstance(argument, tuple) for argument in arguments]
    dims = [argument[0] if tensor else [] for argument, tensor in zip(arguments, is_tensor, strict=True)]
    types = [
        argument[1] if tensor else "" if not argument else "ScalarList" if argument.startswith("[") else "Scalar"
        for argument, tensor in zip(arguments, is_tensor, strict=True)
    ]
    texts = ["" if tensor else argument for argument, tensor in zip(arguments, is_tensor, strict=True)]
    return holotrace.operator_work(name, dims, types, [dense(shape) for shape in dims], texts if scalars else None)


x, longs, bools = ([4, 8], FLOAT), ([4, 8], LONG), ([4, 8], BOOL)
CASES: dict[str, tuple[tuple[Any, ...], int | None, int]] = {
    "power of whole numbers and a fraction is a float": (("aten::pow", longs, "0.5"), 32, 8 * 32 + 4 * 32),
    "power of a number": (("aten::pow", "2", x), 32, 2 * 4 * 32),
    "bools with a whole number are whole": (("aten::mul", bools, "3"), 32, 32 + 8 * 32),
    "a number does not widen a float": (("aten::add", ([4, 8], BF16), "1.5", "1"), 32, 2 * 2 * 32),
    "angle of whole numbers is a float": (("aten::angle", longs), 32, 8 * 32 + 4 * 32),
    "angle of complex numbers is real": (("aten::angle", ([4, 8], COMPLEX)), 32, 8 * 32 + 4 * 32),
    "special functions of whole numbers": (("aten::special_i0e", longs), 32, 8 * 32 + 4 * 32),
    "sign of one tensor is that of another": (("aten::copysign", longs, longs), 32, 2 * 8 * 32 + 4 * 32),
    "polygamma has its order first": (("aten::polygamma", "1", x), 32, 2 * 4 * 32),
    "choice by its older name": (("aten::_s_where", bools, x, x), 32, 32 + 3 * 128),
    "fractions have exponents": (("aten::frexp", x), 32, 4 * 32 * 3),
    "distance is one number": (("aten::dist", x, x, "2"), 96, 2 * 4 * 32 + 4),
    "distances of all pairs": (("aten::_cdist_forward", ([2, 5, 3], FLOAT), ([2, 7, 3], FLOAT), "2.", ""),
                               3 * 2 * 5 * 7 * 3, 4 * (30 + 42 + 70)),
    "what is filled in is a tensor": (("aten::masked_fill", x, bools, ([], FLOAT)), 0, 128 + 32 + 4 + 128),
    "noise is written": (("aten::rrelu_with_noise", x, x, "0.1", "0.3", "True", ""), 32, 3 * 128),
    "noise is read": (("aten::rrelu_with_noise_backward", x, x, x, "0.1", "0.3", "True", "False"), 32, 4 * 128),
    "two parts": (("aten::complex", x, x), 32, 2 * 128 + 256),
    "deviation of complex numbers is real": (("aten::std", ([4, 8], COMPLEX), "", "", "False"), 96, 256 + 4),
    "logsumexp of whole numbers is a float": (("aten::logsumexp", longs, "[1]", "False"), 32, 256 + 16),
    "means and deviations": (("aten::normal", x, x, ""), 0, 3 * 128),
    "bounds are no type": (("aten::randint_like", longs, "10", "", "", "", "False", ""), 0, 256),
    "ends of a range are not what is written": (
        ("aten::linspace", ([], FLOAT), ([], FLOAT), "5", "6", "", "", "False", ([5], FLOAT)), 0, 20),
    "repeats with the size of the result": (("aten::repeat_interleave", ([4], LONG), "6"), 0, 32 + 48),
    "windows go back to the whole": (("aten::unfold_backward", ([3, 5, 3], FLOAT), "[5, 5]", "0", "3", "1"),
                                     45, 180 + 100),
    "windows of an image": (("aten::im2col", ([2, 3, 8, 8], HALF), "[3, 3]", "[1, 1]", "[1, 1]", "[2, 2]"),
                            0, 2 * (2 * 3 * 64 + 2 * 27 * 16)),
    "image of windows": (
        ("aten::col2im", ([2, 27, 16], HALF), "[8, 8]", "[3, 3]", "[1, 1]", "[1, 1]", "[2, 2]"),
        2 * 27 * 16, 2 * (2 * 27 * 16 + 2 * 3 * 64)),
    "padding back": (("aten::reflection_pad2d_backward", ([1, 2, 6, 6], FLOAT), ([1, 2, 4, 4], FLOAT), "[1, 1, 1, 1]"),
                     72, 4 * (72 + 32)),
    "pooling in reverse": (("aten::max_unpool2d", ([1, 2, 2, 2], FLOAT), ([1, 2, 2, 2], LONG), "[4, 4]"),
                           None, 4 * 8 + 8 * 8 + 4 * 32),
    "distances back": (
        ("aten::_cdist_backward", ([2, 5, 7], FLOAT), ([2, 5, 3], FLOAT), ([2, 7, 3], FLOAT), "2.", ([2, 5, 7], FLOAT)),
        3 * 2 * 5 * 7 * 3, 4 * (70 + 30 + 42 + 70 + 30)),
    "distances in a set": (("aten::_pdist_forward", ([6, 3], FLOAT), "2."), 3 * 15 * 3, 4 * (18 + 15)),
    "distances in a set back": (("aten::_pdist_backward", ([15], FLOAT), ([6, 3], FLOAT), "2.", ([15], FLOAT)),
                                3 * 15 * 3, 4 * (15 + 18 + 15 + 18)),
    "sums of segments by lengths": (
        ("aten::segment_reduce", ([10, 8], FLOAT), "", ([4], LONG), "", "", "0", "False", ""), 80, 4 * (80 + 32) + 32),
    "sums of segments by ends": (
        ("aten::segment_reduce", ([10, 8], FLOAT), "", "", "", ([5], LONG), "0", "False", ""), 80, 4 * (80 + 32) + 40),
    "sums of segments back": (
        ("aten::_segment_reduce_backward", ([4, 8], FLOAT), ([4, 8], FLOAT), ([10, 8], FLOAT), "", ([4], LONG), "", "0",
         ""), 80, 4 * (2 * 32 + 2 * 80) + 32),
    "what labels need is kept": (
        ("aten::_ctc_loss", ([50, 4, 20], FLOAT), ([4, 30], LONG), "[50, 50, 50, 50]", "[24, 29, 27, 23]", "0", "True"),
        None, 4 * 4000 + 8 * 120 + 4 * 4 + 4 * 4 * 50 * 59),
    "gradient is kept": (
        ("aten::_cudnn_ctc_loss", ([50, 4, 20], FLOAT), ([106], INT), "[50, 50, 50, 50]", "[24, 29, 30, 23]", "0",
         "False", "True"), None, 2 * 4 * 4000 + 4 * 106 + 4 * 4),
    "as many are found as asked for": (("aten::nonzero_static", bools, "6", "-1"), 0, 32 + 8 * 12),
    "result of a special function is no input": (("aten::special_i1", x, x), 32, 2 * 128),
    "special function of two tensors": (("aten::special_zeta", x, x), 32, 3 * 128),
    "special function without a bound": (("aten::special_logit", x, ""), 32, 2 * 128),
    "odds that are a tensor are read": (("aten::bernoulli_", x, x, ""), 0, 2 * 128),
    "odds that are a number are not": (("aten::bernoulli_", x, "0.5", ""), 0, 128),
    "random numbers of a key": (("aten::_philox_normal_", x, ([2], ULONG), "0.", "1."), 0, 128 + 16),
    "gradient of random numbers": (("aten::_dirichlet_grad", x, x, x), None, 4 * 128),
    "hashes of rows": (("aten::hash_tensor", x, "[1]", "False", "0"), None, 128 + 8 * 4),
    "sums of powers of rows": (("aten::linalg__powsum", x, "2", "[1]", "False", ""), 64, 128 + 4 * 4),
    "places of a lower triangle": (("aten::tril_indices", "5", "7", "1", "4", "", "", "False"), 0, 2 * 8 * 20),
    "places of an upper triangle": (("aten::triu_indices", "5", "7", "-1", "3", "", "", "False"), 0, 2 * 4 * 29),
    "weights of eight bits beside halves": (
        ("aten::_mixed_dtypes_linear", ([4, 64], HALF), ([64, 32], CHAR), ([32], HALF), ([32], HALF), ""),
        2 * 4 * 64 * 32, 2 * (256 + 32 + 32 + 128) + 2048),
    "weights of four bits beside halves": (
        ("aten::_mixed_dtypes_linear", ([4, 64], HALF), ([64, 16], BYTE), ([32], HALF), "", ""),
        2 * 4 * 64 * 32, 2 * (256 + 32 + 128) + 1024),
    "bags back": (
        ("aten::_embedding_bag_dense_backward", ([3, 16], FLOAT), ([9], LONG), ([9], LONG), ([3], LONG), ([3], LONG),
         "100", "False", "0", "", "-1"), 144, 4 * 48 + 8 * 9 + 8 * 9 + 4 * 1600),
    "batch norm back by its newer name": (
        ("aten::batch_norm_backward", *[([4, 8, 5], FLOAT)] * 2, *[([8], FLOAT)] * 5, "True", "1e-5",
         "[True, True, True]", ([0], BYTE)), None, 4 * (3 * 160 + 3 * 8 + 2 * 8)),
    "cell of an LSTM": (
        ("aten::_thnn_fused_lstm_cell", ([4, 32], HALF), ([4, 32], HALF), ([4, 8], HALF), ([32], HALF), ([32], HALF)),
        320, 2 * (3 * 128 + 3 * 32 + 64)),
    "embeddings in another order": (("fbgemm::permute_pooled_embs", ([16, 40], FLOAT), ([5], LONG)),
                                    0, 2 * 4 * 640 + 40),
    "rows of bytes with their scales": (("fbgemm::FloatToFP8RowwiseQuantized", ([16, 40], FLOAT), "True"),
                                        1280, 4 * 640 + 640 + 16 * 8),
    "and back": (("fbgemm::FP8RowwiseQuantizedToFloat", ([16, 48], BYTE), "True"), 1280, 16 * 48 + 4 * 640),
    "window of a backward kernel": (
        ("aten::_efficient_attention_backward", *[([1, 6, 1, 8], HALF)] * 4, "", ([1, 6, 1, 8], HALF), "", "", "6",
         "6", ([1, 1, 6], FLOAT), "0.", ([], LONG), ([], LONG), "1", "False", "", "", "2", "False"),
        (1 + 5 * 2) * 2 * 5 * 8, 8 * 2 * 48),
    "older kernel of efficient attention": (
        ("aten::_efficient_attention_forward", *[([1, 6, 1, 8], HALF)] * 3, "", "", "", "", "0.", "1", "True", "", "",
         ""), 21 * 2 * 16, 4 * 2 * 48),
}  # fmt: skip


# What PyTorch's own tables of operators have, and no trace had so far.
_ROWS, _WEIGHT = ([4, 8, 64], FLOAT), ([32, 64], FLOAT)
_IMAGE, _FILTER = ([2, 8, 10, 10], FLOAT), ([16, 8, 3, 3], FLOAT)
_ONE = ("[1, 1]", "[1, 1]", "[1, 1]")
RARE: dict[str, tuple[tuple[Any, ...], int | None, int]] = {
    "layer and activation": (("mkldnn::_linear_pointwise", _ROWS, _WEIGHT, ([32], FLOAT), "relu", "[]", ""),
                             2 * 32 * 32 * 64, 4 * (2048 + 2048 + 32 + 1024)),
    "what is added is no weight": (
        ("mkldnn::_linear_pointwise", ([32, 64], FLOAT), ([32, 64], FLOAT), ([64, 64], FLOAT), "", "add"),
        2 * 32 * 64 * 64, 4 * (3 * 2048 + 4096)),
    "packed weight is read once": (
        ("mkl::_mkl_linear", ([32, 64], FLOAT), ([128, 64], FLOAT), ([128, 64], FLOAT), ([128], FLOAT), "32"),
        2 * 32 * 128 * 64, 4 * (2048 + 8192 + 128 + 4096)),
    "both gradients of a layer": (("aten::linear_backward", _ROWS, ([4, 8, 32], FLOAT), _WEIGHT, "[True, True, False]"),
                                  2 * 2 * 32 * 32 * 64, 4 * (1024 + 2 * 2048 + 2 * 2048)),
    "gradients of weight and bias": (
        ("aten::linear_backward", _ROWS, ([4, 8, 32], FLOAT), _WEIGHT, "[False, True, True]"),
        2 * 32 * 32 * 64, 4 * (1024 + 2 * 2048 + 32)),
    "both gradients of a product": (
        ("aten::matmul_backward", ([4, 8, 32], FLOAT), _ROWS, ([64, 32], FLOAT), "[True, True]"),
        2 * 2 * 32 * 32 * 64, 4 * (1024 + 4 * 2048)),
    "convolution and activation": (
        ("mkldnn::_convolution_pointwise", _IMAGE, _FILTER, ([16], FLOAT), *_ONE, "1", "relu", "[]", ""),
        2 * 16 * 8 * 9 * 200, 4 * (1600 + 1152 + 16 + 3200)),
    "convolution and sum": (
        ("mkldnn::_convolution_pointwise", _IMAGE, ([2, 16, 10, 10], FLOAT), _FILTER, "", *_ONE, "1", "add", "", "",
         "[]", ""), 2 * 16 * 8 * 9 * 200, 4 * (1600 + 1152 + 2 * 3200)),
    "convolution and sum in place": (
        ("mkldnn::_convolution_pointwise_", ([2, 16, 10, 10], FLOAT), _IMAGE, _FILTER, "", *_ONE, "1", "add", "", "",
         "[]", ""), 2 * 16 * 8 * 9 * 200, 4 * (1600 + 1152 + 2 * 3200)),
    "convolution by columns back, without the input's": (
        ("aten::_slow_conv2d_backward", ([1, 32, 8, 8], FLOAT), ([1, 16, 8, 8], FLOAT), ([32, 16, 3, 3], FLOAT),
         "[3, 3]", "[1, 1]", "[1, 1]", "[False, True, True]"),
        2 * 32 * 16 * 9 * 64, 4 * (32 * 64 + 16 * 64 + 32 * 16 * 9 + 32)),
    "running sum of logarithms": (("aten::_logcumsumexp", x, "0"), 32, 2 * 128),
    "running maximum": (("aten::_cummax_helper", x, x, longs, "0"), 32, 2 * 128 + 256),
    "diagonal alone is summed": (("aten::trace", ([64, 32], FLOAT)), 32, 4 * 33),
    "cell with gates": (("aten::_thnn_fused_gru_cell", ([4, 48], FLOAT), ([4, 48], FLOAT), ([4, 16], FLOAT),
                         ([48], FLOAT), ([48], FLOAT)), 640, 4 * (2 * 192 + 64 + 96 + 6 * 64)),
    "cell with gates back": (("aten::_thnn_fused_gru_cell_backward", ([4, 16], FLOAT), ([4, 80], FLOAT), "True"),
                             640, 4 * (64 + 320 + 2 * 192 + 64)),
    "cell of an LSTM back": (
        ("aten::_thnn_fused_lstm_cell_backward_impl", *[([4, 16], FLOAT)] * 4, ([4, 64], FLOAT), "True"),
        640, 4 * (4 * 64 + 256 + 256 + 64)),
    "whole numbers of eight bits": (("aten::quantize_per_tensor", x, "0.1", "0", "12"), 64, 128 + 32),
    "and their values": (("aten::dequantize", ([4, 8], "c10::qint8")), 64, 32 + 128),
    "margins of classes": (("aten::multi_margin_loss", x, ([4], LONG), "1", "1.", "", "1"), 96, 128 + 32 + 4),
    "masked softmax back": (("aten::_masked_softmax_backward", x, x, bools, "-1"), 128, 3 * 128 + 32),
    "kept half of a matrix": (
        ("aten::_sparse_semi_structured_mm", ([64, 32], HALF), ([64, 8], INT), ([64, 128], HALF), ""),
        2 * 64 * 128 * 32, 2 * (64 * 32 + 2 * 64 * 128) + 4 * 512),
    "layer with a kept half": (
        ("aten::_sparse_semi_structured_linear", ([8, 64], HALF), ([32, 32], HALF), ([32, 8], INT), "", "", ""),
        2 * 8 * 32 * 32, 2 * (8 * 64 + 32 * 32 + 8 * 32) + 4 * 256),
    "two elements a byte": (
        ("fbgemm::bf16i4bf16_rowwise", ([128, 512], BF16), ([256, 256], "signed char"), ([4, 256], FLOAT),
         ([4, 256], FLOAT)), 2 * 128 * 256 * 512, 2 * 128 * 512 + 256 * 256 + 2 * 4096 + 2 * 128 * 256),
    "gradients of sequences of one length": (
        ("aiter::mha_varlen_bwd", *[([256, 8, 64], BF16)] * 5, ([8, 256], FLOAT), ([3], INT), ([3], INT), "128", "128",
         "0.", "0.1", "False", "True", "-1", "-1", "False"),
        2 * 8 * (128 * 129 // 2) * 2 * 5 * 64, 2 * 8 * 256 * 8 * 64),
    "operator that is computed by another kernel": (
        ("_native::bmm_triton_0", ([4, 8, 16], BF16), ([4, 16, 32], BF16)), 2 * 4 * 8 * 16 * 32,
        2 * 4 * (128 + 512 + 256)),
}  # fmt: skip


@pytest.mark.parametrize("case", [*CASES.values(), *RARE.values()], ids=[*CASES, *RARE])
def test_figures_are_those_by_hand(case: tuple[tuple[Any, ...], int | None, int]) -> None:
    arguments, flops, moved = case
    found = told(*arguments)
    assert (found.flops, found.moved_bytes) == (flops, moved)
    assert found.confidence == "exact"


def test_default_is_taken_for_granted_where_no_scalars_are_recorded() -> None:
    exact = told("aten::sum", ([4, 8], FLOAT), "")
    supposed = told("aten::sum", ([4, 8], FLOAT), "", scalars=False)
    assert (exact.confidence, exact.moved_bytes) == ("exact", 132)
    assert (supposed.confidence, supposed.moved_bytes) == ("estimate", 132)
    assert supposed.assumed == "arguments that are no tensors are not recorded, and taken for what is usual"


def test_quotient_that_is_rounded_stays_whole() -> None:
    assert told("aten::div", longs, longs).moved_bytes == 2 * 256 + 128
    floor, unsaid = told("aten::div", longs, longs, "floor"), told("aten::div", longs, longs, "")
    assert (floor.moved_bytes, floor.confidence) == (3 * 256, "exact")
    assert (unsaid.moved_bytes, unsaid.confidence) == (3 * 256, "estimate")
    assert told("aten::div", x, x, "").confidence == "exact"


def test_number_that_is_not_recorded_may_be_of_another_type() -> None:
    for name in ("aten::add", "aten::pow"):
        assert told(name, longs, "0.5", "1", scalars=False).confidence == "estimate"
        assert told(name, longs, "2", "1").confidence == "exact"


def test_bytes_of_attention_are_known_without_its_mask() -> None:
    q = ([2, 4, 8, 16], BF16)
    found = told("aten::_scaled_dot_product_flash_attention", q, q, q, "0.", "True", "False", scalars=False)
    assert (found.flops, found.moved_bytes) == (None, 4 * 2 * 1024)
    assert found.assumed == "which keys are masked is not recorded"


def test_norm_is_taken_over_the_dims_of_its_weight_where_no_scalars_are_recorded() -> None:
    rows, weight = ([16, 4, 8], HALF), ([4, 8], HALF)
    whole = told("aten::native_layer_norm", rows, "[4, 8]", weight, weight, "1e-5")
    without = told("aten::native_layer_norm", rows, "[4, 8]", weight, weight, "1e-5", scalars=False)
    assert (whole.flops, whole.moved_bytes) == (without.flops, without.moved_bytes) != (None, None)
    mean = ([16, 1, 1], FLOAT)
    back = (rows, rows, "[4, 8]", mean, mean, weight, weight, "[True, True, True]")
    of_squares = (rows, rows, "[4, 8]", mean, weight, "[True, True]")
    for name, arguments in (("native_layer_norm", back), ("_fused_rms_norm", of_squares)):
        whole = told(f"aten::{name}_backward", *arguments)
        without = told(f"aten::{name}_backward", *arguments, scalars=False)
        assert whole.moved_bytes == without.moved_bytes is not None
        assert (whole.confidence, without.confidence) == ("exact", "estimate")


@pytest.mark.parametrize(
    "arguments",
    [
        ("aten::where.ScalarOther", bools, x, "0"),
        ("aten::norm.ScalarOpt_dim", x, "2", "[1]", "False"),
        ("aten::sum.IntList_out", x, "[1]", "False", "", ([4], FLOAT)),
        ("aten::scatter.src", x, "0", longs, x),
        ("aten::where.self_out", bools, x, x, x),
        ("aten::xlogy.OutTensor", x, x, x),
        ("aten::all.all_out", x, ([], BOOL)),
        ("aten::index_fill_.int_Scalar", x, "0", ([2], LONG), "1"),
        ("aten::repeat_interleave.self_int", x, "2", "0", ""),
    ],
    ids=lambda arguments: arguments[0],
)
def test_overload_counts_as_its_operator(arguments: tuple[Any, ...]) -> None:
    name, *rest = arguments
    whole, plain = told(name, *rest), told(name.split(".")[0], *rest)
    assert whole.moved_bytes == plain.moved_bytes is not None
    assert told(name + "_of_tomorrow", *rest).moved_bytes is None


def test_copy_to_the_type_of_another_tensor() -> None:
    found = told("aten::to", x, ([1], DOUBLE), "False", "False", "")
    assert found.moved_bytes == 128 + 256


def test_factorizations_are_estimates_by_the_usual_algorithm() -> None:
    x, sides = ([2, 30, 30], FLOAT), ([2, 30, 4], FLOAT)
    assert told("aten::linalg_cholesky_ex", x, "False", "False").flops == 2 * 30**3 // 3
    assert told("aten::linalg_inv_ex", x, "False").flops == 2 * 2 * 30**3
    assert told("aten::linalg_qr", ([60, 30], FLOAT), "reduced").flops == 2 * 60 * 30**2 - 2 * 30**3 // 3
    assert told("aten::linalg_solve_triangular", x, sides, "True").flops == 2 * 30**2 * 4
    assert told("aten::cholesky_solve", sides, x, "False").flops == 2 * 2 * 30**2 * 4
    found = told("aten::_linalg_solve_ex", x, sides, "True", "False")
    assert (found.flops, found.confidence) == (2 * 2 * 30**2 * 4 + 2 * 2 * 30**3 // 3, "estimate")
    assert told("aten::linalg_cholesky_ex", ([30], FLOAT), "False", "False").flops is None


def test_weights_of_eight_bits_are_unpacked_as_such() -> None:
    rows, scales, order = ([16, 64], HALF), ([1, 32], HALF), ([64], INT)
    four = told("_C::gptq_gemm", rows, ([8, 32], INT), ([1, 4], INT), scales, order, "True", "4")
    eight = told("_C::gptq_gemm", rows, ([16, 32], INT), ([1, 8], INT), scales, order, "True", "8")
    assert four.flops == eight.flops == 2 * 16 * 64 * 32
    assert told("_C::gptq_gemm", rows, ([16, 32], INT), scales, scales, order, "True", "5").flops is None


def test_keys_and_values_of_one_cache_have_its_type() -> None:
    key, value, cache, places = ([8, 512], BF16), ([8, 64], BF16), ([9, 16, 576], BYTE), ([8], LONG)
    found = told("_C_cache_ops::concat_and_cache_mla", key, value, cache, places, "auto", ([], FLOAT))
    assert found.moved_bytes == 2 * 8 * 576 + 8 * 576 + 64


def test_only_the_rows_of_positions_are_read_of_their_table() -> None:
    q, table, positions = ([4, 8, 64], BF16), ([131072, 64], FLOAT), ([4], LONG)
    found = told("sgl_kernel::apply_rope_pos_ids_cos_sin_cache", q, q, q, q, table, positions, "False")
    assert found.moved_bytes == 4 * 2 * 2048 + 4 * 4 * 64 + 32


def test_lookup_in_tables_says_that_its_rows_are_not_recorded() -> None:
    found = told("fbgemm::split_embedding_codegen_lookup_sgd_function", ([0], FLOAT), ([10**9], FLOAT), ([77], LONG))
    assert (found.flops, found.moved_bytes, found.is_partial) == (None, 8 * 77, True)


def test_number_that_is_none_gives_no_figure() -> None:
    assert told("aten::mul", ([4], LONG), "nonsense").moved_bytes is None


def test_number_without_text_is_taken_for_granted() -> None:
    arguments = ([[4, 8], [], [], []], [FLOAT, "ScalarList", "Scalar", ""], [[8, 1], [], [], []])
    recorded = holotrace.operator_work("aten::sum", *arguments, ["", "[1]", "False", ""])
    lost = holotrace.operator_work("aten::sum", *arguments, ["", "", "", ""])
    assert (recorded.moved_bytes, recorded.confidence) == (4 * 32 + 16, "exact")
    assert (lost.moved_bytes, lost.confidence) == (4 * 32 + 4, "estimate")


def test_list_that_is_joined_into_another_type_is_no_exact_figure() -> None:
    dims, types = [[[8, 16], [8, 16]], [], [], [4, 64]], ["TensorList", "Scalar", "Scalar", FLOAT]
    found = holotrace.operator_work(
        "aten::_chunk_cat", dims, types, [[[16, 1]] * 2, [], [], [64, 1]], ["", "0", "4", ""]
    )
    assert (found.moved_bytes, found.confidence) == (2 * 4 * 256, "estimate")
    assert found.assumed == "the elements of the list are of the result's type"


def test_gradient_of_the_weights_of_a_bag_reads_the_rows_that_are_chosen() -> None:
    numbers = ([9], LONG), ([3], LONG), ([9], LONG)
    found = told(
        "aten::_embedding_bag_per_sample_weights_backward", ([3, 16], FLOAT), ([100, 16], FLOAT), *numbers, "0"
    )
    assert (found.flops, found.moved_bytes) == (2 * 9 * 16, 4 * (48 + 144) + 8 * 18 + 4 * 9)
    assert found.assumed == "every number chooses another element"
    assert (
        told("aten::_embedding_bag_per_sample_weights_backward", ([3], FLOAT), ([100, 16], FLOAT), *numbers).flops
        is None
    )


def test_system_by_factors_of_a_symmetric_matrix() -> None:
    found = told("aten::linalg_ldl_solve", ([5, 5], FLOAT), ([5], INT), ([5, 3], FLOAT), "False")
    assert (found.flops, found.moved_bytes, found.confidence) == (2 * 25 * 3, 4 * (25 + 15 + 15), "estimate")


@pytest.mark.parametrize(
    ("name", "bytes_of_a_row"), [("byte", 16 + 8), ("4bit", 8 + 4), ("2bit", 4 + 4)], ids=["byte", "4bit", "2bit"]
)
def test_rows_of_narrow_numbers_have_their_scales_behind_them(name: str, bytes_of_a_row: int) -> None:
    given = ([20, bytes_of_a_row], BYTE), ([9], LONG), ([4], LONG)
    operator = f"quantized::embedding_bag_{name}_rowwise_offsets"
    found = told(operator, *given, "False", "0", "False", "", "", "True")
    assert (found.flops, found.moved_bytes) == (2 * 9 * 16, 9 * bytes_of_a_row + 8 * 13 + 3 * 16 * 4)
    assert found.assumed == "every number chooses another element"


def test_sequences_of_unequal_lengths_are_padded_and_back() -> None:
    values, starts, padded = [9, 4], [[4]], [3, 5, 4]
    types = [FLOAT, "TensorList", "ScalarList", "Scalar"]
    there = holotrace.operator_work(
        "aten::_jagged_to_padded_dense_forward", [values, starts, [], []], types, None, ["", "", "[5]", "0."]
    )
    back = holotrace.operator_work(
        "aten::_padded_dense_to_jagged_forward", [padded, starts, []], [*types[:2], "Scalar"], None, ["", "", "9"]
    )
    assert (there.flops, there.moved_bytes) == (0, 4 * (36 + 60) + 8 * 4)
    assert (back.flops, back.moved_bytes) == (0, 4 * 2 * 36 + 8 * 4)


def test_only_dim_is_known_where_no_scalars_are_recorded() -> None:
    found = told("aten::index_select", ([2048], LONG), "0", ([6825], LONG), scalars=False)
    assert found.moved_bytes == 8 * (6825 + 2048 + 6825)
    assert told("aten::index_select", ([2048, 2], LONG), "0", ([6825], LONG), scalars=False).moved_bytes is None


def test_nested_tensor_is_no_number() -> None:
    """Recordings of PyTorch have neither dims nor type of one."""
    for operands in (("", x), (x, "")):
        found = told("aten::mul", *operands)
        assert (found.flops, found.moved_bytes, found.reason) == (None, None, "an input is not recorded")
    assert told("aten::clamp", x, "", "5").confidence == "exact"


def test_result_of_scatter_has_all_that_is_not_written() -> None:
    found = told("aten::scatter.src_out", ([10, 5], FLOAT), "0", ([5, 5], LONG), ([5, 5], FLOAT), ([10, 5], FLOAT))
    assert found.moved_bytes == 4 * 50 + 8 * 25 + 4 * 25 + 4 * 50
    assert (
        told("aten::scatter_.src", ([10, 5], FLOAT), "0", ([5, 5], LONG), ([5, 5], FLOAT)).moved_bytes
        == 8 * 25 + 2 * 100
    )


def test_number_without_text_may_be_of_another_type() -> None:
    """A product with an imaginary number is complex."""
    dims, strides = [[4, 8], []], [[8, 1], []]
    told_of = holotrace.operator_work("aten::mul", dims, [FLOAT, "Scalar"], strides, ["", "0.+1.j"])
    lost = holotrace.operator_work("aten::mul", dims, [FLOAT, "Scalar"], strides, ["", ""])
    assert (told_of.moved_bytes, told_of.confidence) == (128 + 256, "exact")
    assert lost.confidence == "estimate"


@pytest.mark.parametrize(
    "arguments",
    [
        ("aten::native_batch_norm", ([4, 8, 5], FLOAT), *[([8], FLOAT)] * 4, "True", "0.1", "1e-5"),
        ("aten::cudnn_batch_norm", ([4, 8, 5], FLOAT), *[([8], FLOAT)] * 4, "True", "0.1", "1e-5"),
        ("aten::native_batch_norm_backward", *[([4, 8, 5], FLOAT)] * 2, *[([8], FLOAT)] * 5, "True", "1e-5",
         "[True, True, True]"),
        ("aten::native_group_norm_backward", *[([4, 8, 5], FLOAT)] * 2, *[([4, 2], FLOAT)] * 2, ([8], FLOAT), "4", "8",
         "5", "2", "[True, True, True]"),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_norm_is_that_of_training_where_no_scalars_are_recorded(arguments: tuple[Any, ...]) -> None:
    whole, without = told(*arguments), told(*arguments, scalars=False)
    assert whole.moved_bytes == without.moved_bytes is not None
    assert (whole.confidence, without.confidence) == ("exact", "estimate")


def test_groups_of_a_norm_are_not_known_where_no_scalars_are_recorded() -> None:
    arguments = ("aten::native_group_norm", ([4, 8, 5], FLOAT), ([8], FLOAT), ([8], FLOAT), "4", "8", "5", "2", "1e-5")
    whole, without = told(*arguments), told(*arguments, scalars=False)
    assert whole.moved_bytes == 4 * (2 * 160 + 2 * 8 + 2 * 8)
    assert (without.moved_bytes, without.confidence) == (4 * (2 * 160 + 2 * 8), "estimate")
