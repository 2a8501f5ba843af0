"""What the host did while a device had nothing to do: the calls that were open on the thread that launched next."""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from holotrace.core.tables import CALLS, DEVICE_EVENTS, LAUNCHES, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import WORK
from holotrace.diagnosis.classes import (
    LAUNCH,
    QUEUED,
    RUNTIME,
    SYNCHRONIZATION,
    UNRECORDED,
    WAITING,
    Around,
    decide,
    named,
)

WORK_EVENTS = DEVICE_EVENTS.only("event_id", "name", "kind", "stream", "start_ns", "end_ns", "launch_id", "launch_ns")
HOST_CALLS = CALLS.only(
    *("event_id", "name", "category", "pid", "tid", "start_ns", "end_ns", "on_device", "parent_id", "depth"),
    "work_count",
)
READS = (WORK_EVENTS, HOST_CALLS, LAUNCHES.only("launch_id", "device_event_id", "tid"), STEPS)
# Shorter gaps are what a device needs from one kernel to the next.
MIN_GAP_NS = 4_000
# Longer than this no interpreter works between two calls that it makes.
LONG_NS = 1_000_000
# A synchronisation returns so soon after the device has nothing to do any more.
_RETURN_NS = 60_000
_NOBODY = 2**32 - 1


def gaps(rank: RankTrace) -> pl.DataFrame:
    """Each time in which no work ran on the rank's devices, with what the host did instead.

    Returns ``start_ns``, ``end_ns``, ``cause`` (see ``classes``, or queued), ``responsible``, ``where``
    (names around it, innermost first), ``event_id`` of what is responsible, ``when_ns`` (when the host did it last) and
    ``share_ns``: a gap that several things fill has a row for each, and their shares add up to its length.
    """
    found = _idle(rank[WORK_EVENTS], rank[STEPS])
    if found.is_empty():
        return _nothing()
    calls = rank[HOST_CALLS].filter(~pl.col("on_device"))
    threads = (
        rank[LAUNCHES].unique("device_event_id").select(next_id="device_event_id", tid=pl.col("tid").to_physical())
    )
    found = found.join(threads, on="next_id", how="left", maintain_order="left").with_row_index("gap")
    # Work that is being launched when the device runs dry comes too late too.
    ends = calls.select(launch_id="event_id", launched_ns="end_ns")
    found = found.join(ends, on="launch_id", how="left", maintain_order="left").with_columns(
        launched_ns=pl.min_horizontal(pl.coalesce("launched_ns", "launch_ns"), "end_ns")
    )
    queued = found.filter((pl.col("launched_ns") <= pl.col("start_ns")).fill_null(False))
    waiting = found.filter((pl.col("launched_ns") > pl.col("start_ns")).fill_null(True))
    parts = [_queued(queued)]
    if not calls.is_empty() and not waiting.is_empty():
        parts.append(_by_host(waiting, calls, rank[STEPS]))
    elif not waiting.is_empty():
        parts.append(_unknown(waiting))
    return pl.concat(parts).sort("start_ns", "share_ns", descending=[False, True])


def _nothing() -> pl.DataFrame:
    times = {"start_ns": pl.Int64(), "end_ns": pl.Int64()}
    what = {"cause": pl.String(), "responsible": pl.String(), "where": pl.String(), "event_id": pl.UInt32()}
    return pl.DataFrame(schema={**times, **what, "share_ns": pl.Int64(), "when_ns": pl.Int64()})


