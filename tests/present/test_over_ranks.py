"""Tables of many ranks as people read them."""

from typing import Any

import made_up
import polars as pl
import pytest

from holotrace.analyses import ALL
from holotrace.core.analysis import Analysis, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column, Unit
from holotrace.core.trace import RankTrace
from holotrace.present.over_ranks import Names, for_people, outliers_first, per_name, rows_of


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Training step; null for all of them"),
        Column("name", Unit.TEXT, "What ran"),
        Column("sum_ns", Unit.NS, "Time"),
        Column("min_ns", Unit.NS, "Its shortest run"),
        Column("count", Unit.COUNT, "How often"),
        Column("start_ns", Unit.NS, "When the first one was"),
    ),
    reads=(),
    chart=Ranking(x="name", y=("sum_ns",)),
)
def work(rank: RankTrace) -> pl.DataFrame:
    """What ran."""
    raise NotImplementedError


def table(rows: str) -> pl.DataFrame:
    """Rows as ``rank name sum min``; each ran twice, at 7 ns, in no step."""
    cells = [line.split() for line in rows.split("\n") if line.strip()]
    return pl.DataFrame(
        {
            "rank": [int(rank) for rank, *_ in cells],
            "step": [None] * len(cells),
            "name": [None if name == "-" else name for _, name, *_ in cells],
            "sum_ns": [int(row[2]) for row in cells],
            "min_ns": [int(row[3]) for row in cells],
            "count": [2] * len(cells),
            "start_ns": [7] * len(cells),
        },
        schema=dict(work.nothing.schema),
    )


def named(rows: str) -> Names:
    found = per_name(work, table(rows))
    assert found is not None
    return found


def test_names_with_as_much_stay_in_the_order_of_their_analysis() -> None:
    found = named("""
        0 relu 0 9
        0 gemm 0 3
        0 copy 4 1
        1 gemm 0 9
        1 relu 0 3
    """)
    assert found.table["name"].to_list() == ["copy", "relu", "gemm"]


def test_a_name_is_one_row_with_mean_spread_and_the_worst_rank() -> None:
    found = named("""
        0 gemm 10 3
        1 gemm 20 2
        2 gemm 30 4
        0 copy 2 1
        1 copy 2 1
        2 copy 2 1
    """)
    shown = found.table.select(
        "name", "sum_ns", "least_sum_ns", "most_sum_ns", "worst_rank", "seen_rank_count", "min_ns"
    )
    assert shown.rows() == [("gemm", 20, 10, 30, 2, 3, 2), ("copy", 2, 2, 2, 0, 3, 1)]
    assert found.table["spread_ratio"].to_list() == [1.0, 0.0]


def test_a_rank_without_a_name_has_none_of_it() -> None:
    found = named("""
        0 gemm 10 3
        1 copy 30 2
        0 copy 30 2
    """)
    gemm = found.table.filter(pl.col("name") == "gemm").select("sum_ns", "least_sum_ns", "seen_rank_count")
    assert gemm.rows() == [(5, 0, 1)]


def test_several_rows_of_a_rank_are_summed_before_ranks_are_compared() -> None:
    found = named("""
        0 gemm 10 3
        0 gemm 10 5
        1 gemm 18 2
    """)
    assert found.table.select("sum_ns", "worst_rank", "count").rows() == [(19, 0, 3)]


def test_means_of_names_sum_to_the_mean_of_ranks() -> None:
    kernels = made_up.make(8).tables["kernels"]
    found = per_name(made_up.kernels, kernels)
    assert found is not None
    assert found.table["sum_ns"].sum() == pytest.approx(kernels["sum_ns"].sum() / 8, abs=found.table.height)


def test_rows_of_single_steps_are_not_counted_beside_those_of_all_steps() -> None:
    whole = table("""
        0 gemm 10 3
        1 gemm 10 3
    """)
    found = per_name(work, pl.concat([whole, whole.with_columns(step=pl.lit(1, pl.Int64()))]))
    assert found is not None and found.table["sum_ns"].to_list() == [10]


