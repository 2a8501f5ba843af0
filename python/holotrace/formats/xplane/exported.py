"""Traces that were exported from a profile of XLA as JSON: what is left of it, as if it were the profile."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import polars as pl

from holotrace.core.schema import Column, Unit
from holotrace.core.tables import BUFFERS, EVENTS, PROBLEMS, TRACK_LABELS
from holotrace.formats.kineto import read as kineto
from holotrace.formats.xplane.stats import STATS
from holotrace.stores import Origin

# Events that exporters keep at most, then and now; the earliest are kept.
CAPS = (1_000_000, 5_000_000)
_NEAR_RATIO = 0.001
# Stats that exporters keep; an event's name cannot be told from an argument of that name.
_STATS = {key: kind for key, kind in STATS.items() if key != "name"}
# The full text of an instruction, which in profiles is the event's name.
_ARGS = (*_STATS, "long_name")
_TYPES = {"int": pl.Int64, "float": pl.Float64, "text": pl.Categorical}
_CONTAINERS = ("while", "conditional", "call")
# What tells kinds of events apart.
_KIND = ("metadata", "stat:hlo_op", "stat:program_id", "is_copy", "is_fill")
_PROBLEM_COLUMNS = ("problem", "count", "first_offset", "example", "action")


class ExportedSpace:
    """An exported trace with the methods of ``holotrace._native.Space``; arrows, programs and peaks are not in it."""

    origin_ns = 0
    hostnames: Sequence[str] = ()
    messages: Sequence[tuple[str, str]] = ()

    def __init__(self, path: Origin) -> None:
        # All arguments are written as text.
        args = tuple(Column(f"arg {key}", Unit.LABEL, key, arg=key) for key in _ARGS)
        spans = replace(EVENTS, columns=(*EVENTS.columns, *args))
        read = (spans, TRACK_LABELS, PROBLEMS.only(*_PROBLEM_COLUMNS))
        self._parsed = kineto.read(path, read)
        self.hostnames = (path.name.split(".")[0],)

    def keep_stats(self, keys: Sequence[str]) -> None:
        """Nothing: what is exported is small."""

    @property
    def counts(self) -> Mapping[str, int]:
        return self._parsed.counts

    @cached_property
    def _labels(self) -> pl.DataFrame:
        return self._parsed.tables[TRACK_LABELS.name].with_columns(pl.all().cast(pl.String))

    @cached_property
    def _processes(self) -> pl.DataFrame:
        """plane, pid, name."""
        names = self._labels.filter(label="process_name").unique("pid", keep="first").select("pid", name="value")
        pids = self._parsed.tables[EVENTS.name]["pid"].cast(pl.String).unique().sort()
        known = pl.DataFrame({"pid": pids}).join(names, on="pid", how="left", maintain_order="left")
        plain = pl.col("name").fill_null("").str.replace(r" \(.*\)$", "")
        return known.with_columns(name=plain).with_row_index("plane")

    @cached_property
    def _threads(self) -> pl.DataFrame:
        """line, plane, pid, tid, name."""
        names = self._labels.filter(label="thread_name").unique(["pid", "tid"], keep="first")
        pairs = (
            self._parsed.tables[EVENTS.name].select(pl.col("pid", "tid").cast(pl.String)).unique().sort("pid", "tid")
        )
        found = pairs.join(
            names.select("pid", "tid", name="value"), on=["pid", "tid"], how="left", maintain_order="left"
        )
        found = found.join(self._processes.select("pid", "plane"), on="pid", how="left", maintain_order="left")
        return found.with_columns(pl.col("name").fill_null("")).with_row_index("line")

    @cached_property
    def _events(self) -> pl.DataFrame:
        """Everything that ``Space.events`` can give."""
        spans = self._parsed.tables[EVENTS.name]
        typed = [
            pl.col(f"arg {key}").cast(pl.String).cast(_TYPES[kind], strict=False).alias(f"stat:{key}")
            for key, kind in _STATS.items()
        ]
        shown = pl.col("name").cast(pl.String)
        found = spans.select(
            *("event_id", "start_ns", "end_ns"),
            *typed,
            pl.col("pid", "tid").cast(pl.String),
            duration_ps=(pl.col("end_ns") - pl.col("start_ns")) * 1000,
            display="name",
            name=pl.coalesce(pl.col("arg long_name").cast(pl.String), shown).cast(pl.Categorical()),
            arguments=pl.lit(None, pl.Categorical()),
            **{"stat:name": pl.lit(None, pl.Categorical())},
        )
        lines = self._threads.select("line", "pid", "tid")
        found = found.join(lines, on=["pid", "tid"], how="left", maintain_order="left").drop("pid", "tid")
        # Steps are marked by their number only.
        root = pl.when(pl.col("stat:step_num").is_not_null()).then(pl.lit(1, pl.Int64))
        found = found.with_columns(
            root.alias("stat:_r"),
            metadata=pl.struct("display", "name", "stat:hlo_category").rank("dense").cast(pl.UInt32),
        )
        return self._with_inner(found)

    def _with_inner(self, events: pl.DataFrame) -> pl.DataFrame:
        """With inner_ps: of loops and branches, the time of all that is in them on their line and is none itself."""
        is_container = pl.col("stat:hlo_category").cast(pl.String).is_in(_CONTAINERS).fill_null(False)
        parts = (
            events.filter(~is_container)
            .sort("start_ns")
            .select("line", "start_ns", before_ps=pl.col("duration_ps").cum_sum().over("line"))
        )
        containers = events.filter(is_container).select("event_id", "line", "start_ns", "end_ns")
        ends = {"before_ps": "start_ns", "after_ps": "end_ns"}
        for name, time in ends.items():
            containers = containers.sort(time).join_asof(
                parts.rename({"start_ns": "at_ns", "before_ps": name}),
                left_on=time,
                right_on="at_ns",
                by="line",
                allow_exact_matches=False,
                check_sortedness=False,
            )
            containers = containers.drop("at_ns", strict=False)
        inner = containers.select(
            "event_id", inner_ps=pl.col("after_ps").fill_null(0) - pl.col("before_ps").fill_null(0)
        )
        joined = events.join(inner, on="event_id", how="left", maintain_order="left")
        return joined.with_columns(pl.col("inner_ps").fill_null(0))

    def planes(self) -> pl.DataFrame:
        return self._processes.select("plane", "name", id=pl.col("pid").cast(pl.Int64, strict=False).fill_null(0))

    def plane_stats(self) -> pl.DataFrame:
        types = {"plane": pl.UInt32, "key": pl.String, "whole": pl.Int64, "number": pl.Float64, "text": pl.String}
        return pl.DataFrame(schema=types)

    def lines(self) -> pl.DataFrame:
        counts = self._events.group_by("line").agg(event_count=pl.len().cast(pl.Int64))
        identity = pl.col("tid").cast(pl.Int64, strict=False).fill_null(0)
        found = self._threads.select("line", "plane", "name", id=identity, display=pl.lit(""))
        return found.join(counts, on="line", how="left", maintain_order="left")

    def events(
        self,
        columns: Sequence[str],
        *,
        lines: Collection[int] | None = None,
        rows: pl.DataFrame | None = None,
        having: str | None = None,
        lacking: str | None = None,
        names: Collection[str] | None = None,
        lasting: Collection[int] = (),
    ) -> pl.DataFrame:
        found = self._events
        if lasting:
            found = found.filter(~pl.col("line").is_in(list(lasting)) | (pl.col("end_ns") > pl.col("start_ns")))
        if lines is not None:
            found = found.filter(pl.col("line").is_in(list(lines)))
        if rows is not None:
            found = found.filter(pl.col("event_id").is_in(pl.lit(rows["event_id"]).implode()))
        if having is not None:
            found = found.filter(pl.col(f"stat:{having}").is_not_null())
        if lacking is not None:
            found = found.filter(pl.col(f"stat:{lacking}").is_null())
        if names is not None:
            found = found.filter(pl.col("name").cast(pl.String).is_in(list(names)))
        if "kind" in columns:
            is_copy, is_fill = (pl.col(f"stat:{key}").is_not_null() for key in ("memcpy_details", "memset_details"))
            found = found.with_columns(is_copy=is_copy, is_fill=is_fill)
            kinds = found.select(_KIND).unique(maintain_order=True).with_row_index("kind")
            found = found.join(kinds, on=_KIND, how="left", nulls_equal=True, maintain_order="left")
        return found.select(pl.col(_place(column)).alias(column) for column in columns)

    def names(self) -> pl.DataFrame:
        return self._events.select("name").unique()

    def causes(
        self, columns: Sequence[str], events: pl.DataFrame, lines: Sequence[int], marks: pl.DataFrame
    ) -> pl.DataFrame:
        """Nothing is known: an export has no arrows."""
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.UInt32)).clear(events.height)

    def hlo(self, columns: Sequence[str]) -> pl.DataFrame:
        numbers = dict.fromkeys(
            ("program", "result_bytes", "element_count", "channel", "flops", "moved_bytes"), pl.Int64
        )
        types = {**numbers, "is_entry": pl.Boolean, "is_fused": pl.Boolean}
        return pl.DataFrame(schema={column: types.get(column, pl.Categorical) for column in columns})

    def buffers(self, columns: Sequence[str]) -> pl.DataFrame:
        """Nothing is known: an export has no programs."""
        return BUFFERS.empty().select(columns)

    def problems(self, columns: Sequence[str]) -> pl.DataFrame:
        entries = self.counts["entries"]
        rows = [
            _row("exported trace", "read without arrows between threads, programs, asynchronous copies and peaks"),
            *(
                _row("events cut off", f"the end of the run is missing: the export stopped at {cap:,} events")
                for cap in CAPS
                if abs(entries - cap) <= _NEAR_RATIO * cap
            ),
        ]
        # The last entry of every export is an empty one.
        is_end = (pl.col("problem") == "entry is no event") & (pl.col("count") == 1) & (pl.col("example") == "{}")
        met = self._parsed.tables[PROBLEMS.name].filter(~is_end)
        return pl.concat([met, pl.DataFrame(rows, schema=met.schema)]).select(columns)


def _place(column: str) -> str:
    return f"stat:{column}" if column in STATS and column != "name" else column


def _row(problem: str, action: str) -> dict[str, object]:
    return {"problem": problem, "count": 1, "first_offset": None, "example": None, "action": action}
