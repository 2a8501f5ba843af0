"""Asynchronous collectives as spans, from their start to their end, also of devices whose profile shows none."""

from __future__ import annotations

import polars as pl

from holotrace.core.on_demand import Rows

_KEY = ["plane", "program_id", "start"]
# The instruction that begins a collective, by its name.
_BEGINS = r"-start(\.\d+)?$"
# The queue of spans that no line shows.
_STREAM = -1


def with_spans(operations: Rows) -> Rows:
    """The operations, those that begin a collective as the span of it on devices that show none.

    Some profiles of TPUs show spans of the first device only. A span lasts until the device is done with what awaits
    it.
    """
    kinds = operations.shared["kind"].with_row_index("kind").filter("is_collective")
    begins = pl.col("instruction").cast(pl.String).str.contains(_BEGINS)
    pieces = kinds.filter(pl.col("is_span") | pl.col("awaited").is_not_null() | begins)
    if pieces["awaited"].null_count() in (0, pieces.height):
        return operations
    known = pieces.select(
        *("kind", "is_span", "awaited"),
        pl.col("program_id").fill_null(0),
        start=pl.coalesce("awaited", "instruction"),
    )
    ran = (
        operations.own.select("event_id", "kind", "line", "start_ns", "end_ns")
        .join(known, on="kind")
        .join(operations.shared["line"].select("line", "plane"), on="line")
    )
    shown, is_end = ran.filter("is_span").select(_KEY).unique(), pl.col("awaited").is_not_null()
    ran = ran.filter(~pl.col("is_span")).join(shown, on=_KEY, how="anti").sort("start_ns")
    ends = ran.filter(is_end).select(*_KEY, "start_ns", until_ns="end_ns")
    found = ran.filter(~is_end).join_asof(ends, on="start_ns", by=_KEY, strategy="forward", check_sortedness=False)
    # Of several that began before one end, the others lost theirs.
    spans = found.drop_nulls("until_ns").unique([*_KEY, "until_ns"], keep="last", maintain_order=True)
    return operations if spans.is_empty() else _lasting(operations, spans)


def _lasting(operations: Rows, spans: pl.DataFrame) -> Rows:
    """The operations, some of which are spans that last until another time.

    Args:
        operations: All of them.
        spans: event_id, kind, line and plane of each, and when it is over: until_ns.
    """
    own, kinds, lines = operations.own, operations.shared["kind"], operations.shared["line"]
    of_kind = spans.select("kind").unique().sort("kind").with_row_index("of_kind", offset=kinds.height)
    of_line = spans.select("line", "plane").unique("plane").sort("line").with_row_index("of_line", offset=lines.height)
    told = spans.select("event_id", "kind", "plane", "until_ns").join(of_kind, on="kind")
    told = told.join(of_line.select("plane", "of_line"), on="plane")
    row = own.select("event_id").join(told, on="event_id", how="left", maintain_order="left")
    changed = {"end_ns": "until_ns", "kind": "of_kind", "line": "of_line"}
    # What the device measured is how long it took to begin.
    measured = [name for name in ("device_duration_ps", "duration_ps", "self_ns") if name in own.columns]
    shared = {
        "kind": pl.concat([kinds, kinds[of_kind["kind"]].with_columns(is_span=pl.lit(value=True))]),
        "line": pl.concat([lines, _asynchronous(lines[of_line["line"]], of_line["of_line"])]),
    }
    lasting = own.with_columns(
        *(row[by].cast(own.schema[name]).fill_null(own[name]).alias(name) for name, by in changed.items()),
        *(pl.when(row["until_ns"].is_null()).then(name).alias(name) for name in measured),
    )
    return Rows(lasting, {**operations.shared, **shared})


def _asynchronous(lines: pl.DataFrame, numbers: pl.Series) -> pl.DataFrame:
    """Lines of spans beside these lines."""
    return lines.with_columns(
        line=numbers.cast(lines.schema["line"]),
        is_async=pl.lit(value=True),
        stream=pl.lit(_STREAM, lines.schema["stream"]),
    )
