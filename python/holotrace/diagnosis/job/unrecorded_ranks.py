"""Waits for ranks that were not recorded: collectives that take far longer than others with as much data."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.derive import messages
from holotrace.derive.totals import total
from holotrace.diagnosis.job.candidates import Candidate, when
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.words.classes import UNRECORDED_RANK

# How many ranks of the group were not recorded.
ABSENT = "absent_count"
# Evidence: the longest of those that take longer, and how long as much data needs.
LONGEST, NEEDED = "longest_ns", "needed_ns"
# No transfer takes less than it needs, but for one that was not recorded as it was: what takes less than a message does
# ended, by clocks that are some microseconds off, about when the last of several recorded ranks came.
_NEEDED_QUANTILE, _MESSAGE_NS = 0.1, 5_000
# Other work on the device and other traffic make equal transfers differ by less; those at the same time share a link.
_LONGER_RATIO, _SHARED_RATIO, _LONGER_NS = 1.5, 3.0, 100_000
# Messages of stages, which wait in them by their schedule; the name of a kernel does not tell them from exchanges.
MESSAGES = "(?i)send/?recv|permute"
# What moves data in the same way.
_RINGS = "(?i)all_?(reduce|gather)|reduce_?scatter"
_GROUP = ("member_ranks", "group", "group_ranks")
_ALIKE = (*_GROUP, "way")


def causes(meetings: pl.DataFrame, ranks: tuple[int, ...]) -> Iterator[Candidate]:
    """What each group with members of which nothing was recorded takes beyond what its data needs.

    Args:
        meetings: As ``transfers`` has them.
        ranks: Those that were recorded.
    """
    longer = _needing_less(meetings).filter(
        pl.col("transfer_ns") - pl.col("needed_ns") > _LONGER_NS,
        pl.col("transfer_ns") / pl.col("needed_ns") > pl.when("is_shared").then(_SHARED_RATIO).otherwise(_LONGER_RATIO),
    )
    longer = longer.with_columns(beyond_ns=pl.col("transfer_ns") - pl.col("needed_ns")).sort("come_ns", "match")
    for (members, *_), table in longer.group_by(_GROUP, maintain_order=True):
        longest = table.sort("beyond_ns", "match").row(-1, named=True)
        yield Candidate(
            UNRECORDED_RANK,
            Change(transfer=dict(table.select("match", pl.col("needed_ns") / pl.col("transfer_ns")).iter_rows())),
            () if len(set(members)) == len(ranks) > 1 else tuple(sorted(set(members))),
            when(table, "beyond_ns"),
            longest["collective"],
            start_ns=longest["start_ns"],
            evidence={
                "time_ns": int(total(table["beyond_ns"])),
                "count": table.height,
                LONGEST: longest["transfer_ns"],
                NEEDED: int(longest["needed_ns"]),
                ABSENT: longest["absent"],
            },
        )


def _needing_less(meetings: pl.DataFrame) -> pl.DataFrame:
    """Collectives with members that were not recorded, how long at most their data needs, ``needed_ns``.

    No transfer needs longer than one of more data, nor longer for a byte than one of less.
    """
    collective = pl.col("collective").cast(pl.String)
    left_ns = pl.col("left_ns").cum_max().shift(1)
    is_shared = (pl.col("start_ns") < left_ns) | (pl.col("start_ns").shift(-1) < pl.col("left_ns"))
    bus_bytes = messages.message_bytes() * messages.bus_factor()
    way = pl.when(collective.str.contains(_RINGS)).then(pl.lit("ring")).otherwise(collective)
    # Where no size is known, steps that call the same as often send the same in the same order.
    of_step = ("step", *_GROUP, "collective")
    place = pl.int_range(pl.len()).over(of_step).cast(pl.String)
    is_alike = pl.len().over(of_step).n_unique().over(*_GROUP, "collective") == 1
    in_order = pl.when(pl.col("step").is_not_null(), is_alike).then(pl.concat_str(collective, pl.lit(" "), place))
    ordered = meetings.sort("start_ns", "match").with_columns(
        is_shared=is_shared.fill_null(value=False),
        bus_bytes=bus_bytes.fill_null(1),
        way=pl.when(bus_bytes.is_null()).then(in_order).otherwise(way),
    )
    known = ordered.filter(
        pl.col("absent") > 0, pl.col("bus_bytes") > 0, pl.col("way").is_not_null(), ~collective.str.contains(MESSAGES)
    )
    needs = (
        known.filter(pl.col("transfer_ns") >= _MESSAGE_NS)
        .group_by(*_ALIKE, "bus_bytes")
        .agg(pl.col("transfer_ns").quantile(_NEEDED_QUANTILE, "lower").alias("shortest_ns"))
        .sort("bus_bytes")
        .with_columns(
            needed_ns=pl.min_horizontal(
                pl.col("shortest_ns").cum_min(reverse=True).over(_ALIKE),
                pl.col("bus_bytes") * (pl.col("shortest_ns") / pl.col("bus_bytes")).cum_min().over(_ALIKE),
            )
        )
    )
    return known.join(needs, on=[*_ALIKE, "bus_bytes"], nulls_equal=True)
