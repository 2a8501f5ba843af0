"""Tables of many ranks as people read them: a row per name with what ranks differ by, or outliers first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from holotrace.core.analysis import Analysis
from holotrace.core.charts import Roofline, Tree
from holotrace.core.schema import Column, Unit
from holotrace.present import format as fmt

# Measures whose values of several rows of a rank are no sum: the least, the most, or the mean is taken.
_LEAST, _MOST = ("min_", "first_"), ("max_", "last_", "most_")
_MEANS = ("mean_", "std_", "p25_", "p50_", "p75_", "p95_", "least_")
_SUMMED = (Unit.NS, Unit.BYTES, Unit.COUNT)
# Measures of what one row is of: they mean nothing of several.
_POINTS = ("start_ns", "end_ns", "time_ns")
_SPREAD = Column("spread_ratio", Unit.RATIO, "(Most - least) / mean of ranks; a rank without the name has none of it")
_WORST = Column("worst_rank", Unit.RANK, "The rank with the most")
_RANKS = Column("seen_rank_count", Unit.COUNT, "How many ranks have it")
# Fewer rows than these a reader overlooks; they stay in the order of their ranks.
FEW_ROWS = 15
_PLACE = "_place"  # of a row in its table
_FEWEST = 4  # rows that each name opens to, however many names there are


@dataclass(frozen=True)
class Names:
    """A row per name, the largest first, and of which of its ranks it is made."""

    table: pl.DataFrame
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    # The measure that rows are sorted by.
    by: str
    ranks: int


def per_name(analysis: Analysis[Any], table: pl.DataFrame) -> Names | None:
    """The table with one row for each name; None where it has none, or is of one rank, or each name is of one.

    Measures are means over all ranks; of several rows of a rank they are summed first.
    """
    names, by = analysis.names, measure(analysis)
    table = whole_steps(table)
    ranks = table["rank"].n_unique() if "rank" in table.columns else 1
    if not names or not by or ranks < 2 or table.select(names).n_unique() == table.height:
        return None
    told = (by, f"least_{by}", f"most_{by}", _SPREAD.name, _WORST.name, _RANKS.name, *_POINTS)
    others = tuple(c for c in analysis.columns if c.name not in told and fmt.is_measure(c))
    of_rank = (
        table.with_row_index(_PLACE)
        .group_by("rank", *names)
        .agg(pl.col(by).sum(), *(_within(column) for column in others), pl.col(_PLACE).min())
    )
    kept = [name for name in names if name != "rank"]
    # A rank without a name has none of it.
    mean = pl.col(by).sum() / ranks
    least = pl.when(pl.len() == ranks).then(pl.col(by).min()).otherwise(0).fill_null(0)
    found = (
        of_rank.sort(*kept, "rank", nulls_last=True)
        .group_by(*kept, maintain_order=True)
        .agg(
            pl.col("rank")
            .sort_by(by, descending=True, nulls_last=True, maintain_order=True)
            .first()
            .alias(_WORST.name),
            pl.len().cast(pl.Int64).alias(_RANKS.name),
            mean.alias(by),
            least.alias(f"least_{by}"),
            pl.col(by).max().alias(f"most_{by}"),
            *(_across(column) for column in others),
            pl.col(_PLACE).min(),
        )
    )
    spread = (pl.col(f"most_{by}") - pl.col(f"least_{by}")) / pl.col(by)
    found = found.with_columns(pl.when(pl.col(by) > 0).then(spread).alias(_SPREAD.name))
    columns = _columns(analysis, names, by, others)
    # What is as large is in the analysis' own order: that of operators by their own time where none launched work.
    ordered = found.sort(by, _PLACE, descending=[True, False], nulls_last=True)
    typed = ordered.select(pl.col(c.name).cast(c.unit.dtype, strict=False) for c in columns)
    return Names(typed, columns, tuple(kept), by, ranks)


def outliers_first(analysis: Analysis[Any], table: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The table with the ranks furthest from the median first, and a word on it; as it is where rows are few."""
    drawn = () if analysis.chart is None else analysis.chart.y
    columns = {column.name: column for column in analysis.columns}
    by = [name for name in drawn if fmt.is_measure(columns[name])]
    # Rows of pairs of ranks, or of parts of a rank, have an order of their own.
    key = [name for name in ("rank", "step") if name in table.columns]
    of_ranks = "rank" in key and table["rank"].n_unique() > 1 and table.select(key).n_unique() == table.height
    if analysis.names or not by or not of_ranks or table.height <= FEW_ROWS:
        return table, ""
    # Steps differ more than ranks do, so each rank is compared with the others in the same step.
    like = ["step"] if "step" in table.columns else [pl.lit(0)]
    apart = pl.max_horizontal((pl.col(name) - pl.col(name).median().over(like)).abs().fill_nan(None) for name in by)
    ordered = table.with_columns(_apart=apart).sort("_apart", descending=True, nulls_last=True, maintain_order=True)
    said = " or ".join(fmt.label(columns[name]).lower() for name in by[:3])
    return ordered.drop("_apart"), f"furthest from the median first ({said}{' …' if len(by) > 3 else ''})"


