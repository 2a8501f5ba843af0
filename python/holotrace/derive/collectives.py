"""Which communication kernels of different ranks are the same collective operation."""

from __future__ import annotations

import polars as pl

from holotrace.core.schema import Column, Unit
from holotrace.core.tables import COLLECTIVES, DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals
from holotrace.derive.epoch import base_ns
from holotrace.derive.kernel_kinds import COMMUNICATION

_EVENTS = DEVICE_EVENTS.only("event_id", "name", "kind", "stream", "start_ns", "end_ns", "step")
_KNOWN = COLLECTIVES.only(
    *("event_id", "collective", "sequence", "group", "group_description", "group_ranks", "group_size"),
    *("in_elements", "out_elements", "element_type"),
)
READS = (_EVENTS, _KNOWN)
CALLS = (
    Column("group", Unit.LABEL, "Process group; null if unknown"),
    Column("group_ranks", Unit.LABEL, "Ranks in the group, JSON; null if unknown"),
    Column("group_description", Unit.LABEL, "What the group is for; null if unknown"),
    Column("group_size", Unit.NUMBER, "Ranks in the group; null if unknown"),
    Column("collective", Unit.LABEL, "Operation, e.g. allreduce; the kernel's name if unknown"),
    Column("operation", Unit.LABEL, "Collective where its number is known, else the kernel's name"),
    Column("sequence", Unit.NUMBER, "Number within the process group; null if unknown"),
    Column("element_type", Unit.LABEL, "Type of an element; null if unknown"),
    Column("element_count", Unit.COUNT, "Elements of its input or output, whichever has more; null if unknown"),
    Column("step", Unit.STEP, "Step that launched it; null outside of all steps"),
    Column("start_ns", Unit.NS, "Start of its kernel, since 1970 if the file says so, on the rank's own clock"),
    Column("end_ns", Unit.NS, "End of its kernel, exclusive"),
    Column("exposed_ns", Unit.NS, "Part of the kernel's time during which the rank did not compute"),
    Column("event_id", Unit.EVENT, "Its kernel"),
)

# Operations that a rank can leave before others have come to it, so that ends say nothing of clocks.
_ONE_SIDED = r"^(send|recv|gather|scatter|_?(broadcast|reduce)(_oop)?)$|kernel_(broadcast|reduce)_"
_KEY = ("group", "group_ranks", "operation")
# Calls without a number: windows start at most so many calls of one kernel apart (seen: 5), ...
_MOST_SHIFT = 32
# ... and so many calls at the start of a recording are enough to see by how many.
_COMPARED = 100
# Few pairs fit by chance: a shift has to pair so many, and so much of the shorter recording.
_PAIRS, _PAIRS_RATIO = 3, 0.7
# Shifts that fit within this are equally good; ends of one collective differ by less.
_SLACK_NS = 5_000


def calls(rank: RankTrace) -> pl.DataFrame:
    """One rank's communication kernels with what is known of each."""
    found = (
        rank[_EVENTS]
        .filter(kind=COMMUNICATION)
        .join(rank[_KNOWN].unique("event_id"), on="event_id", how="left")
        .with_columns(
            # A kernel that was launched before the recording has no args, but its queue serves one group.
            *(_of_queue(column) for column in ("group", "group_ranks", "group_description", "group_size")),
            collective=pl.coalesce("collective", "name"),
            element_count=_element_count(),
        )
        .with_columns(operation=pl.when(pl.col("sequence").is_null()).then("name").otherwise("collective"))
        .sort("start_ns", "end_ns", "event_id")
    )
    exposed = intervals.uncovered_ns(found, rank.cached(busy.of).computing).alias("exposed_ns")
    # Ranks of one job may count from different moments.
    since_1970 = pl.col("start_ns", "end_ns") + base_ns(rank.metadata)
    return found.with_columns(exposed, since_1970)[[column.name for column in CALLS]]


def comparable(calls: pl.DataFrame) -> pl.DataFrame:
    """Those calls that all of a group's ranks must have come to before any can leave."""
    return calls.filter(
        (pl.col("group_size") > 1).fill_null(True),
        ~pl.col("operation").cast(pl.String).str.to_lowercase().str.contains(_ONE_SIDED).fill_null(False),
    )


