"""Which ranks the others wait for, and for how long."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Bar
from holotrace.core.schema import Column, Unit
from holotrace.derive import arrivals, collectives

# Equal devices on equal work differ by 1-2%.
LOST_RATIO = 0.02
_DEVICE = pl.format("device {} of rank {}", pl.col("device"), pl.col("rank"))
_TO_COMPARE = (
    "Record the same steps on all ranks with record_shapes=True, in a PyTorch that notes process groups (2.4 or later)."
)
# With equal shares it is not the ranks that differ but their turns.
SHARE = 1.5
# Host clocks kept by NTP differ by some hundred microseconds; those of one machine hardly.
CLOCK_NS = 100_000


@per_job(
    part=collectives.calls,
    part_columns=collectives.CALLS,
    joined=arrivals.Compared,
    columns=(
        Column("device", Unit.NUMBER, "Device of the rank; null if the rank communicates on one device only"),
        Column("step", Unit.STEP, "Training step; null for the rank as a whole"),
        Column("collective_count", Unit.COUNT, "Collectives that were compared"),
        Column("uncompared_count", Unit.COUNT, "Collectives that could not be compared"),
        Column("last_count", Unit.COUNT, "How often the rank arrived last"),
        Column(
            "late_ns",
            Unit.NS,
            "Time from the second to last arrival to its own, summed over collectives at which it was last",
        ),
        Column(
            "lost_ns",
            Unit.NS,
            "Time in which the median other rank only waited for it, over collectives at which it was last",
        ),
        Column("waited_ns", Unit.NS, "Time it waited in collectives until the last rank arrived"),
        Column("standing_ns", Unit.NS, "Part of waited_ns in which it did not compute"),
        Column(
            "total_ns", Unit.NS, "Time from the first arrival to the end of the last collective; the same for all ranks"
        ),
        Column("lost_ratio", Unit.RATIO, "lost_ns / total_ns; null if that is 0"),
        Column("clock_offset_ns", Unit.NS, "How far the clock of the rank is ahead of that of the median rank"),
    ),
    reads=collectives.READS,
    chart=Bar(x="rank", y=("late_ns", "lost_ns"), title="Time others waited for each rank"),
)
def stragglers(found: arrivals.Compared, *, by_step: bool = False) -> pl.DataFrame:
    """Which ranks the others wait for, and for how long.

    The kernel of a collective starts on each rank when the rank arrives, waits for the other ranks, moves data when the
    last rank has arrived, and ends on all ranks at the same time. Kernels of different ranks are matched by process
    group and number if the trace has them, else by their order, from the first one that all ranks recorded. Where an
    older PyTorch recorded no groups, queues of NCCL whose calls end equally far apart are those of one. Ends show how
    far clocks are apart, and starts are compared on one clock. Operations that some ranks may leave early
    (sends, broadcasts), and those that not all ranks recorded, are not compared. A rank without comparable operations
    has a count of 0 and nulls. Devices of one rank, such as the cores of a TPU host, are compared like ranks; a core
    arrives at a collective when it arrives at the barrier before it.

    Arriving late costs nothing while the others still compute: `lost_ns` leaves out this time. Time in which a rank
    waits in several collectives at once counts only once.

    Args:
        by_step: One row per rank and step that launched collectives, instead of one per rank.
    """
    who = ["rank", "device"]
    keys = [*who, "step"] if by_step else who
    calls = collectives.comparable(found.calls).join(found.messages, on="call", how="anti", maintain_order="left")
    arrived = _counted_once(found.arrived)
    left, arrival = pl.col("left_ns"), pl.col("arrival_ns")
    arrived = arrived.with_columns(total_ns=left.diff().over(who).fill_null(left - arrival))
    compared = (
        arrived.group_by(keys)
        .agg(
            pl.col("waited_ns", "standing_ns", "total_ns").sum(),
            pl.col("clock_offset_ns").first(),
            collective_count=pl.len(),
        )
        # A rank that begins late has less time of its own than the others waited for it.
        .with_columns(pl.col("total_ns").max().over(keys[2:] or pl.lit(0)))
    )
    last = _last(arrived).group_by(keys).agg(pl.col("late_ns", "lost_ns").sum(), last_count=pl.len())
    count = pl.col("collective_count")
    table = (
        calls.group_by(keys)
        .agg(call_count=pl.len())
        .join(compared, on=keys, how="left", nulls_equal=True)
        .join(last, on=keys, how="left", nulls_equal=True)
        .with_columns(
            count.fill_null(0),
            pl.col("last_count").fill_null(0),
            pl.when(count.is_not_null()).then(pl.col("late_ns", "lost_ns").fill_null(0)),
            uncompared_count=pl.col("call_count") - count.fill_null(0),
        )
        .drop("call_count")
        .with_columns(lost_ratio=pl.when(pl.col("total_ns") > 0).then(pl.col("lost_ns") / pl.col("total_ns")))
        .sort(keys)
    )
    return table.drop_nulls("step") if by_step else table.with_columns(step=pl.lit(None, pl.Int64()))


def _counted_once(arrived: pl.DataFrame) -> pl.DataFrame:
    """Waiting of each rank, of which time that several collectives have in common is part of the first of them."""
    waited, standing = (arrivals.once(arrived, length, by=["rank", "device"]) for length in ("waited_ns", "lost_ns"))
    return arrived.with_columns(waited_ns=waited, standing_ns=standing)


def _last(arrived: pl.DataFrame) -> pl.DataFrame:
    """The last rank of each collective, with how late it was and what the median other rank lost by that."""
    last = (
        arrived.sort("match", "arrival_ns", "rank", "device", descending=[False, True, False, False])
        .group_by("match", maintain_order=True)
        .agg(
            pl.col("rank", "device", "step", "come_ns").first(),
            late_ns=pl.col("arrival_ns").first() - pl.col("arrival_ns").slice(1).max(),
            lost_ns=pl.col("standing_ns").slice(1).median().round().cast(pl.Int64),
        )
    )
    # A rank may be the last of several groups at once.
    late, lost = (arrivals.once(last, length, by=["rank", "device"]) for length in ("late_ns", "lost_ns"))
    return last.with_columns(late_ns=late, lost_ns=lost)


@stragglers.rule
def straggling_rank(table: pl.DataFrame) -> Iterator[Finding]:
    """Ranks stand still for more than a fiftieth of the time until another rank arrives at collectives.

    The whole job runs at the pace of the rank that arrives last. The finding names ranks that cost at least 1.5 times
    as much as the average rank. If another rank is last each time, work is uneven and no rank is to blame. The cost is
    the time that the median rank stood still for the named ranks, and at most the longest time that any rank stood
    still.

    Compare what the named ranks do before their collectives with what others do: more or longer inputs, a slower
    device (see slow-device), a host that launches late, a data loader that stalls.
    """
    ranks = (
        _trusted(table)
        .group_by("rank", "device")
        .agg(pl.col("lost_ns", "standing_ns", "total_ns").sum())
        .sort("rank", "device")
    )
    late = ranks.filter(
        (pl.col("lost_ns") > LOST_RATIO * pl.col("total_ns")) & (pl.col("lost_ns") > SHARE * pl.col("lost_ns").mean())
    )
    if late.is_empty():
        return
    others = ranks.join(late, on=["rank", "device"], how="anti", nulls_equal=True)
    cost_ns = min(int(late["lost_ns"].sum()), int(others.select(pl.col("standing_ns").max()).item()))
    ratio = cost_ns / int(late.select(pl.col("total_ns").max()).item())
    who = "this rank arrives" if late.height == 1 else "these ranks arrive"
    values: dict[str, object] = {"ratio": ratio}
    if late["device"].null_count() < late.height:
        values["devices"] = late.select(_DEVICE).to_series().to_list()
        who = "{devices:names} " + ("arrives" if late.height == 1 else "arrive")
    message = "the others stand still for {ratio:percent} of the time until " + who
    yield Finding("warning", message, tuple(late["rank"].unique().sort()), cost_ns, values=values)


@stragglers.rule
def clocks_apart(table: pl.DataFrame) -> Iterator[Finding]:
    """The clocks of ranks differ by more than a tenth of a millisecond.

    Times of these ranks cannot be compared with those of others as they were written, in a merged timeline for
    instance. Here they are corrected by the distance between the ends of their collectives.

    Synchronise the clocks of the machines (chrony, PTP), or subtract `clock_offset_ns` before comparing times.
    """
    ahead = _trusted(table).filter(pl.col("clock_offset_ns").abs() > CLOCK_NS)
    if ahead.is_empty():
        return
    most = int(ahead.select(pl.col("clock_offset_ns").abs().max()).item())
    message = "clocks of these ranks differ from that of the median rank by up to {offset:duration}"
    yield Finding("info", message, tuple(ahead["rank"].unique().sort()), values={"offset": most})


@stragglers.rule
def ranks_not_compared(table: pl.DataFrame) -> Iterator[Finding]:
    """More collectives could not be compared between ranks than could, so that nothing tells who waits for whom.

    Either the recording does not say which ranks meet in a collective, and their ends do not tell it either, or ranks
    did not record the same time.

    Record the same steps on all ranks with `record_shapes=True`, in a PyTorch that notes process groups (2.4 or later).
    """
    compared, uncompared = _counts(table)
    if uncompared <= compared or table["rank"].n_unique() < 2:
        return
    message = "{count:count} of {total:plural collective} could not be compared between ranks, so that what ranks "
    values = {"count": uncompared, "total": compared + uncompared}
    yield Finding("info", message + "wait for is not known", values=values, what_to_do=_TO_COMPARE)


def _trusted(table: pl.DataFrame) -> pl.DataFrame:
    """The table, if most of what was recorded could be compared; what fits of the rest may fit by chance."""
    compared, uncompared = _counts(table)
    return table if compared > uncompared else table.clear()


def _counts(table: pl.DataFrame) -> tuple[int, int]:
    compared, uncompared = table.select(pl.col("collective_count", "uncompared_count").sum()).row(0)
    return compared, uncompared
