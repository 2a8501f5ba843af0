"""What may be the cause of lost time: each with what to remove from the job to see what it is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job.meetings import Change

# Named ranks make up so much of what a cause costs.
NAMED_RATIO = 0.8
# So much more than the median rank has is a rank's own.
APART_RATIO = 0.25
# Evidence: the code of the program that called what its host stands still in.
CALLED_IN = "called_in"
# Evidence: calls of equal shapes take unequally long; the host stands still in copies to it.
IS_EQUAL, COPIES_TO_HOST = "is_equal", "copies_to_host"
# More than half, beyond doubt.
_MOSTLY_RATIO = 0.6
# What recurs has so much of its longest each time.
_RECURRING_RATIO = 0.05


@dataclass(frozen=True)
class Candidate:
    """One possible cause."""

    cause: str
    change: Change
    ranks: tuple[int, ...] = ()
    """The ranks it is seen on; empty: all."""
    steps: tuple[int, ...] = ()
    responsible: str | None = None
    detail: str | None = None
    event_rank: int | None = None
    event_id: int | None = None
    start_ns: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


Costs = list[tuple[Candidate, int]]
"""Causes, each with what the job would gain without it."""


@dataclass(frozen=True)
class Job:
    """What all ranks contribute, by kind of row."""

    rows: pl.DataFrame
    visits: pl.DataFrame
    ranks: tuple[int, ...]
    floor_ns: int

    def of(self, kind: str) -> pl.DataFrame:
        found = self._kinds.get(kind)
        return self.rows.clear() if found is None else found

    @cached_property
    def _kinds(self) -> dict[str, pl.DataFrame]:
        """The rows of each kind: some fifty questions are asked of one, and a copy of all is much of the memory."""
        rows = by_kind(self.rows)
        lengths = rows["row"].rle().struct.unnest()
        begins = lengths["len"].cum_sum() - lengths["len"]
        return {
            kind: rows[begin : begin + count]
            for count, kind, begin in lengths.hstack([begins.alias("begin")]).iter_rows()
        }


def by_kind(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows, those of a kind together and in their order."""
    return rows if rows["row"].is_sorted() else rows.sort("row", maintain_order=True)


