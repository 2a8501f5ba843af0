"""What goes on in equal stretches of time."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from holotrace.derive import intervals
from holotrace.derive.bins import Grid, runs


def spans(*rows: tuple[int, int, str | None]) -> pl.DataFrame:
    schema = {"start_ns": pl.Int64(), "end_ns": pl.Int64(), "name": pl.Categorical()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_stretches_that_are_alike_are_one_row() -> None:
    found = runs(spans((0, 30, "a"), (30, 35, "b")), Grid(0, 10, 4))
    assert found.rows() == [(0, 30, "a", 30, 1), (30, 40, "b", 5, 1)]


def test_a_stretch_without_anything_has_no_row() -> None:
    found = runs(spans((0, 10, "a"), (20, 30, "a")), Grid(0, 10, 3))
    assert found["start_ns"].to_list() == [0, 20]


def test_what_is_active_longest_names_the_stretch() -> None:
    found = runs(spans((0, 4, "short"), (4, 10, "long"), (10, 20, None)), Grid(0, 10, 2))
    assert found["name"].to_list() == ["long", None]


def test_a_grid_covers_the_time_with_no_more_stretches_than_asked_for() -> None:
    assert Grid.over(100, 201, 10) == Grid(100, 11, 10)
    assert Grid.over(0, 3, 10) == Grid(0, 1, 3)


times = st.integers(0, 300)


@given(st.lists(st.tuples(times, times, st.sampled_from(["a", "b", None]))), st.integers(1, 40))
def test_stretches_are_active_as_long_as_the_spans_in_them(rows: list[tuple[int, int, str | None]], width: int) -> None:
    table = spans(*rows)
    found = runs(table, Grid(0, width, -(-300 // width)))
    assert found["busy_ns"].sum() == intervals.total_ns(table)
    assert (found["busy_ns"] <= found["end_ns"] - found["start_ns"]).all()
    assert (found["start_ns"].diff().drop_nulls() > 0).all()
