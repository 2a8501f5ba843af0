"""Parts of ranks' timelines as finely as they are looked at: pieces made by the core, or every event."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import polars as pl

from holotrace.analyses.lanes import of_rank
from holotrace.analyses.lanes.timeline import recorded
from holotrace.analyses.lanes.windows import Events
from holotrace.core.trace import RankTrace
from holotrace.derive.bins import Grid, runs
from holotrace.engine.session import Session
from holotrace.present.timeline.payload import refined

# As many as a browser draws without a pause; of more the lanes are told in pieces.
MOST_EVENTS = 6_000
MOST_PIECES = 8_192
_HELD_BYTES = 1 << 29


@dataclass(frozen=True)
class Prepared:
    """A rank's lanes and events, on its own clock, and when its recording began."""

    lanes: Mapping[str, pl.DataFrame]
    events: Events
    start_ns: int

    @property
    def bytes(self) -> int:
        frames = (*self.lanes.values(), self.events.on_device, self.events.on_host)
        return sum(int(frame.estimated_size()) for frame in frames)


def prepared(rank: RankTrace) -> Prepared | None:
    """What tiles of a rank are made of; None of a rank without any time."""
    times = recorded(rank)
    return None if times is None else Prepared(of_rank.lanes(rank), Events.of(rank), times[0])


class Tiles:
    """Tiles of the ranks of a job; a few ranks that were looked at last are held.

    Args:
        session: Who reads ranks.
        timeline: The timeline of the job, which tells when on its clock each rank begins.
    """

    def __init__(self, session: Session, timeline: pl.DataFrame) -> None:
        self._session = session
        rows = timeline.filter(pl.col("row") == "rank").select("rank", "start_ns")
        self._starts: dict[int, int] = dict(rows.iter_rows())
        self._held: OrderedDict[int, Prepared | None] = OrderedDict()
        self._lock = Lock()

    def tile(self, rank: int, start_ns: int, end_ns: int, pieces: int) -> dict[str, Any] | None:
        """A part of a rank's timeline as the page's script reads it; None where there is none."""
        if rank not in self._starts or end_ns <= start_ns:
            return None
        known = self._rank(rank)
        if known is None:
            return None
        shift_ns = self._starts[rank] - known.start_ns
        grid = Grid.over(start_ns - shift_ns, end_ns - shift_ns, max(1, min(pieces, MOST_PIECES)))
        parts = [
            runs(_within(spans, grid), grid).with_columns(lane=pl.lit(lane)) for lane, spans in known.lanes.items()
        ]
        time = pl.DataFrame({"start_ns": [start_ns - shift_ns], "end_ns": [end_ns - shift_ns]})
        found = known.events.during(time, MOST_EVENTS + 1).drop("window")
        is_whole = found.filter(pl.len().over(pl.col("lane") == of_rank.HOST) > MOST_EVENTS).is_empty()
        moved = pl.col("start_ns", "end_ns") + shift_ns
        exact = found.with_columns(moved) if is_whole else None
        return refined(pl.concat(parts).with_columns(moved), exact, start_ns, end_ns, grid.width_ns)

    def _rank(self, rank: int) -> Prepared | None:
        # One rank is read at a time: several would take as long together, and more memory.
        with self._lock:
            if rank not in self._held:
                (self._held[rank],) = self._session.only([rank]).map(prepared, of_rank.READS)
            self._held.move_to_end(rank)
            while len(self._held) > 1 and sum(known.bytes for known in self._held.values() if known) > _HELD_BYTES:
                self._held.popitem(last=False)
            return self._held[rank]


def _within(spans: pl.DataFrame, grid: Grid) -> pl.DataFrame:
    last_ns = grid.origin_ns + grid.count * grid.width_ns
    return spans.filter(pl.col("start_ns") < last_ns, pl.col("end_ns") > grid.origin_ns)
