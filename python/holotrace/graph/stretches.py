"""The graph of a job of any size: of all that was recorded or, where that is large, of some steps after the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import polars as pl

from holotrace.core.spread import cpu_count, spread
from holotrace.graph import meetings
from holotrace.graph import rank as of_rank
from holotrace.graph.job import STEP, JobGraph, Stretch, joined, with_meetings
from holotrace.graph.steps import only

T = TypeVar("T")
# A graph of so many activities takes some 500 MB.
MOST_ACTIVITIES = 4_000_000


class Stretches:
    """The graphs of a job, which together tell of all of its steps, in their order.

    A large job is looked at in stretches of steps. The graph of a stretch has the step before it too, of which nothing
    is told, as what others wait for happens there. What it waits for of still earlier steps happens when it was
    recorded. The recording of ranks without steps is never cut.

    Args:
        rows: Of all ranks (``job.PART``).
        most: A job of more activities than this is cut.

    Attributes:
        ranks: All that have activities, in order.
    """

    def __init__(self, rows: pl.DataFrame, most: int = MOST_ACTIVITIES) -> None:
        parts = rows.sort("rank", maintain_order=True)
        sizes = parts.filter(pl.col("row") == of_rank.ACTIVITY).filter(pl.col("count") > 0)
        self.ranks: tuple[int, ...] = tuple(sizes["rank"].unique().sort())
        is_large = int(sizes["count"].sum()) > most
        # Each analysis holds a graph, so that one after the other goes through those of a large job.
        self._lock, self._first = Lock(), Lock()
        self._wanted: Sequence[Callable[[JobGraph], Any]] = ()
        self._made: dict[Hashable, Sequence[Any]] = {}
        self._cut = _cut(parts, sizes, most) if is_large else ()
        self._whole = None if self._cut else JobGraph.from_parts(parts)

    def __iter__(self) -> Iterator[JobGraph]:
        if self._whole is not None:
            yield self._whole
        else:
            with self._lock:
                yield from (piece.graph() for piece in self._cut)

    def expect(self, wanted: Sequence[Callable[[JobGraph], Any]]) -> None:
        """What is ``wanted`` of each graph is made when the graphs are gone through first."""
        self._wanted = wanted if self._whole is None else ()

    def map(self, make: Callable[[JobGraph], T]) -> list[T]:
        """What is made of each graph."""
        with self._first:
            if self._wanted:
                made = [spread(partial(_made, graph), self._wanted, cpu_count()) for graph in self]
                self._made = dict(zip(map(_key, self._wanted), zip(*made, strict=True), strict=True))
                self._wanted = ()
        found = self._made.get(_key(make))
        return [make(graph) for graph in self] if found is None else list(found)


def _made(graph: JobGraph, make: Callable[[JobGraph], T]) -> T:
    return make(graph)


def _key(make: Callable[..., Any]) -> Hashable:
    """What two functions that do the same have in common."""
    return (make.func, make.args, tuple(sorted(make.keywords.items()))) if isinstance(make, partial) else make


@dataclass(frozen=True)
class _Piece:
    """A stretch, packed."""

    stretch: Stretch
    parts: pl.DataFrame
    offsets: pl.DataFrame

    def graph(self) -> JobGraph:
        return joined(of_rank.unpacked(self.parts, has_met=True), self.offsets, self.stretch)


def _cut(parts: pl.DataFrame, sizes: pl.DataFrame, most: int) -> tuple[_Piece, ...]:
    """The stretches of so many activities, of ranks that are unpacked one by one; none where nothing can be cut."""
    marks = of_rank.unpacked(parts, (of_rank.STEP,))[of_rank.STEP].drop_nulls("step")
    steps = marks["step"].unique().sort()
    # Each stretch has a step more than are told of.
    told = max(most * len(steps) // int(sizes["count"].sum()) - 1, 1)
    if told >= len(steps) or not set(sizes["rank"]) <= set(marks["rank"]):
        return ()
    calls = of_rank.unpacked(parts, (of_rank.COLLECTIVE,))[of_rank.COLLECTIVE]
    met, offsets = meetings.met(calls)
    sets = meetings.sets(sizes["rank"], met.select("rank", crossing="match"))
    firsts = range(0, len(steps), told)
    from_ns = _begins(marks, offsets, steps)
    pieces: list[list[pl.DataFrame]] = [[] for _ in firsts]
    began: list[int] = []
    for of_one in parts.partition_by("rank", maintain_order=True):
        rank = int(of_one["rank"][0])
        kinds = with_meetings(of_rank.unpacked(of_one), met.filter(pl.col("rank") == rank))
        activities = kinds[of_rank.ACTIVITY]
        if activities.is_empty():
            continue
        offset_ns = int(offsets.filter(pl.col("rank") == rank)["offset_ns"].sum())
        began.append(int(activities.select(pl.col("start_ns").min()).item()) - offset_ns)
        place = _place(activities, kinds[of_rank.STEP], steps)
        for at, first in enumerate(firsts):
            kept = (place >= first - 1) & (place < first + told)
            of_steps = pl.col("step").is_in(pl.lit(steps[max(first - 1, 0) : first + told]).implode())
            before, is_kept = (kinds, kept) if first == 0 else _after(kinds, kept, from_ns[first - 1] + offset_ns)
            pieces[at].append(of_rank.packed_again(rank, only(before, is_kept, of_steps)))
    began_ns = min(began, default=None)
    return tuple(
        _Piece(Stretch(int(steps[first]), began_ns, sets), pl.concat(rows), offsets)
        for first, rows in zip(firsts, pieces, strict=True)
    )


def _begins(marks: pl.DataFrame, offsets: pl.DataFrame, steps: pl.Series) -> list[int]:
    """When each step began on the first rank, on the clock of the median rank."""
    clocks = marks.join(offsets, on="rank", how="left").with_columns(pl.col("offset_ns").fill_null(0))
    first = clocks.group_by("step").agg(begin_ns=(pl.col("start_ns") - pl.col("offset_ns")).min())
    found: list[int] = steps.to_frame("step").join(first, on="step", maintain_order="left")["begin_ns"].to_list()
    return found


def _after(
    kinds: Mapping[str, pl.DataFrame], kept: pl.Series, from_ns: int
) -> tuple[dict[str, pl.DataFrame], pl.Series]:
    """The rows of a rank in which what is kept and waits for what is not waits for a moment as long as was recorded.

    That moment is the same on all ranks, so that differences between them stay what they are.
    """
    activities, lanes = kinds[of_rank.ACTIVITY], kinds[of_rank.LANE]
    edges = kinds[of_rank.EDGE].with_columns(pl.col("from_point", "to_point").cast(pl.Int64))
    lane = int(lanes.select(pl.col("lane").max()).item()) + 1
    of_moment = {"rank": activities["rank"][0], "lane": lane, "is_device": False, "kind": STEP, "own_ns": 0}
    moment = pl.DataFrame([{**of_moment, "start_ns": from_ns, "end_ns": from_ns}])
    at, is_end = edges["from_point"] // 2, edges["from_point"] % 2 == 1
    is_cut = kept[edges["to_point"] // 2] & ~kept[at]
    came_ns = activities["end_ns"][at].zip_with(is_end, activities["start_ns"][at])
    lag_ns = (came_ns - from_ns).clip(0) + edges["lag_ns"]
    end_of_moment = pl.Series([2 * activities.height + 1])
    waiting = edges.with_columns(
        from_point=end_of_moment.zip_with(is_cut, edges["from_point"]), lag_ns=lag_ns.zip_with(is_cut, edges["lag_ns"])
    )
    rows = {
        **kinds,
        of_rank.ACTIVITY: _and(activities, moment),
        of_rank.LANE: _and(lanes, moment),
        of_rank.EDGE: waiting,
    }
    return rows, pl.concat([kept, pl.Series([True])])


def _and(frame: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """The rows of both, with the columns of the first."""
    names = [name for name in frame.columns if name in more.columns]
    return pl.concat([frame, more.select(pl.col(name).cast(frame.schema[name]) for name in names)], how="diagonal")


def _place(activities: pl.DataFrame, marks: pl.DataFrame, steps: pl.Series) -> pl.Series:
    """The place of each activity's step among all; of what is in none, of the last that had begun, or the first."""
    begun = marks.drop_nulls("step").sort("start_ns")
    before = begun["start_ns"].search_sorted(activities["start_ns"], side="right").cast(pl.Int64) - 1
    step = pl.coalesce("step", begun["step"][before.clip(0)])
    return activities.select(place=pl.lit(steps).search_sorted(step).cast(pl.Int64))["place"]
