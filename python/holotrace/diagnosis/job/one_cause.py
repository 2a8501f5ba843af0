"""Which candidates are one cause: the same thing in several ways, of ranks that have it at once, or part of another."""

from __future__ import annotations

import re
from dataclasses import replace

from holotrace.derive.copies import TO_HOST
from holotrace.diagnosis.job.candidates import CALLED_IN, COPIES_TO_HOST, Candidate
from holotrace.diagnosis.job.cores import DEVICE
from holotrace.diagnosis.job.meetings import Meetings, together
from holotrace.diagnosis.job.waits_by_code import ASKER
from holotrace.diagnosis.words.classes import (
    COPY,
    EXPOSED,
    LAUNCH,
    MORE_WORK,
    PAUSE,
    SLOW_LINK,
    SYNCHRONIZATION,
    UNFUSED_ATTENTION,
    UNFUSED_OPTIMIZER,
    UNRECORDED,
    is_file_of_program,
)

# Ranks have a thing together if it costs so many times what it does on each of them: next to nothing.
_SEVERAL_GROUPS, _TOGETHER_TIMES = 2, 10
# Operators that copy.
_COPIES = r"^aten::(_to_copy|copy_|to)$"


def at_once(costs: list[tuple[Candidate, int]], meetings: Meetings, least_ns: float) -> list[tuple[Candidate, int]]:
    """What groups of ranks do at the same time is one cause if next to nothing is won without it on one of them only.

    The first and the last stage of a pipeline read input, for example, or several groups have links of one node.
    """
    alike: dict[tuple[object, ...], list[tuple[Candidate, int]]] = {}
    for candidate, cost in costs:
        if candidate.cause == SLOW_LINK:
            # A link is slow for whatever is sent over it.
            alike.setdefault((candidate.cause, None), []).append((candidate, cost))
        elif candidate.ranks and candidate.change.of_hosts:
            alike.setdefault((candidate.cause, candidate.responsible), []).append((candidate, cost))
    for same in alike.values():
        if len({candidate.ranks for candidate, _ in same}) < _SEVERAL_GROUPS:
            continue
        changes = [candidate.change for candidate, _ in same]
        later: dict[int, list[tuple[int, float]]] = {}
        for change in changes:
            for rank, parts in change.later.items():
                later.setdefault(rank, []).extend(parts)
        joint = meetings.saved_ns(change := together(changes))
        if joint <= max(least_ns, _TOGETHER_TIMES * sum(max(0, cost) for _, cost in same)):
            continue
        longest = max((candidate for candidate, _ in same), key=lambda candidate: candidate.evidence.get("time_ns", 0))
        sums = [name for name in ("time_ns", "count") if name in longest.evidence]
        merged = replace(
            longest,
            change=replace(change, later=later),
            ranks=tuple(sorted({rank for candidate, _ in same for rank in candidate.ranks})),
            steps=tuple(sorted({step for candidate, _ in same for step in candidate.steps})),
            evidence={
                **longest.evidence,
                **{name: sum(candidate.evidence[name] for candidate, _ in same) for name in sums},
            },
        )
        costs = [pair for pair in costs if pair not in same] + [(merged, joint)]
    return costs


def once(kept: list[tuple[Candidate, int]], meetings: Meetings) -> list[tuple[Candidate, int]]:
    """What the same thing costs in several ways is one cause: an evaluation keeps both host and device busy."""
    alike: dict[tuple[object, ...], list[tuple[Candidate, int]]] = {}
    # What a wait exposes is told with the dearest of those that wait in the same.
    askers: dict[tuple[object, ...], object] = {}
    for candidate, _ in sorted(kept, key=lambda pair: pair[1]):
        if ASKER in candidate.evidence:
            askers[candidate.ranks, candidate.responsible] = candidate.evidence[ASKER]
    for candidate, cost in kept:
        of = (candidate.ranks, candidate.responsible)
        asker = askers.get(of) if candidate.cause == SYNCHRONIZATION else None
        key = (candidate.cause, *of, candidate.evidence.get(DEVICE), candidate.evidence.get(ASKER, asker))
        alike.setdefault(key, []).append((candidate, cost))
    return [_merged(same, meetings) for same in alike.values()]


def _merged(same: list[tuple[Candidate, int]], meetings: Meetings) -> tuple[Candidate, int]:
    """All of these as one cause, told as the dearest of them."""
    dearest, cost = max(same, key=lambda pair: pair[1])
    if len(same) == 1:
        return dearest, cost
    steps = sorted({step for candidate, _ in same for step in candidate.steps})
    changes = [candidate.change for candidate, _ in same]
    later = next((change.later for change in changes if change.later), {})
    change = replace(together(changes), later=later)
    counts = [candidate.evidence["count"] for candidate, _ in same if "count" in candidate.evidence]
    known = {name: value for candidate, _ in same for name, value in candidate.evidence.items()}
    evidence = {**known, **dearest.evidence, **({"count": sum(counts)} if counts else {})}
    seen = next((candidate for candidate, _ in same if candidate.event_id is not None), dearest)
    dearest = replace(dearest, change=change, steps=tuple(steps), evidence=evidence)
    if dearest.event_id is None:
        dearest = replace(dearest, detail=seen.detail, event_rank=seen.event_rank, event_id=seen.event_id)
    return dearest, meetings.saved_ns(change)


