"""MFU and HFU, and what the busy time is made of."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from holotrace.analyses import Analyses
from holotrace.analyses.hlo_ops import BEYOND_PEAK
from holotrace.core.analysis import Finding
from holotrace.core.tables import CPU_OPS, PYTHON_CALLS
from holotrace.core.trace import RankTrace
from holotrace.efficiency.categories import CATEGORIES
from holotrace.present.wording import sentence
from shaped import BF16, FLOAT, H100, addition, job, matrix_product, shaped

STEP = """
    step    |11111111..|
    op      |MMMM.AA...|
    host    |.K...L....|
    compute |..KKKK.LL.|
"""
OPS = {"M": matrix_product(1024), "A": addition(1000)}
FLOPS = 2.0 * 1024**3


def test_model_gets_its_operations_by_the_peak_in_the_time_of_the_step() -> None:
    whole, step = job(shaped(STEP, OPS)).efficiency().rows(named=True)
    for row in (whole, step):
        assert (row["model_flops"], row["recomputed_flops"], row["step_ns"]) == (FLOPS, 0, 9_000)
        assert row["mfu_ratio"] == pytest.approx(FLOPS / 989_400 / 9_000)
        assert row["mfu_ratio"] == row["hfu_ratio"]
        assert (row["modelled_ratio"], row["reason"]) == (1, None)


def test_a_step_whose_host_is_done_before_its_device_lasts_as_long_as_the_device_works() -> None:
    """Its work was divided by the time of its host: a device got many times its peak, or of the recording too much."""
    ahead = """
        step    |11223.............|
        op      |M.N.O.............|
        host    |K.L.J.............|
        compute |..KKKKKLLLLLJJJJJ.|
    """
    ops = {letter: matrix_product(1024) for letter in "MNO"}
    found = job(shaped(ahead, ops)).efficiency()
    # The first begins with its host.
    assert found.select("step", "step_ns").rows() == [(None, 17_000), (1, 7_000), (2, 5_000), (3, 5_000)]
    assert found["mfu_ratio"].max() == pytest.approx(FLOPS / 989_400 / 5_000)


def test_more_than_the_peak_is_no_ratio() -> None:
    """What takes 17 us at the peak was done in 7: the device is another one than its name says."""
    (row,) = job(shaped(STEP.replace("step", "range"), {**OPS, "M": matrix_product(2048)})).efficiency().to_dicts()
    assert (row["mfu_ratio"], row["hfu_ratio"], row["reason"]) == (None, None, BEYOND_PEAK)
    assert row["achieved_tflops"] > row["peak_tflops"]


def test_a_first_step_begins_when_the_device_is_done_with_what_was_launched_before() -> None:
    text = """
        step    |...11..22..|
        op      |...M...N...|
        host    |A..K...L...|
        compute |.AAAAKKKLLL|
    """
    found = job(shaped(text, {"M": matrix_product(1024), "N": matrix_product(1024)})).efficiency()
    assert found.select("step", "step_ns").rows() == [(None, 10_000), (1, 3_000), (2, 3_000)]


def test_each_type_is_held_against_its_own_peak() -> None:
    text = """
        op      |MMMM.AA...|
        host    |.K...L....|
        compute |..KKKK.LL.|
    """
    found = job(shaped(text, {"M": matrix_product(1024), "A": matrix_product(512, FLOAT)})).efficiency()
    at_peak_ns = FLOPS / 989_400 + FLOPS / 8 / 66_900
    assert found["mfu_ratio"].item() == pytest.approx(at_peak_ns / 7_000)


def test_what_a_checkpoint_computes_again_is_in_hfu_only() -> None:
    text = """
        op      |MMMM.NNNN.|
        host    |.K...L....|
        compute |..KKKK.LL.|
    """
    traced = shaped(text, {"M": matrix_product(1024), "N": matrix_product(1024)})
    frame = pl.DataFrame(
        {
            "event_id": [90],
            "name": ["torch/utils/checkpoint.py(1111): unpack_hook"],
            "pid": ["1"],
            "tid": ["1"],
            "start_ns": [5_000],
            "end_ns": [9_000],
        }
    )
    ops = traced.tables["cpu_ops"]
    place = ops.select(pl.col("pid", "tid").first())
    frame = frame.with_columns(place["pid"].alias("pid"), place["tid"].alias("tid"))
    calls = frame.with_columns(pl.col("name").cast(pl.Categorical()), pl.col("event_id").cast(pl.UInt32))
    found = job(replace(traced, tables={**traced.tables, PYTHON_CALLS.name: calls})).efficiency().row(0, named=True)
    assert (found["model_flops"], found["recomputed_flops"]) == (FLOPS, FLOPS)
    assert found["hfu_ratio"] == pytest.approx(2 * found["mfu_ratio"])


def test_without_stacks_forward_operators_within_a_node_of_the_backward_pass_are_computed_again() -> None:
    text = """
        op      |MMMM.BBBBBBBB.|
        op      |.....NNNN.OO..|
        host    |.K....L...P...|
        compute |..KKKK.LL..PP.|
    """
    node = ("autograd::engine::evaluate_function: AddmmBackward0", None, None, None)
    traced = shaped(text, {"M": matrix_product(1024), "N": matrix_product(1024), "O": matrix_product(512), "B": node})
    name = pl.col("input_dims").cast(pl.String)

    def numbered(*forward: str) -> RankTrace:
        dims = [f"[[{size}, {size}], [{size}, {size}]]" for size in forward]
        ops = traced.tables["cpu_ops"].with_columns(
            sequence=pl.when(name.is_in(dims)).then(5), forward_thread=pl.when(name.is_in(dims)).then(0)
        )
        return replace(traced, tables={**traced.tables, "cpu_ops": ops})

    found = job(numbered("1024")).efficiency().row(0, named=True)
    assert (found["model_flops"], found["recomputed_flops"]) == (FLOPS + FLOPS / 8, FLOPS)
    assert found["recomputed_ns"] == 2_000
    # With gradients of gradients all operators of the node are numbered.
    found = job(numbered("1024", "512")).efficiency().row(0, named=True)
    assert (found["recomputed_flops"], found["recomputed_ns"]) == (0, 0)


def test_without_shapes_nothing_is_said_but_why() -> None:
    found = job(shaped("op |AA|\nhost |K.|\ncompute |.KK|", {})).efficiency().row(0, named=True)
    assert found["mfu_ratio"] is None
    assert found["model_flops"] is None
    assert found["reason"] == "no operator has recorded shapes"


def test_unknown_work_is_said_with_the_number_of_its_calls() -> None:
    found = job(shaped(STEP, {**OPS, "A": ("mine::op", [[4]], [FLOAT], [""])})).efficiency().row(0, named=True)
    assert found["reason"] == "no model (1 times)"
    assert found["modelled_ratio"] == pytest.approx(4 / 6)


def test_categories_are_told_by_operators_and_add_up_to_the_busy_time() -> None:
    traced = shaped("compute |.NN.......|\n" + STEP, OPS, {"N": "flash_fwd_kernel"})
    row = job(traced).work_categories().row(0, named=True)
    assert {name: row[f"{name}_ns"] for name in CATEGORIES if row[f"{name}_ns"]} == {
        "attention": 2_000,
        "gemm": 3_000,
        "elementwise": 2_000,
    }
    assert row["busy_ns"] == 7_000


def test_device_whose_peak_is_not_known_has_no_mfu_and_says_why() -> None:
    row = job(shaped(STEP, OPS, device={"name": "AMD Instinct MI308X"})).efficiency().row(0, named=True)
    assert (row["mfu_ratio"], row["achieved_tflops"] is not None) == (None, True)
    assert row["reason"] == "the peak of the device is not known"


def test_attention_whose_lengths_are_not_recorded_is_no_known_work() -> None:
    q, lengths = [100, 2, 8], [3]
    dims, types = [q, q, q, lengths, lengths, *[[]] * 6], [*[BF16] * 3, "int", "int", *["Scalar"] * 6]
    scalars = ["", "", "", "", "", "80", "80", "0.", "1.", "True", "-1"]
    attention = ("flash_attn::_flash_attn_varlen_forward", dims, types, scalars)
    row = job(shaped(STEP, {**OPS, "A": attention})).efficiency().row(0, named=True)
    assert (row["model_flops"], row["modelled_ratio"]) == (FLOPS, pytest.approx(4 / 6))
    assert row["reason"] == "the lengths of the sequences are not recorded (1 times)"


def test_kernels_of_a_compiled_region_have_categories_of_their_own() -> None:
    text = """
        op      |CCCC......|
        host    |.KLN......|
        compute |..KKKLL...|
        comm    |.......N..|
    """
    names = {"K": "nvjet_tst_128x256_64x4", "L": "triton_poi_fused_add_0", "N": "ncclDevKernel_AllReduce_Sum_bf16"}
    region = ("Torch-Compiled Region: 0/0", None, None, None)
    traced = shaped(text, {"C": region}, names)
    row = job(traced).work_categories().row(0, named=True)
    assert (row["gemm_ns"], row["elementwise_ns"], row["busy_ns"]) == (3_000, 2_000, 6_000)
    by_step = job(shaped("step |1111111111|\n" + text, {"C": region}, names)).work_categories(by_step=True)
    assert by_step.select("step", "gemm_ns", "elementwise_ns", "busy_ns").row(0) == (1, 3_000, 2_000, 6_000)
    known = {"C": ("aten::add", [[8], [8], []], [FLOAT, FLOAT, "Scalar"], ["", "", "1"]), "D": region}
    both = job(shaped(text.replace("CCCC", "CCDD"), known, names)).efficiency()
    assert both["modelled_ratio"].item() == pytest.approx(3 / 5)
    (told,) = job(traced).operator_efficiency().rows(named=True)
    assert (told["name"], told["category"]) == ("Torch-Compiled Region: 0/0", "gemm")


def rules_of(analysis: Any, *ranks: RankTrace) -> dict[str, Finding]:
    return {finding.rule: finding for finding in analysis.findings(analysis(job(*ranks)))}


LONG = (
    "op |"
    + "M" * 4000
    + "N" * 6000
    + "|\nhost |K"
    + "." * 3999
    + "L"
    + "." * 5999
    + "|\ncompute |"
    + "K" * 4000
    + "L" * 6000
    + "|"
)


def test_low_mfu_is_a_finding_of_jobs_with_steps_whose_work_is_known() -> None:
    ops = {"M": matrix_product(1024), "N": matrix_product(512)}
    stepped = "step |" + "1" * 9990 + "2222222222|\n" + LONG
    assert sentence(rules_of(Analyses.efficiency, shaped(stepped, ops))["low-mfu"]) == (
        "The model gets <0.1% of what the devices could compute (MFU)"
    )
    assert not rules_of(Analyses.efficiency, shaped(LONG, ops))
    unknown = {**ops, "N": ("mine::op", [[4]], [FLOAT], [""])}
    assert not rules_of(Analyses.efficiency, shaped(stepped, unknown))


def test_mfu_of_a_device_known_by_its_make_only_says_so_and_is_no_finding() -> None:
    ops = {"M": matrix_product(1024), "N": matrix_product(512)}
    stepped = "step |" + "1" * 9990 + "2222222222|\n" + LONG
    unnamed = shaped(stepped, ops, device={**H100, "name": "NVIDIA H100 of tomorrow"})
    reason = job(unnamed).efficiency()["reason"][0]
    assert reason == "peaks are assumed: 132 multiprocessors of capability 9.0 at 1.83 GHz"
    assert not rules_of(Analyses.efficiency, unnamed)


def test_shape_below_the_best_of_its_kind_is_a_finding_with_what_reaching_it_saves() -> None:
    # Twice the work in the time of one: the other loses half of its time against it.
    found = rules_of(
        Analyses.operator_efficiency,
        shaped(LONG, {"M": matrix_product(8192), "N": matrix_product(8064)}),
    )["time-above-the-limits"]
    lost = 1 - (8064 / 8192) ** 3 * 4 / 6
    assert found.cost_ns == pytest.approx(6_000_000 * lost, rel=1e-3)
    assert sentence(found).startswith("aten::mm of 8064x8064, 8064x8064 reach")


def test_product_in_fp32_among_narrow_ones_is_a_finding_but_not_in_tf32() -> None:
    ops = {"M": matrix_product(8192), "N": matrix_product(2048, FLOAT)}
    slow = rules_of(Analyses.operator_efficiency, shaped(LONG, ops, {"L": "ampere_sgemm_128x64_nn"}))
    fast = rules_of(Analyses.operator_efficiency, shaped(LONG, ops, {"L": "cutlass_tensorop_s1688gemm_128x64"}))
    assert "products-in-fp32" in slow
    assert "products-in-fp32" not in fast


def test_product_in_tf32_is_told_by_any_of_its_kernels() -> None:
    text = LONG.replace("host |K" + "." * 3999 + "L" + "." * 5999, "host |K" + "." * 3999 + "LP" + "." * 5998)
    text = text.replace("L" * 6000 + "|", "L" * 2500 + "P" * 3500 + "|")
    ops = {"M": matrix_product(8192), "N": matrix_product(2048, FLOAT)}
    for product, is_found in (("cutlass_80_tensorop_s1688gemm_128x64", False), ("ampere_sgemm_128x64_nn", True)):
        names = {"L": product, "P": "splitKreduce_kernel<float>"}
        assert ("products-in-fp32" in rules_of(Analyses.operator_efficiency, shaped(text, ops, names))) == is_found


def test_sizes_that_leave_tiles_empty_are_a_finding_with_their_share() -> None:
    odd = ("aten::mm", [[8193, 8192], [8192, 8192]], [BF16, BF16], ["", ""])
    even = rules_of(Analyses.operator_efficiency, shaped(LONG, {"M": matrix_product(8192), "N": matrix_product(8192)}))
    assert "unaligned-products" not in even
    thin = ("aten::mm", [[641, 65536], [65536, 641]], [BF16, BF16], ["", ""])
    found = rules_of(Analyses.operator_efficiency, shaped(LONG, {"M": odd, "N": thin}))["unaligned-products"]
    assert found.cost_ns == pytest.approx(6_000_000 * (1 - (641 / 704) ** 2), rel=1e-4)


def test_product_whose_rows_begin_anywhere_is_held_against_aligned_ones_that_are_no_larger() -> None:
    """Of a vocabulary of 50257 hardly a tile is empty, but its products take kernels that load no vectors."""
    aligned, vocabulary = matrix_product(4096), ("aten::mm", [[8192, 4096], [4096, 50257]], [BF16, BF16], ["", ""])
    found = rules_of(Analyses.operator_efficiency, shaped(LONG, {"M": aligned, "N": vocabulary}))
    # 4096³ operations take 4 ms, and 24.5 times as many 6: it is faster than what it is held against.
    assert "unaligned-products" not in found
    small = ("aten::mm", [[4096, 4096], [4096, 4097]], [BF16, BF16], ["", ""])
    found = rules_of(Analyses.operator_efficiency, shaped(LONG, {"M": aligned, "N": small}))
    assert found["unaligned-products"].cost_ns == pytest.approx(2_000_000, rel=0.01)
    # A thin one does not fill the device, whatever its rows.
    thin = ("aten::mm", [[4096, 4096], [4096, 1001]], [BF16, BF16], ["", ""])
    assert "unaligned-products" not in rules_of(Analyses.operator_efficiency, shaped(LONG, {"M": aligned, "N": thin}))


@pytest.mark.parametrize("nothing", [None, 5, {}, "x"])
def test_findings_take_damaged_arguments_as_they_are(nothing: Any) -> None:
    """A scalar of a product may have dims that are none: the whole report failed."""
    thin = ("aten::addmm", [[641], [641, 65536], [65536, 641], []], [BF16, BF16, BF16, "Scalar"], [""] * 4)
    rank = shaped(LONG, {"M": matrix_product(8192), "N": thin})
    ops = rank.tables[CPU_OPS.name]
    dims = [text.replace(", []]", f", {json.dumps(nothing)}]") for text in ops["input_dims"].cast(pl.String)]
    damaged = ops.with_columns(pl.Series("input_dims", dims, dtype=pl.Categorical()))
    found = rules_of(Analyses.operator_efficiency, replace(rank, tables={**rank.tables, CPU_OPS.name: damaged}))
    assert found["unaligned-products"].values["names"] == "aten::addmm of 641x65536, 65536x641"


def test_rank_slower_at_equal_shapes_is_a_finding_with_its_cost() -> None:
    quick = "op |MMMM|\nhost |K...|\ncompute |.KKKKKKKKKK|"
    slow = "op |MMMM|\nhost |K...|\ncompute |.KKKKKKKKKKKK|"
    ranks = [shaped(slow if rank == 2 else quick, {"M": matrix_product(64)}, rank=rank) for rank in range(4)]
    found = rules_of(Analyses.operator_efficiency, *ranks)["ranks-slower-at-equal-shapes"]
    assert (found.ranks, found.cost_ns) == ((2,), 2_000)
    assert sentence(found) == "This rank takes 20% longer than the others for the same operators and shapes"


def test_rank_is_not_slower_than_ranks_that_differ_as_much() -> None:
    texts = [f"op |MMMM|\nhost |K...|\ncompute |.{'K' * length}|" for length in (40, 43, 46, 49, 52, 55)]
    ranks = [shaped(text, {"M": matrix_product(64)}, rank=rank) for rank, text in enumerate(texts)]
    assert "ranks-slower-at-equal-shapes" not in rules_of(Analyses.operator_efficiency, *ranks)


def test_rank_is_not_slower_where_its_work_depends_on_what_is_in_its_tensors() -> None:
    chosen = ("aten::nonzero", [[4096]], [FLOAT], [""])
    texts = [f"op |MMMM|\nhost |K...|\ncompute |.{'K' * length}|" for length in (40, 40, 40, 60)]
    ranks = [shaped(text, {"M": chosen}, rank=rank) for rank, text in enumerate(texts)]
    assert "ranks-slower-at-equal-shapes" not in rules_of(Analyses.operator_efficiency, *ranks)


def test_shape_that_is_faster_than_the_limit_is_no_measure_for_others() -> None:
    # One is not read from memory at all, or its model is wrong: it would need a device three times as fast.
    text = "op |" + "M" * 4000 + "N" * 6000 + "|\nhost |K" + "." * 3999 + "L" + "." * 5999 + "|\n"
    text += "compute |" + "K" * 4000 + "L" * 6000 + "|"
    ops = {"M": addition(3_350_000_000), "N": addition(1_000_000_000)}
    assert "time-above-the-limits" not in rules_of(Analyses.operator_efficiency, shaped(text, ops))


def test_average_of_weights_is_no_optimizer() -> None:
    lists = ([[[4096, 4096]]] * 2, ["TensorList"] * 2, [""] * 2)
    average = {"M": matrix_product(8192), "N": ("aten::_foreach_lerp_", *lists)}
    assert "optimizer-not-fused" not in rules_of(Analyses.operator_efficiency, shaped(LONG, average))


def test_many_products_too_small_to_fill_the_device_are_a_finding() -> None:
    text = "op |" + "MMM." * 500 + "|\nhost |" + "K..." * 500 + "|\ncompute |" + ".KKK" * 500 + "|"
    small = rules_of(Analyses.operator_efficiency, shaped(text, {"M": matrix_product(64)}))
    assert small["many-small-products"].cost_ns == pytest.approx(1_500_000, rel=0.02)
    few = rules_of(Analyses.operator_efficiency, shaped(LONG, {"M": matrix_product(64), "N": matrix_product(64)}))
    assert "many-small-products" not in few
    unknown = rules_of(Analyses.operator_efficiency, shaped(text, {"M": matrix_product(64)}, device={"name": "new"}))
    assert "many-small-products" not in unknown


def test_small_products_are_held_against_the_long_ones_of_their_rank() -> None:
    """Experts one by one: each reaches a fifth of the limits, and long products three quarters."""
    times, length = 200, 8
    text = f"op |{('M' * length + '.') * times}{'N' * 100}|\nhost |{('K' + '.' * length) * times}L{'.' * 99}|\n"
    text += f"compute |{('.' + 'K' * length) * times}{'L' * 100}|"
    experts, long = matrix_product(900), matrix_product(3350)
    found = rules_of(Analyses.operator_efficiency, shaped(text, {"M": experts, "N": long}))["many-small-products"]
    reached = (900 / 3350) ** 3 * 100 / length
    assert found.cost_ns == pytest.approx(1_000 * times * length * (1 - reached), rel=0.01)
    # Still smaller ones are limited by the memory, and reach a ninth of that.
    smaller = shaped(text, {"M": matrix_product(700), "N": long})
    assert "many-small-products" in rules_of(Analyses.operator_efficiency, smaller)
    alone = shaped(text, {"M": experts, "N": addition(1000)})
    assert "many-small-products" not in rules_of(Analyses.operator_efficiency, alone)


def test_elementwise_work_that_memory_limits_is_a_finding_with_the_bytes_it_moves() -> None:
    ops = {"M": matrix_product(8192), "N": addition(1 << 29)}
    found = rules_of(Analyses.operator_efficiency, shaped(LONG, ops))["chains-that-memory-limits"]
    assert found.values["moved_bytes"] == 3 * 4 * 2.0**29
    assert found.cost_ns is None
    computing = {"M": matrix_product(8192), "N": matrix_product(8192)}
    assert "chains-that-memory-limits" not in rules_of(Analyses.operator_efficiency, shaped(LONG, computing))
    unknown = shaped(LONG, ops, device=None)
    assert "chains-that-memory-limits" not in rules_of(Analyses.operator_efficiency, unknown)


def test_optimizer_of_several_kernels_is_a_finding_and_a_fused_one_is_none() -> None:
    lists = ([[[4096, 4096]]] * 3, ["TensorList"] * 3, [""] * 3)
    slow = {"M": matrix_product(8192), "N": ("aten::_foreach_addcdiv_", *lists)}
    fused = {"M": matrix_product(8192), "N": ("aten::_fused_adamw_", *lists)}
    assert sentence(rules_of(Analyses.operator_efficiency, shaped(LONG, slow))["optimizer-not-fused"]) == (
        "The optimizer runs aten::_foreach_addcdiv_ and others over all parameters where a fused one runs one kernel"
    )
    assert "optimizer-not-fused" not in rules_of(Analyses.operator_efficiency, shaped(LONG, fused))


def test_much_recomputation_is_a_finding_with_its_share_and_time() -> None:
    rank, step, flops = [0, 0], [None, 1], [3.0e12, 3.0e12]
    table = pl.DataFrame({"rank": rank, "step": step, "step_ns": [8_000_000] * 2, "model_flops": flops}).with_columns(
        pl.col("step").cast(pl.Int64),
        recomputed_flops=pl.lit(1.0e12),
        recomputed_ns=pl.lit(1_500_000),
        modelled_ratio=pl.lit(1.0),
        mfu_ratio=pl.lit(0.5),
        reason=pl.lit(None, pl.String()),
    )
    (found,) = Analyses.efficiency.findings(table)
    assert (found.rule, found.cost_ns, found.values["share_ratio"]) == ("much-recomputation", 1_500_000, 0.25)
    little = table.with_columns(recomputed_ns=pl.lit(300_000))
    assert not Analyses.efficiency.findings(little)


def test_where_nothing_is_computed_nothing_is_computed_again() -> None:
    """A share of nothing is no number, which Polars holds to be larger than all."""
    nothing = {
        "model_flops": [0.0],
        "recomputed_flops": [0.0],
        "recomputed_ns": [0],
        "modelled_ratio": [1.0],
        "mfu_ratio": [0.0],
        "reason": [""],
    }
    table = pl.DataFrame({"rank": [0], "step": [1], "step_ns": [8_000_000], **nothing})
    assert not Analyses.efficiency.findings(table)


def test_copies_that_take_more_than_a_tenth_are_a_finding() -> None:
    copy = ("aten::copy_", [[4096, 4096], [4096, 4096], []], [BF16, FLOAT, "Scalar"], ["", "", "False"])
    found = rules_of(Analyses.work_categories, shaped(LONG, {"M": matrix_product(8192), "N": copy}))
    assert sentence(found["much-copying"]) == "Copies, casts and fills take up to 60% of the busy time"
    assert found["much-copying"].cost_ns == 6_000_000