def beyond_others(frame: pl.DataFrame, job: Job, by: tuple[str, ...]) -> pl.DataFrame:
    """``time_ns`` of each rank and step, and how much of it is more than the median rank's of that step, ``beyond_ns``.

    With one rank all of it is everybody's.
    """
    totals = frame.group_by(*by, "rank", "step").agg(pl.col("time_ns").sum())
    # In order, so that what costs as much is told in the same way each time.
    keys = totals.select(*by, "step").unique().sort(*by, "step")
    every = keys.join(pl.DataFrame({"rank": job.ranks}, schema={"rank": totals.schema["rank"]}), how="cross")
    # Ranks that have none of it count too.
    full = every.join(
        totals, on=[*by, "rank", "step"], how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(pl.col("time_ns").fill_null(0))
    middle = pl.col("time_ns").quantile(0.5, "lower").over(*by, "step")
    return full.with_columns(beyond_ns=(pl.col("time_ns") - middle).clip(lower_bound=0) if len(job.ranks) > 1 else 0)


@dataclass(frozen=True)
class Where:
    """Which ranks and steps have something."""

    ranks: tuple[int, ...]
    steps: tuple[int, ...]


def of_share(rows: pl.DataFrame, share: pl.DataFrame) -> pl.DataFrame:
    """The rows with the part of each, ``part_ns``, that is to be removed, from the ``part_ratio`` of rank and step."""
    return rows.join(share, on=["rank", "step"], nulls_equal=True).with_columns(
        part_ns=pl.col("time_ns") * pl.col("part_ratio")
    )


def candidate(
    cause: str, name: str | None, parts: pl.DataFrame, where: Where, *, of_hosts: bool = False, **evidence: Any
) -> Candidate:
    """Takes ``part_ns`` of each row away, which ``of_hosts`` is theirs, too."""
    worst = parts.sort("part_ns", "rank", "start_ns", descending=[True, False, False]).row(0, named=True)
    removed = _removed(parts)
    launched = _removed(parts.drop_nulls("end_ns"), "end_ns") if of_hosts and "end_ns" in parts.columns else {}
    caller = called_in(parts, "part_ns")
    in_these = parts.filter(pl.col("step").is_in(where.steps)) if where.steps and "step" in parts.columns else parts
    return Candidate(
        cause,
        Change(removed=removed, of_hosts=removed if of_hosts else {}, launched=launched),
        where.ranks,
        where.steps,
        name,
        worst["detail"],
        worst["rank"],
        worst["event_id"],
        worst["start_ns"],
        {"time_ns": int(parts["part_ns"].sum()), "count": int(in_these["count"].sum()), **caller, **evidence},
    )


def called_in(parts: pl.DataFrame, column: str) -> dict[str, str]:
    """The code that called most of what hosts stand still in, as evidence; nothing where that is not known."""
    if "operator" not in parts.columns:
        return {}
    sums = parts.group_by("operator").agg(pl.col(column).sum()).sort(column, "operator", descending=[True, False])
    name, ns = sums.row(0)
    return {CALLED_IN: name} if name and ns >= NAMED_RATIO * total(sums[column]) else {}


def by_rank(rows: pl.DataFrame) -> dict[int, list[tuple[int, float]]]:
    """When each row ended, and how long it took, by rank."""
    found: dict[int, list[tuple[int, float]]] = {}
    for rank, at, ns in rows.filter(pl.col("time_ns") > 0).select("rank", "at_ns", "time_ns").iter_rows():
        found.setdefault(rank, []).append((at, float(ns)))
    return found


def lower_median(values: pl.Series) -> float:
    found = sorted(values.to_list())
    return float(found[(len(found) - 1) // 2])


def _removed(parts: pl.DataFrame, when: str = "at_ns") -> dict[int, list[tuple[int, float]]]:
    removed: dict[int, list[tuple[int, float]]] = {}
    for rank, at, ns in parts.filter(pl.col("part_ns") > 0).select("rank", when, "part_ns").iter_rows():
        removed.setdefault(rank, []).append((at, ns))
    return removed


def who(table: pl.DataFrame, column: str) -> tuple[int, ...]:
    """The fewest ranks that make up most of it, in order; those far above the others."""
    totals = table.group_by("rank").agg(pl.col(column).sum()).sort(column, "rank", descending=[True, False])
    most = NAMED_RATIO * total(totals[column])
    until = int(totals.select((pl.col(column).cum_sum() < most).sum()).item())
    # Ranks with as much as the last of these are as much to blame.
    least = totals[column][min(until, totals.height - 1)] * 0.5
    return tuple(sorted(totals.filter(pl.col(column) >= least)["rank"]))


def when(table: pl.DataFrame, column: str) -> tuple[int, ...]:
    """The steps that have it: at least a quarter of what the worst has, as the first of what recurs may last longer.

    None where nearly all of it is between steps.
    """
    totals = _by_step(table, column)
    if totals.is_empty() or total(totals[column]) < (1 - NAMED_RATIO) * total(table[column]):
        return ()
    recurring = _recurring(totals, column)
    return recurring or tuple(totals.filter(pl.col(column) >= 0.25 * pl.col(column).max())["step"])


def usually(table: pl.DataFrame, column: str) -> tuple[int, ...]:
    """The steps of what nothing begins or ends: at least a quarter of what the middle one has, as some last longer."""
    return tuple(_by_step(table, column).filter(pl.col(column) >= 0.25 * pl.col(column).median())["step"])


def _by_step(table: pl.DataFrame, column: str) -> pl.DataFrame:
    totals = table.drop_nulls("step").group_by("step").agg(pl.col(column).sum())
    return totals.filter(pl.col(column) > 0).sort("step")


def _recurring(totals: pl.DataFrame, column: str) -> tuple[int, ...]:
    """Steps at equal distances that have much more of it than any in between; empty where there are none."""
    is_much = pl.col(column) >= _RECURRING_RATIO * pl.col(column).max()
    much, little = totals.filter(is_much), totals.filter(~is_much)
    steps = tuple(much["step"])
    apart = {later - earlier for earlier, later in pairwise(steps)}
    is_clear = 4 * max(little[column], default=0) <= min(much[column])
    return steps if len(steps) > 2 and len(apart) == 1 and apart != {1} and is_clear else ()


def are_same_steps(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether most of the steps of both are the same ones."""
    both, either = set(one) & set(other), set(one) | set(other)
    return len(both) > _MOSTLY_RATIO * len(either) or not either


def limits(rows: pl.DataFrame) -> dict[int, dict[int, float]]:
    """How long devices waited at most until each time, by rank: no two causes save more together."""
    most: dict[int, dict[int, float]] = {}
    for rank, at, ns in rows.group_by("rank", "at_ns").agg(pl.col("time_ns").sum()).sort("rank", "at_ns").iter_rows():
        most.setdefault(rank, {})[at] = float(ns)
    return most
