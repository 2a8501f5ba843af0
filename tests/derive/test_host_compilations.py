"""When the host compiled programs, and which."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.derive import host_activities
from holotrace.derive.compilations import compilations, named_by_runs

Span = tuple[str, int, int, str | None]


def found(*spans: Span) -> list[tuple[int, int, int, str | None]]:
    rows = [(name, "1", start, end, arguments) for name, start, end, arguments in spans]
    schema = {"name": pl.String, "tid": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64, "arguments": pl.String}
    calls = pl.DataFrame(rows, schema=schema, orient="row")
    telling = calls.with_columns(host_activities.of_calls(calls["name"]).alias("activity")).drop_nulls("activity")
    return compilations(telling).select("start_ns", "end_ns", "compile_ns", "module").rows()


def test_a_compilation_is_named_by_the_module_it_says() -> None:
    assert found(("backend_compile", 10, 40, '{"module": "jit_step"}')) == [(10, 40, 30, "jit_step")]


def test_what_leads_up_to_a_compilation_within_a_call_is_part_of_it() -> None:
    spans = (("PjitFunction(step)", 0, 100, None), ("trace_to_jaxpr", 5, 10, None), ("backend_compile", 20, 60, None))
    (row,) = found(*spans)
    assert row[1] == 60
    assert row[3] == "jit_step"


def test_a_host_that_compiles_nothing_has_no_compilation() -> None:
    assert found(("PjitFunction(step)", 0, 100, None)) == []
    assert found() == []


@pytest.mark.filterwarnings("error")
def test_nothing_is_compared_with_a_launch_that_no_program_had() -> None:
    """Reports of jobs on devices that were not recorded began with a warning of a library."""
    compiled = pl.DataFrame({"start_ns": [1], "end_ns": [2], "module": ["jit_step"]})
    runs = pl.DataFrame(schema={"module": pl.Categorical(), "program": pl.Int64(), "launch_ns": pl.Int64()})
    assert named_by_runs(compiled, runs)["module"].to_list() == ["jit_step"]
