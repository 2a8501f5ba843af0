"""What small frames are made into without a query."""

import polars as pl
from polars.testing import assert_frame_equal, assert_series_equal

from holotrace.core.plans import columns, constant, not_null, without

FRAME = pl.DataFrame({"began_ns": [1, 2], "name": ["a", "b"], "count": [3, None]})


def test_columns_are_taken_by_their_names_and_by_others() -> None:
    expected = FRAME.select("name", start_ns="began_ns")
    assert_frame_equal(columns(FRAME, "name", start_ns="began_ns"), expected)
    assert_frame_equal(columns(FRAME.clear(), "name", start_ns="began_ns"), expected.clear())


def test_columns_are_left_out() -> None:
    assert_frame_equal(without(FRAME, "name", "step"), FRAME.drop("name"))


def test_a_constant_column_may_have_no_rows_and_no_value() -> None:
    assert_series_equal(constant("step", None, 2, pl.Int64()), pl.Series("step", [None, None], dtype=pl.Int64))
    assert_series_equal(constant("looks", False, 0), pl.Series("looks", [], dtype=pl.Boolean))


def test_values_that_are_not_null_stay() -> None:
    assert not_null(FRAME["count"]).to_list() == [3]
    assert not_null(FRAME["began_ns"]).to_list() == [1, 2]
