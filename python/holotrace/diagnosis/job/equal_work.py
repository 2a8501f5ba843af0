"""Kernels of ranks by kind, beside those of the median rank: whether a rank takes longer for equal work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job import sizes
from holotrace.diagnosis.job.candidates import IS_EQUAL, NAMED_RATIO, Job
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.kernels import APART_RATIO
from holotrace.efficiency import categories

# Kernels that do equal work; and of so many kinds some were lost, not left out.
KIND, _LOST_KINDS = ("name", "detail", "operator"), 3
# A device is slow if kernels of so many of its kinds of work, by time, take longer by at least half of what all do.
_FAMILIES_RATIO = 0.7
# So much of what a rank has beyond others in steps is beyond theirs in sum.
BORNE_OUT_RATIO = 0.5
# A rank has more data for all layers if so much of its work takes longer.
_EVERYWHERE_RATIO = 0.85
# More than half, beyond doubt.
_MOSTLY_RATIO = 0.6
_PAIR = 2
# Equal work of healthy devices differs by less.
_SLOW_RATIO = 1.02
# So much of what a rank computes has to be comparable to tell a slow device from more work.
_COMPARABLE_RATIO = 0.25
# Work of so many operators that is slow alike tells of the device.
_FEWEST_FAMILIES = 2
# What of equal shapes takes as long as its data say.
_OF_DATA = r"(?i)embedding|lookup|moe|expert|grouped|index|sort|unique|nonzero"
_DENSE, _GROUPED = (categories.GEMM, categories.CONVOLUTION), r"(?i)group|ptr_?array|mask"
_DIRECTION = r"_?(?i:forward|backward)\d*$"


def lower(values: pl.Series) -> float:
    """The lower median."""
    found = values.quantile(0.5, "lower")
    return float(found) if found is not None else 0.0


def by_kind(job: Job, by: tuple[str, ...] = ()) -> pl.DataFrame:
    """Work of each rank by kernel, grid, block and shapes, beside that of the median rank; ``by`` step, if asked."""
    work = job.of(account.WORK)
    key = [*by, *KIND]
    by_rank = work.group_by("rank", *key).agg(pl.col("time_ns", "count").sum())
    keys = by_rank.select(key).unique()
    every = keys.join(pl.DataFrame({"rank": job.ranks}, schema={"rank": by_rank.schema["rank"]}), how="cross")
    full = every.join(by_rank, on=["rank", *key], how="left", nulls_equal=True).with_columns(
        pl.col("time_ns", "count").fill_null(0)
    )
    return full.with_columns(
        usual_ns=pl.col("time_ns").quantile(0.5, "lower").over(key),
        usual_count=pl.col("count").quantile(0.5, "lower").over(key),
    )


def longer_ns(kinds: pl.DataFrame) -> float:
    """How much longer than on others these kernels take in sum."""
    return total(kinds.select(pl.col("time_ns").cast(pl.Int64) - pl.col("usual_ns").cast(pl.Int64)).to_series())


def with_lost_kernels(kinds: pl.DataFrame) -> list[int]:
    """Ranks that lack kernels which all others have as often as each other, and have none beyond: they were lost."""
    fewer = pl.col("count") < pl.col("usual_count")
    others_agree = (pl.col("count") == pl.col("usual_count")).sum().over(*KIND) == pl.len().over(*KIND) - 1
    told = kinds.select("rank", is_lost=fewer & others_agree, is_more=pl.col("count") > pl.col("usual_count"))
    by_rank = told.group_by("rank").agg(lost=pl.col("is_lost").sum(), more=pl.col("is_more").sum())
    return list(by_rank.filter(pl.col("lost") >= _LOST_KINDS, pl.col("more") == 0)["rank"].sort())


def with_others_pooled(kinds: pl.DataFrame, rank: int) -> pl.DataFrame:
    """The work of one rank; kinds of which it has more or fewer than most, such as shapes of experts, are one per name.

    What only some other rank has in another number is equal work on this one, unless most have: then the median may be
    the rank itself.
    """
    is_usual = pl.col("count") == pl.col("usual_count")
    is_own = (pl.col("rank") == rank) & ~is_usual
    differs = is_own.any().over(*KIND) | (pl.col("usual_count") == 0) | (is_usual.mean().over(*KIND) <= 0.5)
    marked = kinds.with_columns(differs=differs)
    pooled = marked.filter("differs").group_by("rank", "name", "operator").agg(pl.col("time_ns").sum())
    usual = pl.col("time_ns").quantile(0.5, "lower").over("name", "operator")
    # Nothing tells that it is equal work.
    others = pooled.with_columns(usual_ns=usual, count=pl.lit(1, pl.Int64), usual_count=pl.lit(0.0))
    every = pl.concat([marked.filter(~pl.col("differs")), others], how="diagonal_relaxed")
    return every.filter(pl.col("rank") == rank)


def is_slow(kinds: pl.DataFrame, ratio: float) -> bool:
    """Whether equal work takes longer, in most kinds of kernels alike, by enough to make up the excess ``ratio``.

    Work that no other rank has, such as that of tokens that differ from rank to rank, is no witness.
    """
    regular = kinds.filter(~_is_of_data())
    equal = regular.filter(pl.col("count") == pl.col("usual_count"), pl.col("usual_ns") > 0)
    if equal.is_empty() or total(equal["time_ns"]) < _COMPARABLE_RATIO * total(regular["time_ns"]):
        return False
    usual = total(equal["usual_ns"])
    longer_ratio = total(equal["time_ns"]) / usual - 1
    longer = equal.filter(pl.col("time_ns") / pl.col("usual_ns") > 1 + 0.5 * longer_ratio)
    families = total(longer["usual_ns"]) / usual
    return longer_ratio > _SLOW_RATIO - 1 and longer_ratio > _MOSTLY_RATIO * ratio and families > _FAMILIES_RATIO


def is_everywhere(kinds: pl.DataFrame, ratio: float) -> bool:
    """Whether nearly all that a rank computes takes longer by this ``ratio``, as with more data for all layers.

    Args:
        kinds: The rank's, those of unequal numbers pooled by name.
        ratio: By how much longer it computes in all.
    """
    # Updates of parameters take all ranks as long.
    known = kinds.filter(pl.col("usual_ns") > 0, ~pl.col("operator").fill_null("").str.contains(sizes.UPDATES))
    longer = pl.col("time_ns") / pl.col("usual_ns") - 1
    # Experts compute what all ranks send them, and attention takes longer than in proportion.
    return total(known.filter(longer > 0.5 * ratio)["usual_ns"]) > _EVERYWHERE_RATIO * total(known["usual_ns"])


def is_slow_at_some(kinds: pl.DataFrame) -> bool:
    """Whether nothing but equal work takes longer, much of it by about the same factor: clocks, or memory, are slow.

    Kernels that either clocks or memory limit are then slow, and the others not. Work that depends on the data is no
    witness: lookups and experts by their names; others, such as attention within documents, are of one operator,
    forward and backward, and no dense product.
    """
    excess = pl.col("time_ns").cast(pl.Int64) - pl.col("usual_ns").cast(pl.Int64)
    more = kinds.with_columns(excess_ns=excess).filter(pl.col("excess_ns") > 0)
    equal = more.filter(pl.col("count") == pl.col("usual_count"), pl.col("usual_ns") > 0)
    longer = equal.filter(pl.col("time_ns") > _SLOW_RATIO * pl.col("usual_ns"))
    if longer.is_empty() or total(longer["excess_ns"]) < _FAMILIES_RATIO * total(more["excess_ns"]):
        return False
    ratio = total(longer["excess_ns"]) / total(longer["usual_ns"])
    own = (pl.col("excess_ns") / pl.col("usual_ns")).is_between(0.5 * ratio, 1.5 * ratio)
    alike = longer.filter(own)
    total_ns = total(alike["excess_ns"])
    alike = alike.filter(~_is_of_data())
    families = alike["operator"].fill_null("").str.replace(_DIRECTION, "").unique()
    most = max(alike.group_by("operator").agg(pl.col("excess_ns").sum())["excess_ns"].to_list(), default=0)
    is_of_several = len(families) >= _FEWEST_FAMILIES and most < NAMED_RATIO * total(alike["excess_ns"])
    return total_ns > _FAMILIES_RATIO * total(longer["excess_ns"]) and (is_of_several or _is_of_dense_products(alike))


def _is_of_data() -> pl.Expr:
    """Work that takes as long as its data say, whatever their shapes."""
    return pl.any_horizontal(pl.col(name).fill_null("").str.contains(_OF_DATA) for name in ("operator", "name"))


def _is_of_dense_products(longer: pl.DataFrame) -> bool:
    """Whether products take longer by several kernels, or by one at several shapes, each of which others have, too.

    Those of equal shapes take equally long, whatever the data.
    """
    dense = longer.filter(pl.Series([_is_dense(name or "") for name in longer["name"]], dtype=pl.Boolean))
    is_most = total(dense["excess_ns"]) > _MOSTLY_RATIO * total(longer["excess_ns"])
    return is_most and dense.select("name", "detail").n_unique() >= _FEWEST_FAMILIES


def of_more_work(kinds: pl.DataFrame, ranks: Sequence[int]) -> dict[str, Any]:
    """How many kernels ranks run for each one of the others, and whether it is as many equal ones that take longer."""
    usual, own = kinds.filter(pl.col("rank").is_in(ranks)).select(pl.col("usual_count", "count").sum()).row(0)
    ratio = {"call_ratio": round(float(own) / max(1.0, float(usual)), 3)}
    return ratio | ({IS_EQUAL: True} if is_equal(kinds, tuple(ranks)) else {})


def _is_dense(kernel: str) -> bool:
    return categories.of_kernel(kernel) in _DENSE and not re.search(_GROUPED, kernel)


def is_equal(kinds: pl.DataFrame, ranks: tuple[int, ...]) -> bool:
    """Whether ranks take longer for as many calls of as large kernels as the others make."""
    mine = kinds.filter(pl.col("rank").is_in(ranks))
    excess = (pl.col("time_ns").cast(pl.Int64) - pl.col("usual_ns").cast(pl.Int64)).clip(lower_bound=0)
    if kinds["rank"].n_unique() == _PAIR and len(ranks) == 1:
        # What the other takes longer for counts, too: none of two is usual.
        others = kinds.filter(~pl.col("rank").is_in(ranks)).select(*KIND, other_ns="time_ns")
        mine = mine.join(others, on=list(KIND), how="left", nulls_equal=True)
        excess = pl.col("time_ns").cast(pl.Int64) - pl.col("other_ns").cast(pl.Int64)
    equal = mine.filter(pl.col("count") == pl.col("usual_count")).select(excess.sum()).item()
    return float(equal) > _MOSTLY_RATIO * float(mine.select(excess.sum()).item())


def is_apart(kinds: pl.DataFrame, ranks: tuple[int, ...], ratio: float) -> bool:
    """Whether work takes so much longer, by that ``ratio``, as equal work of healthy devices does not: all, or some."""
    if ratio > _SLOW_RATIO - 1 or not is_equal(kinds, ranks):
        return True
    excess = (pl.col("time_ns").cast(pl.Int64) - pl.col("usual_ns").cast(pl.Int64)).clip(lower_bound=0)
    more = kinds.filter(pl.col("rank").is_in(ranks)).with_columns(excess_ns=excess)
    apart = more.filter(pl.col("time_ns") > APART_RATIO * pl.col("usual_ns"))
    return total(apart["excess_ns"]) > _MOSTLY_RATIO * total(more["excess_ns"])


def largest(work: pl.DataFrame, ranks: tuple[int, ...], by: tuple[str, ...] = ()) -> tuple[str | None, str | None]:
    """The operator, and the kernel, with the largest excess on these ranks.

    Args:
        work: rank, name, operator and time_ns of kernels, and what they are told apart ``by``.
        ranks: The ranks whose work is more than that of the median rank.
        by: Within what ranks are compared, as within each step; the whole by default.
    """
    excess = pl.col("time_ns").cast(pl.Int64) - pl.col("usual_ns").cast(pl.Int64)

    def most(column: str) -> str | None:
        # Of equal operators and kernels, whatever shapes they had.
        by_rank = work.group_by("rank", *by, column).agg(pl.col("time_ns").sum())
        beside = by_rank.with_columns(usual_ns=pl.col("time_ns").quantile(0.5, "lower").over(*by, column))
        more = beside.filter(pl.col("rank").is_in(ranks)).select(
            column, ns=excess.clip(lower_bound=0) if by else excess
        )
        summed = more.group_by(column).agg(pl.col("ns").sum()).drop_nulls(column)
        found = summed.sort("ns", column, descending=[True, False])[column].first()
        return str(found) if found else None

    kernel = most("name")
    # Of kernels that no operator is known of, the kernel is all that can be named.
    work = work.with_columns(pl.coalesce("operator", "name").alias("operator"))
    return most("operator"), kernel
