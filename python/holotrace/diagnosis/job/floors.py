"""From which share of a job's time on a cause is told: what every healthy job has is none."""

from __future__ import annotations

import re

import polars as pl

from holotrace.derive import copies
from holotrace.diagnosis.job import cores, idle, of_functions
from holotrace.diagnosis.job.candidates import IS_EQUAL, Candidate
from holotrace.diagnosis.job.transfers import BEFORE, EXPOSES, IN_BACKWARD, gathers_parameters
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.advice import COPIED_WITHIN
from holotrace.diagnosis.words.classes import (
    COPY,
    EARLIER,
    EVALUATION,
    EXPOSED,
    FUNCTION,
    INEFFICIENT,
    INPUT,
    LAUNCH,
    MORE_WORK,
    PIPELINE,
    QUEUED,
    SLICE_GRADIENTS,
    SLOW_LINK,
    SYNCHRONIZATION,
    UNEVEN_WORK,
    UNRECORDED,
    UNRECORDED_RANK,
    UPLOAD,
)

# Below this part of the job's time nothing is said: equal ranks and equal steps differ by as much.
FLOOR_RATIO = 0.01
_HANDED_OVER_NS = 100_000
# Parts of every healthy step: launching, reading the loss, sending gradients. Only more than this of it is a cause.
USUAL = {
    QUEUED: 0.05,
    LAUNCH: 0.05,
    UNRECORDED: 0.05,
    # Ranks always wait a little for each other.
    UNRECORDED_RANK: 0.05,
    # Symptoms that cost no more need no explanation.
    EARLIER: 0.15,
    SYNCHRONIZATION: 0.05,
    INPUT: 0.01,
    # The batch of each step is sent.
    UPLOAD: 0.02,
    EVALUATION: 0.05,
    EXPOSED: 0.1,
    INEFFICIENT: 0.05,
    SLICE_GRADIENTS: 0.05,
    # Stages consist of whole layers, and one has the loss, too: less than a layer cannot be moved.
    PIPELINE: 0.03,
}
# What could have been on its way earlier: parameters that are gathered, gradients that are reduced in a row.
_AHEAD_RATIO, _AT_ONCE_RATIO, _SEVERAL, MOSTLY_RATIO = 0.03, 0.06, 4, 0.5
# Where each gather is exposed none was ahead, beyond doubt.
_EACH_RATIO, _NONE_AHEAD_RATIO = 0.9, 0.02
# What begins as soon as its data is computed, several times a step, and is needed at once, as in tensor and expert
# parallelism: an earlier start would not hide it, only other work beside it.
_BETWEEN_RATIO = 0.15
# What a server reads once in each turn, tokens, decides what it does in the next: only more than this is worth a server
# that launches before it knows.
_READ_RATIO, _OFTEN_RATIO = 0.15, 1.5
_SENT_RATIO = 0.05
# What a device copies within itself belongs to most programs: layouts change, and buffers are kept.
_WITHIN_RATIO = 0.03
# Threads of one host share its cores, so that equal work of theirs differs by more than that of devices.
_ON_HOST_RATIO = 0.1


def is_of_shared_cores(candidate: Candidate, windows: pl.DataFrame) -> bool:
    """Whether a cause is one that threads and processes of a host, which share its cores, bring about by chance."""
    if account.ON_HOST not in windows["name"]:
        return False
    # Operators tell by their shapes that there is more to do; programs of XLA do not.
    is_told = candidate.cause == MORE_WORK and account.XLA not in windows["detail"]
    if is_told and not candidate.evidence.get(IS_EQUAL):
        return False
    return candidate.cause in (*cores.LONGER, UNEVEN_WORK, SLOW_LINK)


def least_ratio_of_job(candidate: Candidate, *, rank_count: int, windows: pl.DataFrame) -> float:
    """The share of the job's time that a cause has to cost; ``windows`` are those of all ranks."""
    if candidate.cause == INEFFICIENT and account.XLA in windows["detail"]:
        # The compiler counts what each operation computes and moves, and others of its kind come close to the limits.
        return FLOOR_RATIO
    return least_ratio(candidate, rank_count, shares_cores=is_of_shared_cores(candidate, windows))


