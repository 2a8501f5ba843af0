"""Operators around calls."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import CPU_OPS, RUNTIME_CALLS
from holotrace.derive import enclosing


def frame(*rows: tuple[int, str, str, int, int]) -> pl.DataFrame:
    names = ("event_id", "name", "tid", "start_ns", "end_ns")
    columns = {column.name: column.unit.dtype for column in CPU_OPS.columns if column.name in names}
    schema = {name: columns[name] for name in names}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pid=pl.lit("1", pl.Categorical))


OPS = frame((9, "inner", "1", 10, 30), (2, "outer", "1", 0, 100), (5, "elsewhere", "2", 0, 100))


def test_operators_are_listed_from_the_outermost_on() -> None:
    calls = frame((1, "launch", "1", 40, 41), (3, "launch", "1", 20, 21), (4, "launch", "2", 20, 21))
    around = enclosing.operators(OPS, calls)
    assert dict(around.iter_rows()) == {1: ["outer"], 3: ["outer", "inner"], 4: ["elsewhere"]}


def test_all_operators_of_a_deep_tree_are_listed() -> None:
    depth = 20_000
    ops = frame(*((number, f"op{number}", "1", number, 2 * depth - number) for number in range(depth)))
    (around,) = enclosing.operators(ops, frame((1, "launch", "1", depth, depth)))["operators"].to_list()
    assert around == [f"op{number}" for number in range(depth)]


def test_calls_that_no_operator_is_around_are_left_out() -> None:
    assert enclosing.operators(OPS, frame((1, "launch", "3", 40, 41), (3, "launch", "1", 99, 101))).is_empty()


def test_a_call_is_no_operator() -> None:
    calls = frame((1, "outer call", "1", 12, 20), (3, "inner call", "1", 13, 14))
    assert dict(enclosing.operators(OPS, calls).iter_rows()) == {1: ["outer", "inner"], 3: ["outer", "inner"]}


def test_without_operators_or_calls_there_is_nothing() -> None:
    schema = {"event_id": pl.UInt32(), "operators": pl.List(pl.String())}
    assert enclosing.operators(CPU_OPS.empty(), RUNTIME_CALLS.empty()).schema == schema
    assert enclosing.operators(OPS, RUNTIME_CALLS.empty()).schema == schema
