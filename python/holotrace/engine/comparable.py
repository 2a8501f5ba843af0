"""Which ranks are compared with each other, and over which steps: those that all of them recorded."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import polars as pl

from holotrace.core.problems import CUT, DIFFERENT_STEPS, LEFT_OUT, problem, spelled
from holotrace.present import format as fmt

_MOST_NAMED = 3  # runs of steps that are told with their ranks
# Runs of the same step end within so much of the shortest step.
_APART_RATIO = 0.25
# The first and the last.
Steps = tuple[int, int]


@dataclass(frozen=True)
class Recorded:
    """How much of a rank there is."""

    rank: int
    is_cut: bool
    step_count: int | None
    # Null where there are none, or their numbers say nothing of other ranks.
    steps: Steps | None = None
    # Entries of its file, and those of them that ran on a device.
    events: tuple[int, int] = (0, 0)
    # Where steps are counted from the beginning of the recording: of each the program run that is most of it, which has
    # the same id in all recordings of a job, and when that ended. No ids where one is in several steps.
    runs: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, info: pl.DataFrame, problems: pl.DataFrame) -> Recorded:
        """The same from the rank's rows of rank_info and of the problems table."""
        (row,) = info.iter_rows(named=True)
        first, last, count = row["first_step"], row["last_step"], row["step_count"]
        # With a gap between them they are no run of steps that others could be looked at in.
        steps = (first, last) if count and first is not None and last - first + 1 == count else None
        events = (row["event_count"] or 0, row["device_event_count"] or 0)
        runs, ends = (
            {step: value for step, value in enumerate(json.loads(row[name] or "[]")) if value is not None}
            for name in ("step_runs", "step_ends")
        )
        is_cut = not set(CUT).isdisjoint(problems["problem"])
        known = runs if len({*runs.values()}) == len(runs) else {}
        return cls(row["rank"], is_cut, count, steps, events, known, ends)


@dataclass(frozen=True)
class Comparison:
    """Which ranks are compared, and over which steps."""

    left_out: Mapping[int, str] = field(default_factory=dict)
    """Ranks that are compared with no other and make no findings, each with the reason."""
    steps: Steps | None = None
    """All ranks are looked at in these steps only; null where they recorded the same ones."""
    begun: Mapping[int, int] = field(default_factory=dict)
    """How many steps later than the first some ranks began to record, whose steps are counted from there."""
    of_steps: Sequence[Mapping[str, Any]] = ()
    """Rows of the problems table on these steps."""

    @property
    def problems(self) -> list[Mapping[str, Any]]:
        """The same, and on the ranks that are left out."""
        return [*self.of_steps, *as_problems(self.left_out)]


def comparison(ranks: Sequence[Recorded]) -> Comparison:
    """How ``ranks`` are compared.

    Of a file that was cut off nobody knows which events are missing: a profiler writes what ran on devices last. Ranks
    that recorded different steps are compared over those that all have; one that shares none with most is left out.
    """
    whole = [rank for rank in ranks if not rank.is_cut]
    sizes = sorted(rank.events for rank in whole)
    left = {rank.rank: _of_a_cut(rank, sizes) for rank in ranks if rank.is_cut}
    stepped = [rank for rank in whole if rank.step_count]
    own = {rank.rank: rank.steps for rank in stepped if rank.steps}
    begun = _begun(stepped) if not own else {}
    own |= {rank.rank: (begun[rank.rank], begun[rank.rank] + (rank.step_count or 0) - 1) for rank in stepped if begun}
    if len(own) < len(stepped):
        left |= _of_another_count(stepped)
        return Comparison(left)
    if len(set(own.values())) < 2:
        return Comparison(left)
    first, last = steps = _shared(list(own.values()))
    apart = {rank: has for rank, has in own.items() if not has[0] <= first <= last <= has[1]}
    left |= {
        rank: f"{_spelled(has)} recorded, none of {_spelled(steps)}, which are compared" for rank, has in apart.items()
    }
    sharing = {rank: has for rank, has in own.items() if rank not in apart}
    if set(sharing.values()) == {steps}:
        return Comparison(left)
    left |= {rank.rank: "no steps recorded, where others have" for rank in whole if rank not in stepped}
    return Comparison(left, steps, begun, [_of_different_steps(sharing, steps)])


def as_problems(reasons: Mapping[int, str]) -> list[dict[str, Any]]:
    """Rows of the problems table on ranks that were left out."""
    return [
        problem(LEFT_OUT, rank=rank, example=reason, action="its tables show what was read; findings are of the others")
        for rank, reason in sorted(reasons.items())
    ]


def ranks_left_out(problems: pl.DataFrame) -> frozenset[int]:
    """Ranks that were left out, as the problems of a job say."""
    return frozenset(problems.filter(pl.col("problem") == LEFT_OUT)["rank"])


