"""Levels that rise and fall over time."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.derive import levels


def changes(*rows: tuple[str | None, int, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["queue", "time_ns", "event_id", "waiting"], orient="row")


def over_time(rows: pl.DataFrame) -> list[tuple[object, ...]]:
    spans = levels.over_time(rows, by=["queue"], levels=["waiting"])
    return spans.select("queue", "start_ns", "end_ns", "waiting", "lasted_ns").rows()


def test_each_group_has_a_level_of_its_own() -> None:
    rows = changes(("b", 1, 1, 1), ("a", 2, 2, 1), ("b", 5, 3, -1), ("a", 9, 4, -1))
    assert over_time(rows) == [("a", 2, 9, 1, 7), ("a", 9, 9, 0, 0), ("b", 1, 5, 1, 4), ("b", 5, 5, 0, 0)]


def test_rows_without_a_group_are_a_group() -> None:
    assert over_time(changes((None, 1, 1, 1), (None, 5, 3, -1))) == [(None, 1, 5, 1, 4), (None, 5, 5, 0, 0)]


def test_of_changes_at_the_same_time_the_upper_comes_first() -> None:
    first, fall, rise, last = ("a", 0, 1, 1), ("a", 5, 1, -1), ("a", 5, 2, 1), ("a", 9, 2, -1)
    assert [row[3] for row in over_time(changes(last, fall, rise, first))] == [1, 0, 1, 0]
    assert [row[3] for row in over_time(changes(rise, fall, first, last))] == [1, 2, 1, 0]


def test_without_changes_there_is_no_span() -> None:
    assert over_time(changes(("a", 0, 1, 1)).head(0)) == []


def test_quantiles_and_means_are_of_time() -> None:
    table = pl.DataFrame({"level": [1, 2, 8], "lasted_ns": [50, 45, 5]})
    shares = table.select(
        p50=levels.quantile("level", 0.5), p95=levels.quantile("level", 0.95), mean=levels.mean("level")
    )
    assert shares.row(0) == (1, 2, pytest.approx(1.8))


def test_no_time_has_no_mean() -> None:
    assert pl.DataFrame({"level": [1], "lasted_ns": [0]}).select(levels.mean("level")).item() is None
