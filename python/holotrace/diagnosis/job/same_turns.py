"""Turns of recordings without marked steps, numbered alike on all ranks: each counts them from where it began."""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from holotrace.diagnosis.rank import account

# Ranks meet in turns of the same numbers, but for so many.
_MOSTLY_RATIO = 0.6
_STEP = pl.col("step")


def numbered(rows: pl.DataFrame, come: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both with the turns of each rank numbered as those of the ranks that it meets in them.

    Args:
        rows: What ``account`` returns of all ranks.
        come: When they came to where they meet, as of ``derive.arrivals``.
    """
    has_steps = (rows["row"] == account.STEP).any() or (rows["detail"] == account.XLA).any()
    if has_steps or come.is_empty() or not come["step"].count():
        return rows, come
    later = _later(come)
    if not any(later.values()):
        return rows, come
    by_rank = {"rank": [*later], "later": [*later.values()]}

    def earlier(frame: pl.DataFrame) -> pl.DataFrame:
        known = pl.DataFrame(by_rank, schema={"rank": frame.schema["rank"], "later": pl.Int64})
        told = frame.join(known, on="rank", how="left", maintain_order="left")
        return told.with_columns(_STEP - pl.col("later").fill_null(0)).select(frame.columns)

    return earlier(rows), earlier(come)


def _later(come: pl.DataFrame) -> dict[int, int]:
    """By how many turns each rank counts more than the one that counts the fewest, of those that meet."""
    known = come.drop_nulls("step").sort("match", "rank").unique(["match", "rank"], keep="first", maintain_order=True)
    first = known.with_columns(first=pl.col("rank").first().over("match"), more=_STEP - _STEP.first().over("match"))
    counts = first.filter(pl.col("rank") != pl.col("first")).group_by("first", "rank", "more").len()
    most = counts.sort("len", "more", descending=[True, False]).unique(["first", "rank"], maintain_order=True)
    sums = counts.group_by("first", "rank").agg(pl.col("len").sum().alias("all"))
    agreed = most.join(sums, on=["first", "rank"]).filter(pl.col("len") > _MOSTLY_RATIO * pl.col("all"))
    beside: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for one, other, more in agreed.sort("first", "rank").select("first", "rank", "more").iter_rows():
        beside[one].append((other, more))
        beside[other].append((one, -more))
    later: dict[int, int] = {}
    for start in sorted(beside):
        if start in later:
            continue
        found, left = {start: 0}, [start]
        while left:
            rank = left.pop()
            for other, more in beside[rank]:
                if other not in found:
                    found[other] = found[rank] + more
                    left.append(other)
        fewest = min(found.values())
        later |= {rank: more - fewest for rank, more in found.items()}
    return later
