"""Attention and optimizers of an operator for each step, held against what a fused kernel needs."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from holotrace.core.tables import ANNOTATIONS, CPU_OPS
from holotrace.core.trace import RankTrace
from holotrace.diagnosis.rank import inefficient
from holotrace.diagnosis.words.advice import advice
from holotrace.diagnosis.words.class_texts import CLASSES
from holotrace.diagnosis.words.classes import UNFUSED_ATTENTION, UNFUSED_OPTIMIZER
from shaped import BF16, FLOAT, Given, shaped

# Scores of 16 heads and 1024 tokens are 34 MB in 16 bits, which the memory of an H100 moves in 10 us.
SCORES, QUERIES, KEYS = [1, 16, 1024, 1024], [16, 1024, 64], [16, 64, 1024]
PAIRS = [16, 1024, 1024]
MAKING: Given = ("aten::bmm", [QUERIES, KEYS], [BF16, BF16], ["", ""])
SCALING: Given = ("aten::div", [SCORES, []], [BF16, "double"], ["", ""])
SOFTMAX: Given = ("aten::_softmax", [SCORES, [], []], [BF16, "Scalar", "Scalar"], ["", "-1", "False"])
TAKING: Given = ("aten::bmm", [PAIRS, QUERIES], [BF16, BF16], ["", ""])
ATTENTION = {"A": MAKING, "B": SCALING, "C": SOFTMAX, "D": TAKING}
FLOPS = 2 * 16 * 1024 * 1024 * 128
PEAK = 989_400  # an H100's operations in 16 bits per nanosecond


def after_another(ops: dict[str, Given], lasting_us: dict[str, int], within: str | None = None) -> RankTrace:
    """Each operator launches a kernel that takes so long; all of them in a range of such a name."""
    host = "".join(letter * 3 for letter in ops)
    launches = "".join(f".{letter}." for letter in ops)
    kernels = "".join(letter * lasting_us[letter] for letter in ops)
    lines = [f"op |{host}|", f"host |{launches}|", f"compute |....{kernels}|", f"range |{'R' * len(host)}|"]
    drawn = shaped("\n".join(lines), ops)
    ranges = drawn.tables[ANNOTATIONS.name].with_columns(name=pl.lit(within, pl.Categorical()))
    return replace(drawn, tables={**drawn.tables, ANNOTATIONS.name: ranges})


def told(rank: RankTrace) -> list[tuple[str, str, int]]:
    return list(inefficient.calls(rank).select("cause", "name", "time_ns").sort("time_ns").iter_rows())


def test_attention_costs_what_its_operators_take_beyond_a_fused_kernel() -> None:
    found = told(after_another(ATTENTION, {"A": 25, "B": 30, "C": 30, "D": 25}))
    assert {(cause, name) for cause, name, _ in found} == {(UNFUSED_ATTENTION, "aten::_softmax")}
    assert sum(time for *_, time in found) == pytest.approx(110_000 - FLOPS / (0.4 * PEAK), abs=4)


def test_a_backward_pass_of_attention_is_one_too_whatever_is_between_its_operators() -> None:
    backward: dict[str, Given] = {
        "E": (
            "aten::_softmax_backward_data",
            [SCORES, SCORES, [], []],
            [BF16, BF16, "Scalar", "Scalar"],
            ["", "", "-1", "15"],
        ),
        "F": ("aten::mul", [SCORES, SCORES], [BF16, BF16], ["", ""]),
    }
    times = {"A": 25, "B": 30, "C": 30, "D": 25, "E": 40, "F": 40}
    found = told(after_another({**ATTENTION, **backward}, times))
    assert sum(time for *_, time in found) == pytest.approx(190_000 - 3.5 * FLOPS / (0.4 * PEAK), abs=6)


def test_a_softmax_without_products_around_it_is_no_attention() -> None:
    assert told(after_another({"B": SCALING, "C": SOFTMAX}, {"B": 30, "C": 30})) == []
    # A head as wide as there are tokens: shapes do not tell scores from queries.
    square = [16, 1024, 1024]
    alike: Given = ("aten::bmm", [square, square], [BF16, BF16], ["", ""])
    assert told(after_another({"A": alike, "C": SOFTMAX, "D": alike}, {"A": 70, "C": 30, "D": 70})) == []


def test_attention_with_times_that_no_device_has_is_not_judged() -> None:
    # Faster than the memory, and twenty times slower than it.
    assert told(after_another(ATTENTION, dict.fromkeys("ABCD", 5))) == []
    assert told(after_another(ATTENTION, dict.fromkeys("ABCD", 400))) == []


def test_attention_that_torch_computes_with_operators_is_named_after_what_does_so() -> None:
    text = f"""
        op      |ZZZZZZZZZZZZ|
        op      |AAABBBCCCDDD|
        host    |.A..B..C..D.|
        compute |....{"A" * 25}{"B" * 30}{"C" * 30}{"D" * 25}|
    """
    own: Given = ("aten::_scaled_dot_product_attention_math", None, None, None)
    found = told(shaped(text, {**ATTENTION, "Z": own}))
    assert {(cause, name) for cause, name, _ in found} == {(UNFUSED_ATTENTION, own[0])}
    assert "sdpa_kernel" in advice(CLASSES[UNFUSED_ATTENTION], own[0])
    assert "sdpa_kernel" not in advice(CLASSES[UNFUSED_ATTENTION], "aten::_softmax")


# A parameter of 16 million floats: each pass over it takes 20 us.
SHAPE = [4096, 4096]
ADAM: dict[str, Given] = {
    "L": ("aten::lerp_", [SHAPE, SHAPE, []], [FLOAT, FLOAT, "Scalar"], ["", "", "0.1"]),
    "M": ("aten::mul_", [SHAPE, []], [FLOAT, "double"], ["", ""]),
    "C": ("aten::addcmul_", [SHAPE, SHAPE, SHAPE, []], [FLOAT, FLOAT, FLOAT, "Scalar"], ["", "", "", "0.001"]),
    "D": ("aten::addcdiv_", [SHAPE, SHAPE, SHAPE, []], [FLOAT, FLOAT, FLOAT, "Scalar"], ["", "", "", "-0.1"]),
}
STEP = "Optimizer.step#AdamW.step"
PASS_NS = 4 * 4096 * 4096 / 3_350


def test_an_optimizer_of_single_operators_costs_what_they_take_beyond_reading_and_writing_all_once() -> None:
    found = told(after_another(ADAM, {"L": 70, "M": 50, "C": 90, "D": 100}, STEP))
    assert {(cause, name) for cause, name, _ in found} == {(UNFUSED_OPTIMIZER, STEP)}
    # Parameter and both moments read and written, the gradient read: 28 bytes an element.
    assert sum(time for *_, time in found) == pytest.approx(310_000 - 7 * PASS_NS / 0.78, abs=4)


def test_an_optimizer_whose_update_has_unknown_sizes_costs_what_its_update_does_not_tell() -> None:
    """A list of arguments that is not as expected left nothing to say of an optimizer that takes long."""
    odd: Given = ("aten::addcdiv_", [SHAPE, SHAPE], [FLOAT, FLOAT], ["", ""])
    found = told(after_another({**ADAM, "D": odd}, {"L": 70, "M": 50, "C": 90, "D": 80}, STEP))
    assert sum(time for *_, time in found) == pytest.approx(290_000 - 80_000 * 7 / 4, abs=4)


def test_an_optimizer_on_lists_costs_the_passes_that_a_fused_one_does_without() -> None:
    lists: dict[str, Given] = {
        "L": ("aten::_foreach_lerp_", [[], [], []], ["TensorList", "TensorList", "Scalar"], ["", "", "0.1"]),
        "M": ("aten::_foreach_mul_", [[], []], ["TensorList", "Scalar"], ["", "0.9"]),
        "C": ("aten::_foreach_addcmul_", [[]] * 4, ["TensorList"] * 3 + ["Scalar"], ["", "", "", "0.1"]),
        "D": ("aten::_foreach_addcdiv_", [[]] * 4, ["TensorList"] * 3 + ["Scalar"], ["", "", "", "0.1"]),
    }
    found = told(after_another(lists, {"L": 30, "M": 20, "C": 30, "D": 40}, STEP))
    assert {cause for cause, *_ in found} == {UNFUSED_OPTIMIZER}
    assert sum(time for *_, time in found) == pytest.approx(120_000 * (1 - 7 / (3 + 2 + 3 + 4)), abs=4)


def test_the_same_operators_outside_of_an_optimizer_or_beside_a_fused_one_are_none() -> None:
    times = {"L": 70, "M": 50, "C": 90, "D": 100}
    assert told(after_another(ADAM, times)) == []
    fused: Given = ("aten::_fused_adamw_", [[]] * 6, ["TensorList"] * 6, [""] * 6)
    assert told(after_another({**ADAM, "F": fused}, {**times, "F": 50}, STEP)) == []


def test_no_fused_optimizer_takes_sparse_gradients() -> None:
    """Adding sparse gradients of embeddings was worth a fourth of a job, and the advice would have raised an error."""
    step = "Optimizer.step#SGD.step"
    shapes, types = [SHAPE, SHAPE, []], [FLOAT, FLOAT, "Scalar"]
    ops: dict[str, Given] = {
        "A": ("aten::add_", shapes, types, ["", "", "-0.1"]),
        "S": ("aten::add", shapes, types, ["", "", "-0.1"]),
    }
    drawn = after_another(ops, {"A": 70, "S": 90}, step)
    assert {name for _, name, _ in told(drawn)} == {step}
    is_sparse = pl.col("name").cast(pl.String) == "aten::add"
    strides = pl.when(is_sparse).then(pl.lit("[[4096, 1], [], []]")).otherwise(pl.lit("[[4096, 1], [4096, 1], []]"))
    told_apart = drawn.tables[CPU_OPS.name].with_columns(input_strides=strides.cast(pl.Categorical()))
    assert told(replace(drawn, tables={**drawn.tables, CPU_OPS.name: told_apart})) == []


def test_operators_of_small_parameters_are_launched_slowly_and_not_computed_slowly() -> None:
    small: dict[str, Given] = {
        letter: (name, [[64, 64] if one else [] for one in dims], kinds, scalars)
        for letter, (name, dims, kinds, scalars) in ADAM.items()
    }
    assert told(after_another(small, dict.fromkeys("LMCD", 30), STEP)) == []


def test_kernels_of_an_optimizer_that_are_as_short_as_any_take_no_time_in_one() -> None:
    """A third of a job was an optimizer of 1,440 kernels of 2 us a step, of unknown sizes, and nothing was told."""
    unknown: dict[str, Given] = {letter: (name, None, None, None) for letter, (name, *_) in ADAM.items()}
    times = {"L": 2, "M": 2, "C": 2, "D": 4}
    found = told(after_another(unknown, times, STEP))
    assert {(cause, name) for cause, name, _ in found} == {(UNFUSED_OPTIMIZER, STEP)}
    # What the longest has beyond the others are its data's.
    assert sum(time for *_, time in found) == pytest.approx(10_000 - 2_000, abs=4)


def test_an_optimizer_on_tensors_of_unknown_sizes_is_told_by_the_time_of_its_updates() -> None:
    """Without recorded shapes nothing was told of it, unless its kernels were tiny."""
    unknown: dict[str, Given] = {letter: (name, None, None, None) for letter, (name, *_) in ADAM.items()}
    found = told(after_another(unknown, {"L": 70, "M": 50, "C": 90, "D": 100}, STEP))
    # The update reads or writes an element four times, and all of a fused step seven times.
    assert sum(time for *_, time in found) == pytest.approx(310_000 - 100_000 * 7 / 4, abs=4)


def test_an_optimizer_most_of_whose_parameters_are_small_is_told_by_what_takes_its_time() -> None:
    """Biases and weights of norms are most of the parameters, so its kernels were taken for tiny ones."""
    unknown: dict[str, Given] = {letter: (name, None, None, None) for letter, (name, *_) in ADAM.items()}
    small = {letter.lower().translate(str.maketrans("lmcd", "PQRS")): given for letter, given in unknown.items()}
    times = {"L": 70, "M": 50, "C": 90, "D": 100, "P": 2, "Q": 2, "R": 2, "S": 2}
    found = told(after_another({**unknown, **small}, times, STEP))
    assert sum(time for *_, time in found) == pytest.approx(318_000 - 102_000 * 7 / 4, abs=8)


def test_an_optimizer_on_lists_of_unknown_types_is_told_by_the_time_of_its_updates() -> None:
    """Profiles are recorded without shapes and types by default."""
    names = {"L": "lerp_", "M": "mul_", "C": "addcmul_", "D": "addcdiv_"}
    lists: dict[str, Given] = {letter: (f"aten::_foreach_{name}", None, None, None) for letter, name in names.items()}
    found = told(after_another(lists, {"L": 30, "M": 20, "C": 30, "D": 40}, STEP))
    assert {(cause, name) for cause, name, _ in found} == {(UNFUSED_OPTIMIZER, STEP)}
    assert sum(time for *_, time in found) == pytest.approx(120_000 - 40_000 * 7 / 4, abs=4)
    assert told(after_another(lists, {"L": 3, "M": 3, "C": 3, "D": 4}, STEP)) == []
