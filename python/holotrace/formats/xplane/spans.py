"""Asynchronous collectives as spans, from their start to their end, also of devices whose profile shows none."""

from __future__ import annotations

import polars as pl

from holotrace.core.on_demand import Rows

_KEY = ["plane", "program_id", "start"]
# The instruction that begins a collective, by its name.
_BEGINS = r"(-start|^send)(\.\d+)?$"
# What an exchange between slices consists of beside its begin and its end.
_BESIDE = r"^(recv|send-done)(\.\d+)?$"
# A device that need not wait for the end goes on at once.
_AT_ONCE_NS = 1_000
# The queue of spans that no line shows; what slices exchange goes on side by side, each in one of its own below that.
_STREAM = -1


def with_spans(operations: Rows) -> Rows:
    """The operations, those that begin a collective as the span of it on devices that show none.

    Some profiles of TPUs show spans of the first device only. A span lasts until the device is done with what awaits
    it, or, if that took no time, with what it worked on before.
    """
    kinds = operations.shared["kind"].with_row_index("kind").filter("is_collective")
    name, awaited = pl.col("instruction").cast(pl.String), pl.col("awaited")
    told = kinds.select(
        *("kind", "is_span"),
        pl.col("program_id").fill_null(0),
        start=pl.coalesce("awaited", "instruction"),
        is_begin=awaited.is_null() & name.str.contains(_BEGINS),
        beside=pl.when(pl.col("exchange").is_not_null()).then("kind"),
        is_end=awaited.is_not_null() & ~name.str.contains(_BESIDE),
    )
    known = told.filter(pl.any_horizontal("is_span", "is_begin", "is_end"))
    if not (known["is_begin"].any() and known["is_end"].any()):
        return operations
    ran = (
        operations.own.select("event_id", "kind", "line", "start_ns", "end_ns")
        .join(known, on="kind")
        .join(operations.shared["line"].select("line", "plane"), on="line")
    )
    shown = ran.filter("is_span").select(_KEY).unique()
    ran = ran.filter(~pl.col("is_span")).join(shown, on=_KEY, how="anti").sort("start_ns")
    ends = _over(ran.filter("is_end"), operations).select(*_KEY, "start_ns", "until_ns", "end_of")
    found = ran.filter("is_begin").join_asof(ends, on="start_ns", by=_KEY, strategy="forward", check_sortedness=False)
    # Of several that began before one end, the others lost theirs.
    spans = found.drop_nulls("until_ns").unique([*_KEY, "end_of"], keep="last", maintain_order=True)
    spans = spans.with_columns(pl.max_horizontal("until_ns", "end_ns"))
    return operations if spans.is_empty() else _lasting(operations, spans)


def _over(ends: pl.DataFrame, operations: Rows) -> pl.DataFrame:
    """The ends of collectives, in order, with when each was over at the latest: until_ns, and its number, end_of."""
    kinds = operations.shared["kind"].with_row_index("kind")
    working = kinds.filter(~pl.any_horizontal("is_collective", "is_span", "is_wait", "may_contain"))
    worked = (
        operations.own.select("kind", "line", worked_ns="end_ns")
        .join(working, on="kind", how="semi")
        .join(operations.shared["line"].select("line", "plane"), on="line")
        .sort("worked_ns")
    )
    known = ends.join_asof(
        worked.select("plane", "worked_ns"),
        left_on="start_ns",
        right_on="worked_ns",
        by="plane",
        coalesce=False,
        check_sortedness=False,
    )
    is_awaited = pl.col("end_ns") - pl.col("start_ns") > _AT_ONCE_NS
    over_ns = pl.when(is_awaited).then("end_ns").otherwise(pl.coalesce("worked_ns", "start_ns"))
    return known.with_columns(until_ns=over_ns, end_of="event_id")


def _lasting(operations: Rows, spans: pl.DataFrame) -> Rows:
    """The operations, some of which are spans that last until another time.

    Args:
        operations: All of them.
        spans: event_id, kind, line and plane of each, until_ns, when it is over, and ``beside``, a number if it has a
            queue of its own.
    """
    own, kinds, lines = operations.own, operations.shared["kind"], operations.shared["line"]
    of_kind = spans.select("kind").unique().sort("kind").with_row_index("of_kind", offset=kinds.height)
    place = ["plane", "beside"]
    of_line = spans.select("line", *place).unique(place).sort("line", "beside")
    of_line = of_line.with_row_index("of_line", offset=lines.height)
    told = spans.select("event_id", "kind", *place, "until_ns").join(of_kind, on="kind")
    told = told.join(of_line.select(*place, "of_line"), on=place, nulls_equal=True)
    row = own.select("event_id").join(told, on="event_id", how="left", maintain_order="left")
    changed = {"end_ns": "until_ns", "kind": "of_kind", "line": "of_line"}
    # What the device measured is how long it took to begin.
    measured = [name for name in ("device_duration_ps", "duration_ps", "self_ns") if name in own.columns]
    shared = {
        "kind": pl.concat([kinds, kinds[of_kind["kind"]].with_columns(is_span=pl.lit(value=True))]),
        "line": pl.concat([lines, _asynchronous(lines, of_line)]),
    }
    lasting = own.with_columns(
        *(row[by].cast(own.schema[name]).fill_null(own[name]).alias(name) for name, by in changed.items()),
        *(pl.when(row["until_ns"].is_null()).then(name).alias(name) for name in measured),
    )
    return Rows(lasting, {**operations.shared, **shared})


def _asynchronous(lines: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """Lines of spans beside these lines: those of which it is ``told``, with their numbers, of_line."""
    beside = told.select(pl.col("beside").rank("dense").over("plane").fill_null(0).cast(pl.Int64)).to_series()
    return lines[told["line"]].with_columns(
        line=told["of_line"].cast(lines.schema["line"]),
        is_async=pl.lit(value=True),
        stream=(_STREAM - beside).cast(lines.schema["stream"]),
    )
