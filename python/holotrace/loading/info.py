"""What one rank's trace is about: its device, software, size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from holotrace.core.schema import legible
from holotrace.core.source import STEPS_ARE_NUMBERED, RankSource, believable
from holotrace.core.tables import DEVICE_EVENTS, MODULES, PROBLEMS, RANK_INFO, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals
from holotrace.derive.modelled_work import device_of
from holotrace.derive.vendors import NVIDIA, VENDORS
from holotrace.efficiency.devices import HOST, Device
from holotrace.formats.parsed import Columns, Parsed

# The types that most models compute in come first.
_TYPES = ("bf16", "fp16", "fp32")
# What describing a rank needs to read.
READS = (
    DEVICE_EVENTS.only("start_ns", "end_ns"),
    STEPS.only("step", "start_ns", "end_ns"),
    MODULES.only("module_id", "device", "run", "step", "start_ns", "end_ns"),
    PROBLEMS.only("count"),
)


def describe(
    rank: int,
    tables: Mapping[str, pl.DataFrame],
    metadata: Mapping[str, Any],
    *,
    source: RankSource | None = None,
    parsed: Parsed[Columns] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """One row of the rank_info table; a rank that was never in a file has neither ``source`` nor ``parsed``."""
    counts = parsed.counts if parsed else {}
    seen = RankTrace(rank, {}, metadata, settings=settings or {})
    devices = [device for device in _list(metadata.get("deviceProperties")) if isinstance(device, dict)]
    names = sorted({str(device["name"]) for device in devices if device.get("name")})
    job = {**(source.metadata if source else {}), **believable(metadata.get("distributedInfo"))}
    events, steps, modules = tables[DEVICE_EVENTS.name], tables[STEPS.name], tables[MODULES.name]
    row = {
        "rank": rank,
        "file": str(source.path) if source else None,
        "rank_from": source.rank_from if source else "caller",
        "world_count": _whole(job.get("world_size")),
        # Accelerators that a host has and does not use are not what it runs on.
        "device": HOST if seen.computes_on_host else ", ".join(names) or None,
        "device_count": None if seen.computes_on_host else len(devices) or None,
        **_peaks(device_of(seen)),
        "software": _software(metadata, job),
        "backend": str(job["backend"]) if job.get("backend") else None,
        "step_count": steps.height,
        # Steps of XLA that the program did not number are counted from the begin of each recording.
        **(_numbers(steps) if modules.is_empty() or metadata.get(STEPS_ARE_NUMBERED) else _runs(steps, modules)),
        "event_count": counts.get("entries"),
        "device_event_count": events.height,
        "problem_count": int(tables[PROBLEMS.name]["count"].sum()),
        **_span(events, steps),
        "file_bytes": counts.get("file_bytes"),
        "text_bytes": counts.get("text_bytes"),
        "load_ns": parsed.load_ns if parsed else None,
    }
    # Names of files and devices may hold what no column does.
    texts = {key: legible(value) for key, value in row.items() if isinstance(value, str)}
    return pl.DataFrame([row | texts], schema=RANK_INFO.empty().schema)


def _peaks(device: Device | None) -> dict[str, str | float | None]:
    """What the device could do at most, in the first of the types that it has a peak for."""
    if device is None:
        return {}
    kind = next((one for one in _TYPES if one in device.operations), None)
    return {
        "peak_type": kind,
        "peak_tflops": None if kind is None else device.operations[kind] / 1e12,
        "peak_gbps": None if device.memory is None else device.memory / 1e9,
        "peak_from": device.assumed or device.name,
    }


def _span(*tables: pl.DataFrame) -> dict[str, int | None]:
    spans = pl.concat([table[:, ["start_ns", "end_ns"]] for table in tables])
    first, last = intervals.ends(spans)
    return {"span_ns": None if first is None or last is None else last - first, "first_ns": first}


def _numbers(steps: pl.DataFrame) -> dict[str, int | None]:
    first: Any = steps["step"].min()
    last: Any = steps["step"].max()
    return {"first_step": first, "last_step": last}


def _runs(steps: pl.DataFrame, modules: pl.DataFrame) -> dict[str, str]:
    """The run that takes longest in each step on the first device, in the order of the steps: its id, and its end.

    Nothing where steps are missing in between.
    """
    numbers = steps.select(pl.col("step").unique().sort())
    if numbers["step"].diff().drop_nulls().ne(1).any():
        return {}
    first = modules.filter(pl.col("device").eq_missing(pl.lit(modules["device"].min())))
    longest = (
        first.sort(pl.col("end_ns") - pl.col("start_ns"), descending=True)
        .unique("step", keep="first", maintain_order=True)
        .select("step", step_runs="run", step_ends="end_ns")
    )
    found = numbers.join(longest, on="step", how="left", maintain_order="left").drop("step")
    return {column.name: json.dumps(column.to_list()) for column in found.get_columns()}


def _software(metadata: Mapping[str, Any], job: Mapping[str, Any]) -> str | None:
    """Versions in words, e.g. ``CUDA 12.4, NCCL 2.22.3``."""
    runtimes = [vendor for vendor in VENDORS if vendor.version and _whole(metadata.get(vendor.version.key))]
    torch, library = metadata.get("pytorch_version") or metadata.get("torch_version"), job.get("nccl_version")
    # Without a word on its runtime it is NCCL, after which the key is named.
    collectives = next((vendor.collectives for vendor in reversed(runtimes)), NVIDIA.collectives)
    versions = (
        f"PyTorch {torch}" if torch else "",
        *(v.version.text(_whole(metadata.get(v.version.key)) or 0) for v in runtimes if v.version),
        f"{collectives} {library}" if library else "",
    )
    return ", ".join(version for version in versions if version) or None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
