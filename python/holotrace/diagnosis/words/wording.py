"""Parts of the sentences that tell of causes: who, when, and what differs from case to case."""

from __future__ import annotations

import re
from itertools import pairwise

from holotrace.core.problems import spelled
from holotrace.diagnosis.words import classes

# Which kinds of more work are known.
MORE = "{has} more work than the others (other shapes or more calls)"
LONGER = (
    "{computes} longer than the others in calls of equal shapes (the data differ, or the {computer} is slow at these "
    "calls)"
)
# The same where the rank changes, and what the one that the others wait for does then.
UNEVEN = ("have uneven work", "has the most work")
UNEVEN_TIMES = ("take unequally long for calls of equal shapes", "takes the longest")
# What a host copies while it pauses.
COPYING = " between copies from the device, as in saving a checkpoint or working on results"
# Of ranks and steps that are told one by one; the columns of the table have all.
_MOST_RUNS = 6
# A call of the runtime, by itself or within what called it.
_OF_RUNTIME = re.compile(r"(^|\()(cuda|cu|hip|ur|ze)[A-Z]\w+\)?$")
_LONG_NAME = 80  # characters
# What hosts do while their devices work, which costs only what they stand still for later.
LESS_AHEAD = (
    "the device of {who} waits longer for what its host does later, "
    "because the host {stands} {what} while the device works"
)
# What one kernel could do at once.
REPEATED = (
    "{who} {launches} the same short kernel again and again{in_what}, {in_a_row_count:,} times in a row: one launch "
    "for all of them would take next to nothing"
)
# What is compared with, if it is no other step.
OTHERS = {classes.SLOW_DEVICE: "on the others", classes.SLOW_LINK: "with equal size in other groups"}


def exposed(what: str, absent: int, waiting: str, *, has_steps: bool) -> str:
    """What a collective that nothing hides takes, or a rank that nobody has recorded and others are ``waiting`` for."""
    if not absent:
        return f"communication in {what} is exposed: no rank computes during it"
    them = _unrecorded(absent, has_steps=has_steps)
    return f"{waiting} in {what}, for its data or for {them}: the trace does not tell which"


def awaited(what: str, absent: int, waiting: str, times_ns: tuple[int, int], *, has_steps: bool) -> str:
    """That ranks are ``waiting`` for others that were not recorded, and how that is known: the longest, and needed."""
    longest, needed = (f"{ns / 1e6:.3g} ms" for ns in times_ns)
    known = f"it takes up to {longest}, and {needed} is enough for as much data"
    return f"{waiting} in {what} for {_unrecorded(absent, has_steps=has_steps)}: {known}"


def _unrecorded(count: int, *, has_steps: bool) -> str:
    """Ranks that are not there; they may be in recordings of other steps, which are compared with none of these."""
    who = "a rank that was" if count == 1 else f"one of {count} ranks that were"
    return f"{who} not recorded{' in these steps' if has_steps else ''}"


def pauses(what: str, meanwhile: str = "", *, is_launch: bool, is_of_all: bool = False) -> str:
    """What a host does that goes on with nothing, in something if that is known; chance does not meet all hosts."""
    if is_launch:
        in_which = f"a launch, {what}," if what else "launches"
        return f"stands still in {in_which} as while kernels are loaded at their first use"
    in_what = f" in {what}" if what else ""
    if meanwhile:
        return f"pauses{in_what}{meanwhile}"
    if _OF_RUNTIME.search(what):
        return f"stands still{in_what}"
    # A function may compute by itself where it calls nothing, and so may what is not recorded in a range.
    own = "its own code, " if classes.is_file_of_program(what) or (what and is_of_all) else ""
    return f"pauses{in_what} without calling anything ({own}garbage collection, another process)"


def copying(who: str, copies: str, *, is_call: bool) -> str:
    """What a device copies while nothing else runs, or a call that copies, in which the host stands meanwhile."""
    if is_call:
        return f"the device of {who} has nothing to do while the host is in a call that copies data"
    return f"{who} {copies} data while nothing else runs"


