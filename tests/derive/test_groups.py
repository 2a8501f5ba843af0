"""Which columns tell groups apart, and in which order groups are."""

from __future__ import annotations

import polars as pl

from holotrace.derive import groups

BY = ["device", "stream"]


def test_a_column_that_is_the_same_everywhere_tells_no_groups_apart() -> None:
    assert groups.differing(pl.DataFrame({"device": [0, 0], "stream": [7, 9]}), BY) == ["stream"]
    assert groups.differing(pl.DataFrame({"device": [None, None], "stream": [7, 7]}), BY) == []


def test_nothing_known_differs_from_what_is_known() -> None:
    assert groups.differing(pl.DataFrame({"device": [None, 0], "stream": [7, None]}), BY) == BY


def test_without_rows_nothing_differs() -> None:
    assert groups.differing(pl.DataFrame(schema={"device": pl.Int64(), "stream": pl.String()}), BY) == []


def test_groups_are_in_the_order_of_all_columns_nothing_known_first() -> None:
    rows = pl.DataFrame({"device": [1, 0, 0, 1, 0], "stream": [7, 20, None, 7, 7]})
    assert groups.numbered(rows, BY).rank("dense").to_list() == [4, 3, 1, 4, 2]


def test_groups_may_be_known_by_text_or_by_one_number() -> None:
    rows = pl.DataFrame({"device": [0, 0, 0], "stream": [20, -1, 7], "copy": ["b", None, "a"]})
    assert groups.numbered(rows, BY).rank("dense").to_list() == [3, 1, 2]
    assert groups.numbered(rows, ["device", "copy"]).rank("dense").to_list() == [3, 1, 2]


def test_rows_that_nothing_tells_apart_are_one_group() -> None:
    assert groups.numbered(pl.DataFrame({"device": [3, 3], "stream": [7, 7]}), BY).n_unique() == 1


def test_rows_are_ordered_by_several_columns_nothing_known_first_and_equal_ones_stay_as_they_are() -> None:
    rows = pl.DataFrame({"stream": [7, None, 7, 7], "start_ns": [5, 9, 1, 1], "name": ["a", "b", "c", "d"]})
    assert groups.ordered(rows, ["stream", "start_ns"])["name"].to_list() == ["b", "c", "d", "a"]
