"""What fixing a finding is worth: wall time of the job, over the recording and per step, never more than there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import polars as pl

from holotrace.core.analysis import Finding, by_cost

# Whose rows say how long devices were idle, and how long nothing hid communication and copies.
_BREAKDOWN = "time_breakdown"


def settled(findings: Iterable[Finding], tables: Mapping[str, pl.DataFrame], info: pl.DataFrame) -> tuple[Finding, ...]:
    """The findings with one definition of their cost, most expensive first.

    ``cost_ns`` is wall time of the job over the recording, ``step_cost_ns`` that of one of its steps. A rule gives one
    of them; the other follows from how many steps the ranks concerned recorded. No cost exceeds the time that these
    ranks recorded, nor the parts of it that a rule says it lies in (``within``): who is idle for a millisecond can win
    no more. Where that is unknown, so is the cost.

    Args:
        findings: What rules found.
        tables: Tables of analyses by name; the time breakdown is looked at.
        info: tables.RANK_INFO.
    """
    breakdown = tables.get(_BREAKDOWN, pl.DataFrame())
    return by_cost(_settled(finding, breakdown, info) for finding in findings)


def _settled(finding: Finding, breakdown: pl.DataFrame, info: pl.DataFrame) -> Finding:
    if finding.cost_ns is finding.step_cost_ns is None:
        return finding
    seen = _of(info, finding.ranks)
    steps = seen["step_count"].drop_nulls().max() if "step_count" in seen.columns else None
    count = steps if isinstance(steps, int) and steps > 0 else None
    cost_ns = finding.cost_ns
    if cost_ns is None:
        cost_ns = (finding.step_cost_ns or 0) * (count or 1)
    limits = [seen["span_ns"].max(), *_within(finding, breakdown)]
    if None in limits and finding.within:
        return replace(finding, cost_ns=None, step_cost_ns=None)
    cost_ns = min([cost_ns, *(limit for limit in limits if isinstance(limit, int))])
    return replace(finding, cost_ns=cost_ns, step_cost_ns=round(cost_ns / count) if count else None)


def _within(finding: Finding, breakdown: pl.DataFrame) -> list[int | None]:
    if not finding.within:
        return []
    if breakdown.is_empty():
        return [None]
    rows = _of(breakdown, finding.ranks)
    if rows.is_empty():
        # Ranks without device work, as of a job on CPUs, have no such parts.
        return []
    parts = rows.group_by("rank").agg(pl.col(finding.within).sum())
    return [int(parts.select(pl.sum_horizontal(finding.within).max()).item())]


def _of(table: pl.DataFrame, ranks: tuple[int, ...]) -> pl.DataFrame:
    return table.filter(pl.col("rank").is_in(ranks)) if ranks else table
