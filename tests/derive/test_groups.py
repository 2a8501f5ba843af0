"""Which columns tell groups apart."""

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
