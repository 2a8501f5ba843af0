"""The tables of one profile, each made from its events when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any

import polars as pl

from holotrace.core.on_demand import Held, OnDemand, Rows, whole
from holotrace.core.source import STEPS_ARE_NUMBERED
from holotrace.core.tables import ANNOTATIONS, BUFFERS, CPU_OPS, EVENTS, HOST_CALLS, INSTANTS, PYTHON_CALLS
from holotrace.formats.xplane import host, notes, spans, work
from holotrace.formats.xplane.counted import counted
from holotrace.formats.xplane.executions import Executed, executed
from holotrace.formats.xplane.operations import operations
from holotrace.formats.xplane.profile import SERIES, Profile
from holotrace.formats.xplane.steps import marked

# Kinds of arrows, by number.
_CONTEXTS = dict(
    enumerate(
        (
            *("Generic", "Legacy", "TfExecutor", "TfrtExecutor", "SharedBatchScheduler", "PjRt"),
            *("AdaptiveSharedBatchScheduler", "TfrtTpuRuntime", "TpuEmbeddingEngine", "GpuLaunch", "Batcher"),
            *("TpuStream", "TpuLaunch", "PathwaysExecutor", "PjrtLibraryCall", "ThreadpoolEvent"),
            *("JaxServingExecutor", "ScOffload"),
        )
    )
)
_SPAN = ("event_id", "category", "name", "pid", "tid", "start_ns", "end_ns")
_NOT_SHOWN = ("derived",)
# What columns of calls are called in the file.
_TOLD = {"run": "run_id", "device": "device_ordinal"}
# What an allocation tells of itself, and of all memory of its allocator.
_SIZES = ("allocation_bytes", "requested_bytes")
_STATES = (
    "bytes_allocated",
    "bytes_reserved",
    "bytes_available",
    "peak_bytes_in_use",
    "fragmentation",
    "allocator_name",
)


# Tables of what the threads of the host did, or of all events.
OF_SPANS = frozenset((EVENTS.name, CPU_OPS.name, PYTHON_CALLS.name, ANNOTATIONS.name, INSTANTS.name, HOST_CALLS.name))
# Of those, the ones that show also what does not last.
_OF_INSTANTS = frozenset((EVENTS.name, INSTANTS.name))


class Content:
    """One profile as tables.

    Args:
        profile: The profile.
        tables: Names of all tables that will be asked for.
        wanted: Columns of operations that any of them shows.
    """

    def __init__(self, profile: Profile, tables: Collection[str], wanted: Collection[str]) -> None:
        self.profile = profile
        self._wanted = wanted
        self._lasts = _OF_INSTANTS.isdisjoint(tables)

    def table(self, name: str, columns: Collection[str]) -> Held:
        """The table of that name, with at least those of the wanted columns that a profile has something for."""
        makers: Mapping[str, Callable[[], Held]] = {
            "events": self._events,
            "device_events": lambda: self._device_events(columns),
            "cpu_ops": lambda: self._host_spans(host.HOST),
            "python_calls": lambda: self._host_spans(host.PYTHON),
            "annotations": self._annotations,
            "instants": self._instants,
            "launches": self._launches,
            "collectives": lambda: work.collectives(self._operations, self._is_counted),
            "steps": lambda: self._executed.steps.frame,
            "counters": self._counters,
            "memory": self._memory,
            "heap": self._heap,
            "flows": self._flows,
            "track_labels": self._track_labels,
            "devices": self._devices,
            "modules": lambda: self._executed.modules,
            "xla_ops": lambda: work.xla_ops(self._executed.operations, columns),
            "hlo": self._hlo,
            "buffers": lambda: pl.DataFrame(self.profile.space.buffers(BUFFERS.column_names)),
            "host_calls": lambda: self._host_calls(columns),
            "problems": self._problems,
        }
        return makers[name]()

    @cached_property
    def _executed(self) -> Executed:
        return executed(self.profile, counted(operations(self.profile, self._wanted), self._wanted))

    @cached_property
    def _operations(self) -> Rows:
        """Operations as the work of devices: asynchronous collectives are there while they go on."""
        return spans.with_spans(self._executed.operations)

    @cached_property
    def _is_counted(self) -> pl.Series:
        """Operations that are no more than what is inside them are left out: their parts are the work."""
        return work.is_counted(self._operations)

    @cached_property
    def _spans(self) -> Rows:
        """Events of host threads but operations with category, pid and tid; those that last, where that will do."""
        return host.categorized(self.profile, lasts=self._lasts)

    def keep_spans(self) -> None:
        """Let go of what the tables ``OF_SPANS`` are not made of."""
        self.profile.space.keep_stats(host.STATS)

    @cached_property
    def _tracks(self) -> pl.DataFrame:
        """role, pid and tid of each line, by its number."""
        return self.profile.lines.select(pl.col("role", "label").cast(pl.Categorical()), pid="process").rename(
            {"label": "tid"}
        )

    def _placed(self, events: pl.DataFrame) -> pl.DataFrame:
        return events.hstack(self._tracks[events["line"]])

    def metadata(self, *, has_devices: bool) -> dict[str, Any]:
        """What the profile says of itself, under the names that PyTorch's traces have for it.

        CPU devices are known only where their work is wanted (``has_devices``).
        """
        stats = self.profile.stats
        versions = stats.filter(pl.col("key").str.ends_with("_version")).unique("key", keep="first")
        devices = self._devices() if has_devices else work.devices(self.profile, None)
        return {
            "deviceProperties": [
                {
                    "name": model or " ".join(filter(None, (vendor, kind, "device"))),
                    "peakFlops": flops,
                    "peakBandwidth": bandwidth,
                }
                for model, vendor, kind, flops, bandwidth in devices.select(
                    "model", "vendor", "device_kind", "peak_flops", "peak_bandwidth"
                ).rows()
            ],
            **dict(versions.select("key", pl.coalesce("text", pl.col("whole").cast(pl.String))).rows()),
            "hostnames": self.profile.space.hostnames,
            "profile_start_ns": self.profile.space.origin_ns or None,
            STEPS_ARE_NUMBERED: marked(self.profile).are_numbered,
        }

    def _events(self) -> pl.DataFrame:
        columns = ("event_id", "line", "name", "display", "start_ns", "end_ns")
        lines = self.profile.lines.filter(~pl.col("role").is_in(_NOT_SHOWN))["line"].to_list()
        found = self.profile.of_lines(columns, lines, lasting=self.profile.numbers("host"))
        # A join of all columns would copy what is most of a profile.
        of_spans, of_work = (
            found.select("event_id").join(
                known.select("event_id", "category"), on="event_id", how="left", maintain_order="left"
            )["category"]
            for known in (self._spans, self._executed.operations)
        )
        category = of_spans.zip_with(of_spans.is_not_null(), of_work)
        found = found.hstack([category, *self._placed(found.select("line")).drop("line")])
        on_device = pl.col("role") != "host"
        return found.with_columns(
            name=pl.when(on_device).then("display").otherwise("name"), category=pl.coalesce("category", "role")
        )

    def _is_of(self, category: str) -> pl.Series:
        number = self._spans.own["number"]
        return number == host.CATEGORIES.index(category)

    def _is_lasting(self) -> pl.Series:
        return self._spans.own["end_ns"] > self._spans.own["start_ns"]

    def _host_spans(self, category: str) -> OnDemand:
        is_kept = self._is_of(category) if self._lasts else self._is_of(category) & self._is_lasting()
        return OnDemand.of(self._spans, is_kept, **{name: name for name in _SPAN})

    def _instants(self) -> OnDemand:
        shown = {name: name for name in ("event_id", "category", "name", "pid", "tid")}
        return OnDemand.of(self._spans, ~self._is_lasting(), **shown, time_ns="start_ns")

    def _annotations(self) -> pl.DataFrame:
        found = self._spans.filter(self._is_of(host.ANNOTATION)).select(*_SPAN)
        arguments = self._arguments(found["event_id"])
        return found.join(arguments, on="event_id", how="left", maintain_order="left").select(
            *_SPAN, "arguments", on_device=pl.lit(False)
        )

    def _arguments(self, rows: pl.Series) -> pl.DataFrame:
        return self.profile.of_rows(["event_id", "arguments"], rows.to_frame("event_id"))

    def _host_calls(self, columns: Collection[str]) -> OnDemand:
        more = [name for name in ("run", "device", "arguments") if name in columns]
        told = {name: _TOLD.get(name, name) for name in more}
        spans = (
            self._spans.with_own(*host.spans(self.profile, *told.values(), lasts=self._lasts)) if told else self._spans
        )
        shown = {name: name for name in _SPAN if name != "category"}
        return OnDemand.of(spans, None if self._lasts else self._is_lasting(), **shown, **told)

    def _device_events(self, columns: Collection[str]) -> Held:
        events = work.device_events(self._operations, self._is_counted, columns)
        runs = work.program_runs(self._executed.modules, self._operations)
        return events if runs.is_empty() else pl.concat([whole(events), runs], how="diagonal").sort("event_id")

    def _launches(self) -> Held:
        operations, modules = self._operations, self._executed.modules
        launched = operations.own if "launch_id" in operations.own.columns else operations.shared["stretch"]
        runs = work.program_runs(modules, operations).select("launch_id", device_event_id="event_id")
        runs = runs.drop_nulls("launch_id")
        rows = pl.concat([launched.select("launch_id"), runs.select("launch_id")]).drop_nulls().unique()
        calls = self._placed(
            self.profile.of_rows(
                ["event_id", "line", "name", "start_ns", "end_ns"], rows.rename({"launch_id": "event_id"})
            )
        )
        calls = calls.select(
            "pid", "tid", launch_id="event_id", launch_name="name", launch_start_ns="start_ns", launch_end_ns="end_ns"
        )
        found = work.launches(operations, self._is_counted, calls)
        if runs.is_empty():
            return found
        runs = runs.join(calls, on="launch_id", how="left", maintain_order="left")
        return pl.concat([whole(found), runs], how="diagonal").sort("device_event_id")

    def _counters(self) -> pl.DataFrame:
        found = self._placed(self.profile.events(("event_id", "line", "name", "start_ns", *SERIES), "counters"))
        long = found.unpivot(
            on=SERIES, index=["event_id", "name", "pid", "start_ns"], variable_name="series", value_name="value"
        )
        return long.drop_nulls("value").sort("event_id").rename({"start_ns": "time_ns"})

    @cached_property
    def _allocations(self) -> pl.DataFrame:
        """Allocations and releases, with what their allocator had in use after them."""
        columns = ("event_id", "line", "name", "start_ns", "addr", "index_on_host", *_SIZES, *_STATES)
        found = self.profile.events(columns, "host", having="bytes_allocated")
        size = pl.coalesce(_SIZES)
        is_release = pl.col("name").cast(pl.String) == "MemoryDeallocation"
        return found.with_columns(
            time_ns="start_ns",
            bytes=pl.when(is_release).then(-size).otherwise(size),
            allocated_bytes="bytes_allocated",
            reserved_bytes="bytes_reserved",
        )

    def _memory(self) -> pl.DataFrame:
        return self._placed(self._allocations).select(
            *("event_id", "tid", "time_ns", "bytes", "allocated_bytes", "reserved_bytes"),
            address="addr",
            device="index_on_host",
        )

    def _heap(self) -> pl.DataFrame:
        device = pl.lit("device ") + pl.col("index_on_host").cast(pl.String)
        return self._allocations.select(
            *("event_id", "time_ns", "bytes", "allocated_bytes", "reserved_bytes"),
            free_bytes="bytes_available",
            most_bytes="peak_bytes_in_use",
            fragmentation_ratio="fragmentation",
            allocator=pl.coalesce("allocator_name", device.cast(pl.Categorical)),
        )

    def _flows(self) -> pl.DataFrame:
        tails = self.profile.events(["event_id", "start_ns", "_pt", "_p"], "host", having="_p")
        tails = tails.select("start_ns", kind="_pt", flow="_p", from_id="event_id", from_ns="start_ns").sort("start_ns")
        roles = ("host", "modules")
        heads = self.profile.events(["event_id", "start_ns", "_ct", "_c"], *roles, having="_c")
        heads = heads.select("start_ns", kind="_ct", flow="_c", to_id="event_id", to_ns="start_ns").sort("start_ns")
        # An id is used again after a while: an arrow comes from the latest that left before it arrived.
        met = heads.join_asof(tails, on="start_ns", by=["kind", "flow"], check_sortedness=False)
        kinds = pl.col("kind").replace_strict(_CONTEXTS, default=None, return_dtype=pl.String)
        return met.select(
            "flow", "from_id", "to_id", "from_ns", "to_ns", category=kinds.cast(pl.Categorical())
        ).drop_nulls("from_id")

    def _track_labels(self) -> pl.DataFrame:
        lines = self.profile.lines.filter(~pl.col("role").is_in(_NOT_SHOWN))
        label = pl.col("label").cast(pl.Categorical())
        threads = lines.select(label=pl.lit("thread_name"), pid="process", tid=label, value="name")
        names = lines.unique("process", keep="first", maintain_order=True)
        processes = names.select(
            label=pl.lit("process_name"), pid="process", tid=pl.lit(None, pl.Categorical()), value="plane_name"
        )
        return pl.concat([processes, threads])

    def _hlo(self) -> pl.DataFrame:
        columns = ("module", "program", "name", "opcode", "computation", "is_entry", "is_fused", "scope", "source")
        more = ("shape", "layout", "target", "inside", "result_bytes", "element_count", "channel", "groups")
        counts = {"flops": "flops", "product_type": "product_type", "moved_bytes": "accessed_bytes"}
        return pl.DataFrame(self.profile.space.hlo([*columns, *more, *counts])).rename(counts)

    def _devices(self) -> pl.DataFrame:
        # CPU devices are known by what they did.
        on_host = None if self.profile.has_accelerators else self._executed.operations.shared["stretch"]
        return work.devices(self.profile, on_host)

    def _problems(self) -> pl.DataFrame:
        return notes.problems(self.profile, self._executed)
