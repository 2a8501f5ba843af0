"""Which ranks can be compared with the others: those that recorded as much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from holotrace.core.problems import CUT, LEFT_OUT, problem
from holotrace.present import format as fmt


@dataclass(frozen=True)
class Recorded:
    """How much of a rank there is."""

    rank: int
    is_cut: bool
    step_count: int | None
    # Entries of its file, and those of them that ran on a device, where that was asked for.
    events: tuple[int, int] | None = None

    @classmethod
    def of(
        cls, rank: int, problems: pl.DataFrame, step_count: int | None, events: tuple[int, int] | None = None
    ) -> Recorded:
        """The same from the rank's rows of the problems table."""
        return cls(rank, bool(problems["problem"].is_in(CUT).any()), step_count, events)


def left_out(ranks: Sequence[Recorded]) -> dict[int, str]:
    """Ranks that are compared with no other and make no findings, each with the reason.

    Of a file that was cut off nobody knows which events are missing: a profiler writes what ran on devices last. A rank
    with fewer or more steps than most spent its time on other work. A rank without steps is taken as it is.
    """
    whole = [rank for rank in ranks if not rank.is_cut]
    sizes = sorted(rank.events for rank in whole if rank.events)
    median = sizes[len(sizes) // 2] if sizes else None
    counts = Counter(rank.step_count for rank in whole if rank.step_count)
    usual = max(counts, key=lambda steps: (counts[steps], steps), default=None)
    other = {
        rank.rank: f"{fmt.plural(rank.step_count, 'step')} recorded, where most ranks have {usual}"
        for rank in whole
        if rank.step_count and rank.step_count != usual
    }
    return {rank.rank: _of_a_cut(rank, median) for rank in ranks if rank.is_cut} | other


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


def _of_a_cut(rank: Recorded, median: tuple[int, int] | None) -> str:
    if rank.events is None:
        return "its file is cut off"
    read = f"its file is cut off: {_said(rank.events)} were read"
    return f"{read}, where the median rank has {_said(median)}" if median else read


def _said(events: tuple[int, int]) -> str:
    entries, on_devices = events
    return f"{fmt.plural(entries, 'event')} ({fmt.number(on_devices)} on devices)"
