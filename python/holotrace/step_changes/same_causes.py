"""Which causes of two jobs are the same, so that what they cost in each stands beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import polars as pl

from holotrace.core.problems import spelled
from holotrace.diagnosis.words.classes import PAUSE, STALLING, SYNCHRONIZATION, UNRECORDED

Rows = Sequence[Mapping[str, Any]]
# What hosts do in place of launching where no function tells more of it.
_UNTOLD = (SYNCHRONIZATION, PAUSE, UNRECORDED)
_SCHEMA: dict[str, Any] = {
    "name": pl.String,
    "cause": pl.String,
    "responsible": pl.String,
    "ranks": pl.List(pl.Int64),
    "count": pl.Int64,
    "total_ns": pl.Int64,
    "message": pl.String,
}


def named(causes: pl.DataFrame) -> pl.DataFrame:
    """A row per name of causes: what it costs in a step, in how many steps it is, and what is said of it.

    Returns ``name``, which is the same in both jobs, cause, responsible, ranks, count, total_ns and message.
    """
    rows = [
        (_called(cause, responsible, tuple(ranks)), cause, responsible, ranks, max(1, len(steps)), cost, message)
        for cause, responsible, ranks, steps, cost, message in causes.select(
            "cause", "responsible", "ranks", "steps", "cost_per_step_ns", "message"
        ).iter_rows()
    ]
    return _of_names(pl.DataFrame(rows, schema=_SCHEMA, orient="row"))


def joined(
    before: tuple[pl.DataFrame, pl.DataFrame], after: tuple[pl.DataFrame, pl.DataFrame], *, other_stacks: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The causes of both jobs that are told of one of them, under the same names.

    A cause that is told of one job may cost too little to be told of the other, and then did not come or go.

    Args:
        before: The causes that are told of a job, and also those that cost too little.
        after: The same of the other job.
        other_stacks: Python functions, which causes are called by, were recorded of one of the jobs only.
    """
    sides = [pl.concat([told, small.join(told, on="name", how="anti")]) for told, small in (before, after)]
    known = {*before[0]["name"], *after[0]["name"]}
    first, second = (side.to_dicts() for side in sides)
    here, there = ({row["name"] for row in rows} for rows in (first, second))
    alone = [row for row in first if row["name"] not in there], [row for row in second if row["name"] not in here]
    calls = _on_other_ranks(*alone, known) | (_for_want_of_stacks(*alone, known) if other_stacks else {})
    kept = {calls.get(name, name) for name in known}
    renamed = (side.with_columns(pl.col("name").replace(calls)) for side in sides)
    was, now = (_of_names(side.filter(pl.col("name").is_in(kept))) for side in renamed)
    return was, now


def _on_other_ranks(first: Rows, second: Rows, known: set[str]) -> dict[str, str]:
    """New names of causes that are the same on more or fewer ranks."""
    calls: dict[str, str] = {}
    for was, now in product(first, second):
        is_one = was["cause"] == now["cause"] and was["responsible"] == now["responsible"]
        # Without any it is all ranks.
        meet = not was["ranks"] or not now["ranks"] or {*was["ranks"]} & {*now["ranks"]}
        names: tuple[str, str] = (was["name"], now["name"])
        if is_one and meet and known.intersection(names):
            calls |= dict.fromkeys(names, calls.get(names[0]) or calls.get(names[1]) or names[1])
    return calls


def _for_want_of_stacks(first: Rows, second: Rows, known: set[str]) -> dict[str, str]:
    """New names of causes that are called otherwise, or are more than one, where functions are known."""
    calls: dict[str, str] = {}
    keyed = [[(_key(row, others), row["name"]) for row in rows] for rows, others in ((first, second), (second, first))]
    for key in {key for side in keyed for key, _ in side}:
        sides = [[name for own, name in side if own == key] for side in keyed]
        told = [[name for name in names if name in known] for names in sides]
        if all(told):
            calls |= dict.fromkeys((*sides[0], *sides[1]), told[1][0])
    return calls


def _key(row: Mapping[str, Any], others: Rows) -> tuple[str, tuple[int, ...]]:
    """What a cause may be of the other job: of its own class, or untold there where that has none of this class."""
    ranks = tuple(row["ranks"])
    classes = {other["cause"] for other in others if tuple(other["ranks"]) == ranks}
    is_untold_there = row["cause"] in STALLING and row["cause"] not in classes and not classes.isdisjoint(_UNTOLD)
    return "" if row["cause"] in _UNTOLD or is_untold_there else row["cause"], ranks


def _of_names(rows: pl.DataFrame) -> pl.DataFrame:
    others = pl.col("cause", "responsible", "ranks", "message").first()
    return rows.group_by("name", maintain_order=True).agg(others, pl.col("count").max(), pl.col("total_ns").sum())


def _called(cause: str, responsible: str | None, ranks: tuple[int, ...]) -> str:
    where = f", rank {spelled(ranks)}" if ranks else ""
    return f"{cause}{f' in {responsible}' if responsible else ''}{where}"
