"""What threads of a rank did in windows of time, told by the calls that were open on them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import columns, constant, done
from holotrace.derive.names import codes, distinct, distinct_pairs
from holotrace.diagnosis.words.classes import (
    CHECKPOINT,
    EVALUATION,
    INPUT,
    KINDS,
    LOGGING,
    STEP_RANGE,
    is_of_program,
    told,
    traits,
)

# Longer than this no interpreter works between two calls that it makes.
LONG_NS = 1_000_000
# Launching takes 2-20 µs; what takes so much longer waits for a place in the queue.
LONG_LAUNCH_NS = 100_000
# What is said of where something went on: so many names, innermost first.
_LEVELS = 4
# From a call of the runtime up to the program's own code there are no more than so many.
_MOST_LEVELS = 16
# Ranges that the thread of the training loop leaves; backward passes make more calls, on a thread of their own.
_OF_MAIN = ("ProfilerStep", "Optimizer.step#", "enumerate(DataLoader)#")
_KINDS = pl.Series("cause", KINDS)
# What says too little where the program's own code is below it, and how many parts of each are looked at for that.
_TOLD_BELOW, _SAMPLE = (INPUT, CHECKPOINT, EVALUATION, LOGGING), 64
# What tells of each window what most of it went by.
NAMES = ("operator", "module", "function", "annotation", "call")


NO_SHARES = pl.DataFrame(
    schema={
        "window": pl.UInt32(),
        "cause": pl.String(),
        "responsible": pl.String(),
        "inner_id": pl.UInt32(),
        "event_id": pl.UInt32(),
        "share_ns": pl.Int64(),
        "when_ns": pl.Int64(),
    }
)


@dataclass(frozen=True)
class Found:
    """What went on in windows."""

    shares: pl.DataFrame
    """``window``, ``cause`` (of ``classes``), ``responsible``, ``inner_id`` (the innermost call, for most of it),
    ``event_id`` (of what is responsible), ``share_ns`` (those of a window add up to its length), ``when_ns`` (when it
    went on last)."""
    _calls: pl.DataFrame
    _names: pl.DataFrame

    def names(self) -> pl.DataFrame:
        """A row per window: NAMES, each of what was innermost for most of it, ``other`` and ``other_tid`` (what another
        thread did longest) and ``other_ns``; null where there was none.
        """
        kinds = (*NAMES, "other")
        ids = pl.concat([self._names[f"{kind}_id"].alias("id") for kind in kinds])
        known = looked_up(self._calls, ids, "name", "tid")
        known = pl.DataFrame([column.cast(pl.String) for column in known.get_columns()])
        count = self._names.height
        named = [known["name"].slice(place * count, count).alias(kind) for place, kind in enumerate(kinds)]
        tid = known["tid"].slice(count * len(NAMES), count).alias("other_tid")
        took = self._names.select(other_ns=pl.when(pl.col("other_ns") > 0).then("other_ns"))
        return pl.DataFrame([*named, tid, took["other_ns"]])


def of(
    calls: pl.DataFrame,
    windows: pl.DataFrame,
    fallback: int | None = None,
    *,
    ignored: pl.Series | None = None,
    together: bool = False,
) -> Found:
    """What threads did in windows.

    Args:
        calls: Rows of the table of calls that are on the host, in order of ``event_id``.
        windows: ``start_ns``, ``end_ns`` and ``tid``, the thread that matters in each; null for the main one. They are
            in order and do not overlap.
        fallback: The number of the thread that tells where nothing is open on that one; the main one by default.
        ignored: Which calls tell nothing.
        together: Whether short calls of a function that launches nothing are told where they last in all windows, too,
            as where windows end with each operator, or a server has one in each turn.
    """
    main = main_thread(calls) if fallback is None else fallback
    placed = windows[:, ["start_ns", "end_ns"]].hstack(codes(windows[:, ["tid"]]))
    labels = codes(calls[:, ["name", "category", "tid"]])
    if ignored is not None:
        # To leave them out would copy all others.
        labels.replace_column(2, constant("tid", None, 1, pl.UInt32()).zip_with(ignored, labels["tid"]))
    placed_calls = calls[:, ["event_id", "start_ns", "end_ns", "work_count"]].hstack(labels)
    shares, names = native.open_calls(
        placed_calls, _kinds(calls), placed, main, limits_ns=(LONG_NS, LONG_LAUNCH_NS), together=together
    )
    return Found(_shares(pl.DataFrame(shares), calls), calls, pl.DataFrame(names))


def nothing(windows: pl.DataFrame) -> pl.DataFrame:
    """The names of windows of which nothing is known."""
    text = {name: pl.lit(None, pl.String) for name in (*NAMES, "other", "other_tid")}
    return windows.with_columns(**text, other_ns=pl.lit(None, pl.Int64)).select(*text, "other_ns")


def main_thread(calls: pl.DataFrame) -> int:
    """The number of the thread that holds the steps, or the ranges of their parts, else of what made the most calls."""
    names = [name for name in distinct(calls["name"]) if name]
    for mark in _OF_MAIN:
        marks = [name for name in names if name.startswith(mark)]
        if marks:
            marked = calls.filter(pl.col("name").is_in(pl.lit(pl.Series(marks, dtype=calls.schema["name"])).implode()))
            return _busiest(marked["tid"], None) or 0
    return _busiest(calls["tid"], None) or 0


def busiest_thread(calls: pl.DataFrame, but: int) -> int:
    """The number of the thread that made the most calls, other than one."""
    found = _busiest(calls["tid"], but)
    return but if found is None else found


def _busiest(threads: pl.Series, but: int | None) -> int | None:
    """The number that is there most often, the lowest of equals; None where there is none but one."""
    counts = threads.to_physical().alias("thread").value_counts().iter_rows()
    known = [(-count, thread) for thread, count in counts if thread is not None and thread != but]
    return min(known)[1] if known else None


def looked_up(calls: pl.DataFrame, ids: pl.Series, *columns: str) -> pl.DataFrame:
    """These columns of the calls of these ``event_id``s, in their order; null where there is no such call."""
    found = native.rows_of(calls[:, ["event_id"]], ids.to_frame("event_id"))
    return calls[:, list(columns)][pl.DataFrame(found).to_series()]


def _kinds(calls: pl.DataFrame) -> pl.DataFrame:
    """What follows from the names and categories of calls, decided once for each."""
    pairs = distinct_pairs(calls[:, ["name", "category"]])
    texts = [(name or "", category or "") for name, category in zip(pairs["name"], pairs["category"], strict=True)]
    return pl.DataFrame(
        [
            *codes(pairs).get_columns(),
            pl.Series("traits", [traits(*text) for text in texts], dtype=pl.UInt16),
            pl.Series("told", [told(name) for name, _ in texts], dtype=pl.UInt8),
        ]
    )


def around(calls: pl.DataFrame, ids: pl.Series) -> pl.Series:
    """What was open around each of these calls, innermost first, as text; null where there is no such call."""
    names = []
    for _ in range(_LEVELS):
        level = looked_up(calls, ids, "name", "parent_id")
        names.append(level["name"].cast(pl.String))
        ids = level["parent_id"]
    levels = pl.DataFrame({str(level): name for level, name in enumerate(names)})
    said = levels.select(where=pl.concat_str(pl.all(), separator=" < ", ignore_nulls=True).replace("", None))
    return said["where"]


def around_parts(calls: pl.DataFrame, shares: pl.DataFrame) -> pl.Series:
    """What was open around each part, as of ``around``, behind the program's own function below what is responsible."""
    parts = shares.select(own=_own_below(calls, shares), where=around(calls, shares["inner_id"]))
    is_said = pl.col("where").str.starts_with(pl.col("own")) | pl.col("own").is_null()
    said = pl.concat_str("own", "where", separator=" < ", ignore_nulls=True)
    return parts.select(where=pl.when(is_said).then("where").otherwise(said))["where"]