def test_rows_without_a_name_stay_together() -> None:
    found = named("""
        0 - 10 3
        1 - 30 3
    """)
    assert found.table.select("name", "sum_ns").rows() == [(None, 20)]
    assert rows_of(found, table("0 - 10 3\n1 - 30 3"), 10)["rank"].to_list() == [1, 0]


def test_each_name_opens_to_the_ranks_with_the_most_of_it() -> None:
    kernels = made_up.make(64).tables["kernels"]
    found = per_name(made_up.kernels, kernels)
    assert found is not None
    inner = rows_of(found, kernels, 400)
    assert inner.height == 400 and set(inner["name_index"]) == set(range(40))
    first = inner.group_by("name_index", maintain_order=True).agg(pl.col("sum_ns", "rank").first())
    assert first["sum_ns"].to_list() == found.table["most_sum_ns"].to_list()
    assert first["rank"].to_list() == found.table["worst_rank"].to_list()


def test_one_rank_and_names_of_one_rank_each_stay_as_they_are() -> None:
    assert per_name(work, table("0 gemm 10 3\n0 copy 2 1")) is None
    assert per_name(work, table("0 gemm 10 3\n1 copy 2 1")) is None


def test_ranks_begin_with_the_one_that_is_furthest_from_the_median() -> None:
    breakdown = made_up.make(64).tables["time_breakdown"]
    ordered, said = outliers_first(made_up.time_breakdown, breakdown)
    assert ordered["rank"][0] == 3 and sorted(ordered["rank"]) == list(range(64))
    assert said.startswith("furthest from the median first (compute or")


def test_few_ranks_stay_in_their_order() -> None:
    breakdown = made_up.make(8).tables["time_breakdown"]
    ordered, said = outliers_first(made_up.time_breakdown, breakdown)
    assert ordered.equals(breakdown) and not said


@pytest.mark.parametrize("analysis", [a for a in ALL if a.names], ids=lambda analysis: analysis.name)
def test_every_analysis_with_names_has_a_row_per_name(analysis: Analysis[Any]) -> None:
    found = per_name(analysis, two_ranks(analysis))
    assert found is not None and found.table.height == 1
    assert len({column.name for column in found.columns}) == len(found.columns) == found.table.width


def two_ranks(analysis: Analysis[Any]) -> pl.DataFrame:
    """The same row on two ranks."""
    texts = {Unit.TEXT: "a", Unit.LABEL: "a", Unit.RANKS: [0], Unit.STEPS: [0]}
    row = {column.name: [texts.get(column.unit, 1)] * 2 for column in analysis.columns}
    frame = pl.DataFrame(row, strict=False).with_columns(pl.Series("rank", [0, 1]))
    return frame.select(pl.col(name).cast(dtype) for name, dtype in analysis.nothing.schema.items())


@pytest.mark.parametrize("analysis", ALL, ids=lambda analysis: analysis.name)
def test_every_analysis_without_rows_has_no_names(analysis: Analysis[Any]) -> None:
    assert per_name(analysis, analysis.nothing) is None
    assert outliers_first(analysis, analysis.nothing)[0].is_empty()


def test_a_terminal_shows_a_row_per_name_and_says_how_to_see_every_rank() -> None:
    shown, columns, note = for_people(made_up.kernels, made_up.make(8).tables["kernels"])
    assert shown.height == 40 and shown.columns == [column.name for column in columns]
    assert note == "A row per name, means of 8 ranks; --by-rank shows the rows of each rank"


def test_rows_of_pairs_of_ranks_keep_their_order() -> None:
    pairs = [(rank, 100 * rank + other, other) for rank in range(8) for other in range(4)]
    waits = pl.DataFrame(pairs, schema={"rank": pl.Int32, "compute_ns": pl.Int64, "other": pl.Int64}, orient="row")
    breakdown = made_up.make(8).tables["time_breakdown"]
    others = [pl.col(name).first() for name in breakdown.columns if name not in waits.columns]
    several = waits.hstack(breakdown.select(others).select(pl.all().repeat_by(waits.height).explode()))
    assert outliers_first(made_up.time_breakdown, several)[1] == ""