def for_people(analysis: Analysis[Any], table: pl.DataFrame) -> tuple[pl.DataFrame, tuple[Column, ...], str]:
    """The rows and columns that a reader wants first, and a word on them."""
    if found := per_name(analysis, table):
        ranks = fmt.plural(found.ranks, "rank")
        return found.table, found.columns, f"A row per name, means of {ranks}; --by-rank shows the rows of each rank"
    ordered, said = outliers_first(analysis, table)
    return ordered, analysis.columns, f"{said[:1].upper()}{said[1:]}; --by-rank shows ranks in order" if said else ""


def whole_steps(table: pl.DataFrame) -> pl.DataFrame:
    """Rows of all steps together, where a table has them beside rows of each step."""
    if "step" not in table.columns or not 0 < table["step"].null_count() < table.height:
        return table
    return table.filter(pl.col("step").is_null())


def rows_of(found: Names, table: pl.DataFrame, most: int) -> pl.DataFrame:
    """The rows that the first names are made of, the largest of each first, at most so many of all names together."""
    first = found.table.with_row_index("name_index").select("name_index", *found.names)
    each = max(_FEWEST, most // max(first.height, 1))
    joined = whole_steps(table).join(first, on=list(found.names), how="inner", nulls_equal=True)
    ordered = joined.sort("name_index", found.by, "rank", descending=[False, True, False], nulls_last=True)
    return ordered.group_by("name_index", maintain_order=True).head(each).head(max(most, each))


def measure(analysis: Analysis[Any]) -> str:
    """The measure that tells how much a row matters."""
    chart = analysis.chart
    if chart is None:
        return ""
    columns = {column.name: column for column in analysis.columns}
    by = chart.size if isinstance(chart, Roofline) else chart.total if isinstance(chart, Tree) else chart.y[0]
    return by if by in columns and fmt.is_measure(columns[by]) else ""


def _within(column: Column) -> pl.Expr:
    """One value of a measure of the rows of a name on one rank."""
    value = pl.col(column.name)
    if column.name.startswith(_LEAST):
        return value.min()
    if column.name.startswith(_MOST):
        return value.max()
    is_sum = column.unit in _SUMMED and not column.name.startswith(_MEANS)
    return (pl.when(value.count() > 0).then(value.sum()) if is_sum else value.mean()).alias(column.name)


def _across(column: Column) -> pl.Expr:
    value = pl.col(column.name)
    if column.name.startswith(_LEAST):
        return value.min()
    return value.max() if column.name.startswith(_MOST) else value.mean()


def _columns(analysis: Analysis[Any], names: Sequence[str], by: str, others: Sequence[Column]) -> tuple[Column, ...]:
    own = {column.name: column for column in analysis.columns}
    main = own[by]
    ends = (replace(main, name=f"{word}_{by}", meaning=f"The {word} of it on any rank") for word in ("least", "most"))
    told = (replace(main, meaning=f"Mean of ranks: {main.meaning}"), _SPREAD, _WORST, *ends)
    rest = (replace(c, meaning=f"Mean of ranks: {c.meaning}") for c in others)
    return (*(own[name] for name in names), *told, _RANKS, *rest)
