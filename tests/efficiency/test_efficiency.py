"""MFU and HFU, and what the busy time is made of."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from shaped import FLOAT, addition, job, matrix_product, shaped

from holotrace.core.tables import PYTHON_CALLS
from holotrace.efficiency.categories import CATEGORIES

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
        assert (row["model_flops"], row["recomputed_flops"], row["step_ns"]) == (FLOPS, 0, 8_000)
        assert row["mfu_ratio"] == pytest.approx(FLOPS / 989_400 / 8_000)
        assert row["mfu_ratio"] == row["hfu_ratio"]
        assert (row["modelled_ratio"], row["reason"]) == (1, None)


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


def test_without_shapes_nothing_is_said_but_why() -> None:
    found = job(shaped("op |AA|\nhost |K.|\ncompute |.KK|", {})).efficiency().row(0, named=True)
    assert found["mfu_ratio"] is None
    assert found["model_flops"] is None
    assert found["reason"] == "no operator has recorded shapes"


def test_unknown_work_is_said_with_the_number_of_its_calls() -> None:
    found = job(shaped(STEP, {**OPS, "A": ("mine::op", [[4]], [FLOAT], [""])})).efficiency().row(0, named=True)
    assert found["reason"] == "no model (1×)"
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
