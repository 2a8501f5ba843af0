"""Families of operators against counts by hand: other shapes, types, strides and orders of arguments than usual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import holotrace

BF, HALF, FLOAT, DOUBLE, LONG, INT = "c10::BFloat16", "c10::Half", "float", "double", "long int", "int"
BOOL, BYTE, INT8, COMPLEX = "bool", "unsigned char", "signed char", "c10::complex<float>"
E4M3, E8M0, FP4 = "c10::Float8_e4m3fn", "c10::Float8_e8m0fnu", "c10::Float4_e2m1fn_x2"
ANY = -1  # a figure that is not looked at


@dataclass(frozen=True)
class T:
    """A tensor: dense unless strides are given."""

    dims: list[int]
    type: str
    strides: list[int] | None = None


@dataclass(frozen=True)
class Many:
    """A list of tensors, of which a trace has the dims."""

    dims: list[list[int]]


def dense(dims: list[int]) -> list[int]:
    strides = [1] * len(dims)
    for at in range(len(dims) - 2, -1, -1):
        strides[at] = strides[at + 1] * max(dims[at + 1], 1)
    return strides


def told(name: str, *arguments: T | Many | str) -> holotrace.OperatorWork:
    """Tensors, lists of them, and other arguments as text: empty if not given."""
    dims: list[Any] = []
    strides: list[Any] = []
    types, texts = [], []
    for one in arguments:
        text = one if isinstance(one, str) else ""
        dims.append([] if isinstance(one, str) else one.dims)
        of_list = [dense(shape) for shape in one.dims] if isinstance(one, Many) else []
        strides.append((one.strides or dense(one.dims)) if isinstance(one, T) else of_list)
        types.append(one.type if isinstance(one, T) else "TensorList" if isinstance(one, Many) else kind(text))
        texts.append(text)
    return holotrace.operator_work(name, dims, types, strides, texts)


def kind(text: str) -> str:
    return "" if not text else "ScalarList" if text.startswith("[") else "Scalar"


def triangle(size: int) -> int:
    return size * (size + 1) // 2


def convolution(*tensors: T | str, stride: str, padding: str, groups: str = "1") -> tuple[Any, ...]:
    """Input, weights and bias."""
    return ("aten::convolution", *tensors, stride, padding, "[1, 1]", "False", "[0, 0]", groups)


def gradients(*tensors: T, stride: str, padding: str, mask: str, groups: str = "1") -> tuple[Any, ...]:
    """Gradient, input and weights."""
    how = (stride, padding, "[1, 1]", "False", "[0, 0]", groups)
    return ("aten::convolution_backward", *tensors, "[0]", *how, mask)


def flash(q: T, k: T, causal: str) -> tuple[Any, ...]:
    return ("aten::_scaled_dot_product_flash_attention", q, k, k, "0.", causal, "False", "")


ONCE = "[1, 1]"
LEFT, RIGHT, SCALE = T([128, 512], E4M3), T([512, 256], E4M3, [1, 512]), T([], FLOAT)
NARROW = 128 * 512 + 512 * 256
GROUPS = T([8], INT)
Q, KV = T([4, 16, 1024, 64], BF), T([4, 4, 1024, 64], BF)
OF_Q, OF_KV, PAIRS = 2 * 4 * 16 * 1024 * 64, 2 * 4 * 4 * 1024 * 64, 1024 * 1024
BIAS = T([4, 16, 1024, 1024], BF)
IMAGE, CHANNELS = T([8, 32, 32, 32], FLOAT), T([64, 32, 3, 3], FLOAT)
GRAD = T([8, 64, 16, 16], FLOAT)
X, ROWS = T([4, 8], FLOAT), T([8, 512, 1024], BF)
HUNDRED = Many([[100]])

PRODUCTS: list[tuple[tuple[Any, ...], int | None, int | None]] = [
    (("aten::mm", T([1023, 1000], HALF), T([1000, 777], HALF)), 2 * 1023 * 1000 * 777,
     2 * (1023 * 1000 + 1000 * 777 + 1023 * 777)),
    (("aten::mm", T([64, 64], COMPLEX), T([64, 64], COMPLEX)), 2 * 64**3, 8 * 3 * 64 * 64),
    (("aten::mm.dtype", T([8, 16], BF), T([16, 8], BF), "6"), 2 * 8 * 8 * 16, 2 * 256 + 4 * 64),
    (("aten::addmm", T([512], BF), T([4096, 768], BF), T([768, 512], BF, [1, 768]), "1", "1"), 2 * 4096 * 768 * 512,
     2 * (512 + 4096 * 768 + 768 * 512 + 4096 * 512)),
    (("aten::addmm", T([4096, 512], FLOAT, [0, 1]), T([4096, 768], FLOAT), T([768, 512], FLOAT), "1", "1"),
     2 * 4096 * 768 * 512, 4 * (512 + 4096 * 768 + 768 * 512 + 4096 * 512)),
    (("aten::addmm", T([8, 8], FLOAT), T([8, 16], BF), T([16, 8], BF), "6", "1", "1"), 2 * 8 * 8 * 16,
     4 * 64 + 2 * 256 + 4 * 64),
    (("aten::baddbmm", T([4, 8, 8], FLOAT), T([4, 8, 16], BF), T([4, 16, 8], BF), "6", "0", "1"), 2 * 4 * 8 * 8 * 16,
     2 * 1024 + 4 * 256),
    (("aten::baddbmm", T([16, 128, 128], HALF), T([16, 128, 64], HALF), T([16, 64, 128], HALF), "0", "0.125"),
     2 * 16 * 128 * 128 * 64, 2 * (16 * 128 * 128 + 2 * 16 * 128 * 64)),
    (("aten::baddbmm", T([16, 1, 128], HALF), T([16, 128, 64], HALF), T([16, 64, 128], HALF), "1", "1"),
     2 * 16 * 128 * 128 * 64, 2 * (16 * 128 + 16 * 128 * 128 + 2 * 16 * 128 * 64)),
    (("aten::addbmm", T([128, 96], FLOAT), T([16, 128, 64], FLOAT), T([16, 64, 96], FLOAT), "1", "1"),
     2 * 16 * 128 * 96 * 64, 4 * (2 * 128 * 96 + 16 * 128 * 64 + 16 * 64 * 96)),
    (("aten::_addmm_activation", T([32], HALF), T([64, 16], HALF), T([16, 32], HALF), "1", "1", "True"),
     2 * 64 * 32 * 16, 2 * (32 + 64 * 32 + 64 * 16 + 16 * 32)),
    (("aten::bmm", T([16, 1, 64], BF, [0, 0, 1]), T([16, 64, 4], BF)), 2 * 16 * 64 * 4, 2 * (64 + 16 * 256 + 64)),
    (("aten::matmul", T([8, 1024, 768], BF), T([768, 3072], BF, [1, 768])), 2 * 8 * 1024 * 768 * 3072,
     2 * (8 * 1024 * 768 + 768 * 3072 + 8 * 1024 * 3072)),
    (("aten::matmul", T([8, 32, 64], FLOAT), T([64], FLOAT)), 2 * 8 * 32 * 64, 4 * (8 * 32 * 64 + 64 + 256)),
    (("aten::mv", T([1000, 500], FLOAT), T([500], FLOAT)), 2 * 500000, 4 * (500000 + 500 + 1000)),
    # Scales of rows and columns, of blocks, of 32 and of 16 elements; a bias; the older order.
    (("aten::_scaled_mm", LEFT, RIGHT, T([128, 1], FLOAT), T([1, 256], FLOAT), "", "", "15", "True"),
     2 * 128 * 512 * 256, NARROW + 4 * 384 + 2 * 128 * 256),
    (("aten::_scaled_mm", LEFT, RIGHT, SCALE, SCALE, T([256], FLOAT), "", "6", "False"),
     2 * 128 * 512 * 256, NARROW + 8 + 1024 + 4 * 128 * 256),
    (("aten::_scaled_mm", LEFT, RIGHT, SCALE, SCALE, "", SCALE, "24", "False"),
     2 * 128 * 512 * 256, NARROW + 12 + 128 * 256),
    (("aten::_scaled_mm", LEFT, RIGHT, T([128 * 16], E8M0), T([256 * 16], E8M0), T([256], FLOAT), "", "15", "False"),
     2 * 128 * 512 * 256, NARROW + 128 * 16 + 256 * 16 + 1024 + 2 * 128 * 256),
    (("aten::_scaled_mm", T([128, 256], FP4), T([256, 256], FP4, [1, 256]), T([128 * 32], E4M3), T([256 * 32], E4M3),
      "", "", "15", "False"), 2 * 128 * 512 * 256, NARROW // 2 + 128 * 32 + 256 * 32 + 2 * 128 * 256),
    (("aten::_scaled_mm", LEFT, RIGHT, T([256], FLOAT), "6", SCALE, SCALE, "", "False"),
     2 * 128 * 512 * 256, NARROW + 1024 + 8 + 4 * 128 * 256),
    (("aten::_weight_int8pack_mm", T([4, 4096], BF), T([11008, 4096], INT8), T([11008], BF)), 2 * 4 * 4096 * 11008,
     2 * (4 * 4096 + 11008 + 4 * 11008) + 4096 * 11008),
    (("aten::_weight_int4pack_mm_for_cpu", T([8, 2048], BF), T([4096, 1024], BYTE), "32", T([64, 4096, 2], BF)),
     2 * 8 * 2048 * 4096, 2 * 8 * 2048 + 2048 * 4096 // 2 + 2 * 64 * 4096 * 2 + 2 * 8 * 4096),
    (("aten::_grouped_mm", T([1024, 4096], BF, [1, 1024]), T([4096, 512], BF), GROUPS, "", ""),
     2 * 4096 * 1024 * 512, 2 * (4096 * 1024 + 4096 * 512 + 8 * 1024 * 512) + 32),
    (("aten::_grouped_mm", T([8, 128, 1024], BF), T([8, 1024, 512], BF), "", "", ""),
     2 * 8 * 128 * 1024 * 512, 2 * 8 * (128 * 1024 + 1024 * 512 + 128 * 512)),
    (("aten::_scaled_grouped_mm", T([4096, 1024], E4M3), T([8, 1024, 512], E4M3, [524288, 1, 1024]), T([4096], FLOAT),
      T([8, 512], FLOAT), GROUPS, "", "", "15", "True"), 2 * 4096 * 1024 * 512,
     4096 * 1024 + 8 * 1024 * 512 + 4 * (4096 + 8 * 512) + 32 + 2 * 4096 * 512),
    (("aten::_scaled_grouped_mm", T([4096, 512], FP4), T([8, 512, 512], FP4), T([4096 * 64], E4M3),
      T([8, 512 * 64], E4M3), GROUPS, "", "", "15", "True"), 2 * 4096 * 1024 * 512,
     4096 * 512 + 8 * 512 * 512 + 4096 * 64 + 8 * 512 * 64 + 32 + 2 * 4096 * 512),
    (("aten::_scaled_grouped_mm_v2", T([4096, 1024], E4M3), T([8, 1024, 512], E4M3), Many([[4096]]), "[1]", "[0]",
      Many([[8, 512]]), "[1]", "[0]", GROUPS, "", "15", "[]", "True"), 2 * 4096 * 1024 * 512,
     4096 * 1024 + 8 * 1024 * 512 + 32 + 2 * 4096 * 512),
    (("vllm::fused_experts (documented)", T([8, 4096], BF), T([64, 2816, 4096], BF), T([64, 4096, 1408], BF),
      T([8, 6], FLOAT), T([8, 6], INT)), 2 * 48 * (2816 * 4096 + 4096 * 1408),
     2 * (8 * 4096 * 2 + 48 * (2816 * 4096 + 4096 * 1408)) + 8 * 48),
]  # fmt: skip

CONVOLUTIONS: list[tuple[tuple[Any, ...], int | None, int | None]] = [
    (convolution(T([16, 256, 56, 56], HALF), T([256, 1, 3, 3], HALF), "", stride=ONCE, padding=ONCE, groups="256"),
     2 * 16 * 256 * 3136 * 9, 2 * (2 * 16 * 256 * 3136 + 256 * 9)),
    (convolution(T([16, 256, 56, 56], HALF, [802816, 1, 14336, 256]), T([512, 256, 1, 1], HALF), "", stride="[2, 2]",
                 padding="[0, 0]"), 2 * 16 * 512 * 784 * 256, 2 * (16 * 256 * 3136 + 512 * 256 + 16 * 512 * 784)),
    (("aten::convolution", T([2, 4, 16, 32, 32], BF), T([8, 4, 3, 3, 3], BF), T([8], BF), "[1, 2, 2]", "[1, 1, 1]",
      "[1, 1, 1]", "False", "[0, 0, 0]", "1"), 2 * 2 * 8 * 16 * 256 * 4 * 27,
     2 * (2 * 4 * 16 * 1024 + 8 * 108 + 8 + 2 * 8 * 16 * 256)),
    (("aten::convolution", T([4, 64, 100], FLOAT), T([64, 32, 5], FLOAT), T([32], FLOAT), "[3]", "[1]", "[1]", "True",
      "[2]", "1"), 2 * 4 * 64 * 100 * 32 * 5, 4 * (4 * 64 * 100 + 64 * 160 + 32 + 4 * 32 * 302)),
    (("aten::convolution", T([2, 16, 8, 8, 8], FLOAT), T([16, 8, 2, 2, 2], FLOAT), "", "[2, 2, 2]", "[0, 0, 0]",
      "[1, 1, 1]", "True", "[0, 0, 0]", "1"), 2 * 2 * 16 * 512 * 8 * 8, 4 * (2 * 16 * 512 + 16 * 64 + 2 * 8 * 4096)),
    (("aten::conv2d", T([8, 64, 28, 28], FLOAT), T([64, 64, 3, 3], FLOAT), "", ONCE, "same", "[2, 2]", "1"),
     2 * 8 * 64 * 784 * 576, 4 * (2 * 8 * 64 * 784 + 64 * 576)),
    (gradients(GRAD, IMAGE, CHANNELS, stride="[2, 2]", padding=ONCE, mask="[True, True, True]"),
     2 * 2 * 8 * 64 * 256 * 288, 4 * (8 * 64 * 256 + 2 * 64 * 288 + 2 * 8 * 32 * 1024 + 64)),
    (gradients(GRAD, IMAGE, CHANNELS, stride="[2, 2]", padding=ONCE, mask="[True, False, False]"),
     2 * 8 * 64 * 256 * 288, 4 * (8 * 64 * 256 + 64 * 288 + 8 * 32 * 1024)),
    (gradients(*[T([4, 96, 14, 14], BF)] * 2, T([96, 1, 7, 7], BF), stride=ONCE, padding="[3, 3]", groups="96",
               mask="[True, True, True]"), 2 * 2 * 4 * 96 * 196 * 49, 2 * (3 * 4 * 96 * 196 + 2 * 96 * 49 + 96)),
    (("aten::convolution_backward", T([4, 96, 28, 28], FLOAT, [0, 0, 0, 0]), T([4, 192, 14, 14], FLOAT),
      T([192, 96, 2, 2], FLOAT), "[96]", "[2, 2]", "[0, 0]", ONCE, "True", "[0, 0]", "1", "[False, False, True]"),
     0, 4 + 4 * 96),
    (("aten::_conv_depthwise2d", T([4, 96, 28, 28], FLOAT), T([96, 1, 3, 3], FLOAT), "[3, 3]", "", ONCE, ONCE, ONCE),
     2 * 4 * 96 * 784 * 9, 4 * (2 * 4 * 96 * 784 + 96 * 9)),
]  # fmt: skip

ATTENTION: list[tuple[tuple[Any, ...], int | None, int | None]] = [
    (flash(Q, KV, "True"), 64 * triangle(1024) * 256, 2 * OF_Q + 2 * OF_KV),
    (flash(T([2, 8, 512, 128], BF), T([2, 8, 2048, 128], BF), "True"), 16 * triangle(512) * 512,
     2 * 16 * 128 * 2 * (512 + 2048)),
    (flash(T([2, 8, 2048, 128], BF), T([2, 8, 512, 128], BF), "True"), 16 * (triangle(512) + 1536 * 512) * 512,
     2 * 16 * 128 * 2 * (512 + 2048)),
    (("aten::_scaled_dot_product_flash_attention", *[T([4, 16, 1024, 64], E4M3)] * 3, *[T([4, 16], FLOAT)] * 3, "0.",
      "True", "False", ""), 64 * triangle(1024) * 256, 3 * OF_Q // 2 + OF_Q),
    (("aten::_scaled_dot_product_efficient_attention", T([2, 4, 100, 64], HALF), *[T([2, 4, 200, 64], HALF)] * 2,
      T([2, 1, 1, 200], HALF, [200, 0, 0, 1]), "False", "0.1", "False", "0.125"), 8 * 20000 * 256,
     2 * (2 * 8 * 100 * 64 + 2 * 8 * 200 * 64 + 400)),
    (("aten::_scaled_dot_product_cudnn_attention", T([2, 4, 100, 64], HALF), T([2, 4, 100, 64], HALF),
      T([2, 4, 100, 128], HALF), "", "True", "0.", "True", "False", ""), 8 * triangle(100) * 2 * 192,
     2 * 8 * 100 * (64 + 64 + 128 + 128)),
    (("aten::_scaled_dot_product_flash_attention_backward", Q, Q, KV, KV, Q, T([4, 16, 1024], FLOAT), "", "", "1024",
      "1024", "0.", "False", T([], LONG), T([], LONG), ""), 64 * PAIRS * 640, 4 * OF_Q + 4 * OF_KV),
    (("aten::_scaled_dot_product_efficient_attention_backward", Q, Q, Q, Q, BIAS, Q, T([4, 16, 1024], FLOAT),
      T([], LONG), T([], LONG), "0.", "[True, True, True, False]", "False", ""), 64 * PAIRS * 640,
     8 * OF_Q + 2 * 64 * PAIRS),
    (("aten::_scaled_dot_product_efficient_attention_backward", Q, Q, Q, Q, BIAS, Q, T([4, 16, 1024], FLOAT),
      T([], LONG), T([], LONG), "0.", "[True, True, True, True]", "False", ""), 64 * PAIRS * 640,
     8 * OF_Q + 2 * 2 * 64 * PAIRS),
    (("aten::_scaled_dot_product_cudnn_attention_backward", Q, Q, Q, Q, Q, T([4, 16, 1024, 1], FLOAT), T([], LONG),
      T([], LONG), "", "", "", "1024", "1024", "0.", "True", ""), 64 * triangle(1024) * 640, 8 * OF_Q),
    (("aten::_flash_attention_forward_no_dropout_inplace", *[T([2, 64, 4, 16], BF)] * 4, "", "", "64", "64", "0.",
      "True", "False", "", "", "", "", "", "", ""), 8 * triangle(64) * 64, 4 * 2 * 2 * 64 * 64),
    (("flash_attn::_flash_attn_forward", T([2, 128, 32, 128], BF), *[T([2, 2048, 8, 128], BF)] * 2, "0.", "0.088",
      "True", "-1", "-1", "0.", "", "False"), 64 * (128 * 2048 - 128 * 127 // 2) * 512,
     2 * (2 * 2 * 128 * 32 * 128 + 2 * 2 * 2048 * 8 * 128)),
    (("flash_attn::_flash_attn_forward", T([1, 4096, 32, 128], BF), *[T([1, 4096, 8, 128], BF)] * 2, "0.", "0.088",
      "True", "1023", "0", "0.", "", "False"), 32 * (triangle(1024) + 3072 * 1024) * 512,
     2 * (2 * 4096 * 32 * 128 + 2 * 4096 * 8 * 128)),
]  # fmt: skip

OTHERS: list[tuple[tuple[Any, ...], int | None, int | None]] = [
    (("aten::native_layer_norm", T([8, 512, 16, 64], BF), "[16, 64]", T([16, 64], BF), "", "1e-5"), ANY,
     2 * (2 * 8 * 512 * 1024 + 1024) + 8 * 8 * 512),
    (("aten::native_layer_norm_backward", ROWS, ROWS, "[1024]", *[T([8, 512, 1], FLOAT)] * 2, "", "",
      "[True, False, False]"), ANY, 2 * 3 * 8 * 512 * 1024 + 4 * 2 * 4096),
    (("aten::native_batch_norm", T([64, 256, 28, 28], HALF), *[T([256], FLOAT)] * 4, "True", "0.1", "1e-05"), ANY,
     2 * 2 * 64 * 256 * 784 + 4 * 256 * (2 + 2 * 2 + 2)),
    (("aten::_native_batch_norm_legit", T([32, 64, 56], FLOAT), *[T([64], FLOAT)] * 2, "True", "0.1", "1e-5"), ANY,
     4 * (2 * 32 * 64 * 56 + 2 * 64 + 2 * 64)),
    (("aten::_native_batch_norm_legit_no_training", T([32, 64, 56], FLOAT), *[T([64], FLOAT)] * 4, "0.1", "1e-5"), ANY,
     4 * (2 * 32 * 64 * 56 + 4 * 64)),
    (("aten::native_batch_norm_backward", *[T([32, 64, 56, 56], FLOAT)] * 2, *[T([64], FLOAT)] * 3, "", "", "False",
      "1e-5", "[True, True, True]"), ANY, 4 * (3 * 32 * 64 * 3136 + 3 * 64 + 2 * 64)),
    (("aten::_log_softmax", T([8192, 50257], BF), "1", "True"), ANY, 6 * 8192 * 50257),
    (("aten::_log_softmax_backward_data", *[T([8192, 50257], FLOAT)] * 2, "1", "15"), ANY, 10 * 8192 * 50257),
    (("aten::embedding", T([512, 768], FLOAT), T([8, 512], LONG, [0, 1]), "-1", "False", "False"), 0,
     8 * 512 + 4 * 512 * 768 + 4 * 8 * 512 * 768),
    (("aten::index", T([1000, 64], FLOAT), Many([[200], [200]])), 0, 2 * 8 * 200 + 2 * 4 * 200),
    (("aten::index", T([8, 1000, 64], FLOAT), Many([[], [200]])), 0, 8 * 200 + 2 * 4 * 8 * 200 * 64),
    (("aten::index_put_", T([1000, 64], FLOAT), Many([[200]]), T([200, 64], FLOAT), "False"), 0,
     8 * 200 + 2 * 4 * 200 * 64),
    (("aten::index_put_", T([1000, 64], FLOAT), Many([[200]]), T([], FLOAT), "False"), 0, 8 * 200 + 4 * 200 * 64 + 4),
    (("aten::index_put_", T([1000, 64], FLOAT), Many([[200]]), T([200, 64], FLOAT), "True"), 200 * 64,
     8 * 200 + 3 * 4 * 200 * 64),
    (("aten::scatter_add_", T([64, 1000], FLOAT), "1", T([64, 10], LONG), T([64, 10], FLOAT)), 640, 8 * 640 + 12 * 640),
    (("aten::add", T([8192, 1], FLOAT), T([1, 4096], FLOAT), "1"), 8192 * 4096, 4 * (8192 + 4096 + 8192 * 4096)),
    (("aten::mul", T([4, 8], INT8), T([4, 8], BYTE)), 32, 32 + 32 + 64),
    (("aten::add", T([4, 8], HALF), T([4, 8], BF), "1"), 32, 64 + 64 + 128),
    (("aten::add", T([4, 8], "__int64"), T([4, 8], INT), "1"), 32, 256 + 128 + 256),
    (("aten::_to_copy", T([100], "short unsigned int"), "3", "", "", "", "False", ""), 0, 200 + 400),
    (("aten::where", T([64, 64], BOOL), T([64, 64], HALF), T([64, 1], HALF)), 4096, 4096 + 8192 + 128 + 8192),
    (("aten::masked_fill", T([8, 12, 64, 64], HALF), T([8, 1, 1, 64], BOOL), "-inf"), 0, 2 * 2 * 96 * 4096 + 512),
    (("aten::copy_", T([8, 16, 64, 64], BF), T([8, 16, 64, 64], BF, [65536, 0, 64, 1]), "False"), 0,
     2 * 128 * 4096 + 2 * 8 * 4096),
    (("aten::copy_", T([100, 50], FLOAT), T([50], FLOAT), "True"), 0, 4 * 5050),
    (("aten::sum", T([4096, 304], BF), "[0]", "False", "6"), 4096 * 304, 2 * 4096 * 304 + 4 * 304),
    (("aten::sum", T([4, 8], HALF, [0, 1]), "[0]", "False", ""), 32, 16 + 16),
    (("aten::norm", T([4, 8], HALF), "2", "[1]", "True", "6"), 64, 64 + 16),
    (("aten::norm", T([4, 8], HALF), "2", "6"), 64, 64 + 4),
    (("aten::frobenius_norm", T([4, 8], FLOAT), "[1]", "True"), 64, 128 + 16),
    (("aten::special_logsumexp", X, "[1]", "False"), 32, 128 + 16),
    (("aten::binomial", X, X, ""), 0, 3 * 128),
    (("aten::_foreach_powsum", Many([[100], [10]]), "2", ""), 220, 440 + 8),
    (("aten::_foreach_clone", HUNDRED, ""), 0, 800),
    (("aten::min", X, T([1, 8], FLOAT)), 32, 128 + 32 + 128),
    (("aten::cumsum", T([100, 10], BOOL), "1", ""), 1000, 9000),
    (("aten::_foreach_addcdiv_", HUNDRED, HUNDRED, HUNDRED, "[-0.1]"), 200, 1600),
    (("aten::_foreach_norm", Many([[100], [10]]), "2", ""), 220, 440 + 8),
    (("aten::_fused_adamw_", *[HUNDRED] * 5, Many([[]]), "0.1", "0.9", "0.99", "0.01", "1e-8", "True", "False", "", ""),
     1200, 900 * 4),
    (("aten::_fused_adam_.tensor_lr", *[HUNDRED] * 4, Many([]), Many([[]]), T([], FLOAT), "0.9", "0.99", "0.01", "1e-8",
      "False", "False", "", ""), 1200, 700 * 4),
    (("aten::max_pool2d_with_indices", T([1, 8, 13, 13], FLOAT), "[2]", "[2]", "[0]", "[1]", "True"), None,
     4 * 8 * 169 + 12 * 8 * 49),
    (("aten::nll_loss2d_forward", T([8, 21, 64, 64], FLOAT), T([8, 64, 64], LONG), "", "1", "255"), ANY,
     8 * 8 * 4096 + 4 * 8 * 4096 + 8),
    (("aten::_fft_r2c", T([2, 3, 64, 64], FLOAT), "[2, 3]", "0", "True"), ANY, 4 * 6 * 4096 + 8 * 6 * 64 * 33),
    (("aten::upsample_nearest2d", T([2, 64, 32, 32], HALF), "", "[2., 2.]"), None, 2 * 2 * 64 * (1024 + 4096)),
]  # fmt: skip


# In the order of the libraries' own schemas.
LONGS, STARTS = T([2, 2048, 16, 128], BF), T([3], INT)
OF_LONGS = 2 * 2 * 2048 * 16 * 128
LSE = T([2, 16, 2048], FLOAT)
TOKENS, HIDDEN = T([100, 4096], BF), 100 * 4096
NARROW_ROWS, NARROW_WEIGHT = T([16, 4096], E4M3), T([8192, 4096], E4M3)
OF_NARROW = 16 * 4096 + 8192 * 4096 + 2 * 16 * 8192
ONE = T([1], FLOAT)

LIBRARIES: list[tuple[tuple[Any, ...], int | None, int | None]] = [
    (("flash_attn_3::_flash_attn_backward", *[LONGS] * 5, LSE, *[""] * 6, *[LONGS] * 3, "0.08", "True", "-1", "-1",
      "0.", "False", "0"), 32 * triangle(2048) * 1280, 8 * OF_LONGS),
    (("flash_attn_3::bwd", *[LONGS] * 5, LSE, *[LONGS] * 3, *[""] * 6, "0.08", "True", "-1", "-1", "0.", "False", "0"),
     32 * triangle(2048) * 1280, 8 * OF_LONGS),
    (("flash_attn_3::_flash_attn_backward", *[T([4096, 16, 128], BF)] * 5, LSE, STARTS, STARTS, "", "", "2048", "2048",
      "0.08", "True", "-1", "0", "0.", "False", "0"), 32 * triangle(2048) * 1280, 8 * OF_LONGS),
    (("FlashAttnFunc", *[LONGS] * 3, "0.", "0.08", "True", "[255, 0]", "0.", "", "False", "False"),
     32 * (triangle(256) + 1792 * 256) * 512, 4 * OF_LONGS),
    (("FlashAttnFunc", *[LONGS] * 3, "0.08", "True", "", "", "", "", "[-1, -1]", "0", "0.", "1"),
     32 * triangle(2048) * 512, 4 * OF_LONGS),
    (("FlashAttnVarlenFunc", *[T([4096, 16, 128], BF)] * 3, STARTS, STARTS, "", "", "2048", "2048", "0.08", "True", ""),
     32 * triangle(2048) * 512, 4 * OF_LONGS),
    (("_vllm_fa2_C::varlen_fwd", *[T([256, 8, 64], BF)] * 4, STARTS, STARTS, "", "", "", "", "128", "128", "0.", "0.1",
      "False", "True", "-1", "-1", "0.", "False", "", "0"), 16 * triangle(128) * 256, 4 * 2 * 256 * 512),
    (("aiter::mha_varlen_fwd", *[T([256, 8, 64], BF)] * 3, STARTS, STARTS, "128", "128", "0.", "0.1", "False", "True",
      "-1", "-1", "False", "False"), 16 * triangle(128) * 256, 4 * 2 * 256 * 512),
    (("aiter::mha_varlen_fwd", *[T([256, 8, 64], BF)] * 3, STARTS, STARTS, "128", "128", "0", "0.", "0.1", "0.",
      "False", "False", "-1", "-1", "0", "True", "False"), 16 * 128 * 128 * 256, 4 * 2 * 256 * 512),
    (("sgl_kernel::bmm_fp8", T([8, 16, 512], E4M3), T([8, 512, 128], E4M3), T([8, 16, 128], BF), SCALE, SCALE,
      T([2**25], BYTE), "0", "0"), 2 * 8 * 16 * 512 * 128, 8 * 16 * 512 + 8 * 512 * 128 + 2 * 8 * 16 * 128 + 8),
    (("sgl_kernel::gptq_gemm", T([16, 4096], HALF), T([512, 4096], INT), T([32, 512], INT), T([32, 4096], HALF),
      T([4096], INT), "True", "4"), 2 * 16 * 4096 * 4096,
     2 * 16 * 4096 + 4 * 512 * 4096 + 4 * 32 * 512 + 2 * 32 * 4096 + 4 * 4096 + 2 * 16 * 4096),
    (("_C::machete_mm", T([16, 4096], HALF), T([512, 8192], INT), "4", "", T([32, 8192], HALF), "", "128", "", "", ""),
     2 * 16 * 4096 * 8192, 2 * 16 * 4096 + 4 * 512 * 8192 + 2 * 32 * 8192 + 2 * 16 * 8192),
    (("_C::allspark_w8a16_gemm", T([16, 4096], BF), T([4096, 8192], BYTE), T([1, 8192], BF), "", "8192", "-1", "132",
      "90", "1024", "False", "True"), 2 * 16 * 4096 * 8192, 2 * 16 * 4096 + 4096 * 8192 + 2 * 8192 + 2 * 16 * 8192),
    (("_C::cutlass_scaled_mm_azp", T([128, 256], BF), T([128, 512], INT8), T([512, 256], INT8, [1, 512]),
      T([128, 1], FLOAT), T([256, 1], FLOAT), T([256], INT), T([128], INT), ""), 2 * 128 * 256 * 512,
     2 * 128 * 256 + 128 * 512 + 512 * 256 + 2 * 4 * 384),
    (("vllm::w8a8_block_fp8_matmul_func", NARROW_ROWS, NARROW_WEIGHT, T([16, 32], FLOAT), T([64, 32], FLOAT),
      "[128, 128]", "15"), 2 * 16 * 4096 * 8192, OF_NARROW + 4 * (16 * 32 + 64 * 32)),
    (("vllm::fp8_gemm_nt_op", NARROW_ROWS, T([16, 32], FLOAT), NARROW_WEIGHT, T([64, 32], FLOAT), T([16, 8192], BF),
      "True"), 2 * 16 * 4096 * 8192, OF_NARROW + 4 * (16 * 32 + 64 * 32)),
    (("vllm::outplace_fused_experts", T([16, 4096], BF), T([64, 2816, 2048], BYTE), T([64, 4096, 704], BYTE),
      T([16, 6], FLOAT), T([16, 6], INT), "silu"), 2 * 96 * (2816 * 4096 + 4096 * 1408),
     2 * 2 * 16 * 4096 + 64 * (2816 * 4096 + 4096 * 1408) // 2 + 8 * 96),
    (("_C::fused_add_rms_norm_static_fp8_quant", T([100, 4096], E4M3), TOKENS, TOKENS, T([4096], BF), ONE, "1e-6"), ANY,
     HIDDEN * (1 + 2 + 4) + 2 * 4096 + 4),
    (("_C::rms_norm_dynamic_per_token_quant", T([100, 4096], E4M3), TOKENS, T([4096], BF), T([100, 1], FLOAT), "1e-6",
      "", TOKENS), ANY, HIDDEN * (1 + 2 + 4) + 2 * 4096 + 400),
    (("_C::silu_and_mul_per_block_quant", T([100, 1024], E4M3), T([100, 2048], BF), T([100, 8], FLOAT), "128", "",
      "False"), ANY, 100 * 1024 + 2 * 100 * 2048 + 4 * 800),
    (("_C::merge_attn_states", *[T([16, 32, 128], BF), T([32, 16], FLOAT)] * 3, "", ""), None,
     3 * 2 * 16 * 4096 + 3 * 4 * 512),
    (("_C_cache_ops::reshape_and_cache_flash", *[T([16, 8, 128], BF)] * 2, *[T([1000, 16, 8, 128], BYTE)] * 2,
      T([16], LONG), "fp8", ONE, ONE), 0, 2 * (2 + 1) * 16 * 1024 + 128),
    (("sgl_kernel::apply_rope_pos_ids_cos_sin_cache", *[T([100, 32, 128], BF), T([100, 8, 128], BF)] * 2,
      T([8192, 128], FLOAT), T([100], LONG), "False", "False", "0", T([100, 8, 128], BF),
      *[T([100000, 8, 128], BF)] * 2, T([100], LONG)), None,
     2 * 100 * 128 * (2 * 40 + 3 * 8) + 4 * 100 * 128 + 2 * 800),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", [*PRODUCTS, *CONVOLUTIONS, *ATTENTION, *OTHERS, *LIBRARIES], ids=lambda case: case[0][0]
)
def test_figures_are_those_by_hand(case: tuple[tuple[Any, ...], int | None, int | None]) -> None:
    arguments, flops, moved = case
    found = told(*arguments)
    assert found.reason is None
    assert flops in (found.flops, ANY)
    assert moved in (found.moved_bytes, ANY)


def test_numbers_that_may_be_a_mask_give_no_figure() -> None:
    assert told("aten::index", T([64, 64], FLOAT), Many([[64, 64]])).reason is not None
    found = told("aten::index_put_", T([64, 64], FLOAT), Many([[64, 64]]), T([], FLOAT), "False")
    assert (found.flops, found.moved_bytes) == (None, None)
    of_mask = told("aten::index_put_", T([1000, 64], FLOAT), Many([[1000]]), T([7, 64], FLOAT), "False")
    assert (of_mask.moved_bytes, of_mask.confidence) == (2 * 4 * 7 * 64, "estimate")


def test_keys_in_pages_or_of_which_some_are_in_use_are_not_all_counted() -> None:
    tensors = [T([2, 64, 4, 16], BF)] * 3
    rest = ("", "", "64", "64", "0.", "True", "False", "", "", "")
    in_use = told("aten::_flash_attention_forward", *tensors, *rest, T([2], INT), "", "", "")
    assert (in_use.flops, in_use.moved_bytes) == (None, 4 * 2 * 2 * 64 * 64)
    paged = told("aten::_flash_attention_forward", *tensors, *rest, T([2], INT), "", T([2, 8], INT), "")
    assert (paged.flops, paged.moved_bytes) == (None, None)


def test_truth_values_are_no_sizes() -> None:
    assert told("aten::sum", X, "True", "False", "").moved_bytes is None


@pytest.mark.parametrize(
    "arguments",
    [
        # Keys in use of a cache; a product within communication; a product that is no quantisation; a backward pass.
        ("flash_attn_3::fwd", T([4, 1, 16, 128], BF), *[T([4, 2048, 4, 128], BF)] * 2, *[""] * 8, T([4], INT),
         *[""] * 11, "0.08", "True", "-1", "-1", "0", "0.", "False", "", "1", "", "0"),
        ("flash_attn::_flash_attn_varlen_forward", *[T([256, 8, 64], BF)] * 3, STARTS, STARTS, "128", "128", "0.",
         "0.1", "True", "-1", "-1", "0.", "", "False", "", "", T([2], INT), "False"),
        ("symm_mem::fused_matmul_reduce_scatter", T([16, 4096], BF), T([4096, 4096], BF), "sum", "0", "group"),
        ("aiter::batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant", T([16, 8, 512], BF),
         T([16, 128, 512], E4M3), ONE, "128", "", "True"),
        ("GroupedGemmBackward", T([1024, 512], BF), T([4, 512, 512], BF)),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_what_libraries_do_not_record_gives_no_figure(arguments: tuple[Any, ...]) -> None:
    found = told(*arguments)
    assert (found.flops, found.moved_bytes) == (None, None)
    assert found.reason


def test_damaged_dims_behind_attention_give_a_reason() -> None:
    q, rest = [256, 8, 64], ["128", "128", "0.", "0.1", "False", "True", "-1", "-1", "False", "False"]
    dims: list[Any] = [q, q, q, [3], [3], None, *[[]] * 9]
    types = [BF, BF, BF, *[INT] * 3, *["Scalar"] * 9]
    found = holotrace.operator_work("aiter::mha_varlen_fwd", dims, types, None, [*[""] * 5, *rest])
    assert (found.flops, found.confidence) == (None, None)
    assert found.reason


def test_attention_over_pages_is_told_by_its_new_tokens_only() -> None:
    queries, keys, pages = T([16, 32, 128], BF), T([1000, 16, 8, 128], BF), T([2, 64], INT)
    found = told("_vllm_fa2_C::varlen_fwd", queries, keys, keys, queries, STARTS, STARTS, T([2], INT), "", pages, "",
                 "8", "1000", "0.", "0.1", "False", "True", "-1", "-1", "0.", "False", "", "0")  # fmt: skip
    assert (found.flops, found.moved_bytes, found.is_partial) == (None, 2 * 2 * 16 * 4096, True)


def test_cache_that_is_not_recorded_is_supposed_to_be_of_the_type_of_keys() -> None:
    found = told("vllm::unified_kv_cache_update", *[T([16, 8, 128], BF)] * 2, "layer")
    assert (found.moved_bytes, found.confidence) == (2 * 2 * 2 * 16 * 1024, "estimate")


@pytest.mark.parametrize(
    "arguments",
    [
        ("aten::addmm", T([3, 32], FLOAT), T([64, 16], FLOAT), T([16, 32], FLOAT), "1", "1"),
        ("aten::baddbmm", T([16, 128], FLOAT), T([16, 128, 64], FLOAT), T([16, 64, 96], FLOAT), "1", "1"),
        ("aten::addmv", T([3, 8], FLOAT), T([8, 16], FLOAT), T([16], FLOAT), "1", "1"),
        ("aten::mv", T([500], FLOAT), T([500], FLOAT)),
        ("aten::linear", T([4, 8], FLOAT), T([16, 8], FLOAT), T([15], FLOAT)),
        ("aten::_scaled_mm", T([129, 512], E4M3), RIGHT, T([128, 1], FLOAT), T([1, 256], FLOAT), "", "", "15", "True"),
        ("aten::_grouped_mm", T([4096, 1024], BF), T([9, 1024, 512], BF), GROUPS, "", ""),
        ("aten::native_layer_norm", ROWS, "[1024]", T([512], BF), "", "1e-5"),
        ("aten::native_layer_norm_backward", T([512, 1024], BF), ROWS, "[1024]", *[T([8, 512, 1], FLOAT)] * 2, "", "",
         "[True, False, False]"),
        ("aten::native_batch_norm", T([256, 28, 28], HALF), *[T([256], FLOAT)] * 4, "True", "0.1", "1e-05"),
        ("aten::native_group_norm", T([320, 64, 64], HALF), T([320], HALF), "", "8", "320", "4096", "32", "1e-05"),
        ("aten::convolution", T([3, 224, 224], BF), T([64, 3, 7, 7], BF), "", "[2, 2]", "[3, 3]", ONCE, "False",
         "[0, 0]", "1"),
        convolution(IMAGE, CHANNELS, T([32], FLOAT), stride=ONCE, padding=ONCE),
        ("aten::mse_loss", T([8], FLOAT), T([8, 64], FLOAT), "1"),
        ("aten::nll_loss_forward", T([8, 50], FLOAT), T([9], LONG), "", "1", "-100"),
        ("aten::elu_backward", T([4], FLOAT), "1", "1", "1", "False", X),
        ("aten::_softmax", T([50257], FLOAT), "1", "False"),
        ("aten::cumsum", T([10], FLOAT), "1", ""),
        ("aten::gather", T([1000], FLOAT), "0", T([64, 10], LONG), "False"),
        ("aten::index_add_", T([1000, 64], FLOAT), "0", T([199], LONG), T([200, 64], FLOAT), "1"),
        ("aten::max_pool2d_with_indices_backward", T([64, 56, 56], HALF), T([64, 64, 112, 112], HALF), "[3, 3]",
         "[2, 2]", ONCE, ONCE, "False", T([64, 64, 56, 56], LONG)),
        ("aten::glu", T([4, 7], FLOAT), "-1"),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_tensors_that_do_not_belong_to_each_other_give_no_figure(arguments: tuple[Any, ...]) -> None:
    found = told(*arguments)
    assert (found.flops, found.moved_bytes) == (None, None)
    assert found.reason


def test_activation_that_keeps_nothing_on_devices_has_a_backward_pass() -> None:
    assert told("aten::log_sigmoid_backward", X, X, T([0], FLOAT)).moved_bytes == 3 * 128


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("_C::cutlass_scaled_mm", T([128, 256], BF), T([128, 512], E4M3), T([512, 256], E4M3, [1, 512]),
          T([128, 1], FLOAT), T([256, 1], FLOAT), ""), E4M3),
        (("_C::cutlass_scaled_mm_azp", T([128, 256], BF), T([128, 512], INT8), T([512, 256], INT8, [1, 512]),
          T([128, 1], FLOAT), T([256, 1], FLOAT), T([256], INT), T([128], INT), ""), INT8),
        (("aiter::gemm_a8w8", T([16, 8192], BF), NARROW_ROWS, NARROW_WEIGHT), E4M3),
        # The rows are rounded on the way.
        (("sglang::w8a8_block_fp8_matmul", T([16, 4096], BF), NARROW_WEIGHT, T([64, 32], FLOAT)), E4M3),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else given,
)  # fmt: skip
def test_type_that_is_multiplied_is_that_of_the_operands(arguments: tuple[Any, ...], kind: str) -> None:
    """It was that of the result, where this is given first: products in fp8 were held against half of the peak."""
    assert told(*arguments).type == kind
