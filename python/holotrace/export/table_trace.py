"""A rank of a dataset as a trace again: what its tables hold of each event, in the form in which profilers write it."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO

import polars as pl

from holotrace.core.schema import Column, Table
from holotrace.core.source import RankSource
from holotrace.core.tables import (
    COLLECTIVES,
    COUNTERS,
    CPU_OPS,
    DEVICE_EVENTS,
    EVENTS,
    FLOWS,
    INSTANTS,
    MEMORY,
    PYTHON_CALLS,
    RUNTIME_CALLS,
    TRACK_LABELS,
)
from holotrace.core.trace import RankTrace
from holotrace.export.event_json import as_written, json_text, microseconds
from holotrace.loading.rank import load
from holotrace.stores import Held

_AT_ONCE = 100_000  # events whose texts are in memory
# Tables whose columns are args of events.
_OF_EVENTS = (DEVICE_EVENTS, CPU_OPS, COLLECTIVES, RUNTIME_CALLS, PYTHON_CALLS, MEMORY)


def _with_args(table: Table) -> Table:
    return table.only("event_id", *(column.name for column in table.columns if column.arg))


READS = (
    EVENTS.only("event_id", "category", "name", "pid", "tid", "start_ns", "end_ns"),
    *map(_with_args, _OF_EVENTS),
    INSTANTS,
    COUNTERS,
    FLOWS.only("category", "flow", *(f"{side}_{of}" for side in ("from", "to") for of in ("ns", "pid", "tid"))),
    TRACK_LABELS,
)
_CATEGORY = (
    pl.when(pl.col("category").is_null())
    .then(pl.lit(""))
    .otherwise(pl.concat_str(pl.lit(',"cat":'), json_text("category")))
)
_SPAN = (
    *(pl.lit('{"ph":"X"'), _CATEGORY, pl.lit(',"name":'), json_text("name")),
    *(pl.lit(',"pid":'), as_written("pid"), pl.lit(',"tid":'), as_written("tid")),
    *(pl.lit(',"ts":'), microseconds(pl.col("start_ns"))),
    *(pl.lit(',"dur":'), microseconds(pl.col("end_ns") - pl.col("start_ns"))),
)
_INSTANT = (
    *(pl.lit('{"ph":"i","s":"t"'), _CATEGORY, pl.lit(',"name":'), json_text("name")),
    *(pl.lit(',"pid":'), as_written("pid"), pl.lit(',"tid":'), as_written("tid")),
    *(pl.lit(',"ts":'), microseconds(pl.col("time_ns"))),
)
# The key of a label's value, where that is not a name.
_LABELS = {"process_labels": "labels", "process_sort_index": "sort_index", "thread_sort_index": "sort_index"}


def held(source: RankSource) -> Held:
    """The trace of a rank, made when it is read."""
    return Held(source.path.name, trace(load(source, READS)))


def trace(rank: RankTrace) -> bytes:
    """Its events, arrows, counters and labels as trace-event JSON, with the times that its file had."""
    out = BytesIO()
    out.write(b'{"traceEvents":[\n')
    for rows in _rows(rank):
        # Texts as they are, one after the other: nothing else holds them twice.
        rows.write_csv(out, include_header=False, quote_style="never", line_terminator=",\n")
    if out.tell() > len('{"traceEvents":[\n'):
        out.seek(-len(",\n"), 2)
        out.truncate()
    out.write(b"]}")
    return out.getvalue()


def _rows(rank: RankTrace) -> Iterable[pl.DataFrame]:
    """A column of texts each, an event a row."""
    yield _labels(rank[TRACK_LABELS])
    for table, parts in ((EVENTS, _SPAN), (INSTANTS, _INSTANT)):
        for events in rank[table].iter_slices(_AT_ONCE):
            known = events.join(_args(rank, events["event_id"]), on="event_id", how="left", maintain_order="left")
            told = pl.col("args").fill_null("")
            yield known.select(text=pl.concat_str(*parts, pl.lit(',"args":{'), told, pl.lit("}}")))
    yield _counters(rank[COUNTERS])
    yield from (_ends(rank[FLOWS], phase, side) for phase, side in (("s", "from"), ("f", "to")))


def _args(rank: RankTrace, events: pl.Series) -> pl.DataFrame:
    """``event_id`` of these, and the members of its args, as far as they are known."""
    found = []
    for table in _OF_EVENTS:
        texts = [
            pl.when(pl.col(column.name).is_not_null()).then(pl.concat_str(pl.lit(f'"{column.arg}":'), _value(column)))
            for column in table.columns
            if column.arg
        ]
        of_these = rank[table].join(events.to_frame(), on="event_id", how="semi")
        found.append(of_these.select("event_id", args=pl.concat_str(texts, separator=",", ignore_nulls=True)))
    return pl.concat(found).filter(pl.col("args") != "").group_by("event_id").agg(pl.col("args").str.join(","))


def _value(column: Column) -> pl.Expr:
    """A number as it is; anything else as text."""
    return pl.col(column.name).cast(pl.String) if column.unit.dtype.is_numeric() else json_text(column.name)


def _counters(samples: pl.DataFrame) -> pl.DataFrame:
    """An event per sample, with the values of all series."""
    value = pl.concat_str(json_text("series"), pl.lit(":"), pl.col("value").cast(pl.String))
    known = samples.filter(pl.col("value").is_finite()).with_columns(value=value)
    both = known.group_by("event_id", maintain_order=True).agg(
        pl.col("name", "pid", "time_ns").first(), pl.col("value").str.join(",")
    )
    return both.select(
        text=pl.concat_str(
            *(pl.lit('{"ph":"C","name":'), json_text("name")),
            *(pl.lit(',"pid":'), as_written("pid"), pl.lit(',"ts":'), microseconds(pl.col("time_ns"))),
            *(pl.lit(',"args":{'), pl.col("value"), pl.lit("}}")),
        )
    )


def _ends(arrows: pl.DataFrame, phase: str, side: str) -> pl.DataFrame:
    """One end of each arrow that has both."""
    kind = json_text("category")
    return arrows.drop_nulls(["flow", "from_ns", "to_ns"]).select(
        text=pl.concat_str(
            *(pl.lit(f'{{"ph":"{phase}","cat":'), kind, pl.lit(',"name":'), kind),
            *(pl.lit(',"id":'), pl.col("flow").cast(pl.String)),
            *(pl.lit(',"pid":'), as_written(f"{side}_pid"), pl.lit(',"tid":'), as_written(f"{side}_tid")),
            *(pl.lit(',"ts":'), microseconds(pl.col(f"{side}_ns"))),
            pl.lit(',"bp":"e"}' if phase == "f" else "}"),
        )
    )


def _labels(labels: pl.DataFrame) -> pl.DataFrame:
    """Names of processes and threads, and how viewers sort them."""
    key = pl.col("label").cast(pl.String).replace_strict(_LABELS, default="name")
    return labels.drop_nulls("value").select(
        text=pl.concat_str(
            *(pl.lit('{"ph":"M","name":'), json_text("label"), pl.lit(',"pid":'), as_written("pid")),
            pl.when(pl.col("tid").is_null())
            .then(pl.lit(""))
            .otherwise(pl.concat_str(pl.lit(',"tid":'), as_written("tid"))),
            *(pl.lit(',"args":{"'), key, pl.lit('":'), as_written("value"), pl.lit("}}")),
        )
    )
