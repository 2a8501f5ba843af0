"""Tables that are put together when they are asked for."""

from __future__ import annotations

import pickle

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from holotrace.core.arrow import frame
from holotrace.core.on_demand import OnDemand, Rows, Tables, narrowed, whole
from holotrace.core.schema import Column, Unit, filled
from holotrace.core.tables import CPU_OPS
from holotrace.core.trace import RankTrace

ROWS = Rows(
    pl.DataFrame({"event_id": [3, 5, 8, 9], "kind": [0, 1, 0, 1], "line": [0, 0, 1, 1], "unset": [None] * 4}).cast(
        {"event_id": pl.UInt32, "kind": pl.UInt32, "line": pl.UInt16, "unset": pl.Int64}
    ),
    {
        "kind": pl.DataFrame({"title": ["dot", "add"], "category": ["compute", "copy"]}),
        "line": pl.DataFrame({"tid": ["1", "2"]}),
    },
)
SHOWN = {"event_id": "event_id", "name": "title", "category": "category", "tid": "tid", "start_ns": "unset"}
WHOLE = pl.DataFrame(
    {
        "event_id": pl.Series([3, 5, 8, 9], dtype=pl.UInt32),
        "name": ["dot", "add", "dot", "add"],
        "category": ["compute", "copy", "compute", "copy"],
        "tid": ["1", "1", "2", "2"],
    }
)
UNITS = (("event_id", Unit.EVENT), ("name", Unit.LABEL), ("category", Unit.LABEL), ("tid", Unit.LABEL))
IS_KEPT = pl.Series([True, False, True, True])


def test_columns_are_made_of_what_rows_share() -> None:
    table = OnDemand.of(ROWS, None, **SHOWN)
    assert_frame_equal(whole(table), WHOLE)
    assert_frame_equal(table[["tid", "name"]], WHOLE[["tid", "name"]])


def test_a_column_of_which_nothing_is_known_takes_no_memory() -> None:
    table = OnDemand.of(ROWS, None, **SHOWN)
    assert "start_ns" not in table.columns
    filled = table.filled((Column("start_ns", Unit.NS, ""), Column("name", Unit.LABEL, "")))
    assert filled.columns == ["start_ns", "name"]
    assert filled.rows.own.columns == ["kind"]
    assert filled[["start_ns", "name"]].to_dict(as_series=False) == {
        "start_ns": [None] * 4,
        "name": ["dot", "add", "dot", "add"],
    }
    assert filled[["name"]]["name"].dtype == pl.Categorical


def test_a_table_may_have_some_of_the_rows() -> None:
    table = OnDemand.of(ROWS, IS_KEPT, **SHOWN)
    assert table.height == 3
    assert_frame_equal(whole(table), WHOLE.filter(IS_KEPT))


@pytest.mark.parametrize("is_kept", [None, IS_KEPT])
def test_some_rows_are_those_that_a_filter_leaves(is_kept: pl.Series | None) -> None:
    table = OnDemand.of(ROWS, is_kept, **SHOWN)
    rank = RankTrace(0, Tables({CPU_OPS.name: table}))
    asked = CPU_OPS.only("event_id", "tid")
    of_frame = RankTrace(0, {CPU_OPS.name: whole(table)})
    for kept in (pl.col("name") == "add", pl.col("tid") == "none", pl.lit(value=True) & pl.col("tid").is_not_null()):
        assert_frame_equal(rank.where(asked, kept), of_frame.where(asked, kept))
    assert rank.where(asked, pl.col("name") == "add").columns == ["event_id", "tid"]
    assert rank.count(CPU_OPS) == table.height


