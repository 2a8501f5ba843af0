"""The causes of a job's lost time, by what the job would gain without each."""

from __future__ import annotations

import json
from dataclasses import dataclass

import polars as pl

from holotrace.derive import arrivals
from holotrace.diagnosis import account, candidates
from holotrace.diagnosis.candidates import EXPOSED, Candidate
from holotrace.diagnosis.classes import INPUT, LAUNCH, SYNCHRONIZATION
from holotrace.diagnosis.host import QUEUED
from holotrace.diagnosis.meetings import Change, Meetings

# Below this part of the job's time nothing is said: equal ranks and equal steps differ by as much.
FLOOR_RATIO = 0.01
# Parts of every healthy step: launching, reading the loss, sending gradients. Only more than this of it is a cause.
_USUAL = {QUEUED: 0.05, LAUNCH: 0.05, SYNCHRONIZATION: 0.015, INPUT: 0.01, EXPOSED: 0.1}
# Parameters that are gathered could have been on their way earlier; gradients not.
_GATHER_RATIO, _SEVERAL = 0.03, 4
_CRITICAL_RATIO = 0.2


@dataclass(frozen=True)
class Found:
    """A cause with what it costs."""

    candidate: Candidate
    cost_ns: int
    job_ns: int
    step_count: int


def of_rows(rows: pl.DataFrame) -> tuple[list[Found], int]:
    """The causes, dearest first, and what the job would gain without all of them together."""
    windows = rows.filter(pl.col("row") == account.WINDOW)
    if windows.is_empty():
        return [], 0
    visits = _visits(rows)
    offsets = dict(visits.select("rank", "clock_offset_ns").unique("rank").iter_rows())
    ranks = tuple(windows["rank"].unique().sort())
    ends = dict(windows.select("rank", "at_ns").iter_rows())
    starts = {rank: start - offsets.get(rank, 0) for rank, start in windows.select("rank", "start_ns").iter_rows()}
    meetings = Meetings(visits, ends, offsets)
    job_ns = meetings.end_ns - min(starts.values())
    steps = rows.filter(pl.col("row") == account.STEP)["step"].n_unique()
    job = candidates.Job(rows, visits, ranks, int(FLOOR_RATIO * job_ns))
    found = [
        Found(candidate, cost, job_ns, max(1, steps))
        for candidate in candidates.all_of(job)
        if (cost := meetings.saved_ns(candidate.change)) > _least_ratio(candidate) * job_ns
    ]
    found.sort(key=lambda cause: -cause.cost_ns)
    return found, meetings.saved_ns(_together([cause.candidate.change for cause in found]))


def _least_ratio(candidate: Candidate) -> float:
    if candidate.cause == EXPOSED:
        # Of several gathers in a step all but the first could be on their way while something else is computed.
        ahead = "gather" in (candidate.responsible or "") and candidate.evidence["per_step_count"] >= _SEVERAL
        return _GATHER_RATIO if ahead else _USUAL[EXPOSED]
    return (
        FLOOR_RATIO
        if candidate.ranks and candidate.cause != QUEUED
        else max(FLOOR_RATIO, _USUAL.get(candidate.cause, 0.0))
    )


def _visits(rows: pl.DataFrame) -> pl.DataFrame:
    calls = rows.filter(pl.col("row") == account.MEETING).drop("row")
    return arrivals.of_ranks(calls)


def _together(changes: list[Change]) -> Change:
    removed: dict[int, list[tuple[int, float]]] = {}
    transfer: dict[int, float] = {}
    for change in changes:
        for rank, parts in change.removed.items():
            removed.setdefault(rank, []).extend(parts)
        for match, factor in change.transfer.items():
            transfer[match] = min(factor, transfer.get(match, 1.0))
    return Change(removed, transfer)


def table(rows: pl.DataFrame) -> pl.DataFrame:
    """The declared columns of ``causes``, without the rank."""
    found, together_ns = of_rows(rows)
    return pl.DataFrame(
        [_row(cause, together_ns) for cause in found],
        schema_overrides={"ranks": pl.List(pl.Int32), "steps": pl.List(pl.Int64)},
    )


def _row(found: Found, together_ns: int) -> dict[str, object]:
    c = found.candidate
    share = found.cost_ns / found.job_ns if found.job_ns else 0.0
    return {
        "cause": c.cause,
        "severity": "critical" if share >= _CRITICAL_RATIO else "warning",
        "ranks": list(c.ranks),
        "steps": list(c.steps),
        "responsible": c.responsible,
        "detail": c.detail,
        "event_rank": c.event_rank,
        "event_id": c.event_id,
        "start_ns": c.start_ns,
        "cost_ns": found.cost_ns,
        "cost_per_step_ns": found.cost_ns // found.step_count,
        "share_ratio": share,
        "together_ns": together_ns,
        "evidence": json.dumps(dict(c.evidence)),
    }
