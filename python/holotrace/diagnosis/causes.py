"""The causes of a job's lost time, as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from holotrace.derive.host_messages import PAIR
from holotrace.diagnosis.job import floors, idle, search, sentences
from holotrace.diagnosis.job.candidates import COPIES_TO_HOST, IS_EQUAL
from holotrace.diagnosis.job.search import Found
from holotrace.diagnosis.job.unrecorded_ranks import ABSENT
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.pairs import PERMUTE
from holotrace.diagnosis.words.advice import advice
from holotrace.diagnosis.words.class_texts import ALL_RANKS, CLASSES, OF_XLA, Class
from holotrace.diagnosis.words.classes import COSTLESS, EARLIER, PAUSE, QUEUED, UNEVEN_WORK, UNRECORDED
from holotrace.diagnosis.words.texts_on_host import OF_HOSTS, XLA_OF_HOSTS

_CRITICAL_RATIO = 0.2
# What the trace does not say in so many words.
_INFERRED = (QUEUED, PAUSE, UNRECORDED, EARLIER)


def table(rows: pl.DataFrame, unprofiled_ns: int | None = None, part: float = 1.0) -> pl.DataFrame:
    """The causes as a table, dearest first: see the columns of the analysis; arguments as of ``of_rows``."""
    found, joint_ns = search.of_rows(rows, unprofiled_ns, part)
    found = [_as_written(cause, rows) for cause in found]
    steps = tuple(rows.filter(pl.col("row") == account.STEP)["step"].unique().sort())
    count = rows["rank"].n_unique()
    words = _words(rows)
    return pl.DataFrame(
        [_row(cause, words[cause.candidate.cause], steps, count) | {"joint_ns": joint_ns} for cause in found],
        infer_schema_length=None,
    )


def _as_written(found: Found, rows: pl.DataFrame) -> Found:
    """The cause, messages of XLA's programs by what these call them: they are permutations."""
    if found.candidate.responsible != PAIR or not _is_of_xla(rows.filter(pl.col("row") == account.WINDOW)):
        return found
    return replace(found, candidate=replace(found.candidate, responsible=PERMUTE))


def _words(rows: pl.DataFrame) -> Mapping[str, Class]:
    """What is said of each class in a job of this kind."""
    of_job = rows.filter(pl.col("row") == account.WINDOW)
    is_on_host = not of_job.is_empty() and of_job["name"].eq_missing(account.ON_HOST).all()
    if _is_of_xla(of_job):
        return XLA_OF_HOSTS if is_on_host else OF_XLA
    return OF_HOSTS if is_on_host else CLASSES


def _is_of_xla(of_job: pl.DataFrame) -> bool:
    return bool((of_job["detail"] == account.XLA).any())


def is_hidden(row: Mapping[str, Any]) -> bool:
    """Whether a row of the table is of a cause that costs next to nothing by itself, since others hide it."""
    return bool(row) and row["share_ratio"] <= floors.FLOOR_RATIO and row["high_ns"] > row["cost_ns"]


def _row(found: Found, words: Class, known_steps: tuple[int, ...], rank_count: int) -> dict[str, object]:
    c = found.candidate
    share = found.share_ratio
    is_equal, absent = bool(c.evidence.get(IS_EQUAL)), c.evidence.get(ABSENT)
    # Turns are told to be of equal calls only where shapes are known.
    is_told = is_equal and c.cause == UNEVEN_WORK
    return {
        "rank": c.event_rank,
        "cause": c.cause,
        "severity": "info" if c.cause in COSTLESS else "critical" if share >= _CRITICAL_RATIO else "warning",
        "message": sentences.of(found, words, known_steps, rank_count),
        "ranks": list(c.ranks),
        # Turns that were inferred have no numbers that anybody knows.
        "steps": list(c.steps) if known_steps else [],
        "responsible": c.responsible,
        "where_ns": None if c.start_ns is None else c.start_ns - found.begun_ns,
        "event_id": c.event_id,
        "cost_ns": found.cost_ns,
        "cost_per_step_ns": None if c.evidence.get(idle.BEFORE) else found.cost_ns // found.step_count,
        "low_ns": found.low_ns,
        "high_ns": found.high_ns,
        "profiler_ns": found.profiler_ns,
        "share_ratio": share,
        "confidence": "inferred" if c.cause in _INFERRED or absent else "measured",
        "evidence": json.dumps(dict(c.evidence) | ({"around": c.detail} if c.detail else {}), ensure_ascii=False),
        "advice": advice(
            words, c.responsible, c.detail or "", has_copies=bool(c.evidence.get(COPIES_TO_HOST)), is_equal=is_equal
        ),
        # Known when the findings of other analyses are: see ``symptoms.explained``.
        "explains": None,
        "to_know_more": ALL_RANKS if absent else None if is_told else words.to_know_more or None,
    }