def _own_below(calls: pl.DataFrame, shares: pl.DataFrame) -> pl.Series:
    """Of each part the program's own function in which most of the time went by that it and its likes have."""
    alike = ["cause", "responsible"]
    named = shares.lazy().filter(pl.col("cause").is_in(_TOLD_BELOW))
    ordered = named.sort("share_ns", "inner_id", descending=[True, False])
    longest = done(ordered.group_by(alike, maintain_order=True).head(_SAMPLE))
    own = longest.lazy().with_columns(own=asked_by(calls, longest["inner_id"], longest["event_id"]))
    is_most = 2 * pl.col("share_ns").sum().over([*alike, "own"]) > pl.col("share_ns").sum().over(alike)
    most = own.filter(is_most).select(*alike, "own").unique()
    told = shares.lazy().join(most, on=alike, how="left", nulls_equal=True, maintain_order="left")
    return done(told.select("own"))["own"]


def asked_by(calls: pl.DataFrame, ids: pl.Series, below: pl.Series | None = None) -> pl.Series:
    """The innermost function or range of the program's own around each of these calls; null where there is none.

    Those that are within ``below``, another call for each, are looked at alone.
    """
    nobody = constant("name", None, len(ids), pl.String())
    asked = ids.to_frame("id") if below is None else pl.DataFrame({"id": ids, "below": below})
    known = done(asked.lazy().drop_nulls("id").unique())
    if known.is_empty():
        return nobody
    at, names = known["id"], [None] * known.height
    for _ in range(_MOST_LEVELS):
        if below is not None:
            both = pl.DataFrame([at.alias("at"), known["below"]])
            at = both.select(pl.when(pl.col("at").ne_missing(pl.col("below"))).then("at")).to_series()
        above = looked_up(calls, at, "name", "category", "parent_id")
        pairs = [*zip(above["name"].to_list(), above["category"].to_list(), strict=True)]
        own = {
            (name, of)
            for name, of in set(pairs)
            if name is not None and of is not None and is_of_program(name, of) and not STEP_RANGE.search(name)
        }
        names = [pair[0] if name is None and pair in own else name for name, pair in zip(names, pairs, strict=True)]
        at = above["parent_id"]
        if all(name is not None or up is None for name, up in zip(names, at.to_list(), strict=True)):
            break
    found = known.hstack([pl.Series("name", names, pl.String)])
    return asked.join(found, on=known.columns, how="left", nulls_equal=True, maintain_order="left")["name"]


def _shares(shares: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    responsible = looked_up(calls, shares["call_id"], "name")["name"].cast(pl.String)
    causes = [_KINDS[shares["kind"]], responsible.alias("responsible")]
    numbers = columns(shares, "window", "inner_id", "share_ns", "when_ns", event_id="call_id")
    return numbers.hstack(causes)[:, NO_SHARES.columns]
