"""Which node of an execution trace each recorded call is."""

from __future__ import annotations

import polars as pl

import holotrace
from holotrace import execution_nodes, execution_trace
from trace_files import REAL_TRACES, needs_real_traces


def calls(*rows: tuple[int, str, int | None, int | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["event_id", "name", "record_function", "external"], orient="row")


def nodes(*rows: tuple[int, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["node", "name", "record_function"], orient="row")


def test_a_call_is_the_node_with_its_id_and_name() -> None:
    found = execution_nodes(
        calls((7, "add", 3, 99), (8, "mul", 4, 3), (9, "add", 5, 1)), nodes((1, "add", 3), (2, "sub", 4), (3, "x", 0))
    )
    # Another name is another run's.
    assert found.rows() == [(7, 1)]


def test_external_ids_are_used_where_there_are_no_others() -> None:
    assert execution_nodes(calls((7, "add", None, 3), (8, "add", 0, 4)), nodes((1, "add", 3))).rows() == [(7, 1)]


def test_no_node_is_two_calls() -> None:
    found = execution_nodes(calls((7, "add", 3, 0), (8, "add", 3, 0)), nodes((1, "add", 3), (2, "add", 3)))
    assert found.rows() == [(7, 1)]


@needs_real_traces
def test_all_operators_of_a_recording_are_nodes_of_its_execution_trace() -> None:
    folder = REAL_TRACES / "hta" / "tests" / "data" / "execution_trace"
    table = execution_trace(folder / "benchmark_simple_add_et.json.gz")
    assert table.height == 38
    ops = holotrace.open(folder / "benchmark_simple_add_trace.json.gz").table("cpu_ops")
    linked = execution_nodes(ops, table)
    assert linked["event_id"].to_list() == ops["event_id"].to_list()
    assert linked["node"].is_unique().all()