def test_what_follows_from_shared_columns_is_made_once_for_all_rows_that_share_them() -> None:
    seen: list[int] = []

    def kinds(of: pl.DataFrame) -> pl.Series:
        seen.append(of.height)
        return of.select(pl.concat_str(pl.all(), separator="/")).to_series()

    table = OnDemand.of(ROWS, IS_KEPT, **SHOWN)
    shared = table.with_made("kind", ("category", "name"), kinds)
    own = table.with_made("kind", ("tid", "name"), kinds)
    assert seen == [2, 4]
    assert shared[["kind"]]["kind"].to_list() == ["compute/dot", "compute/dot", "copy/add"]
    assert own[["kind"]]["kind"].to_list() == ["1/dot", "2/dot", "2/add"]


def test_a_column_that_the_file_lacks_is_null_where_another_follows_from_it() -> None:
    seen: list[list[str | None]] = []

    def scopes(of: pl.DataFrame) -> pl.Series:
        seen.append(of["input_dims"].to_list())
        return of.select(pl.coalesce("input_dims", "name").cast(pl.String)).to_series()

    asked = CPU_OPS.only("name", "input_dims")
    table = OnDemand.of(ROWS, IS_KEPT, **SHOWN).filled(asked.columns)
    rank = RankTrace(0, Tables({CPU_OPS.name: table}))
    of_frame = RankTrace(0, {CPU_OPS.name: whole(table)})
    assert rank.follows(asked, scopes).to_list() == of_frame.follows(asked, scopes).to_list() == ["dot", "dot", "add"]
    assert seen == [[None, None], [None, None, None]]


@pytest.mark.parametrize("height", [0, 3, 20_000])
def test_columns_of_which_there_is_nothing_are_null_in_tables_of_any_length(height: int) -> None:
    own = pl.DataFrame({"event_id": pl.int_range(height, dtype=pl.UInt32, eager=True)})
    asked = CPU_OPS.only("event_id", "sequence", "input_dims")
    table = OnDemand.of(Rows(own, {}), event_id="event_id").filled(asked.columns)
    expected = {"event_id": own["event_id"], **dict.fromkeys(("sequence", "input_dims"), [None] * height)}
    schema = {column.name: column.unit.dtype for column in asked.columns}
    for found in (whole(table), filled(own, asked.columns), RankTrace(0, Tables({CPU_OPS.name: table}))[asked]):
        assert_frame_equal(found, pl.DataFrame(expected, schema=schema))


def test_a_narrowed_table_holds_no_more_than_it_shows() -> None:
    table = narrowed(OnDemand.of(ROWS, IS_KEPT, **SHOWN), ["tid"])
    assert isinstance(table, OnDemand)
    assert table.rows.own.columns == ["line"]
    assert table.height == 3
    assert narrowed(table, []).height == 3


def test_tables_travel_to_other_processes() -> None:
    tables = pickle.loads(pickle.dumps(Tables({"a": OnDemand.of(ROWS, IS_KEPT, **SHOWN), "b": WHOLE})))
    assert set(tables) == {"a", "b"}
    assert_frame_equal(tables["a"], WHOLE.filter(IS_KEPT))


def test_a_frame_of_a_frame_is_that_frame() -> None:
    assert_frame_equal(frame(WHOLE), WHOLE)


@pytest.mark.parametrize("kept", [pl.lit(value=True) & pl.col("tid").is_not_null(), pl.col("event_id") > 3])
@pytest.mark.parametrize("by", [["name"], ["tid", "category"], ["event_id", "name"], ["start_ns", "tid"]])
def test_rows_that_are_alike_are_summed_as_those_of_a_frame(kept: pl.Expr, by: list[str]) -> None:
    table = OnDemand.of(ROWS, None, **SHOWN).filled(
        tuple(Column(name, unit, "") for name, unit in (*UNITS, ("start_ns", Unit.NS)))
    )
    sums = {"count": pl.len(), "last_id": pl.col("event_id").max()}
    found = RankTrace(0, Tables({CPU_OPS.name: table})).summed(CPU_OPS, kept, by, **sums)
    assert_frame_equal(found, RankTrace(0, {CPU_OPS.name: whole(table)}).summed(CPU_OPS, kept, by, **sums))
    assert found["count"].sum() == whole(table).filter(kept).height
