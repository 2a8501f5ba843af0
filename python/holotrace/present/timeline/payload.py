"""The timeline's table as data for its script: small, and with what a page cannot hold left out and told."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from holotrace.diagnosis.words.classes import COSTLESS
from holotrace.present import format as fmt

LANES = ("step", "host", "compute", "communication", "copy", "idle")
# What a browser holds and draws without a pause, and a page carries by mail.
MOST_PIECES, MOST_EVENTS, MOST_MEETING_ROWS, MOST_NAMES = 1_200_000, 24_000, 8_000, 2_000
# How busy a piece is, is told in so many parts: sums of many pieces are right to a thousandth.
LEVELS = 1000
_LONG_NAME = 160
_OTHERS = "(other names)"
Payload = dict[str, Any]
_PART = {"rank": pl.Int32(), "name": pl.String(), "bound_by": pl.String(), "start_ns": pl.Int64(), "end_ns": pl.Int64()}


def payload(table: pl.DataFrame, causes: pl.DataFrame | None = None, path: pl.DataFrame | None = None) -> Payload:
    """The timeline as the script reads it.

    Args:
        table: Of the analysis.
        causes: Of the analysis of causes, which tell what events matter most.
        path: The parts of the critical path of the job.
    """
    rows = {str(kind): rows for (kind,), rows in table.partition_by("row", as_dict=True).items()}
    nothing = table.clear()
    ranks = rows.get("rank", nothing).sort("rank")
    marks = _marks(causes, ranks)
    windows, events = _worth_most(rows.get("window", nothing), rows.get("event", nothing), marks)
    pieces, shown = _bounded(rows.get("bin", nothing), ranks)
    on_path = _on_path(path, shown)
    names = _Names(pieces, events, on_path)
    last_ns = ranks["end_ns"].max()
    return {
        "end": last_ns if isinstance(last_ns, int) else 0,
        "lanes": LANES,
        "levels": LEVELS,
        "names": names.listed,
        "ranks": list(_ranks(shown, pieces, rows.get("step", nothing), names)),
        "leftOut": ranks.height - shown.height,
        "windows": list(_windows(windows, events, names)),
        "meetings": list(_meetings(rows.get("meeting", nothing), shown)),
        "marks": marks,
        "path": _path(on_path, names),
    }


def refined(pieces: pl.DataFrame, events: pl.DataFrame | None, start_ns: int, end_ns: int, piece_ns: int) -> Payload:
    """A part of a rank's timeline, finer: its lanes in pieces, and all its ``events``, if they can be shown."""
    names = _Names(pieces, *([] if events is None else [events]))
    numbered = pieces.with_columns(number=pl.Series(names.numbers(pieces), dtype=pl.Int64))
    timed = numbered.with_columns(origin_ns=pl.lit(start_ns), piece_ns=pl.lit(piece_ns))
    return {
        "start": start_ns,
        "end": end_ns,
        "piece": piece_ns,
        "names": names.listed,
        "pieces": {lane: columns for lane, *columns in _runs(timed, "lane").iter_rows()},
        "events": None if events is None else _columns(_numbered(events, names), start_ns),
    }


def packed(data: Payload) -> str:
    """The data deflated, as text of 64 characters that need no escape."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


class _Names:
    """Texts by number: those that take most of the time; what else there is has one together."""

    def __init__(self, *tables: pl.DataFrame) -> None:
        length = (pl.col("end_ns") - pl.col("start_ns")).sum()
        sums = pl.concat([table.select("name", "start_ns", "end_ns") for table in tables]).drop_nulls("name")
        most = sums.group_by("name").agg(length.alias("ns")).sort("ns", "name", descending=[True, False])
        names = most["name"].head(MOST_NAMES).to_list()
        self.listed = [*(fmt.printable(_shortened(name)) for name in names), _OTHERS]
        self._numbers = pl.DataFrame(
            {"name": names, "number": range(len(names))}, schema={"name": pl.String, "number": pl.Int64}
        )

    def numbers(self, table: pl.DataFrame) -> list[int]:
        joined = table.select("name").join(self._numbers, on="name", how="left", maintain_order="left")
        found: list[int] = joined["number"].fill_null(len(self.listed) - 1).to_list()
        return found


def _shortened(name: str) -> str:
    return name if len(name) <= _LONG_NAME else f"{name[: _LONG_NAME - 1]}…"


def _bounded(pieces: pl.DataFrame, ranks: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The pieces of as many ranks as a page can hold, from the first, and these ranks."""
    counts = ranks.select("rank").join(pieces.group_by("rank").agg(pl.len()), on="rank", how="left")
    kept = counts.sort("rank").filter(pl.col("len").fill_null(0).cum_sum() <= MOST_PIECES)
    shown = ranks.join(kept, on="rank", how="semi", maintain_order="left")
    return pieces.join(kept, on="rank", how="semi", maintain_order="left"), shown


