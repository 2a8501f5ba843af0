"""What each kind of communication costs: waiting for others or moving data, and at which bandwidth."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column, Unit
from holotrace.derive import arrivals, collectives, messages

# A message that takes less than some tens of microseconds on a link of 100 GB/s costs mostly the start of its kernel.
SMALL_BYTES = 1024 * 1024
# What costs less than a fiftieth of the time of all collectives is not worth a change.
WORTH_RATIO = 0.02
# Links of one kind differ by a few percent; of two groups nobody knows which is the slow one.
SLOW_RATIO, COMPARED_GROUPS = 0.7, 3
KIND = ["collective", "group", "group_ranks", "group_description", "group_size", "element_type", "message_bytes"]
# What groups that do the same for different ranks have in common.
ALIKE = [name for name in KIND if name not in ("group", "group_ranks")]


@per_job(
    part=collectives.calls,
    part_columns=collectives.CALLS,
    joined=arrivals.Compared,
    columns=(
        Column("device", Unit.NUMBER, "Device of the rank; null if the rank communicates on one device only"),
        Column("step", Unit.STEP, "Training step that launched them; null for all steps together"),
        Column("collective", Unit.TEXT, "Operation, e.g. allreduce; the kernel's name if unknown"),
        Column("message_bytes", Unit.BYTES, "Input or output of one call, whichever is larger; null if unknown"),
        Column("count", Unit.COUNT, "Calls"),
        Column("total_ns", Unit.NS, "Sum of the times of their kernels"),
        Column(
            "waited_ns",
            Unit.NS,
            "Part of total_ns before the last rank of the group arrived; null if no call could be compared",
        ),
        Column("moving_ns", Unit.NS, "The rest of total_ns, in which data was moved"),
        Column("exposed_ns", Unit.NS, "Part of total_ns during which the rank did not compute"),
        Column(
            "lost_ns", Unit.NS, "Part of waited_ns during which the rank did not compute; null if waited_ns is null"
        ),
        Column("bus_gbps", Unit.FLOAT, "Bus bandwidth while data was moved, in GB/s; null if unknown"),
        Column("compared_count", Unit.COUNT, "Calls that could be compared with those of the other ranks"),
        Column("group", Unit.TEXT, "Name of the process group; null if unknown"),
        Column("group_ranks", Unit.TEXT, "Ranks in the group, JSON; null if unknown"),
        Column("group_description", Unit.TEXT, "What the group is for; null if unknown"),
        Column("group_size", Unit.NUMBER, "Ranks in the group; null if unknown"),
        Column("element_type", Unit.TEXT, "Type of an element; null if unknown"),
    ),
    reads=collectives.READS,
    chart=Ranking(
        x="collective",
        y=("moving_ns", "waited_ns"),
        title="Time of communication: moving data and waiting",
        compares_ranks=True,
    ),
    named_by=("collective", "element_type"),
)
def communication(compared: arrivals.Compared, *, by_step: bool = False) -> pl.DataFrame:
    """What each kind of communication costs: waiting for others or moving data, and at which bandwidth.

    The kernel of a collective starts when its own rank arrives, waits until the last rank of the group has arrived, and
    then moves data. Where calls could be compared with those of the other ranks, on one clock (see stragglers), the two
    are separate; where not, the waiting is part of `moving_ns`, and the bandwidth is a lower bound.

    Calls with the same operation, group, element type and size are one row; a group is its ranks and its name. Bus
    bandwidth is what each link of the group has to carry, whatever the group's size: bytes of the message by the time,
    times 2 (n - 1) / n for an all-reduce among n ranks, (n - 1) / n for all-gather, reduce-scatter and all-to-all, 1
    for operations with one sender or receiver (formula: NVIDIA's nccl-tests, PERFORMANCE.md). GB are 1,000,000,000
    bytes.

    Args:
        by_step: One row per kind of collective and step, instead of one per kind.
    """
    keys = ["rank", "device", *(["step"] if by_step else []), *KIND]
    calls = compared.calls
    waits = compared.arrived.select("call", "waited_ns", "lost_ns")
    duration = pl.col("end_ns") - pl.col("start_ns")
    waited = pl.col("waited_ns")
    table = (
        calls.join(waits, on="call", how="left")
        .with_columns(
            pl.col("collective", "group", "group_ranks", "group_description", "element_type").cast(pl.String),
            waited_ns=pl.min_horizontal(pl.when(waited.is_not_null()).then(duration), waited),
            duration_ns=duration,
        )
        .with_columns(message_bytes=messages.message_bytes())
        .group_by(keys)
        .agg(
            count=pl.len(),
            compared_count=waited.count(),
            total_ns=pl.col("duration_ns").sum(),
            exposed_ns=pl.col("exposed_ns").sum(),
            waited_ns=pl.when(waited.count() > 0).then(waited.sum()),
            lost_ns=pl.when(waited.count() > 0).then(pl.col("lost_ns").sum()),
        )
        .with_columns(moving_ns=pl.col("total_ns") - pl.col("waited_ns").fill_null(0))
        .with_columns(bus_gbps=_bus_gbps())
        .sort("rank", "total_ns", *keys, descending=[False, True, *(False for _ in keys)])
    )
    return table.drop_nulls("step") if by_step else table.with_columns(step=pl.lit(None, pl.Int64()))


def _bus_gbps() -> pl.Expr:
    moved = pl.col("message_bytes") * pl.col("count") * messages.bus_factor()
    return pl.when(pl.col("moving_ns") > 0, pl.col("group_size") > 1).then(moved / pl.col("moving_ns"))


@communication.rule
def small_messages(table: pl.DataFrame) -> Iterator[Finding]:
    """Collectives of less than a mebibyte cost more than a fiftieth of the time of all communication.

    Starting a collective takes some ten microseconds on every rank, whatever it moves. The cost is the time in which
    nothing else ran and the rank waited for no other, beyond what the bytes need at its best bandwidth.

    Put small tensors into one message: larger buckets (`bucket_cap_mb` of DDP), coalesced collectives, flat parameter
    groups of FSDP; gather metrics and gradient norms in one call, less often.
    """
    needed = pl.col("moving_ns") * pl.col("bus_gbps") / pl.col("bus_gbps").max().over("rank")
    small = _worth(
        table,
        _told_apart(table)
        .with_columns(saved_ns=_exposed_moving() - needed)
        .filter(pl.col("message_bytes") < SMALL_BYTES, pl.col("saved_ns") > 0),
        pl.col("count").sum(),
    )
    if not small.is_empty():
        count, cost_ns = small.select(pl.col("count", "saved_ns").max()).row(0)
        message = (
            "small messages ({count:count} of less than {limit:round_size} on a rank) take longer than their bytes need"
        )
        values = {"count": count, "limit": SMALL_BYTES}
        yield Finding("warning", message, tuple(small["rank"]), cost_ns, values=values, within=("exposed_comm_ns",))


@communication.rule
def slow_group(table: pl.DataFrame) -> Iterator[Finding]:
    """A group moves data at less than 70% of the bandwidth that other groups of its kind reach.

    Groups with the same purpose, size and messages are compared, by the time in which data was moved. The cost is what
    the slow groups would save at the median bandwidth, as far as nothing hides it.

    Look at what only these ranks share: a link with errors or fewer lanes (`nvidia-smi nvlink -s`, `ibstat`), a switch,
    another job on the same network, a ring that crosses machines more often than it has to.
    """
    ratio = pl.col("bus_gbps") / pl.col("bus_gbps").median().over(ALIKE)
    slow = _worth(
        table,
        _told_apart(table)
        .filter(_members().n_unique().over(ALIKE) >= COMPARED_GROUPS)
        .with_columns(saved_ns=_exposed_moving() * (1 - ratio), ratio=ratio)
        .filter(pl.col("ratio") < SLOW_RATIO),
        pl.col("ratio").min(),
    )
    if not slow.is_empty():
        least, cost_ns = slow.select(pl.col("ratio").min(), pl.col("saved_ns").max()).row(0)
        message = "process groups of these ranks reach {ratio:percent} of the bus bandwidth of comparable groups"
        values = {"ratio": least}
        yield Finding("warning", message, tuple(slow["rank"]), cost_ns, values=values, within=("exposed_comm_ns",))


def _members() -> pl.Expr:
    """What tells a group from others: its ranks, as some versions of PyTorch give several groups one name."""
    return pl.coalesce("group_ranks", "group")


def _told_apart(table: pl.DataFrame) -> pl.DataFrame:
    """Rows of known bandwidth without any waiting in it."""
    return table.filter(pl.col("compared_count") == pl.col("count"), pl.col("bus_gbps").is_not_null())


def _exposed_moving() -> pl.Expr:
    """Time in which data was moved and the rank did not compute."""
    return (pl.col("exposed_ns") - pl.col("lost_ns")).clip(0, pl.col("moving_ns"))


def _worth(table: pl.DataFrame, rows: pl.DataFrame, seen: pl.Expr) -> pl.DataFrame:
    """Ranks where the ``saved_ns`` of these rows is worth a change, each with what was ``seen``.

    Devices of a rank save it at the same time: what counts is the one that saves most.
    """
    of_device = ["rank", "device"]
    communicated = table.group_by(of_device).agg(pl.col("total_ns").sum())
    return (
        rows.group_by(of_device)
        .agg(seen, pl.col("saved_ns").sum().cast(pl.Int64))
        .join(communicated, on=of_device, nulls_equal=True)
        .filter(pl.col("saved_ns") > WORTH_RATIO * pl.col("total_ns"))
        .sort("saved_ns", "rank", descending=[True, False])
        .unique("rank", keep="first", maintain_order=True)
        .sort("rank")
    )
