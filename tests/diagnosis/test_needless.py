"""Gradients of slices of the whole size, and layouts that are turned."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from holotrace.core.tables import CPU_OPS
from holotrace.core.trace import RankTrace
from holotrace.diagnosis.rank import inefficient
from holotrace.diagnosis.words.classes import CHANNELS_FIRST, SLICE_GRADIENTS
from shaped import BF16, Given, shaped

# 64 experts of 128 MB in 16 bits together, which the memory of an H100 writes in 40 us.
WHOLE, ONE = [64, 1024, 1024], [1024, 1024]
NODE: Given = ("autograd::engine::evaluate_function: SelectBackward0", None, None, None)
FILL: Given = ("aten::fill_", [WHOLE, []], [BF16, "Scalar"], ["", "0"])
ADD: Given = ("aten::add_", [WHOLE, WHOLE, []], [BF16, BF16, "Scalar"], ["", "", "1"])


def told(rank: RankTrace) -> list[tuple[str, str, int]]:
    return list(inefficient.calls(rank).select("cause", "name", "time_ns").sort("time_ns").iter_rows())


def nodes(count: int, node: Given = NODE) -> RankTrace:
    """So many nodes of the backward pass fill a gradient; all but the first add it to the others."""
    first, other = ("NNNNNNNN.", "FFF......", ".F......."), ("NNNNNNNN.", "FFF.AAA..", ".F...A...")
    lines = [first] + [other] * (count - 1)
    outer, inner, host = ("".join(parts) for parts in zip(*lines, strict=True))
    kernels = "F" * 50 + ("F" * 50 + "A" * 150) * (count - 1)
    # Letters that follow each other are one kernel: the first two are told apart by a pause.
    kernels = kernels.replace("F" * 100, "F" * 50 + "." + "F" * 50)
    text = f"op |{outer}|\nop |{inner}|\nhost |{host}|\ncompute |....{kernels}|"
    return shaped(text, {"N": node, "F": FILL, "A": ADD})


def test_gradients_of_slices_cost_what_is_written_beyond_each_gradient_once() -> None:
    found = told(nodes(4))
    assert {(cause, name) for cause, name, _ in found} == {(SLICE_GRADIENTS, "SelectBackward0")}
    assert sum(time for *_, time in found) == pytest.approx(4 * 50_000 + 3 * 150_000 - 50_000, abs=8)


def test_the_gradient_of_a_single_slice_has_to_be_written() -> None:
    assert told(nodes(1)) == []


def test_fills_and_additions_of_other_nodes_are_no_slices() -> None:
    assert told(nodes(4, ("autograd::engine::evaluate_function: MulBackward0", None, None, None))) == []


IMAGES, WEIGHTS = [64, 64, 128, 128], [64, 64, 3, 3]
CONVOLUTION: Given = (
    "aten::cudnn_convolution",
    [IMAGES, WEIGHTS, [], [], [], [], [], [], []],
    [BF16, BF16, *["ScalarList"] * 3, *["Scalar"] * 4],
    ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "True"],
)
NORM: Given = (
    "aten::native_batch_norm",
    [IMAGES, *[[64]] * 4, [], [], []],
    [BF16, *["float"] * 4, *["Scalar"] * 3],
    ["", "", "", "", "", "True", "0.1", "1e-05"],
)
TURNING = {
    "T": "void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16>",
    "C": "sm90_xmma_fprop_implicit_gemm",
}


def convolution(norm_us: int, kernels: dict[str, str]) -> RankTrace:
    text = f"""
        op      |CCCCC.NNN.|
        host    |.T.C...N..|
        compute |......{"T" * 60}{"C" * 100}{"N" * norm_us}|
    """
    return shaped(text, {"C": CONVOLUTION, "N": NORM}, kernels)


def test_turning_layouts_costs_the_kernels_that_do_it_and_batch_norms_that_are_slow_for_the_layout() -> None:
    least_us = 2 * 2 * 64 * 64 * 128 * 128 / 3_350_000
    found = told(convolution(1_000, {**TURNING, "N": "batch_norm_collect_statistics_kernel"}))
    assert {cause for cause, *_ in found} == {CHANNELS_FIRST}
    assert [time for *_, time in found] == pytest.approx([60_000, 1e6 - 1e3 * least_us / 0.35], rel=1e-3)
    near = told(convolution(300, TURNING))
    assert [time for *_, time in near] == [60_000]


def test_batch_norms_with_channels_last_are_not_slow_for_their_layout() -> None:
    drawn = convolution(1_000, TURNING)
    strides = "[[1048576, 1, 8192, 64], [1], [1], [1], [1], [], [], []]"
    is_norm = pl.col("name").cast(pl.String) == "aten::native_batch_norm"
    column = pl.when(is_norm).then(pl.lit(strides)).otherwise(pl.col("input_strides").cast(pl.String))
    ops = drawn.tables[CPU_OPS.name].with_columns(input_strides=column.cast(pl.Categorical()))
    found = told(replace(drawn, tables={**drawn.tables, CPU_OPS.name: ops}))
    assert [time for *_, time in found] == [60_000]


def test_where_no_layout_is_turned_batch_norms_are_not_held_against_another() -> None:
    assert told(convolution(1_000, {"T": "sm90_xmma_fprop", "C": "sm90_xmma_fprop"})) == []


def test_where_there_are_group_norms_channels_first_may_be_the_faster_layout() -> None:
    """On an H100 convolutions with group norms took 7.4 ms with channels first, and 9.1 ms with channels last."""
    text = """
        op      |CCCCC.NNN.|
        host    |.T.C...N..|
        compute |......TCN.|
    """.replace("TCN", "T" * 60 + "C" * 100 + "N" * 90)
    group_norm: Given = ("aten::native_group_norm", *NORM[1:])
    assert told(shaped(text, {"C": CONVOLUTION, "N": group_norm}, TURNING)) == []
