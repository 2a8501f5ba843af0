"""Sends and receives as meetings of two ranks: which of them belong together."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import COLLECTIVES
from holotrace.core.trace import RankTrace
from holotrace.derive import asked_collectives, grouped_messages
from holotrace.derive.collectives import GROUPED
from holotrace.derive.host_messages import ON_HOSTS, PAIR

# How messages of XLA's programs are called.
PERMUTE = "permute"
KNOWN = COLLECTIVES.only("event_id", "source_rank", "destination_rank")
READS = (KNOWN, *asked_collectives.READS, *grouped_messages.READS)


def paired(calls: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The calls of ``collectives.calls``, sends and receives whose other end is known as those of a group of two.

    Their order tells which belong together, since the numbers of a group's ends need not agree. A kernel that sends and
    receives has a row for each of its messages.
    """
    grouped = rank.cached(grouped_messages.of_rank)
    if not grouped.is_empty():
        others = _alone(calls.join(grouped, on="event_id", how="anti"), rank)
        found = pl.concat([others, _grouped(calls, grouped, others.schema)])
        return found.sort("start_ns", "end_ns", "event_id", maintain_order=True)
    return _alone(calls, rank)


def permuted(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls, permutations of XLA as messages in a group: whom each device sends to is known with all of them.

    Each of its devices leaves when those have come that it sends to or receives from, so that nothing but the numbers
    of ``sequence`` tells which of different ranks are the same.
    """
    are_known = pl.col("group_ranks").is_not_null() & pl.col("sequence").is_not_null()
    is_permuted = (pl.col("collective").cast(pl.String) == PERMUTE) & are_known
    told = {"collective": PAIR, "operation": GROUPED}
    return calls.with_columns(
        pl.when(is_permuted).then(pl.lit(value)).otherwise(pl.col(name).cast(pl.String)).alias(name)
        for name, value in told.items()
    )


def apart(visits: pl.DataFrame) -> pl.DataFrame:
    """The visits of meetings, those of a kernel's messages as if each of these had ended by itself.

    A kernel goes on until the last of its messages is over, whose data moves from when both of its ends are there. So
    its message to a rank that came in time was over as soon as the faster of its ends would have been without others.
    """
    of_kernel = ["rank", "event_id"]
    several = pl.len().over(of_kernel) > 1
    if "event_id" not in visits.columns or not visits.select((several & (pl.col("collective") == PAIR)).any()).item():
        return visits
    come, last = pl.col("arrival_ns").max().over("match"), pl.col("come_ns").max().over(of_kernel)
    found = visits.with_columns(come_ns=come, message_count=pl.len().over(of_kernel))
    found = found.with_columns(took_ns=(pl.col("left_ns") - last).clip(lower_bound=0), ended_ns="left_ns")
    is_message = (pl.col("message_count").max().over("match") > 1) & (pl.col("collective") == PAIR)
    over = pl.col("come_ns") + pl.col("took_ns").min().over("match")
    return found.with_columns(left_ns=pl.when(is_message).then(over).otherwise("left_ns")).drop("took_ns")


def _grouped(calls: pl.DataFrame, messages: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The messages of kernels that send and receive, each with what is known of its kernel; steps number them."""
    told = messages.with_columns(
        group_ranks=pl.format("[{}, {}]", "source_rank", "destination_rank"),
        group_size=pl.lit(2),
        operation=pl.lit(GROUPED),
        collective=pl.lit(PAIR),
    ).drop("source_rank", "destination_rank")
    known = calls.select("event_id", *(name for name in calls.columns if name not in told.columns))
    found = told.join(known, on="event_id", maintain_order="left").with_columns(sequence="step")
    return found.select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _alone(calls: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The calls, sends and receives that are a kernel each as those of a group of two."""
    operation = pl.col("collective").cast(pl.String)
    known = asked_collectives.known(rank, KNOWN)
    own = rank.rank
    with_ends = (
        calls.lazy()
        .join(known.lazy(), on="event_id", how="left")
        .with_columns(
            source=pl.when(operation.str.contains(r"(?i)^i?send")).then(own).otherwise("source_rank"),
            destination=pl.when(operation.str.contains(r"(?i)^i?recv")).then(own).otherwise("destination_rank"),
        )
    )
    is_pair = operation.str.contains(r"(?i)^i?(send|recv)\b") & pl.col("source").ne(pl.col("destination")).fill_null(
        False
    )
    members = pl.format("[{}, {}]", "source", "destination")
    # Backends of hosts are told apart: their messages end as their ranks wait for them.
    named = pl.col("operation").cast(pl.String)
    of_hosts = pl.format("{}{}", named.str.extract(rf"^({ON_HOSTS}:)"), pl.lit(PAIR))
    found = with_ends.with_columns(
        pl.when(is_pair).then(members).otherwise(pl.col("group_ranks").cast(pl.String)).alias("group_ranks"),
        pl.when(is_pair).then(pl.lit(2)).otherwise("group_size").alias("group_size"),
        pl.when(is_pair).then(pl.coalesce(of_hosts, pl.lit(PAIR))).otherwise(named).alias("operation"),
        pl.when(is_pair).then(pl.lit(PAIR)).otherwise(operation).alias("collective"),
        pl.when(is_pair).then(None).otherwise("sequence").alias("sequence"),
    ).drop("source_rank", "destination_rank", "source", "destination")
    return done(found)