def by_code(waits: list[tuple[Candidate, int]], meetings: Meetings) -> list[tuple[Candidate, int]]:
    """What one function of the program waits in is one cause, whichever of its operators copy and read."""
    alike: dict[tuple[object, ...], list[tuple[Candidate, int]]] = {}
    for place, (wait, cost) in enumerate(waits):
        code = wait.detail if wait.detail and is_file_of_program(wait.detail) else place
        alike.setdefault((wait.ranks, wait.evidence.get(DEVICE), code), []).append((wait, cost))
    return [_merged(same, meetings) for same in alike.values()]


def with_copies(kept: list[tuple[Candidate, int]], meetings: Meetings) -> list[tuple[Candidate, int]]:
    """What is copied to the host, the waits in those copies, and pauses of hosts in the same steps are one cause.

    It is what takes longest of them: a pause between copies, as in saving a checkpoint, unless copying does. Waits in
    copies cost as much as these, since hosts could go on without either, and take less.
    """
    told = list(kept)
    copies = [pair for pair in kept if pair[0].cause == COPY and re.search(TO_HOST, pair[0].responsible or "")]
    for copy in copies:
        parts = [pair for pair in told if _is_beside(pair[0], copy[0])]
        if not parts or copy not in told:
            continue
        dearest, _ = max([copy, *parts], key=lambda pair: min(pair[1], pair[0].evidence.get("time_ns", pair[1])))
        if dearest.cause in (PAUSE, UNRECORDED):
            dearest = replace(dearest, evidence={**dearest.evidence, COPIES_TO_HOST: True})
        change = together([copy[0].change, *(part.change for part, _ in parts)])
        told = [pair for pair in told if pair not in (copy, *parts)]
        told.append((replace(dearest, change=change), meetings.saved_ns(change)))
    return told


def _is_beside(part: Candidate, copy: Candidate) -> bool:
    """Whether hosts pause between these copies, or wait in them until what is copied was computed."""
    if (part.ranks, part.steps) != (copy.ranks, copy.steps):
        return False
    if part.cause != SYNCHRONIZATION:
        return part.cause in (PAUSE, UNRECORDED) and not _is_elsewhere(part, copy)
    callers = {candidate.evidence[CALLED_IN] for candidate in (part, copy) if CALLED_IN in candidate.evidence}
    return re.search(_COPIES, part.responsible or "") is not None and len(callers) < 2


def _is_elsewhere(pause: Candidate, copy: Candidate) -> bool:
    """Whether other code of the program pauses than copies, as a loop does whose result is copied once it has ended."""
    copying = copy.evidence.get(CALLED_IN)
    return copying is not None and pause.detail is not None and copying not in pause.detail.split(" < ")


def with_launches(kept: list[tuple[Candidate, int]], meetings: Meetings) -> list[tuple[Candidate, int]]:
    """Where ranks call more operators than others, launching these is a part of the more work."""
    told = list(kept)
    for work, cost in kept:
        if work.cause != MORE_WORK or work.evidence.get("call_ratio", 1.0) <= 1:
            continue
        launches = [pair for pair in told if pair[0].cause == LAUNCH and pair[0].ranks == work.ranks]
        if launches:
            change = together([work.change, *(launch.change for launch, _ in launches)])
            told = [pair for pair in told if pair not in launches and pair != (work, cost)]
            told.append((replace(work, change=change), meetings.saved_ns(change)))
    return told


def without_launches_of_unfused(kept: list[tuple[Candidate, int]]) -> list[tuple[Candidate, int]]:
    """The causes but for too many launches of what should be fused, which are a part of that."""
    unfused = {
        candidate.responsible for candidate, _ in kept if candidate.cause in (UNFUSED_OPTIMIZER, UNFUSED_ATTENTION)
    }
    return [
        (candidate, cost)
        for candidate, cost in kept
        if candidate.cause != LAUNCH or candidate.ranks or candidate.responsible not in unfused
    ]


def without_followers(kept: list[tuple[Candidate, int]]) -> list[tuple[Candidate, int]]:
    """The causes but for transfers that are exposed since hosts launch too late what could hide them."""
    late_ns = max((cost for candidate, cost in kept if candidate.cause == LAUNCH and not candidate.ranks), default=0)
    return [(candidate, cost) for candidate, cost in kept if candidate.cause != EXPOSED or cost >= late_ns]