def tokens(who: str, *, is_of_some: bool) -> str:
    """Whose experts get more tokens; no rank's for long where that changes."""
    if is_of_some:
        return f"experts of {who} get more tokens than those of other ranks"
    return "experts of one rank get more tokens than those of the others, now on this rank and now on that"


def called_in(code: str | None) -> str:
    """Which code called what is told of, if that is known and is not told."""
    return f", called in {short(code)}" if code else ""


def whose(ranks: tuple[int, ...], count: int) -> str:
    """The ranks in words."""
    if not ranks:
        return "every rank"
    if count > 1 and len(ranks) == count:
        return "every rank"
    told = spelled(ranks).split(", ")
    if len(told) > _MOST_RUNS:
        return f"{len(ranks):,} of {count:,} ranks ({', '.join(told[:_MOST_RUNS])}, ...)"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(told)}"


def short(name: str) -> str:
    """A name without addresses and types of bindings, and if it is long without what C++ puts into it.

    Of functions that JAX recorded as "$train.py:7 augment" it is the function, and where it is.
    """
    name = re.sub(r" at 0x[0-9a-fA-F]+", "", name)
    name = re.sub(r" of pybind11_\S+ object>", ">", name)
    name = re.sub(r"\$(\S+:\d+) (\S+)", r"\2 (\1)", name)
    name = re.sub(r"\$\S+ (\S+)$", r"\1", name)
    if len(name) <= _LONG_NAME or "::" not in name:
        return name
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", plain, maxsplit=1)[0].strip()[:_LONG_NAME] or name[:_LONG_NAME]


def verbs(ranks: tuple[int, ...], count: int) -> dict[str, str]:
    """The verbs, and the pronoun, after ``whose``, of one or of several."""
    are_several = len(ranks) > 1 and not (count > 1 and len(ranks) == count)
    if are_several:
        several = {"copies": "copy", "computes": "compute", "evaluates": "evaluate", "launches": "launch"}
        return {"is_": "are", "has": "have", "its": "their", **several}
    one = {verb: verb for verb in ("copies", "computes", "evaluates", "launches")}
    return {"is_": "is", "has": "has", "its": "its", **one}


def taken(total_ns: int, steps: int) -> str:
    """How much of each step, or of the job, something takes."""
    return f"{total_ns / steps / 1e6:.3g} ms" + (" of each step" if steps > 1 else " of the job")


def lasted(longest_ns: int, ranks: tuple[int, ...]) -> str:
    """How much of the job something takes on each of these ranks, all where there are none."""
    return ("" if len(ranks) == 1 else "up to ") + taken(longest_ns, 1)


# Of a cause that no step has.
BEFORE_STEPS = ", before the first step"
# What the work was launched before that a device had to do first: without steps nothing earlier is on record.
EARLIER, EARLIER_STEPS = "the recording began", "these steps"
# Of a cause that others hide.
HIDDEN = "; other causes hide what this costs"


def when(steps: tuple[int, ...], known: tuple[int, ...]) -> str:
    """In which steps, in words; empty where it is all of them or there are none."""
    if not steps or not known or set(steps) == set(known):
        return ""
    apart = {later - earlier for earlier, later in pairwise(steps)}
    if len(steps) > 2 and len(apart) == 1 and apart != {1}:
        return f", in every {_ordinal(apart.pop())} step from step {steps[0]}"
    # Whether the last step of all begins something nobody knows.
    if len(steps) > 1 and steps == known[-len(steps) :]:
        return f", since step {steps[0]}"
    told = spelled(steps)
    if told.count(",") >= _MOST_RUNS:
        return f", in {len(steps):,} of {len(known):,} steps from step {steps[0]} to step {steps[-1]}"
    return f", in step{'s' if len(steps) > 1 else ''} {told}"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{ending}"
