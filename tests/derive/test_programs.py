"""Compiled programs: their inputs, and in what variants differ."""

from __future__ import annotations

import polars as pl

from holotrace.derive import programs

HLO = pl.DataFrame(
    [
        ("jit_f", 1, "x", "parameter", "main", "f32[4]"),
        ("jit_f", 1, "y", "parameter", "main", "f32[8]"),
        ("jit_f", 1, "z", "parameter", "region", "f32[]"),
        ("jit_f", 1, "add", "add", "main", "f32[4]"),
        ("jit_f", 2, "x", "parameter", "main", "f32[6]"),
        ("jit_f", 2, "y", "parameter", "main", "f32[8]"),
    ],
    schema=["module", "program", "name", "opcode", "computation", "shape"],
    orient="row",
).with_columns(is_entry=pl.lit(None, pl.Boolean))


def test_inputs_are_the_parameters_of_the_entry() -> None:
    found = programs.inputs(HLO).sort("program", "name")
    assert found.select("program", "name", "shape").rows() == [
        (1, "x", "f32[4]"),
        (1, "y", "f32[8]"),
        (2, "x", "f32[6]"),
        (2, "y", "f32[8]"),
    ]


def test_a_loop_with_more_parameters_is_not_the_entry() -> None:
    body = HLO.filter(name="x", program=1).with_columns(computation=pl.lit("body"))
    more = [body.with_columns(name=pl.lit(f"carried{at}"), is_entry=pl.lit(value=False)) for at in range(9)]
    known = pl.concat([HLO.with_columns(is_entry=pl.col("computation") == "main"), *more])
    assert programs.inputs(known).sort("program", "name")["name"].to_list() == ["x", "y", "x", "y"]


def test_a_difference_names_the_shapes_that_changed() -> None:
    pairs = pl.DataFrame({"module": ["jit_f", "jit_f"], "before": [1, 2], "program": [2, 2]})
    assert programs.differences(pairs, programs.inputs(HLO)).to_list() == ["f32[4] became f32[6]", None]


def test_a_program_first_runs_when_its_first_run_is_launched_or_begins() -> None:
    runs = pl.DataFrame(
        {"module": ["m", "m", "n", None], "program": [1, 1, 1, 2], "launch_ns": [2, None, None, 1]}
        | {"start_ns": [9, 3, 4, 1]}
    )
    assert programs.first_runs(runs).rows() == [("m", 1, 2, 3), ("n", 1, 4, 4)]