def matched(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls of all ranks that belong together, those of one collective with the same ``match``.

    Collectives that not all ranks of their group have recorded are left out, and those of groups that only one rank
    recorded.
    """
    found = pl.concat([_by_sequence(calls), _by_order(calls)])
    together = [*_KEY, "position", "occurrence"]
    members = pl.col("rank").n_unique().over(_KEY)
    return (
        found.filter(members > 1, pl.len().over(together) == members)
        .sort(*together, "rank")
        .with_columns(match=pl.struct(together).rle_id())
        .drop("position", "occurrence")
    )


def _element_count() -> pl.Expr:
    """Elements of the whole message; of a scatter whose input is not known, of all ranks' outputs."""
    scattered = pl.col("collective").cast(pl.String).str.contains("scatter")
    whole = pl.when(scattered).then(pl.col("out_elements") * pl.col("group_size"))
    return pl.max_horizontal(pl.coalesce("in_elements", whole), "out_elements")


def _of_queue(column: str) -> pl.Expr:
    """The column, where it is null that of the other calls on the same queue if these agree."""
    one = pl.col(column).drop_nulls()
    return pl.coalesce(column, pl.when(one.n_unique().over("stream") == 1).then(one.first().over("stream")))


def _by_sequence(calls: pl.DataFrame) -> pl.DataFrame:
    """Calls with a number: those with the same number belong together."""
    return (
        calls.filter(pl.col("sequence").is_not_null())
        .sort("rank", "start_ns", "end_ns")
        .with_columns(
            position=pl.col("sequence"),
            # Operations that were issued as one share a number.
            occurrence=pl.int_range(pl.len(), dtype=pl.Int64()).over("rank", *_KEY, "sequence"),
        )
    )


def _by_order(calls: pl.DataFrame) -> pl.DataFrame:
    """Calls of groups without numbers: their order counts, from where all ranks recorded them."""
    numbered = calls.filter(pl.col("sequence").is_not_null()).select("group", "group_ranks").unique()
    ordered = (
        calls.join(numbered, on=["group", "group_ranks"], how="anti", nulls_equal=True)
        .sort("rank", "start_ns", "end_ns")
        .with_columns(ordinal=pl.int_range(pl.len(), dtype=pl.Int64()).over("rank", *_KEY))
    )
    shifts = _shifts(ordered)
    return (
        ordered.join(shifts, on=["rank", *_KEY], how="left", nulls_equal=True)
        .with_columns(position=pl.col("ordinal") + pl.col("shift").fill_null(0), occurrence=pl.lit(0, pl.Int64()))
        .drop("ordinal", "shift")
    )


def _shifts(ordered: pl.DataFrame) -> pl.DataFrame:
    """By how many calls each rank began to record later than the rank that recorded most, for each operation.

    A collective ends for all at once, so with the right shift ends differ by the clocks' difference alone, which stays
    the same; with a wrong one they differ now more, now less.
    """
    counts = ordered.group_by("rank", *_KEY).agg(count=pl.len()).sort("count", "rank", descending=[True, False])
    most = counts.group_by(*_KEY, maintain_order=True).first()
    reference = ordered.join(most, on=["rank", *_KEY], how="semi", nulls_equal=True).select(
        *_KEY, position="ordinal", reference_ns="end_ns"
    )
    pairs = (
        ordered.filter(pl.col("ordinal") < _COMPARED)
        .select("rank", *_KEY, "ordinal", "end_ns")
        .join(pl.DataFrame({"shift": range(-_MOST_SHIFT, _MOST_SHIFT + 1)}), how="cross")
        .with_columns(position=pl.col("ordinal") + pl.col("shift"))
        .join(reference, on=[*_KEY, "position"], nulls_equal=True)
        .select("rank", *_KEY, "shift", apart_ns=pl.col("end_ns") - pl.col("reference_ns"))
    )
    apart = pl.col("apart_ns")
    fits = (
        pairs.group_by("rank", *_KEY, "shift")
        .agg(
            count=pl.len(),
            spread_ns=(apart - apart.median()).abs().quantile(0.75),
            apart_ns=apart.median().abs(),
        )
        .with_columns(most=pl.col("count").max().over("rank", *_KEY))
        .filter(pl.col("count") >= pl.min_horizontal("most", pl.max_horizontal(_PAIRS, _PAIRS_RATIO * pl.col("most"))))
    )
    return (
        fits.filter(pl.col("spread_ns") <= 2 * pl.col("spread_ns").min().over("rank", *_KEY) + _SLACK_NS)
        .sort("apart_ns", pl.col("shift").abs(), "shift")
        .group_by("rank", *_KEY, maintain_order=True)
        .agg(pl.col("shift").first())
    )
