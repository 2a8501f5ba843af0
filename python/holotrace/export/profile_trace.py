"""A profile of XLA as a trace: every line of every plane, with device times on the clock of the host."""

from __future__ import annotations

import polars as pl

from holotrace.core.source import RankSource
from holotrace.core.tables import EVENTS, FLOWS, HLO, STEPS, TRACK_LABELS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import skew
from holotrace.derive.device_time import DEVICE
from holotrace.export.event_json import arrows, as_written, microseconds
from holotrace.export.merge import Detail
from holotrace.loading.rank import load
from holotrace.stores import Held

_TOLD = ("module", "program", "scope", "source", "shape", "category")
READS = (
    EVENTS.only("event_id", "category", "name", "pid", "tid", "start_ns", "end_ns"),
    XLA_OPS.only("event_id", *DEVICE, *_TOLD, "step", "run"),
    STEPS.only("event_id", "step"),
    FLOWS,
    TRACK_LABELS,
    HLO.only("module"),
    *skew.READS,
)
_PYTHON = r"^\$"


def held(source: RankSource, detail: Detail) -> Held:
    """The trace of a rank's profile, made when it is read."""
    return Held(source.path.name, trace(load(source, READS), detail))


def trace(rank: RankTrace, detail: Detail) -> bytes:
    """The events of ``detail`` as trace-event JSON, with the times that they have since 1970.

    An operation tells its program, scope, source, shape and step; device times are shifted as the analysis of skew
    says.
    """
    shown = _shown(rank, detail)
    events = _texts(shown)
    known = shown.select("event_id", "pid", "tid", "start_ns", "end_ns")
    whole = [*_labels(rank), *events, *arrows(_arrows(rank, known), name="flow")]
    return b'{"traceEvents":[' + ",\n".join(whole).encode() + b"]}"


def _shown(rank: RankTrace, detail: Detail) -> pl.DataFrame:
    ops = rank[XLA_OPS].select("event_id", *DEVICE, "step", "run", *_TOLD).rename({"category": "hlo_category"})
    steps = rank[STEPS].select("event_id", marked="step").drop_nulls("event_id").unique("event_id")
    events = rank[EVENTS].join(ops, on="event_id", how="left", maintain_order="left")
    events = events.join(steps, on="event_id", how="left", maintain_order="left").with_columns(
        pl.col("pid", "tid", "name", "category").cast(pl.String),
        is_device=pl.col("plane").is_not_null() | pl.col("pid").cast(pl.String).str.starts_with("/device:"),
    )
    is_python = pl.col("name").str.contains(_PYTHON) & ~pl.col("is_device")
    if detail == "device":
        events = events.filter("is_device")
    elif detail == "host":
        events = events.filter(~is_python.fill_null(value=False))
    shifts = rank.cached(skew.shifts).select(pl.col("plane").cast(pl.String), shift_ns=pl.col("shift_ns").fill_null(0))
    by = events.select("pid").join(shifts, left_on="pid", right_on="plane", how="left", maintain_order="left")
    return events.with_columns(pl.col("start_ns", "end_ns") + by["shift_ns"].fill_null(0))


def _texts(events: pl.DataFrame) -> list[str]:
    """A complete event each; what is known of it as its args."""
    texts = pl.col("module", "scope", "source", "shape", "hlo_category").cast(pl.String)
    args = pl.struct(texts, "program", "run", "step", step_num="marked").struct.json_encode()
    # What is not known says nothing.
    args = args.str.replace_all(r'"\w+":null,?', "").str.replace(r",\}$", "}")
    return events.select(
        text=pl.concat_str(
            pl.lit('{"ph":"X","cat":'),
            as_written("category"),
            pl.lit(',"name":'),
            as_written("name", always_text=True),
            pl.lit(',"pid":'),
            as_written("pid"),
            pl.lit(',"tid":'),
            as_written("tid"),
            pl.lit(',"ts":'),
            microseconds(pl.col("start_ns")),
            pl.lit(',"dur":'),
            microseconds(pl.col("end_ns") - pl.col("start_ns")),
            pl.lit(',"args":'),
            args,
            pl.lit("}"),
        )
    )["text"].to_list()


def _labels(rank: RankTrace) -> list[str]:
    """Names of planes and lines."""
    labels = rank[TRACK_LABELS].with_columns(pl.col("label", "pid", "tid").cast(pl.String)).drop_nulls("value")
    return labels.select(
        text=pl.concat_str(
            pl.lit('{"ph":"M","name":"'),
            "label",
            pl.lit('","pid":'),
            as_written("pid"),
            pl.lit(',"tid":'),
            pl.when(pl.col("tid").is_null()).then(pl.lit("0")).otherwise(as_written("tid")),
            pl.lit(',"args":{"name":'),
            as_written("value", always_text=True),
            pl.lit("}}"),
        )
    )["text"].to_list()


def _arrows(rank: RankTrace, known: pl.DataFrame) -> pl.DataFrame:
    """Arrows between events that are shown."""
    ends = rank[FLOWS].select("from_id", "to_id", kind=pl.col("category").cast(pl.String)).drop_nulls()
    place = known.select("event_id", "pid", "tid", ns="start_ns")
    for side in ("from", "to"):
        named = place.rename({"event_id": f"{side}_id", "pid": f"{side}_pid", "tid": f"{side}_tid", "ns": f"{side}_ns"})
        ends = ends.join(named, on=f"{side}_id")
    return ends.drop("from_id", "to_id")
