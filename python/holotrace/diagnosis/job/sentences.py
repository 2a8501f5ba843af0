"""Causes as sentences: who, what, in which steps."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holotrace.derive.vendors import COPYING as COPYING_CALLS
from holotrace.derive.vendors import GRAPH_LAUNCHING, LAUNCHING
from holotrace.diagnosis.job import cores, earlier_work, floors, idle, less_ahead
from holotrace.diagnosis.job.candidates import CALLED_IN, COPIES_TO_HOST, IS_EQUAL, Candidate
from holotrace.diagnosis.job.cores import DEVICE
from holotrace.diagnosis.job.search import Found
from holotrace.diagnosis.job.unrecorded_ranks import ABSENT, LONGEST, NEEDED
from holotrace.diagnosis.rank.small_kernels import REPEATED
from holotrace.diagnosis.words import wording
from holotrace.diagnosis.words.class_texts import Class
from holotrace.diagnosis.words.classes import (
    COPY,
    COSTLESS,
    EXPERTS,
    INPUT,
    LAUNCH,
    MORE_WORK,
    SLOW_HOST,
    UNEVEN_WORK,
    UNFUSED_OPTIMIZER,
    UNRECORDED_RANK,
    WRONG_TYPE,
    is_file_of_program,
)
from holotrace.diagnosis.words.texts_on_host import OF_HOSTS

_ADDRESS = r" at 0x[0-9a-fA-F]+"
# Of these the responsible name says it all.
_WHOLE = (COPY, MORE_WORK, UNEVEN_WORK, EXPERTS, WRONG_TYPE, LAUNCH, UNFUSED_OPTIMIZER)


def of(found: Found, words: Class, known_steps: tuple[int, ...], rank_count: int) -> str:
    """What is wrong, in the words for its class, in which of the ``known_steps``."""
    c = found.candidate
    is_of_function = less_ahead.LESS_AHEAD in c.evidence and c.cause != SLOW_HOST
    told = wording.LESS_AHEAD if is_of_function else wording.REPEATED if REPEATED in c.evidence else words.sentence
    taken = wording.taken(found.profiler_ns or 0, found.step_count if known_steps else 1)
    parts = _parts(c, words, rank_count) | _of_messages(c, rank_count, has_steps=bool(known_steps))
    parts["earlier"] = wording.EARLIER_STEPS if known_steps else wording.EARLIER
    sentence = told.format(**parts, taken=taken) + wording.called_in(c.evidence.get(CALLED_IN))
    sentence += wording.BEFORE_STEPS if c.evidence.get(idle.BEFORE) else wording.when(c.steps, known_steps)
    if found.share_ratio <= floors.FLOOR_RATIO and c.cause not in COSTLESS:
        sentence += wording.HIDDEN
    return sentence[0].upper() + sentence[1:]


def _parts(c: Candidate, words: Class, rank_count: int) -> dict[str, object]:
    """What sentences are filled with."""
    who = wording.whose(c.ranks, rank_count)
    if DEVICE in c.evidence:
        who = f"device {c.evidence[DEVICE]} of {who}"
    verbs = wording.verbs(c.ranks, rank_count)
    computer = "CPU" if words is OF_HOSTS[c.cause] else "device"
    is_equal = bool(c.evidence.get(IS_EQUAL))
    those, one = ("devices", "device") if cores.DEVICES in c.evidence else ("ranks", "rank")
    uneven, longest = wording.UNEVEN_TIMES if is_equal else wording.UNEVEN
    of_rank = {
        "who": who,
        "computer": computer,
        "those": those,
        "one": one,
        "uneven": uneven,
        "longest": longest,
        **verbs,
        "is_slow": "is slow" if DEVICE in c.evidence else f"{verbs['has']} a slow {computer}",
        "tokens": wording.tokens(who, is_of_some=bool(c.ranks)),
        "lasted": wording.lasted(int(c.evidence.get(earlier_work.LASTED, 0)), c.ranks),
    }
    how = (wording.LONGER if is_equal else wording.MORE).format(**of_rank)
    return {**of_rank, "how": how, **_of_host(c, who, verbs), **c.evidence}


def _of_host(c: Candidate, who: str, verbs: Mapping[str, str]) -> Mapping[str, str]:
    """What its host is in, and what goes on meanwhile."""
    what = _what(c) if c.responsible else ""
    meanwhile = wording.COPYING if c.evidence.get(COPIES_TO_HOST) else ""
    is_launch = not (LAUNCHING | GRAPH_LAUNCHING).isdisjoint((c.responsible, _innermost(c)))
    copies = str(c.evidence.get("copies", verbs["copies"]))
    return {
        "what": _what(c),
        "in_what": f" in {what}" if what else "",
        "meanwhile": meanwhile,
        "than": wording.OTHERS.get(c.cause, ""),
        "stands": "waits for" if c.cause == COPY else "is in",
        "pauses": wording.pauses(what, meanwhile, is_launch=is_launch, is_of_all=not c.ranks),
        "copying": wording.copying(who, copies, is_call=_innermost(c).startswith(COPYING_CALLS)),
    }


def _of_messages(c: Candidate, rank_count: int, *, has_steps: bool) -> dict[str, object]:
    """What its ranks wait in, where some of those that meet in it were not recorded, or not in these steps."""
    absent = int(c.evidence.get(ABSENT, 0))
    who = wording.whose(c.ranks, rank_count)
    waits = f"{who if c.ranks else 'all recorded ranks'} {'waits' if len(c.ranks) == 1 else 'wait'}"
    said: dict[str, object] = {"exposed": wording.exposed(_what(c), absent, waits, has_steps=has_steps)}
    if c.cause == UNRECORDED_RANK:
        times_ns = int(c.evidence[LONGEST]), int(c.evidence[NEEDED])
        said["awaited"] = wording.awaited(_what(c), absent, waits, times_ns, has_steps=has_steps)
    return said


def _what(candidate: Candidate) -> str:
    if candidate.responsible is None:
        return "what nothing in the trace names"
    inner = _innermost(candidate)
    # What a loader of a library is in says nothing.
    is_whole = candidate.cause in _WHOLE or (candidate.cause == INPUT and not is_file_of_program(inner))
    says_all = inner in ("", candidate.responsible) or is_whole
    said = wording.short(candidate.responsible)
    return said if says_all else f"{said} ({wording.short(inner)})"


def _innermost(candidate: Candidate) -> str:
    return re.sub(_ADDRESS, "", (candidate.detail or "").partition(" < ")[0])
