"""The timeline's section of a page: what its template needs, its style and its script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import polars as pl

from holotrace.core.analysis import CAUSES
from holotrace.present import format as fmt
from holotrace.present.timeline.payload import LANES, Payload, packed, payload

TIMELINE, PATH = "timeline", "path_parts"
# Only of a page that a server gave.
LIVE = "live.js"
SCRIPTS = ("words.js", "layout.js", "model.js", "draw.js", "timeline.js")
_WORDS = {"step": "steps", "host": "host", "compute": "compute", "communication": "communication", "copy": "copies"}
_IDLE = "idle, by cause"


@dataclass(frozen=True)
class Lane:
    """A lane in the key."""

    name: str
    label: str


@dataclass(frozen=True)
class Cause:
    """A cause to go to."""

    text: str
    rank: int | None
    at: str | None


@dataclass(frozen=True)
class TimelineView:
    """What the template of the section is filled with."""

    rank_count: int
    lanes: tuple[Lane, ...]
    causes: tuple[Cause, ...]
    words: tuple[str, ...]
    data: str
    # The numbers of the causes that have a place in it, by their sentence.
    places: Mapping[str, int]
    # Whether a server has every event.
    is_live: bool = False
    has_path: bool = False


def view(tables: Mapping[str, pl.DataFrame], *, live: bool = False) -> TimelineView | None:
    """The section of a result with these tables; None where no rank has a timeline."""
    table = tables.get(TIMELINE)
    if table is None or table.is_empty():
        return None
    data = payload(table, tables.get(CAUSES), tables.get(PATH))
    lanes = tuple(Lane(name, _WORDS.get(name, _IDLE)) for name in LANES)
    places = {mark["text"]: number for number, mark in enumerate(data["marks"]) if mark["at"] is not None}
    has_path = bool(data["path"]["parts"][0])
    causes = tuple(_cause(mark) for mark in data["marks"])
    return TimelineView(
        len(data["ranks"]), lanes, causes, _words(table, data, live), packed(data), places, live, has_path
    )


def style() -> str:
    """The style of the section."""
    return _asset("timeline.css")


def script(*, live: bool = False) -> str:
    """The script of the section: its files as one, with no name that others could see."""
    names = (*SCRIPTS, LIVE) if live else SCRIPTS
    return "\n".join(['"use strict";', "(() => {", *map(_asset, names), "})();"])


def _asset(name: str) -> str:
    return (files("holotrace.present") / "templates" / "timeline" / name).read_text(encoding="utf-8")


def _cause(mark: Payload) -> Cause:
    at = None if mark["at"] is None else fmt.duration(mark["at"])
    return Cause(f"{mark['text']} (worth up to {mark['worth']})", mark["rank"], at)


def _words(table: pl.DataFrame, data: Payload, live: bool) -> tuple[str, ...]:
    """The same in words, for those who do not see the drawing; and what it cannot tell."""
    ranks = table.filter(pl.col("row") == "rank")
    whole = int((ranks["end_ns"] - ranks["start_ns"]).sum())
    busy = table.filter(pl.col("row") == "bin").group_by("lane").agg(pl.col("busy_ns").sum())
    shares = {lane: ns / whole for lane, ns in busy.iter_rows()} if whole else {}
    said = ", ".join(f"{_WORDS.get(lane, 'idle')} {fmt.percent(shares[lane])}" for lane in LANES if lane in shares)
    sentences = [f"Of the recorded time, an average rank spent: {said}. Lanes overlap, so these do not add up."]
    pieces = sorted({rank["piece"] for rank in data["ranks"]})
    if pieces and live:
        sentences.append("Whoever zooms in sees every event, as far as the view has few enough to draw.")
    elif pieces:
        exact = sum(len(window["events"][0]) for window in data["windows"])
        sentences.append(
            f"Lanes are drawn in pieces of {fmt.duration(pieces[-1])}, coloured by what took most of each. "
            f"Dashed frames hold {fmt.plural(exact, 'event')} one by one, the longest of each: where causes, long "
            "collectives and heavy kernels are."
        )
    if data["path"]["parts"][0]:
        sentences.append("The line below a rank's lanes is the critical path of the job, where it is on that rank.")
    sentences.append(_of_clocks(ranks))
    if data["leftOut"]:
        sentences.append(
            f"{fmt.plural(data['leftOut'], 'rank')} beyond rank {data['ranks'][-1]['rank']} are left out here."
        )
    return tuple(sentences)


def _of_clocks(ranks: pl.DataFrame) -> str:
    known = ranks["uncertain_ns"].drop_nulls()
    if ranks.height == 1:
        return "Times count from the first event."
    if known.is_empty():
        return "The offset between the clocks of ranks is unknown, so times of different ranks are not comparable."
    most = known.max()
    sure = f"to about {fmt.duration(most)}" if isinstance(most, int) else "well"
    rest = ranks.height - len(known)
    unknown = f" For {fmt.plural(rest, 'rank')} no collective shows the offset of the clock." if rest else ""
    return f"Clocks are aligned at the ends of collectives, {sure}; whiskers show the error where ranks meet.{unknown}"
