"""How far a device's clock is from its host's."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.core.tables import HOST_CALLS, MODULES
from holotrace.derive import skew


def table(declared: pl.DataFrame, rows: list[dict[str, object]]) -> pl.DataFrame:
    given = pl.DataFrame(rows, infer_schema_length=None) if rows else declared
    return declared.select(
        (given[name] if name in given.columns else pl.Series(name, [None] * given.height)).cast(dtype)
        if rows
        else declared[name]
        for name, dtype in declared.schema.items()
    )


def bounds(launch_ns: int, start_ns: int, end_ns: int, completed_ns: int | None) -> tuple[int | None, ...]:
    run = {"device": 0, "plane": "/device:TPU:0", "run": 5, "start_ns": start_ns, "end_ns": end_ns}
    modules = table(skew.READS[0].empty(), [run | {"launch_ns": launch_ns}])
    done = {"name": "CompleteCallbacks", "run": 5, "device": 0, "start_ns": completed_ns}
    calls = table(skew.READS[1].empty(), [done] if completed_ns is not None else [])
    found = skew.bounds(modules, calls)
    return found.select("least_shift_ns", "most_shift_ns", "shift_ns").row(0)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((10, 12, 20, 30), (-2, 10, 0)),
        # The run began before its launch ...
        ((10, 4, 8, 30), (6, 22, 6)),
        # ... or ended after its completion was heard of.
        ((10, 40, 50, 45), (-30, -5, -5)),
        # Both: no single shift mends that.
        ((10, 4, 50, 45), (6, -5, None)),
        ((10, 12, 20, None), (-2, None, 0)),
    ],
)
def test_the_shift_is_the_smallest_that_no_run_contradicts(
    times: tuple[int, int, int, int | None], expected: tuple[int | None, ...]
) -> None:
    assert bounds(*times) == expected


def test_the_tables_it_reads_are_declared() -> None:
    assert [read.name for read in skew.READS] == [MODULES.name, HOST_CALLS.name]