def _idle(events: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The gaps between work of any kind, each with the work that ends it and when that was launched.

    The first begins with the first step, and the last ends with the last.
    """
    work = events.filter(pl.col("kind").is_in(WORK)).sort("start_ns", "end_ns", "event_id")
    if work.is_empty():
        return work.select(
            start_ns="start_ns", end_ns="end_ns", next_id="event_id", launch_ns="launch_ns", launch_id="launch_id"
        )
    begin, end = steps["start_ns"].min(), steps["end_ns"].max()
    last = work["end_ns"].max()
    between = work.select(
        start_ns=pl.col("end_ns").cum_max().shift(1).fill_null(pl.lit(begin, pl.Int64)),
        end_ns="start_ns",
        next_id="event_id",
        launch_ns="launch_ns",
        launch_id="launch_id",
    )
    after = pl.DataFrame({"start_ns": [last], "end_ns": [end]}, schema={"start_ns": pl.Int64, "end_ns": pl.Int64})
    return pl.concat([between, after], how="diagonal").filter(pl.col("end_ns") - pl.col("start_ns") > MIN_GAP_NS)


def contexts(rank: RankTrace, launch_ids: pl.Series) -> dict[int, tuple[str, str]]:
    """Of launches within something whose name tells what goes on (see ``classes.named``): that, and the name."""
    calls = rank[HOST_CALLS].filter(~pl.col("on_device"))
    told = {name: cause for name in calls["name"].unique().cast(pl.String) if name and (cause := named(name))}
    outer = _outermost(calls.filter(among(calls["name"], told)))
    launches = calls.filter(pl.col("event_id").is_in(launch_ids.drop_nulls().unique().implode()))
    # Wherever a thread is within one, the last that began is the one, as none is within another.
    found = launches.sort("start_ns").join_asof(outer, on="start_ns", by=["pid", "tid"], check_sortedness=False)
    within = found.filter(pl.col("end_ns") <= pl.col("outer_end_ns")).select("event_id", "outer_name")
    return {launch: (told[name], name) for launch, name in within.iter_rows()}


def _outermost(calls: pl.DataFrame) -> pl.DataFrame:
    """Those of these calls that are within no other of them."""
    before = pl.col("end_ns").cum_max().shift(1).over("pid", "tid")
    outer = calls.sort("start_ns", "depth").filter((pl.col("end_ns") > before).fill_null(True))
    return outer.select("pid", "tid", "start_ns", outer_end_ns="end_ns", outer_name=pl.col("name").cast(pl.String))


def among(labels: pl.Series, chosen: Iterable[str]) -> pl.Series:
    """Which labels are among those that were chosen; compared as numbers, since there are many."""
    return labels.is_in(pl.Series(list(chosen), dtype=labels.dtype).implode())


def matching(labels: pl.Series, pattern: re.Pattern[str]) -> pl.Series:
    """Which labels a pattern is found in; each label is looked at once."""
    return among(labels, [name for name in labels.unique().cast(pl.String) if name and pattern.search(name)])


def _queued(found: pl.DataFrame) -> pl.DataFrame:
    return _told(found, QUEUED)


def _unknown(found: pl.DataFrame) -> pl.DataFrame:
    return _told(found, UNRECORDED)


def _told(found: pl.DataFrame, cause: str) -> pl.DataFrame:
    return found.select(
        "start_ns",
        "end_ns",
        cause=pl.lit(cause),
        responsible=pl.lit(None, pl.String),
        where=pl.lit(None, pl.String),
        event_id=pl.lit(None, pl.UInt32),
        share_ns=pl.col("end_ns") - pl.col("start_ns"),
        when_ns="start_ns",
    )


def _by_host(found: pl.DataFrame, calls: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Gaps before work that was launched too late, with what their threads did in them."""
    calls = calls.with_columns(tid=pl.col("tid").to_physical())
    main = _main_thread(calls)
    found = found.with_columns(pl.col("tid").fill_null(main))
    pieces = _pieces(found, calls)
    # The autograd thread begins with nothing open: until then the thread that called it tells what goes on.
    bare = pieces.filter(pl.col("innermost").is_null()).select("gap", start_ns="from_ns", end_ns="until_ns")
    if not bare.is_empty():
        others = bare.with_columns(tid=pl.lit(main, pieces.schema["tid"]))
        pieces = pl.concat([pieces.drop_nulls("innermost"), _pieces(others, calls)])
    chains = _chains(pieces, calls)
    told = _classified(pieces, chains, calls)
    lengths = (
        pl.concat([told, _late_ends(found, told)])
        .join(found.select("gap", "start_ns", "end_ns"), on="gap")
        .filter(pl.col("share_ns") > 0)
    )
    lengths = _after_waiting(lengths, calls, chains)
    return lengths.select("start_ns", "end_ns", "cause", "responsible", "where", "event_id", "share_ns", "when_ns")


def _main_thread(calls: pl.DataFrame) -> int:
    """The thread that holds the steps, else the one that made the most calls."""
    marked = calls.filter(pl.col("name").cast(pl.String).str.starts_with("ProfilerStep"))
    chosen = marked if not marked.is_empty() else calls
    return int(chosen.group_by("tid").len().sort("len", "tid", descending=[True, False])["tid"][0])


def _pieces(found: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """What was the innermost call on the thread of each gap, piece by piece: gap, tid, innermost, from_ns, until_ns."""
    threads = _beside(calls.filter(pl.col("tid").is_in(found["tid"].unique().implode())), found)
    # Of what begins at one time the outer call is the first, of what ends then the inner one.
    begin = threads.select(
        "tid", time_ns="start_ns", order=pl.lit(2, pl.Int64), level=pl.col("depth").cast(pl.Int64), now="event_id"
    )
    end = threads.select(
        "tid",
        time_ns="end_ns",
        order=pl.lit(0, pl.Int64),
        level=-pl.col("depth").cast(pl.Int64),
        now=pl.col("parent_id").fill_null(_NOBODY),
    )
    none = pl.lit(None, pl.UInt32)
    level = pl.lit(0, pl.Int64)
    opened = found.select(
        "tid", time_ns="start_ns", order=pl.lit(3, pl.Int64), level=level, now=none, gap=pl.col("gap").cast(pl.Int64)
    )
    closed = found.select(
        "tid", time_ns="end_ns", order=pl.lit(1, pl.Int64), level=level, now=none, gap=pl.lit(-1, pl.Int64)
    )
    kept = pl.lit(None, pl.Int64).alias("gap")
    marks = pl.concat([begin.with_columns(kept), end.with_columns(kept), opened, closed]).sort(
        "tid", "time_ns", "order", "level"
    )
    filled = marks.with_columns(
        pl.col("now").forward_fill().over("tid"),
        pl.col("gap").forward_fill().over("tid"),
        until_ns=pl.col("time_ns").shift(-1).over("tid"),
    )
    return (
        filled.filter(pl.col("gap") >= 0, pl.col("until_ns") > pl.col("time_ns"))
        .with_columns(innermost=pl.when(pl.col("now") != _NOBODY).then("now"))
        .select(pl.col("gap").cast(pl.UInt32), "tid", "innermost", from_ns="time_ns", until_ns="until_ns")
    )


def _beside(calls: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """The calls that were open in one of these gaps, of whatever thread: only they are the innermost there."""
    gaps = found.sort("start_ns")
    # Gaps do not overlap: the first that ends behind a call's start is the one to look at.
    following = gaps["end_ns"].cum_max().search_sorted(calls["start_ns"], side="right")
    begins = pl.concat([gaps["start_ns"], pl.Series([2**63 - 1], dtype=pl.Int64)]).gather(following)
    return calls.filter(begins < calls["end_ns"])


def _chains(pieces: pl.DataFrame, calls: pl.DataFrame) -> dict[int, list[Around]]:
    """By event, what is open around it and it itself, from the innermost out."""
    known = calls.select("event_id", "parent_id")
    wanted = pieces["innermost"].drop_nulls().unique()
    parents: dict[int, int | None] = {}
    while not wanted.is_empty():
        rows = known.filter(pl.col("event_id").is_in(wanted.implode()))
        parents |= dict(rows.iter_rows())
        wanted = (
            rows["parent_id"]
            .drop_nulls()
            .unique()
            .filter(~rows["parent_id"].drop_nulls().unique().is_in(pl.Series(list(parents), dtype=pl.UInt32).implode()))
        )
    ids = pl.Series(list(parents), dtype=pl.UInt32)
    rows = calls.filter(pl.col("event_id").is_in(ids.implode())).select(
        "event_id", pl.col("name", "category").cast(pl.String), launches=pl.col("work_count") > 0
    )
    events = {
        number: Around(name or "", category or "", number, launches)
        for number, name, category, launches in rows.iter_rows()
    }
    chains: dict[int, list[Around]] = {}
    for number in pieces["innermost"].drop_nulls().unique():
        chain: list[Around] = []
        at: int | None = number
        while at is not None and at in events and len(chain) < 512:
            chain.append(events[at])
            at = parents.get(at)
        chains[number] = chain
    return chains


def _classified(pieces: pl.DataFrame, chains: dict[int, list[Around]], calls: pl.DataFrame) -> pl.DataFrame:
    """The pieces of each gap summed by what they are."""
    summed = pieces.group_by("gap", "innermost").agg(
        share_ns=(pl.col("until_ns") - pl.col("from_ns")).sum(),
        longest_ns=(pl.col("until_ns") - pl.col("from_ns")).max(),
        when_ns=pl.col("from_ns").max(),
    )
    decided = [
        _row(chains.get(innermost, []) if innermost is not None else [], longest)
        for innermost, longest in summed.select("innermost", "longest_ns").iter_rows()
    ]
    schema = {"cause": pl.String, "responsible": pl.String, "where": pl.String, "event_id": pl.UInt32}
    return summed.select("gap", "share_ns", "when_ns").hstack(pl.DataFrame(decided, schema=schema, orient="row"))


def _row(chain: list[Around], longest_ns: int) -> tuple[str, str | None, str | None, int | None]:
    cause, responsible = decide(chain, longest_ns=longest_ns, long_ns=LONG_NS)
    where = " < ".join(event.name for event in chain[:4]) or None
    return cause, responsible.name if responsible else None, where, responsible.event_id if responsible else None


def _late_ends(found: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """The rest of each gap that no piece covers, which nothing tells."""
    covered = told.group_by("gap").agg(pl.col("share_ns").sum())
    return (
        found.join(covered, on="gap", how="left")
        .select(
            "gap",
            share_ns=pl.col("end_ns") - pl.col("start_ns") - pl.col("share_ns").fill_null(0),
            when_ns="start_ns",
            cause=pl.lit(UNRECORDED),
            responsible=pl.lit(None, pl.String),
            where=pl.lit(None, pl.String),
            event_id=pl.lit(None, pl.UInt32),
        )
        .select(told.columns)
    )


def _after_waiting(told: pl.DataFrame, calls: pl.DataFrame, chains: dict[int, list[Around]]) -> pl.DataFrame:
    """Launching after a wait for the device is what the wait costs: the host could not run ahead of the device."""
    waits = (
        calls.filter(among(calls["category"], RUNTIME) & matching(calls["name"], WAITING))
        .select(wait_id="event_id", wait_parent="parent_id", began_ns="start_ns", returned_ns="end_ns")
        .sort("returned_ns")
    )
    if waits.is_empty() or told.is_empty():
        return told
    before = (
        told.sort("start_ns")
        .join_asof(waits, left_on="start_ns", right_on="returned_ns", strategy="forward", check_sortedness=False)
        .with_columns(
            is_after=(pl.col("began_ns") < pl.col("start_ns"))
            & (pl.col("returned_ns") <= pl.min_horizontal("end_ns", pl.col("start_ns") + _RETURN_NS))
        )
    )
    who = _parents_of(waits, calls)
    is_launching = pl.col("is_after").fill_null(False) & pl.col("cause").is_in([LAUNCH, SYNCHRONIZATION])
    return (
        before.join(who, on="wait_parent", how="left", maintain_order="left")
        .with_columns(
            cause=pl.when(is_launching).then(pl.lit(SYNCHRONIZATION)).otherwise("cause"),
            responsible=pl.when(is_launching)
            .then(pl.coalesce("around_name", "wait_name", "responsible"))
            .otherwise("responsible"),
            event_id=pl.when(is_launching).then("wait_id").otherwise("event_id"),
        )
        .select(told.columns)
    )


def _parents_of(waits: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Of what made these waits, ``wait_parent``: its name, and the name of what made that."""

    def those(ids: pl.Series, **columns: str) -> pl.DataFrame:
        rows = calls.filter(pl.col("event_id").is_in(ids.drop_nulls().unique().implode()))
        return rows.with_columns(pl.col("name").cast(pl.String)).select(**columns)

    parents = those(waits["wait_parent"], wait_parent="event_id", wait_name="name", around_id="parent_id")
    around = those(parents["around_id"], around_id="event_id", around_name="name")
    return parents.join(around, on="around_id", how="left")