def _ranks(ranks: pl.DataFrame, pieces: pl.DataFrame, steps: pl.DataFrame, names: _Names) -> Iterator[Payload]:
    times = ranks.select("rank", origin_ns="start_ns", piece_ns="busy_ns")
    numbered = pieces.with_columns(number=pl.Series(names.numbers(pieces), dtype=pl.Int64))
    of_rank: dict[int, dict[str, list[list[int]]]] = {}
    for rank, lane, *columns in _runs(numbered.join(times, on="rank"), "rank", "lane").iter_rows():
        of_rank.setdefault(rank, {})[lane] = columns
    steps_of = steps.partition_by("rank", as_dict=True, maintain_order=True)
    for row in ranks.iter_rows(named=True):
        own_steps = steps_of.get((row["rank"],), steps.clear())
        yield {
            "rank": row["rank"],
            "start": row["start_ns"],
            "end": row["end_ns"],
            "piece": row["busy_ns"],
            "offset": row["clock_offset_ns"],
            "uncertain": row["uncertain_ns"],
            "steps": [
                [fmt.printable(name), start, end - start]
                for name, start, end in own_steps.select("name", "start_ns", "end_ns").iter_rows()
            ],
            "pieces": of_rank.get(row["rank"], {}),
        }


def _runs(pieces: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Runs of pieces: how many are left out before each, how many it is, how busy it is, and its name's number.

    ``pieces`` of each group have ``origin_ns``, when the first piece begins, and ``piece_ns``, how long one is.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    before = pl.col("first") - (pl.col("first") + pl.col("count")).shift(1, fill_value=0).over(by)
    return (
        pieces.select(
            *by,
            "number",
            first=(pl.col("start_ns") - pl.col("origin_ns")) // pl.col("piece_ns"),
            count=length // pl.col("piece_ns"),
            level=(pl.col("busy_ns") * LEVELS / length).round().clip(1, LEVELS).cast(pl.Int64),
        )
        .sort(*by, "first")
        .with_columns(before=before)
        .group_by(by, maintain_order=True)
        .agg("before", "count", "level", "number")
    )


def _marks(causes: pl.DataFrame | None, ranks: pl.DataFrame) -> list[Payload]:
    """Where each cause has its longest instance, on the clock of the job."""
    if causes is None or causes.is_empty() or ranks.is_empty():
        return []
    # What costs nothing is nowhere. Both times count from the job's first event.
    return [
        {
            "rank": row["rank"],
            "at": row["where_ns"],
            "cause": fmt.printable(row["cause"]),
            "text": fmt.printable(row["message"]),
            "worth": fmt.duration(row["cost_ns"]),
            "ranks": row["ranks"],
            "steps": row["steps"],
        }
        for row in causes.filter(~pl.col("cause").is_in(COSTLESS)).iter_rows(named=True)
    ]


def _worth_most(windows: pl.DataFrame, events: pl.DataFrame, marks: list[Payload]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The windows that hold what causes point at, then others, as far as their events fit; and these events."""
    at = pl.DataFrame(
        [(mark["rank"], mark["at"]) for mark in marks if mark["at"] is not None],
        schema={"of": pl.Int32, "at": pl.Int64},
        orient="row",
    )
    # A cause of all ranks is looked at on its own rank first.
    pointed = (
        windows.join(at, how="cross")
        .filter(pl.col("at").is_between("start_ns", "end_ns"))
        .group_by("rank", "track")
        .agg(own=(pl.col("of") == pl.col("rank")).any())
    )
    ordered = (
        windows.join(pointed, on=["rank", "track"], how="left")
        .with_columns(order=pl.col("own").cast(pl.Int8).fill_null(-1))
        .sort("order", pl.col("end_ns") - pl.col("start_ns"), "rank", "track", descending=[True, True, False, False])
        .filter(pl.col("count").fill_null(0).cum_sum() <= MOST_EVENTS)
        .with_row_index("window")
    )
    # What reaches into two windows is an event of each, and as deep as what else that has.
    own = ordered.select("rank", "window", count="track")
    return ordered, events.join(own.with_columns(pl.col("count").cast(events.schema["count"])), on=["rank", "count"])


def _numbered(events: pl.DataFrame, names: _Names) -> pl.DataFrame:
    lane = pl.col("lane").replace_strict({name: i for i, name in enumerate(LANES)}, return_dtype=pl.Int64)
    numbered = events.with_columns(lane, number=pl.Series(names.numbers(events), dtype=pl.Int64))
    return numbered.sort("lane", "track", "start_ns")


def _columns(events: pl.DataFrame, origin_ns: int) -> list[list[int]]:
    """Lane, name, start, length and track of each event."""
    columns = events.select(
        "lane",
        "number",
        start=pl.col("start_ns") - origin_ns,
        length=pl.col("end_ns") - pl.col("start_ns"),
        track=pl.col("track").fill_null(0),
    )
    return [column.to_list() for column in columns]


def _windows(windows: pl.DataFrame, events: pl.DataFrame, names: _Names) -> Iterator[Payload]:
    numbered = _numbered(events, names)
    of_window = numbered.partition_by("window", as_dict=True, maintain_order=True)
    for row in windows.iter_rows(named=True):
        found = of_window.get((row["window"],), numbered.clear())
        times = {"rank": row["rank"], "start": row["start_ns"], "end": row["end_ns"]}
        yield {**times, "events": _columns(found, row["start_ns"])}


def _on_path(path: pl.DataFrame | None, ranks: pl.DataFrame) -> pl.DataFrame:
    """The parts of the critical path on these ranks, by the clock of the timeline."""
    begun = ranks["begun_ns"].first()
    if path is None or not isinstance(begun, int):
        return pl.DataFrame(schema=_PART)
    start = pl.col("start_ns") - begun
    return path.join(ranks, on="rank", how="semi", maintain_order="left").select(
        "rank",
        pl.coalesce("name", "bound_by"),
        "bound_by",
        start_ns=start,
        end_ns=start + pl.col("duration_ns"),
    )


def _path(parts: pl.DataFrame, names: _Names) -> Payload:
    """Rank, name, start and length of each part, and what it is bound by, by number."""
    kinds = parts["bound_by"].unique().sort().to_list()
    kind = pl.col("bound_by").replace_strict(kinds, range(len(kinds)), return_dtype=pl.Int64) if kinds else "bound_by"
    columns = parts.select("rank", kind, start="start_ns", length=pl.col("end_ns") - pl.col("start_ns"))
    rank, bound, start, length = (column.to_list() for column in columns)
    return {"kinds": kinds, "parts": [rank, bound, names.numbers(parts), start, length]}


def _meetings(meetings: pl.DataFrame, ranks: pl.DataFrame) -> Iterator[Payload]:
    """Who came when to collectives that ranks waited for longest."""
    shown = meetings.join(ranks, on="rank", how="semi", maintain_order="left")
    waits = (
        shown.group_by("match")
        .agg(pl.col("busy_ns").sum(), pl.len())
        .sort("busy_ns", "match", descending=[True, False])
        .filter(pl.col("len").cum_sum() <= MOST_MEETING_ROWS)
    )
    for match in waits["match"]:
        rows = shown.filter(pl.col("match") == match).sort("start_ns", "rank")
        yield {
            "name": fmt.printable(_shortened(str(rows["name"][0]))),
            "ranks": rows["rank"].to_list(),
            "came": rows["start_ns"].to_list(),
            "left": rows["end_ns"].to_list(),
        }


def sizes(data: Mapping[str, Any]) -> tuple[int, int]:
    """How many runs of pieces and how many single events the data has."""
    runs = sum(len(lane[0]) for rank in data["ranks"] for lane in rank["pieces"].values())
    return runs, sum(len(window["events"][0]) for window in data["windows"])