def of_ranks(table: pl.DataFrame, without: Iterable[int]) -> pl.DataFrame:
    """The rows of other ranks than these; rows of no rank are of the whole job."""
    left = list(without)
    is_left = pl.col("rank").is_in(left).fill_null(value=False)
    return table.filter(~is_left) if left and "rank" in table.columns else table


def _of_a_cut(rank: Recorded, sizes: Sequence[tuple[int, int]]) -> str:
    read = f"its file is cut off: {_said(rank.events)} were read"
    return f"{read}, where the median rank has {_said(sizes[len(sizes) // 2])}" if sizes else read


def _said(events: tuple[int, int]) -> str:
    entries, on_devices = events
    return f"{fmt.plural(entries, 'event')} ({fmt.number(on_devices)} on devices)"


def _of_another_count(ranks: Sequence[Recorded]) -> dict[int, str]:
    """Ranks with fewer or more steps than most, where numbers of steps do not tell which of them are the same."""
    counts = Counter(rank.step_count for rank in ranks)
    usual = max(counts, key=lambda steps: (counts[steps], steps or 0))
    return {
        rank.rank: f"{fmt.plural(rank.step_count or 0, 'step')} recorded, where most ranks have {usual}"
        for rank in ranks
        if rank.step_count != usual
    }


def _begun(ranks: Sequence[Recorded]) -> dict[int, int]:
    """How many steps later than the first each rank began to record, by the program runs that are its steps.

    Nothing where a rank shares no run with the one that recorded most, or its runs disagree.
    """
    most = max(ranks, key=lambda rank: (rank.step_count or 0, -rank.rank), default=None)
    later = {rank.rank: _by_runs(rank, most) or _by_ends(rank, most) for rank in ranks if most}
    if any(len(steps) != 1 for steps in later.values()):
        return {}
    by_rank = {rank: step for rank, (step,) in later.items()}
    first = min(by_rank.values(), default=0)
    return {rank: step - first for rank, step in by_rank.items()}


def _by_runs(rank: Recorded, most: Recorded) -> set[int]:
    """By how many steps the rank began later than the other, as the ids of its runs say, each by itself."""
    places = {run: step for step, run in most.runs.items()}
    return {places[run] - step for step, run in rank.runs.items() if run in places}


def _by_ends(rank: Recorded, most: Recorded) -> set[int]:
    """The same by when they ended, without ids: at the same time, as ranks wait for each other in each step.

    Nothing is told by clocks that differ by more than a small part of a step.
    """
    if (rank.runs and most.runs) or not rank.ends or not most.ends:
        return set()
    steps, times = zip(*most.ends.items(), strict=True)
    apart_ns = _APART_RATIO * min((later - earlier for earlier, later in pairwise(times)), default=0)
    found = set[int]()
    for step, end_ns in rank.ends.items():
        place = bisect_left(times, end_ns - apart_ns)
        if place < len(times) and times[place] <= end_ns + apart_ns:
            found.add(steps[place] - step)
        elif times[0] < end_ns < times[-1]:
            return set()
    return found


def _shared(of_ranks: Sequence[Steps]) -> Steps:
    """The steps that most ranks have in common; of as many ranks the longer run of steps."""

    def around(step: int) -> tuple[int, int, int]:
        there = [(first, last) for first, last in of_ranks if first <= step <= last]
        begin, end = max(first for first, _ in there), min(last for _, last in there)
        return len(there), end - begin, begin

    _, more, begin = max(around(first) for first, _ in of_ranks)
    return begin, begin + more


def _of_different_steps(of_ranks: Mapping[int, Steps], shared: Steps) -> dict[str, Any]:
    """The row of the problems table that says which ranks recorded which steps."""
    usual = Counter(of_ranks.values()).most_common(1)[0][0]
    others = sorted({steps for steps in of_ranks.values() if steps != usual})
    if len(others) > _MOST_NAMED:
        firsts, lasts = zip(*of_ranks.values(), strict=True)
        said = f"some ranks have more of {_spelled((min(firsts), max(lasts)))}"
    else:
        named = [([rank for rank, has in of_ranks.items() if has == steps], _numbers(steps)) for steps in others]
        said = ", ".join(f"rank{'s' * (len(ranks) > 1)} {fmt.ranks(ranks)} recorded {steps}" for ranks, steps in named)
        said += f", the others {_numbers(usual)}"
    return problem(
        DIFFERENT_STEPS,
        example=f"compared over {_spelled(shared)}; {said}",
        action="everything but the tables of events is of these steps; --rank N shows one rank in full",
    )


def _spelled(steps: Steps) -> str:
    return f"step{'s' if steps[0] < steps[1] else ''} {_numbers(steps)}"


def _numbers(steps: Steps) -> str:
    return spelled(range(steps[0], steps[1] + 1))