def least_ratio(candidate: Candidate, rank_count: int, *, shares_cores: bool) -> float:
    """The same of a cause whose ranks share the cores of a host, or do not."""
    if shares_cores:
        return _ON_HOST_RATIO
    if candidate.cause == EXPOSED:
        return _least_exposed_ratio(candidate)
    if candidate.cause == SYNCHRONIZATION and (ratio := _least_waiting_ratio(candidate, rank_count)) is not None:
        return ratio
    is_of_some = 0 < len(candidate.ranks) < rank_count
    if candidate.cause == COPY:
        return _least_copied_ratio(candidate, is_of_some=is_of_some)
    # Any loader takes as long to hand over a batch, which some stages of a pipeline have; any program does something.
    short_ns = {INPUT: _HANDED_OVER_NS} if is_of_some else {INPUT: idle.SHORT_NS, FUNCTION: idle.SHORT_NS}
    if of_functions.lasted_ns(candidate) < short_ns.get(candidate.cause, 0):
        return USUAL[LAUNCH]
    is_usual = not is_of_some or candidate.cause in (QUEUED, PIPELINE)
    return max(FLOOR_RATIO, USUAL.get(candidate.cause, 0.0) if is_usual else 0.0)


def _least_copied_ratio(candidate: Candidate, *, is_of_some: bool) -> float:
    if not is_of_some and re.search(copies.MAY_BE_PINNED, candidate.responsible or ""):
        # Every step has its batch sent, or its answer fetched, and it is as fast as it can be.
        return _SENT_RATIO
    return _WITHIN_RATIO if re.search(COPIED_WITHIN, candidate.responsible or "") else FLOOR_RATIO


def _least_waiting_ratio(candidate: Candidate, rank_count: int) -> float | None:
    """Of waits that come more often than the loss is read, or as often as a server reads tokens; else null."""
    per_turn = candidate.evidence.get(idle.PER_TURN, 0.0)
    if 0 < per_turn < _OFTEN_RATIO:
        return _READ_RATIO
    # Without steps nothing tells how often in one.
    often = 0 < _SEVERAL * rank_count * len(candidate.steps) <= candidate.evidence.get("count", 0)
    # Those that expose a step's gathers are told, too.
    return FLOOR_RATIO if often or per_turn >= _SEVERAL or EXPOSES in candidate.evidence else None


def _least_exposed_ratio(candidate: Candidate) -> float:
    # Nothing more is known of messages whose other end is not.
    is_mostly = candidate.evidence.get("exposed_ratio", 0.0) >= MOSTLY_RATIO
    several = candidate.evidence.get("per_step_count", 0) >= _SEVERAL and is_mostly
    # Of several gathers in a step all but the first could be on their way while something else is computed.
    ahead = several and gathers_parameters(candidate)
    if ahead and candidate.evidence["exposed_ratio"] >= _EACH_RATIO:
        return _NONE_AHEAD_RATIO
    # Gradients that are all reduced one after the other could have been while others were computed, unless most were:
    # then the link is busy as long as the backward pass, and what is left of it comes after that.
    ahead |= candidate.evidence.get("in_a_row_ratio", 0.0) >= MOSTLY_RATIO and is_mostly
    # So could those that the backward pass waits for; activations, which it needs, are reduced before it, too.
    is_each = candidate.evidence.get("exposed_ratio", 0.0) >= _EACH_RATIO
    ahead |= is_each and IN_BACKWARD[0] <= candidate.evidence.get(BEFORE, 0.0) <= IN_BACKWARD[1]
    if ahead:
        return _AHEAD_RATIO
    # So could those that are reduced at once, when all are there; small models lose little by that.
    if candidate.evidence.get("bucket_count", 1) >= _SEVERAL:
        return _AT_ONCE_RATIO
    return _BETWEEN_RATIO if several else USUAL[EXPOSED]
