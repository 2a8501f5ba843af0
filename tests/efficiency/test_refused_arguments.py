"""Arguments that PyTorch refuses, as its own shape functions do on the device ``meta``, give no figure."""

from __future__ import annotations

from typing import Any

import pytest

import holotrace

FLOAT, LONG = "float", "long int"


def told(name: str, *arguments: Any) -> holotrace.OperatorWork:
    """Lists are dims of floats, tuples dims and type, others texts."""
    tensors = [(one, FLOAT) if isinstance(one, list) else one if isinstance(one, tuple) else None for one in arguments]
    dims = [one[0] if one else [] for one in tensors]
    types = [
        one[1] if one else "" if not text else "ScalarList" if text.startswith("[") else "Scalar"
        for one, text in zip(tensors, arguments, strict=True)
    ]
    texts = ["" if one else text for one, text in zip(tensors, arguments, strict=True)]
    return holotrace.operator_work(f"aten::{name}", dims, types, None, texts)


POOLED = ("[2, 2]", "[2, 2]", "[0, 0]")
# What is taken, and the same with a damaged dim.
CALLS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "mm": (([4, 2], [2, 3]), ([5, 4, 2], [5, 2, 3])),
    "bmm": (([5, 4, 2], [5, 2, 3]), ([4, 2], [2, 3])),
    "_int_mm": ((([32, 64], "signed char"), ([64, 96], "signed char")),
                (([3, 32, 64], "signed char"), ([3, 64, 96], "signed char"))),
    "reflection_pad1d": (([2, 4, 8], "[1, 1]"), ([1, 2], "[32, 32]")),
    "replication_pad2d": (([4, 8, 8], "[1, 1, 1, 1]"), ([8, 8], "[1, 1, 1, 1]")),
    "reflection_pad2d_backward": (([2, 4, 10, 10], [2, 4, 8, 8], "[1, 1, 1, 1]"),
                                  ([2, 4, 10, 9], [2, 4, 8, 8], "[1, 1, 1, 1]")),
    "pixel_shuffle": (([2, 8, 4, 4], "2"), ([2, 7, 4, 4], "2")),
    "pixel_unshuffle": (([2, 2, 8, 8], "2"), ([2, 2, 8, 7], "2")),
    "channel_shuffle": (([2, 8, 4, 4], "2"), ([2, 7, 4, 4], "2")),
    "tril": (([8, 8], "0"), ([8], "0")),
    "split_with_sizes_copy": (([32, 64], "[16, 16]", "0"), ([64, 64], "[16, 16]", "0")),
    "unfold_backward": (([4, 8, 2], "[4, 16]", "1", "2", "2"), ([4, 8], "[4, 16]", "1", "2", "2")),
    "col2im": (([2, 12, 25], "[6, 6]", "[2, 2]", "[1, 1]", "[0, 0]", "[1, 1]"),
               ([2, 12, 50], "[6, 6]", "[2, 2]", "[1, 1]", "[0, 0]", "[1, 1]")),
    "avg_pool2d_backward": (([2, 4, 4, 4], [2, 4, 9, 9], *POOLED, "False", "True", ""),
                            ([2, 4, 3, 4], [2, 4, 9, 9], *POOLED, "False", "True", "")),
    "max_pool2d_with_indices_backward": (
        ([2, 4, 4, 4], [2, 4, 8, 8], *POOLED, "[1, 1]", "False", ([2, 4, 4, 4], LONG)),
        ([2, 4, 4, 4], [2, 4, 8, 14], *POOLED, "[1, 1]", "False", ([2, 4, 4, 4], LONG))),
    "grid_sampler_2d": (([2, 3, 6, 6], [2, 4, 4, 2], "0", "0", "False"),
                        ([2, 3, 6, 6], [4, 4, 4, 2], "0", "0", "False")),
    "binary_cross_entropy_backward": (([], [8, 10], [8, 10], "", "1"), ([], [8, 10], [8, 11], "", "1")),
    "binary_cross_entropy_with_logits": (([8, 10], [8, 10], [10], [10], "1"), ([8, 10], [8, 10], [10, 1], [10], "1")),
    "nll_loss_backward": (([], [8, 10], ([8], LONG), "", "1", "-100", []),
                          ([], [8, 10], ([8], LONG), "", "1", "-100", [2])),
    "multi_margin_loss": (([8, 10], ([8], LONG), "1", "1.", "", "1"), ([8, 10], ([5], LONG), "1", "1.", "", "1")),
    "multilabel_margin_loss_forward": (([8, 10], ([8, 10], LONG), "1"), ([8, 10], ([5, 10], LONG), "1")),
    "_prelu_kernel_backward": (([4, 8, 6], [4, 8, 6], [1, 8, 1]), ([4, 8, 6], [4, 7, 6], [1, 8, 1])),
    "_thnn_fused_lstm_cell": (([8, 256], [8, 256], [8, 64], [256], [256]), ([8, 256], [8, 256], [8, 64], [512], [256])),
    "_thnn_fused_gru_cell": (([8, 192], [8, 192], [8, 64], [192], [192]), ([8, 192], [8, 192], [8, 64], [192], [2])),
    "_amp_update_scale_": (([1], ([1], "int"), [1], "2.", "0.5", "2000"),
                           ([2], ([1], "int"), [1], "2.", "0.5", "2000")),
    "_weight_norm_interface": (([32, 64], [32, 1], "0"), ([32, 64], [3, 1], "0")),
    "native_group_norm": (([4, 8, 6, 6], [8], [8], "4", "8", "36", "4", "1e-05"),
                          ([1, 4, 8, 6, 6], [8], [8], "4", "8", "36", "4", "1e-05")),
    "scatter": (([4, 8], "-1", ([4, 3], LONG), [4, 3]), ([4, 8], "-1", ([4, 3], LONG), [12])),
    "multinomial": (([4, 64], "2", "True", ""), ([1, 4, 64], "2", "True", "")),
    "_log_softmax_backward_data": (([8, 10], [8, 10], "1", "6"), ([10], [10], "1", "6")),
    "_local_scalar_dense": (([1],), ([2],)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_dims_that_do_not_fit_each_other_give_no_figure(name: str) -> None:
    taken, refused = CALLS[name]
    assert told(name, *taken).moved_bytes is not None
    work = told(name, *refused)
    assert (work.flops, work.moved_bytes, work.confidence) == (None, None, None)
    assert work.reason


def test_powers_of_a_number_have_the_list_behind_it() -> None:
    work = holotrace.operator_work(
        "aten::_foreach_pow", [[], [[64, 32], [64]]], ["Scalar", "TensorList"], None, ["2.", ""]
    )
    assert (work.flops, work.moved_bytes, work.confidence) == (2112, 2 * 4 * 2112, "estimate")
