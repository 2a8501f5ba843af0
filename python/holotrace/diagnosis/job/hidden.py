"""Causes that cost nothing by themselves, as others delay the job by as much at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from holotrace.diagnosis.job.candidates import Candidate, Costs
from holotrace.diagnosis.job.meetings import Meetings, together
from holotrace.diagnosis.words.classes import (
    CHANNELS_FIRST,
    LAUNCH,
    PIPELINE,
    QUEUED,
    UNFUSED_ATTENTION,
    UNFUSED_OPTIMIZER,
    WRONG_TYPE,
)

# So many of them are tried: each needs replays of the whole job.
_MOST = 8
# These are of whichever rank is the last one; without other causes it is another, or all are.
_OF_EVERYBODY = (QUEUED, LAUNCH, PIPELINE)
# Work that devices of all ranks do beyond what they need: while their hosts do something else it delays nobody.
_OF_DEVICES = (UNFUSED_OPTIMIZER, UNFUSED_ATTENTION, WRONG_TYPE, CHANNELS_FIRST)


def with_hidden(kept: Costs, every: Costs, meetings: Meetings, least_ns: float, rank_count: int) -> Costs:
    """The causes that are ``kept``, and those that would cost more than ``least_ns`` if others were gone.

    Of two ranks that are late to the same meetings only the later one costs anything; once that is mended it is the
    other one's turn. Where both are as late, neither costs anything, and both are found by leaving them out together.

    Args:
        kept: Causes that cost enough by themselves.
        every: All that were found, each with what it costs by itself.
        meetings: Replays the job.
        least_ns: What is worth saying.
        rank_count: How many ranks there are; what the hosts of all have delays them alike, and hides nothing.
    """
    ours = {(candidate.cause, candidate.ranks) for candidate, _ in kept}
    rest = [
        (candidate, cost)
        for candidate, cost in every
        if (0 < len(candidate.ranks) < rank_count or candidate.cause in _OF_DEVICES)
        and candidate.cause not in _OF_EVERYBODY
        and (candidate.cause, candidate.ranks) not in ours
        and cost <= least_ns
    ]
    rest = sorted(rest, key=lambda pair: -_removed_ns(pair[0]))[:_MOST]
    told, rest = _one_by_one(list(kept), rest, meetings, least_ns)
    return told + _by_each_other(told, rest, meetings, least_ns)


def _one_by_one(told: Costs, rest: Costs, meetings: Meetings, least_ns: float) -> tuple[Costs, Costs]:
    """What costs enough without those that are told, dearest first, and what is left."""
    while rest and told:
        saved = _saved_ns(told, meetings)
        gains = [_saved_ns([*told, pair], meetings) - saved for pair in rest]
        best = max(range(len(rest)), key=gains.__getitem__)
        if gains[best] <= least_ns:
            break
        told = [*told, rest[best]]
        rest = [pair for pair in rest if pair is not rest[best]]
    return told, rest


def _by_each_other(told: Costs, rest: Costs, meetings: Meetings, least_ns: float) -> Costs:
    """Those of the ``rest`` without each of which the others would save less."""
    if len(rest) < 2:
        return []
    saved = _saved_ns([*told, *rest], meetings)
    if saved - _saved_ns(told, meetings) <= least_ns:
        return []
    without = {id(pair): _saved_ns([*told, *(other for other in rest if other is not pair)], meetings) for pair in rest}
    return [pair for pair in rest if saved - without[id(pair)] > least_ns]


def _saved_ns(of: Sequence[tuple[Candidate, int]], meetings: Meetings) -> int:
    return meetings.saved_ns(together([candidate.change for candidate, _ in of])) if of else 0


def _removed_ns(candidate: Candidate) -> float:
    return sum(length for parts in candidate.change.removed.values() for _, length in parts)
