"""The work of operators: against counts by hand, and whatever arguments a trace may hold."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holotrace
from holotrace.efficiency import families
from holotrace.efficiency.arguments import MOST
from holotrace.efficiency.families.attention import Mask
from holotrace.efficiency.model import OperatorModel
from trace_files import REAL_TRACES

TRUTH = REAL_TRACES.parent / "opmodel"
needs_truth = pytest.mark.skipif(not TRUTH.is_dir(), reason="no counts by hand: they lie beside the real traces")
BF16, HALF, FLOAT, LONG = "c10::BFloat16", "c10::Half", "float", "long int"


def rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open() as file:
        yield from csv.DictReader(file)


def told(row: dict[str, str]) -> holotrace.OperatorWork:
    return holotrace.operator_work(row["op"], row["dims"], row["types"], row["strides"], row["concrete"])


@needs_truth
def test_agrees_with_the_counts_by_hand_of_every_case() -> None:
    wrong = []
    for row in rows(TRUTH / "cases.csv"):
        work = told(row)
        for graded, found in (("flops", work.flops), ("bytes", work.moved_bytes)):
            if graded in row["grade"] and str(found) != row[graded]:
                wrong.append((row["case"], graded, found, row[graded]))
    assert not wrong


@needs_truth
@pytest.mark.parametrize("path", sorted(TRUTH.glob("traces/*.csv")), ids=lambda path: path.stem)
def test_agrees_with_the_counts_by_hand_of_real_traces(path: Path) -> None:
    wrong = []
    for row in rows(path):
        work = told(row)
        for counted, found in (("flops", work.flops), ("bytes", work.moved_bytes)):
            if row[counted] and str(found) != row[counted]:
                wrong.append((row["op"], row["dims"], counted, found, row[counted]))
    assert not wrong


def work(name: str, *arguments: tuple[Any, str] | str, strides: list[Any] | None = None) -> holotrace.OperatorWork:
    """Of tensors, given as dims and type, and of scalars, given as text."""
    dims = [argument[0] if isinstance(argument, tuple) else [] for argument in arguments]
    types = [argument[1] if isinstance(argument, tuple) else "Scalar" for argument in arguments]
    scalars = ["" if isinstance(argument, tuple) else argument for argument in arguments]
    return holotrace.operator_work(name, dims, types, strides or [_dense(shape) for shape in dims], scalars)


def _dense(dims: Any) -> Any:
    if dims and isinstance(dims[0], list):
        return [_dense(one) for one in dims]
    strides, step = [], 1
    for size in reversed(dims):
        strides.append(step)
        step *= size
    return strides[::-1]


def figures(found: holotrace.OperatorWork) -> tuple[int | None, int | None]:
    return found.flops, found.moved_bytes


def test_what_is_added_with_factor_zero_is_not_read() -> None:
    a, b, c = ([4, 8], BF16), ([8, 2], BF16), ([4, 2], BF16)
    assert figures(work("aten::addmm", c, a, b, "0", "1")) == (128, 2 * (32 + 16 + 8))
    assert figures(work("aten::addmm", c, a, b, "1", "1")) == (128, 2 * (32 + 16 + 8 + 8))


def test_input_expanded_by_a_stride_of_zero_is_read_once() -> None:
    found = work("aten::add", ([4, 8], FLOAT), ([4, 8], FLOAT), "1", strides=[[8, 1], [0, 1], []])
    assert figures(found) == (32, 4 * (32 + 8 + 32))


def test_overlapping_windows_are_read_once() -> None:
    # 100 windows of 10 elements, one element further each: there are 109 elements.
    found = work("aten::clone", ([100, 10], FLOAT), "", strides=[[1, 1], []])
    assert figures(found) == (0, 4 * (109 + 1000))


def test_number_of_python_does_not_widen_a_tensor() -> None:
    assert figures(work("aten::mul", ([10], BF16), ([], "double"))) == (10, 2 * 20 + 8)
    assert figures(work("aten::mul", ([10], BF16), ([1], "double"))) == (10, 20 + 8 + 80)


def test_quotient_of_whole_numbers_is_a_float() -> None:
    assert figures(work("aten::div", ([10], LONG), ([10], LONG))) == (10, 80 + 80 + 40)


def test_comparison_gives_bools() -> None:
    assert figures(work("aten::lt", ([10], HALF), ([10], HALF))) == (10, 20 + 20 + 10)


def test_result_without_size_yet_is_not_an_input() -> None:
    assert figures(work("aten::abs", ([10], FLOAT), ([0], FLOAT))) == (10, 80)


def test_only_the_gradients_asked_for_are_counted() -> None:
    x, weight, grad = ([2, 3, 8, 8], FLOAT), ([4, 3, 3, 3], FLOAT), ([2, 4, 8, 8], FLOAT)
    rest = ("[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")
    once = 2 * 2 * 4 * 8 * 8 * 3 * 9
    flops = {
        mask: work("aten::convolution_backward", grad, x, weight, *rest, mask).flops
        for mask in ("[True, True, True]", "[False, True, False]", "[False, False, True]")
    }
    assert list(flops.values()) == [2 * once, once, 0]


def test_library_of_the_convolution_counts_as_the_operator_around_it() -> None:
    x, weight = ([8, 3, 32, 32], HALF), ([16, 3, 5, 5], HALF)
    outer = work("aten::convolution", x, weight, ([], ""), "[2, 2]", "[2, 2]", "[1, 1]", "False", "[0, 0]", "1")
    cudnn = work("aten::cudnn_convolution", x, weight, "[2, 2]", "[2, 2]", "[1, 1]", "1", "False", "False", "True")
    miopen = work("aten::miopen_convolution", x, weight, ([], ""), "[2, 2]", "[2, 2]", "[1, 1]", "1", "False", "False")
    assert figures(outer) == figures(cudnn) == figures(miopen) != (None, None)


def brute_force(mask: Mask, queries: int, keys: int) -> int:
    shift = keys - queries if mask.from_bottom else 0
    return sum(
        (mask.left is None or key >= query + shift - mask.left)
        and (mask.right is None or key <= query + shift + mask.right)
        for query in range(queries)
        for key in range(keys)
    )


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.none() | st.integers(0, 15),
    st.none() | st.integers(0, 15),
    st.booleans(),
)
def test_pairs_that_are_not_masked_are_those_that_one_counts(
    queries: int, keys: int, left: int | None, right: int | None, from_bottom: bool
) -> None:
    mask = Mask(left, right, from_bottom)
    assert mask.pairs(queries, keys) == brute_force(mask, queries, keys)


def test_flash_attention_masks_from_the_bottom_right_and_torch_from_the_top_left() -> None:
    q, k = ([1, 2, 1, 8], BF16), ([1, 6, 1, 8], BF16)
    theirs = work("flash_attn::_flash_attn_forward", q, k, k, "0.", "1.", "True", "-1", "-1")
    ours = work("aten::_flash_attention_forward", q, k, k, "", "", "2", "6", "0.", "True", "False", "")
    assert (theirs.flops, ours.flops) == (32 * (5 + 6), 32 * (1 + 2))


def test_lengths_of_sequences_are_unknown_unless_all_are_the_longest() -> None:
    q, starts = ([100, 2, 8], BF16), ([3], "int")
    rest = ("0.", "1.", "False", "-1", "-1")
    unequal = work("flash_attn::_flash_attn_varlen_forward", q, q, q, starts, starts, "80", "80", *rest)
    equal = work("flash_attn::_flash_attn_varlen_forward", q, q, q, starts, starts, "50", "50", *rest)
    assert figures(unequal) == (None, 4 * 3200)
    assert unequal.assumed == "the lengths of the sequences are not recorded"
    assert equal.flops == 2 * 2 * 50 * 50 * 2 * 16


def test_types_of_a_reduction_follow_what_is_asked_for() -> None:
    x = ([4, 8], HALF)
    assert work("aten::sum", x, "[1]", "False", "").moved_bytes == 64 + 8
    assert work("aten::sum", x, "[1]", "False", "6").moved_bytes == 64 + 16
    assert work("aten::sum", x, "").moved_bytes == 64 + 2
    assert work("aten::max", x, "1", "False").moved_bytes == 64 + 4 * (2 + 8)


def test_without_strides_it_is_an_estimate() -> None:
    found = holotrace.operator_work("aten::mm", [[2, 3], [3, 4]], [FLOAT, FLOAT])
    assert (found.flops, found.confidence) == (48, "estimate")
    assert found.assumed == "no input is expanded: strides are not recorded"


def test_own_model_is_asked_first() -> None:
    def custom(given: holotrace.OperatorArguments) -> holotrace.OperatorFigures:
        x = given.tensor(0)
        return holotrace.OperatorFigures(7 * x.count, 2 * x.bytes)

    model = OperatorModel("mine", "elementwise", r"mine::op|aten::mm", custom)
    for name in ("mine::op", "aten::mm"):
        found = holotrace.operator_work(name, [[5]], [FLOAT], [[1]], [""], models=[model])
        assert figures(found) == (35, 40)


BROKEN: dict[str, tuple[Any, ...]] = {
    "list that does not parse": ("aten::mm", "[[4,", '["float"]'),
    "another number of dims": ("aten::mm", [[4], [4, 4]], [FLOAT, FLOAT]),
    "depths that differ": ("aten::mm", [[4, 3], [4, 4]], [FLOAT, FLOAT]),
    "size of zero": ("aten::mm", [[0, 4], [4, 4]], [FLOAT, FLOAT]),
    "negative size": ("aten::mm", [[-4, 4], [4, 4]], [FLOAT, FLOAT]),
    "size that overflows": ("aten::mm", [[2**40, 2**30], [2**30, 2**40]], [FLOAT, FLOAT]),
    "product that overflows": ("aten::mm", [[2**31, 2**8], [2**8, 2**31]], [FLOAT, FLOAT]),
    "no types": ("aten::mm", [[4, 4], [4, 4]], None),
    "fewer types than dims": ("aten::mm", [[4, 4], [4, 4]], [FLOAT]),
    "unknown type": ("aten::mm", [[4, 4], [4, 4]], ["c10::New", "c10::New"]),
    "unknown overload": ("aten::mm.new_overload", [[4, 4], [4, 4]], [FLOAT, FLOAT]),
    "unknown operator": ("new::operator", [[4, 4]], [FLOAT]),
    "text instead of a size": ("aten::mm", [["4", 4], [4, 4]], [FLOAT, FLOAT]),
    "no dims": ("aten::mm", None, None),
    "empty": ("aten::mm", [], []),
    "strides of another tensor": ("aten::mm", [[4, 4], [4, 4]], [FLOAT, FLOAT], [[1], [4, 1]]),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_damaged_arguments_give_a_reason_and_no_figure(broken: tuple[Any, ...]) -> None:
    found = holotrace.operator_work(*broken)
    assert figures(found) == (None, None)
    assert found.confidence is None
    assert found.reason


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 2**70), st.text(max_size=5), st.lists(st.integers(-2, 9), max_size=5)
)
ASCII = st.characters(min_codepoint=32, max_codepoint=126)
NAMES = st.one_of(
    st.sampled_from([one.pattern for one in families.ALL]).flatmap(
        lambda pattern: st.from_regex(pattern, fullmatch=True, alphabet=ASCII)
    ),
    st.sampled_from([f"aten::{name}" for name in ("mm", "add_", "sum", "max", "cat", "where", "_softmax", "index")]),
)
TYPES = st.sampled_from(
    [FLOAT, BF16, "bool", LONG, "Scalar", "ScalarList", "TensorList", "", "nonsense", "c10::Float8_e4m3fn"]
)
SHAPES = st.lists(st.integers(0, 9), max_size=5) | st.lists(st.lists(st.integers(0, 4), max_size=3), max_size=3)
SCALARS = st.sampled_from(
    ["", "1", "-1", "[1, 1]", "[]", "True", "False", "0.5", "[True, False]", "nonsense", "9" * 30, "[1"]
)


@settings(max_examples=6 * settings().max_examples)
@given(st.data())
def test_never_raises_and_never_gives_a_negative_figure(data: st.DataObject) -> None:
    name = data.draw(NAMES)
    count = data.draw(st.integers(0, 18))
    fixed = [st.lists(one, min_size=count, max_size=count) for one in (SHAPES | ODD, TYPES, SHAPES | ODD, SCALARS)]
    given_: list[Any] = [data.draw(one | ODD if data.draw(st.integers(0, 9)) == 0 else one) for one in fixed]
    if data.draw(st.booleans()):
        given_ = [json.dumps(one) for one in given_]
    found = holotrace.operator_work(name, *given_)
    for figure in figures(found):
        assert figure is None or 0 <= figure <= MOST
    assert (found.confidence is None) == (figures(found) == (None, None)) == (found.reason is not None)
    assert (found.confidence == "estimate") == (found.assumed is not None)


WHOLE: dict[str, tuple[Any, ...]] = {
    "aten::mm": (([64, 32], BF16), ([32, 16], BF16)),
    "aten::addmm": (([16], BF16), ([64, 32], BF16), ([32, 16], BF16), "1", "1"),
    "aten::add": (([64, 32], BF16), ([64, 32], BF16), "1"),
    "aten::_softmax": (([64, 32], HALF), "-1", "False"),
    "aten::copy_": (([64, 32], HALF), ([64, 32], FLOAT), "False"),
    "aten::native_layer_norm": (([64, 32], HALF), "[32]", ([32], HALF), ([32], HALF), "1e-5"),
    "aten::_scaled_dot_product_flash_attention": (*[([2, 4, 8, 16], BF16)] * 3, "0.", "True", "False", ""),
    "aten::convolution": (
        ([2, 3, 9, 9], HALF), ([6, 3, 3, 3], HALF), ([6], HALF), "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1",
    ),
}  # fmt: skip


@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_damage_of_one_argument_takes_the_figures_or_nothing_but_never_changes_them(
    name: str, data: st.DataObject
) -> None:
    given_ = WHOLE[name]
    dims = [argument[0] if isinstance(argument, tuple) else [] for argument in given_]
    types = [argument[1] if isinstance(argument, tuple) else "Scalar" for argument in given_]
    scalars: list[Any] = ["" if isinstance(argument, tuple) else argument for argument in given_]
    strides = [_dense(shape) for shape in dims]
    whole = holotrace.operator_work(name, dims, types, strides, scalars)
    assert whole.confidence == "exact"
    lists: dict[str, list[Any]] = {"dims": dims, "types": types, "strides": strides, "scalars": scalars}
    which = data.draw(st.sampled_from(sorted(lists)))
    place = data.draw(st.integers(0, len(dims) - 1))
    nonsense: st.SearchStrategy[Any] = st.sampled_from(
        ["nonsense", "[1", None, {"a": 1}, -7, [-1, 4], ["x"], [[[]]], [2**70], "9" * 30]
    )
    lists[which][place] = data.draw(nonsense)
    found = holotrace.operator_work(name, dims, types, strides, scalars)
    for figure, undamaged in zip(figures(found), figures(whole), strict=True):
        assert figure in (None, undamaged)


def test_recurrent_layers_multiply_each_weight_in_each_step() -> None:
    weights = [[400, 64], [400, 100], [400], [400]]
    lists = ([10, 8, 64], FLOAT), (weights, "TensorList"), "4", ([1], FLOAT), ([1, 8, 100], FLOAT), ([1, 8, 100], FLOAT)
    rest = ("2", "100", "0", "1", "False", "0.", "True", "False", "[]", "")
    found = work("aten::_cudnn_rnn", *lists, *rest)
    assert found.flops == 2 * 80 * 400 * 164
    back = work("aten::_cudnn_rnn_backward", *lists, *rest)
    assert back.flops == 2 * 2 * 80 * 400 * 164
    assert (found.confidence, back.confidence) == ("estimate", "estimate")


def test_recurrent_layers_on_hosts_multiply_each_weight_in_each_step() -> None:
    weights = [([512, 64], FLOAT), ([512, 128], FLOAT), ([512], FLOAT), ([512], FLOAT)]
    rest = (([4, 128], FLOAT), ([4, 128], FLOAT), "False", "[]", "2", "128", "2", "True", "False", "True", "True")
    for name, times in (("aten::mkldnn_rnn_layer", 1), ("aten::mkldnn_rnn_layer_backward", 2)):
        found = work(name, ([32, 4, 64], FLOAT), *weights, *rest)
        assert (found.flops, found.confidence) == (times * 2 * 32 * 4 * 512 * (64 + 128), "estimate")
    assert work("aten::mkldnn_rnn_layer", ([32, 4, 64], FLOAT), ([512], FLOAT)).flops is None


def test_packed_weights_are_as_large_as_they_are_packed() -> None:
    packed = work("bitsandbytes::quantize_4bit", ([64, 128], HALF), "64", "nf4", "0")
    assert packed.moved_bytes == 64 * 128 * 2 + 64 * 64 + 4 * 128
    shape = ("64", "nf4", "[64, 128]", "5")
    back = work("bitsandbytes::dequantize_4bit", ([64 * 64, 1], "unsigned char"), ([128], FLOAT), *shape)
    assert back.moved_bytes == packed.moved_bytes
    wrong = work("bitsandbytes::dequantize_4bit", ([64, 1], "unsigned char"), ([128], FLOAT), *shape)
    assert figures(wrong) == (None, None)


def test_rows_of_four_bits_count_both_elements_of_a_byte() -> None:
    rows_, weight = ([64, 128], "unsigned char"), ([32, 128], "unsigned char")
    scales = ([64, 16], "unsigned char"), ([32, 16], "unsigned char"), ([1], FLOAT)
    assert work("trtllm::nvfp4_gemm", rows_, weight, *scales).flops == 2 * 64 * 32 * 256
    fp8 = ([64, 128], "c10::Float8_e4m3fn"), ([32, 128], "c10::Float8_e4m3fn"), ([64], FLOAT), ([32], FLOAT)
    assert work("fbgemm::f8f8bf16_rowwise", *fp8, ([], ""), "True").flops == 2 * 64 * 32 * 128


def test_every_model_says_what_it_counts() -> None:
    for one in families.ALL:
        assert one.flops or one.moved, one.name
        assert one.category
