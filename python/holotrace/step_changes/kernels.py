"""Which part of the change of computing all kernels have in common: how often they run, and how long each takes."""

from __future__ import annotations

import polars as pl

from holotrace.derive import same_operations
from holotrace.diagnosis.job.floors import FLOOR_RATIO

# Kernels that make up so little of computing tell nothing of all.
_LEAST_SHARE = 0.01
_SEVERAL = 3
_COUNTED = ("was", "became", "run_count", "run_count_after")


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


def beside(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Kernels of both jobs beside each other: how long they took in a step, ``was`` and ``became``.

    Besides there are ``run_count`` and ``run_count_after``, ``of_hosts``, and ``kernel``, the name itself.
    """
    first, second = (own.with_columns(kernel="name") for own in (before, after))
    return _beside(first, second)


def told_apart(of_all: pl.DataFrame, sides: tuple[pl.DataFrame, pl.DataFrame], floor_ns: float) -> pl.DataFrame:
    """Those that changed, the most first: each operation of XLA that did, and what is left of its kernel as others.

    Args:
        of_all: Kernels, as of ``beside``.
        sides: Operations of both jobs.
        floor_ns: What changed less is not told.
    """
    named = same_operations.named(*(own.with_columns(category=pl.lit(None, pl.String)) for own in sides))
    each = [
        own.group_by("name", kernel="plain").agg(pl.col("total_ns", "run_count").sum(), pl.col("of_hosts").any())
        for own in named
    ]
    told = _most_first(_beside(each[0], each[1]), floor_ns).filter(pl.col("kernel").is_in(of_all["kernel"].implode()))
    taken = told.group_by("kernel").agg(pl.col(_COUNTED).sum())
    left = of_all.join(taken, on="kernel", how="left", suffix="_taken", maintain_order="left")
    left = left.with_columns(
        *(pl.col(name) - pl.col(f"{name}_taken").fill_null(0) for name in _COUNTED),
        name=pl.when(pl.col("was_taken").is_null()).then("name").otherwise(pl.format("{}, others", "name")),
    )
    return _most_first(pl.concat([told, left.select(told.columns)]), floor_ns)


def _beside(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    both = before.join(after, on=["name", "kernel"], how="full", coalesce=True, nulls_equal=True, suffix="_after")
    return both.select(
        *("name", "kernel"),
        was=pl.col("total_ns").fill_null(0),
        became=pl.col("total_ns_after").fill_null(0),
        run_count=pl.col("run_count").fill_null(0),
        run_count_after=pl.col("run_count_after").fill_null(0),
        of_hosts=pl.any_horizontal("of_hosts", "of_hosts_after"),
    )


def _most_first(rows: pl.DataFrame, floor_ns: float) -> pl.DataFrame:
    change_ns = (pl.col("became") - pl.col("was")).abs()
    return rows.filter(change_ns > floor_ns).sort(change_ns, "name", descending=[True, False])


def shared_ratio(before: pl.DataFrame, after: pl.DataFrame) -> float:
    """What part of computing is in kernels that both jobs have: of the job in which that is less."""
    is_shared = before.join(after, on="name", how="semi")["name"]
    part = pl.col("total_ns").filter(pl.col("name").is_in(is_shared.implode())).sum() / pl.col("total_ns").sum()
    return min(float(of.select(part).item()) if of["total_ns"].sum() else 0.0 for of in (before, after))


def _spread(ratios: pl.Series) -> float:
    """By how much the largest is more than the smallest."""
    ordered: list[float] = ratios.sort().to_list()
    return float(ordered[-1] / ordered[0] - 1) if ordered[0] else float("inf")
