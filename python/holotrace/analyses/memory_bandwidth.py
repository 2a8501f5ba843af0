"""How fast each kind of copy moves data, and how much of its time is exposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.plans import columns, done
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICE_EVENTS, LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals, levels
from holotrace.derive.copies import LINK, PAGEABLE, PINNED
from holotrace.derive.kernel_kinds import MEMORY

# Rates are added up as whole numbers of 2^-30 GB/s (a byte per second), so that taking away what was added leaves
# exactly nothing.
RATE_PER_GBPS = 2**30
# What a copy from page-locked memory reaches over PCIe 3.0 x16; each newer generation doubles it.
LINK_GBPS = 12
# A copy costs some microseconds before its first byte; below 64 KiB that is longer than the transfer.
SMALL_BYTES = 64 * 1024
# Copies that cost less than a hundredth of the time are not worth a change.
WORTH_RATIO = 0.01
KIND = ["device", "copy"]
CALLS = LAUNCHES.only("device_event_id", "launch_start_ns", "launch_end_ns")
EVENTS = DEVICE_EVENTS.only("event_id", "name", "kind", "device", "start_ns", "end_ns", "bytes", "bandwidth_gbps")


@per_rank(
    columns=(
        Column("device", Unit.NUMBER, "Ordinal of the accelerator"),
        Column("copy", Unit.TEXT, "Kind of copy or fill, as the profiler wrote it; null if it wrote no name"),
        Column("count", Unit.COUNT, "Copies; with over_time, those that ran at the same time"),
        Column("moved_bytes", Unit.BYTES, "Bytes they moved; null with over_time, and if unknown for all"),
        Column("busy_ns", Unit.NS, "Time in which at least one ran"),
        Column("exposed_ns", Unit.NS, "Part of busy_ns during which neither compute nor communication ran"),
        Column("exposed_ratio", Unit.RATIO, "exposed_ns / time from the first work to the last"),
        Column(
            "held_ns",
            Unit.NS,
            "Time in which a host was in a call that made one of these copies, or one was exposed; null with over_time",
        ),
        Column("mean_gbps", Unit.FLOAT, "Mean bandwidth over busy_ns, in GB/s; null if unknown"),
        Column("min_gbps", Unit.FLOAT, "Lowest bandwidth, in GB/s"),
        Column("p50_gbps", Unit.FLOAT, "Median bandwidth, weighted by time, in GB/s"),
        Column("p95_gbps", Unit.FLOAT, "95th percentile of bandwidth, weighted by time, in GB/s"),
        Column("max_gbps", Unit.FLOAT, "Highest bandwidth, in GB/s"),
        Column("start_ns", Unit.NS, "Start of the first; with over_time, when one started or ended"),
        Column("end_ns", Unit.NS, "End of the last; with over_time, when one started or ended next"),
        Column("event_id", Unit.EVENT, "With over_time the copy that started or ended; else null"),
    ),
    reads=(EVENTS, CALLS),
    chart=Ranking(x="copy", y=("busy_ns",), title="Copies and fills by time"),
    named_by=("copy",),
)
def memory_bandwidth(rank: RankTrace, *, over_time: bool = False) -> pl.DataFrame:
    """How fast each kind of copy and fill moves data, and how much of its time is exposed.

    The bandwidth of a copy is the one the profiler recorded, else its bytes by its duration. Copies of a kind that run
    at the same time add up. Averages and shares are of the time at least one ran. GB are 1,000,000,000 bytes.

    Args:
        over_time: One row per start and end of a copy, instead of one per kind of copy.
    """
    lasts = pl.col("end_ns") > pl.col("start_ns")
    named = pl.col("name").cast(pl.String()).alias("copy")
    copies = done(
        rank[EVENTS]
        .lazy()
        .filter(lasts, kind=MEMORY)
        .select("event_id", "device", named, "start_ns", "end_ns", "bytes", rate=_rate())
    )
    running = levels.over_time(_changes(copies), by=KIND, levels=["count", "rate", "known"])
    hiding = rank.cached(busy.of).computing_or_communicating
    running = running.hstack([intervals.uncovered_ns(running, hiding).alias("exposed_ns")])
    ran = running.with_columns(
        gbps=pl.when((pl.col("known") > 0) | (pl.col("count") == 0)).then(pl.col("rate") / RATE_PER_GBPS),
        busy_ns=pl.when(pl.col("count") > 0).then("lasted_ns").otherwise(0),
        exposed_ns=pl.when(pl.col("count") > 0).then("exposed_ns").otherwise(0),
    )
    working = rank.cached(busy.of).working
    span_ns = None if working.is_empty() else working["end_ns"][-1] - working["start_ns"][0]
    table = _as_they_are(ran) if over_time else _per_kind(ran, copies, _held(rank, copies, hiding))
    return table.with_columns(exposed_ratio=pl.col("exposed_ns") / pl.lit(span_ns, pl.Int64()))


def _held(rank: RankTrace, copies: pl.DataFrame, hiding: pl.DataFrame) -> pl.DataFrame:
    """For each kind of copy the time in which a host call made one, or one ran that no other work hid."""
    calls = copies.join(rank[CALLS], left_on="event_id", right_on="device_event_id")
    made = columns(calls, *KIND, start_ns="launch_start_ns", end_ns="launch_end_ns")
    calling = intervals.unions_by(made, KIND)
    either = intervals.unions_by(pl.concat([made, copies[:, made.columns]]), KIND)
    # What is hidden of a copy counts where a call made it meanwhile.
    called_ns = calling["end_ns"] - calling["start_ns"] - intervals.uncovered_ns(calling, hiding)
    held = pl.concat(
        [
            either[:, KIND].hstack([intervals.uncovered_ns(either, hiding).alias("held_ns")]),
            calling[:, KIND].hstack([called_ns.alias("held_ns")]),
        ]
    )
    return held.group_by(KIND).agg(pl.col("held_ns").sum())


def _rate() -> pl.Expr:
    """The bandwidth of each copy as a whole number; null where it is not known."""
    recorded, moved = pl.col("bandwidth_gbps"), pl.col("bytes") / (pl.col("end_ns") - pl.col("start_ns"))
    gbps = pl.when(recorded.is_finite()).then(recorded).otherwise(moved)
    # Beyond 64 bits lies damage, no bandwidth.
    return (gbps * RATE_PER_GBPS).round().cast(pl.Int64, strict=False)


def _changes(copies: pl.DataFrame) -> pl.DataFrame:
    """One copy more when it starts, one less when it ends; at the same time ends come first."""
    ordered = copies.sort("event_id")
    return pl.concat(
        ordered.select(
            *KIND,
            "event_id",
            time_ns=edge,
            count=pl.lit(sign, pl.Int64),
            rate=sign * pl.col("rate").fill_null(0),
            known=sign * pl.col("rate").is_not_null().cast(pl.Int64),
        )
        for edge, sign in (("end_ns", -1), ("start_ns", 1))
    )


def _as_they_are(ran: pl.DataFrame) -> pl.DataFrame:
    bandwidths = ("mean_gbps", "min_gbps", "p50_gbps", "p95_gbps", "max_gbps")
    return ran.select(
        *KIND,
        *("start_ns", "end_ns", "event_id", "count", "busy_ns", "exposed_ns"),
        *(pl.col("gbps").alias(name) for name in bandwidths),
        moved_bytes=None,
        held_ns=None,
    )


def _per_kind(ran: pl.DataFrame, copies: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    known = pl.col("bytes").is_not_null().any()
    moved = copies.lazy().group_by(KIND).agg(count=pl.len(), moved_bytes=pl.when(known).then(pl.col("bytes").sum()))
    times = (
        ran.lazy()
        .group_by(KIND)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max(), pl.col("busy_ns", "exposed_ns").sum(), event_id=None)
    )
    bandwidths = (
        ran.lazy()
        .filter(pl.col("count") > 0, pl.col("gbps").is_not_null())
        .sort("gbps")
        .group_by(KIND)
        .agg(
            mean_gbps=levels.mean("gbps"),
            min_gbps=pl.col("gbps").min(),
            p50_gbps=levels.quantile("gbps", 0.5),
            p95_gbps=levels.quantile("gbps", 0.95),
            max_gbps=pl.col("gbps").max(),
        )
    )
    table = times
    for more in (moved, held.lazy(), bandwidths):
        table = table.join(more, on=KIND, how="left", nulls_equal=True)
    return done(table.sort(KIND))


@memory_bandwidth.rule
def pageable_copies(table: pl.DataFrame) -> Iterator[Finding]:
    """Copies between host and device from or to pageable memory cost more than a hundredth of the time.

    The driver takes such copies through a page-locked buffer of its own, at a fraction of the link's bandwidth, and the
    host waits for it. The cost is the time of the host in these copies and the time that no work hides, beyond what the
    bytes need over a PCIe 3.0 link, and at most the time in which the device was idle or only copied.

    Page-lock what is copied: `pin_memory=True` in the data loader, `tensor.pin_memory()` elsewhere; and copy with
    `non_blocking=True`, so that the copy can run beside computation.
    """
    slow = _beyond_link(table.filter(_is_host(PAGEABLE) & ~_is_small()), of="held_ns")
    if not slow.is_empty():
        gbps = _ratio(slow, "moved_bytes", "busy_ns")
        message = "copies from or to pageable host memory reach {rate:gbps}, and the host waits for them"
        yield _finding(message, slow, {"rate": gbps}, within=("idle_ns", "exposed_memory_ns"))


@memory_bandwidth.rule
def slow_link(table: pl.DataFrame) -> Iterator[Finding]:
    """Page-locked copies between host and device are slower than a PCIe 3.0 link lets them be.

    The link runs with fewer lanes than it has, or is shared with other devices, or the memory belongs to the processor
    that is farther from the device. The cost is the time that no work hides, beyond what the bytes need over such a
    link.

    Compare the width of the links (`nvidia-smi -q`, `lspci -vv`), and bind each rank to the processor its device is
    attached to (`nvidia-smi topo -m`, `numactl`).
    """
    slow = _beyond_link(table.filter(_is_host(PINNED) & ~_is_small()))
    if not slow.is_empty():
        gbps = _ratio(slow, "moved_bytes", "busy_ns")
        yield _finding("page-locked copies between host and device reach {rate:gbps}", slow, {"rate": gbps})


@memory_bandwidth.rule
def small_copies(table: pl.DataFrame) -> Iterator[Finding]:
    """Small copies between host and device cost more than a hundredth of the time.

    Each costs some microseconds however little it moves, and often the host waits for it: `.item()`, `.tolist()`,
    printing a tensor or testing one in an `if` copy a few bytes each. The cost is the time that no work hides, beyond
    what the bytes need over a PCIe 3.0 link.

    Gather values on the device and copy them at once, less often; put inputs of a step into one buffer.
    """
    slow = _beyond_link(table.filter(_is_small()))
    if not slow.is_empty():
        moved_bytes = _ratio(slow, "moved_bytes", "count")
        message = "copies between host and device move only {moved:size} on average"
        yield _finding(message, slow, {"moved": moved_bytes})


def _finding(
    message: str, slow: pl.DataFrame, values: Mapping[str, float], within: tuple[str, ...] = ("exposed_memory_ns",)
) -> Finding:
    cost_ns = slow.select(pl.col("beyond_ns").max()).item()
    return Finding("warning", message, tuple(slow["rank"]), cost_ns, values=values, within=within)


def _ratio(slow: pl.DataFrame, whole: str, parts: str) -> float:
    ratio: float = slow.select(pl.col(whole).sum() / pl.col(parts).sum()).item()
    return ratio


def _is_host(memory: str) -> pl.Expr:
    """Whether the host's side of a copy is such memory; not every profiler says."""
    return pl.col("copy").str.contains(memory)


def _is_small() -> pl.Expr:
    return pl.col("moved_bytes") < SMALL_BYTES * pl.col("count")


def _beyond_link(copies: pl.DataFrame, of: str = "exposed_ns") -> pl.DataFrame:
    """Per rank what copies over the link cost beyond the transfer of their bytes, where that is worth a change."""
    # No more can be saved than what nothing hides, and what the host spends.
    longest = pl.max_horizontal("busy_ns", of) - pl.col("moved_bytes") // LINK_GBPS
    beyond_ns = pl.min_horizontal(of, longest)
    return (
        copies.filter(pl.col("copy").str.contains(LINK), pl.col("exposed_ns") > 0)
        .with_columns(beyond_ns=beyond_ns.clip(lower_bound=0), span_ns=pl.col("exposed_ns") / pl.col("exposed_ratio"))
        .group_by("rank")
        .agg(pl.col("count", "moved_bytes", "busy_ns", "beyond_ns").sum(), pl.col("span_ns").max())
        .filter(pl.col("beyond_ns") > WORTH_RATIO * pl.col("span_ns"))
        .sort("rank")
    )
