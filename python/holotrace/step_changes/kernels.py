"""Which part of the change of computing all kernels have in common: how often they run, and how long each takes."""

from __future__ import annotations

import polars as pl

from holotrace.diagnosis.job.floors import FLOOR_RATIO

# Kernels that make up so little of computing tell nothing of all.
_LEAST_SHARE = 0.01
_SEVERAL = 3


def times_as_often(before: pl.DataFrame, after: pl.DataFrame) -> float | None:
    """How often most computing that both jobs have ran after, in times of before; None where they have none."""
    both = before.join(after, on="name", suffix="_after").filter(pl.col("run_count") > 0)
    ordered = both.with_columns(often=pl.col("run_count_after") / pl.col("run_count")).sort("often")
    of_most = ordered.filter(pl.col("total_ns").cum_sum() * 2 >= pl.col("total_ns").sum())
    return None if of_most.is_empty() else float(of_most["often"][0])


def times_as_long(before: pl.DataFrame, after: pl.DataFrame, of_ranks: tuple[pl.Series, pl.Series]) -> float | None:
    """In times of before, how long kernels take after that all run as often and are longer, or shorter, alike.

    None if they are not, or not on all ranks: then one device is slower, or one rank has more to do.

    Args:
        before: The kernels of a step.
        after: Those of the other job.
        of_ranks: How long each rank computes in a step, in the order of ranks, before and after.
    """
    was, now = of_ranks
    if was.len() != now.len() or _spread(now / was) > FLOOR_RATIO:
        return None
    large = (of.filter(pl.col("total_ns") > _LEAST_SHARE * pl.col("total_ns").sum()) for of in (before, after))
    both = pl.concat(large).select("name").unique()
    both = both.join(before, on="name", how="left").join(after, on="name", how="left", suffix="_after")
    if both.height < _SEVERAL or both["total_ns"].null_count() or both["total_ns_after"].null_count():
        return None
    often, took = (both[f"{column}_after"] / both[column] for column in ("run_count", "total_ns"))
    is_alike = _spread(often) <= FLOOR_RATIO and _spread(took) <= FLOOR_RATIO and abs(often[0] - 1) <= FLOOR_RATIO
    of_all = both.select(pl.col("total_ns_after").sum() / pl.col("total_ns").sum()).item()
    return float(of_all) if is_alike else None


def shared_ratio(before: pl.DataFrame, after: pl.DataFrame) -> float:
    """What part of computing is in kernels that both jobs have: of the job in which that is less."""
    is_shared = before.join(after, on="name", how="semi")["name"]
    part = pl.col("total_ns").filter(pl.col("name").is_in(is_shared.implode())).sum() / pl.col("total_ns").sum()
    return min(float(of.select(part).item()) if of["total_ns"].sum() else 0.0 for of in (before, after))


def _spread(ratios: pl.Series) -> float:
    """By how much the largest is more than the smallest."""
    ordered: list[float] = ratios.sort().to_list()
    return float(ordered[-1] / ordered[0] - 1) if ordered[0] else float("inf")
