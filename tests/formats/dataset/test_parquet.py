"""What is written as Parquet is read back by other programs as it was."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from pyarrow import parquet

from holotrace._native import write_parquet

GROUP_ROWS = 1 << 18
VALUES = {
    "whole": (pl.Int64, st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    "id": (pl.UInt32, st.integers(0, 2**32 - 1) | st.integers(0, 9)),
    "number": (pl.Float64, st.floats(allow_nan=False)),
    "flag": (pl.Boolean, st.booleans()),
    "label": (pl.Categorical, st.sampled_from(["", "a", "b \N{SNOWMAN}"])),
    "text": (pl.String, st.text(st.characters(codec="utf-8", exclude_characters="\0"))),
}


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    count = draw(st.integers(0, 300))
    columns = []
    for name, (dtype, values) in VALUES.items():
        # Columns of one value, of many, without nulls and of nothing else are each written in their own way.
        some = draw(st.lists(st.none() | values, min_size=1, max_size=20) | st.lists(values, min_size=1, max_size=20))
        places = draw(st.randoms(use_true_random=False))
        columns.append(pl.Series(name, [places.choice(some) for _ in range(count)], dtype=dtype))
    return pl.DataFrame(columns)


def written(frame: pl.DataFrame, path: Path, by: str | None = None) -> Path:
    assert write_parquet(str(path), frame, [frame.rechunk()], by=by, metadata=[("key", "value")]) == frame.height
    return path


@given(frames())
def test_every_program_reads_what_was_written(tmp_path_factory: pytest.TempPathFactory, frame: pl.DataFrame) -> None:
    path = written(frame, tmp_path_factory.mktemp("written") / "a.parquet")
    frame = frame.cast({"label": pl.String})
    assert_frame_equal(pl.read_parquet(path), frame, check_exact=True)
    assert_frame_equal(pl.DataFrame(parquet.read_table(path)), frame, check_exact=True)
    assert_frame_equal(duckdb.read_parquet(str(path)).pl(), frame, check_exact=True)
    assert pl.read_parquet_metadata(path)["key"] == "value"


@given(frames())
def test_groups_say_what_is_in_them(tmp_path_factory: pytest.TempPathFactory, frame: pl.DataFrame) -> None:
    path = written(frame, tmp_path_factory.mktemp("written") / "a.parquet")
    metadata = parquet.read_metadata(path)
    assert metadata.num_row_groups == (not frame.is_empty())
    for place, name in enumerate(frame.columns if metadata.num_row_groups else ()):
        said = metadata.row_group(0).column(place).statistics
        assert said.null_count == frame[name].null_count()
        has_range = name in ("whole", "id", "number") and frame[name].count() > 0
        assert (said.min, said.max) == ((frame[name].min(), frame[name].max()) if has_range else (None, None))


def test_many_rows_are_in_groups_by_time(tmp_path: Path) -> None:
    count = GROUP_ROWS + 1000
    # More labels than two bytes can number.
    labels = (pl.int_range(count, eager=True) % 70_000).cast(pl.String).cast(pl.Categorical)
    frame = pl.DataFrame({"time_ns": pl.int_range(count, eager=True).shuffle(seed=1), "label": labels})
    path = written(frame, tmp_path / "a.parquet", by="time_ns")
    assert_frame_equal(pl.read_parquet(path), frame.sort("time_ns").cast({"label": pl.String}))
    assert_frame_equal(duckdb.read_parquet(str(path)).pl(), frame.sort("time_ns").cast({"label": pl.String}))
    groups = parquet.read_metadata(path)
    ranges = [groups.row_group(group).column(0).statistics for group in range(groups.num_row_groups)]
    assert [(said.min, said.max) for said in ranges] == [(0, GROUP_ROWS - 1), (GROUP_ROWS, count - 1)]


def test_rows_of_one_time_stay_in_their_order_and_those_without_come_first(tmp_path: Path) -> None:
    frame = pl.DataFrame({"time_ns": [5, None, 3, 5, None, 3], "id": pl.Series(range(6), dtype=pl.UInt32)})
    path = written(frame, tmp_path / "a.parquet", by="time_ns")
    assert pl.read_parquet(path)["id"].to_list() == [1, 4, 2, 5, 0, 3]


def test_a_number_that_is_none_leaves_its_group_without_a_range(tmp_path: Path) -> None:
    frame = pl.DataFrame({"number": [1.0, float("nan")], "whole": [1, 2]})
    metadata = parquet.read_metadata(written(frame, tmp_path / "a.parquet"))
    assert [metadata.row_group(0).column(place).statistics.has_min_max for place in (0, 1)] == [False, True]


def test_columns_come_from_parts_and_are_null_where_none_has_them(tmp_path: Path) -> None:
    schema = pl.DataFrame(schema={"a": pl.Int64, "b": pl.Boolean, "c": pl.Categorical, "d": pl.String, "e": pl.UInt32})
    parts = [pl.DataFrame({"other": [7, 8], "b": [True, False]}), pl.DataFrame({"a": [1, 2]})]
    path = tmp_path / "a.parquet"
    assert write_parquet(str(path), schema, parts, by=None, metadata=[]) == 2
    found = pl.read_parquet(path).rows()
    assert (
        found
        == duckdb.read_parquet(str(path)).fetchall()
        == [(1, True, None, None, None), (2, False, None, None, None)]
    )


def test_what_is_not_as_the_schema_says_is_an_error(tmp_path: Path) -> None:
    for part in (pl.DataFrame({"a": ["text"], "b": [1]}), pl.DataFrame({"b": [1, 2]})):
        schema = pl.DataFrame(schema={"a": pl.Int64, "b": pl.Int64})
        with pytest.raises(ValueError):
            write_parquet(
                str(tmp_path / "a.parquet"), schema, [pl.DataFrame({"a": [1]}), part][::-1], by=None, metadata=[]
            )


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="type Int8"):
        written(pl.DataFrame({"a": pl.Series([1], dtype=pl.Int8)}), tmp_path / "a.parquet")
    with pytest.raises(FileNotFoundError):
        written(pl.DataFrame({"a": [1]}), tmp_path / "nowhere" / "a.parquet")
