"""By how many calls of an operation without numbers ranks began to record later than others."""

from __future__ import annotations

import polars as pl

from holotrace.core.native import native
from holotrace.derive.host_messages import IS_MESSAGE, IS_SENT

# Calls of one operation of a group are counted.
KEY = ("group", "group_ranks", "operation")
# Calls without a number: windows start at most so many calls of one kernel apart (seen: 5), ...
_MOST_SHIFT = 32
# ... and so many calls at the start of a recording are enough to see by how many.
_COMPARED = 100
# So many where these leave several: pauses, which come seldom, tell them apart.
_MORE_COMPARED = 4_000
# Few pairs fit by chance: a shift has to pair so many, and so much of the shorter recording.
_PAIRS, _PAIRS_RATIO = 3, 0.7
# Shifts that fit within this are equally good; ends of one collective differ by less.
_SLACK_NS = 5_000
# ... and so do the parts of their pairs that do not fit.
_UNFIT_RATIO = 0.1
# Of more calls those that do not fit by far are counted; by so many more, and so many times as many, a shift is wrong.
_BY_FAR, _MORE_UNFIT, _MORE_UNFIT_RATIO = 4, 3, 1.5
# Clocks of one machine differ by less than this; that of two machines is the same for all operations, up to the other.
_ONE_CLOCK_NS, _SAME_NS = 200_000, 20_000
# What is known of how calls fit.
_FIT = ("count", "far_count", "apart_ns", "spread_ns", "unfit_ratio", "other_step_ratio", "early_ratio")


def of_ranks(calls: pl.DataFrame, clocks: pl.DataFrame) -> pl.DataFrame:
    """By how many calls each rank began to record later than the rank that recorded most, for each operation.

    A collective ends for all at once, so with the right shift ends differ by the clocks' difference alone, which stays
    the same; with a wrong one they differ now more, now less. Where several shifts fit, as of calls at equal distances,
    those count by which other operations, and ``clocks``, give the same difference. Devices of one rank share a clock,
    so that their ends say it themselves.

    Args:
        calls: Those of one rank and operation share a number, ``series``, which rises, and are in their order.
        clocks: How far the clocks of ranks are apart by what else is known, as of ``clock_offsets``.

    Returns series and shift.
    """
    ends = calls.select("series", "step", end_ns=pl.when(IS_SENT).then("start_ns").otherwise("end_ns"))
    tried = _counting(ends, _pairs(calls))
    fits = _told_by_pauses(ends, _fitting(tried))
    # Of ranks with other clocks the steps, which all count alike, say more than how far the clocks would be apart.
    is_apart, is_message = pl.col("apart_ns").abs() > _ONE_CLOCK_NS, pl.col("is_message")
    unlike = pl.when(is_apart).then(pl.col("other_step_ratio") + pl.col("unfit_ratio")).otherwise(-1.0)
    # Of messages the ends say nothing.
    unlike = pl.when(is_message).then(pl.col("other_step_ratio") + pl.col("early_ratio")).otherwise(unlike)
    votes = pl.when(is_message).then(0).otherwise(-pl.col("votes").cast(pl.Int64))
    apart_ns = pl.when(is_message).then(0.0).otherwise(pl.col("apart_ns").abs())
    best = (
        _with_votes(fits, clocks)
        .with_columns(unlike=unlike)
        .sort(votes, "unlike", apart_ns, pl.col("shift").abs(), "shift")
        .unique("series", keep="first", maintain_order=True)
    )
    return _by_known_clocks(best, tried)


def _by_known_clocks(best: pl.DataFrame, tried: pl.DataFrame) -> pl.DataFrame:
    """The best shift of each series: series and shift.

    Ranks that look for a transfer only when they need it find it over, each at another time. Such ends scatter, and
    tell less than the clocks of both that those of another operation tell, and than steps if its calls are in the same.
    """
    collective = best.filter(~pl.col("is_message"))
    is_sharp = pl.col("spread_ns") <= _SLACK_NS
    told = collective.filter(is_sharp).select("rank", "reference", "apart_ns", "other_step_ratio")
    turned = told.select(
        rank="reference", reference="rank", apart_ns=-pl.col("apart_ns"), other_step_ratio="other_step_ratio"
    )
    known = (
        pl.concat([told, turned])
        .group_by("rank", "reference")
        .agg(known_ns=pl.col("apart_ns").median(), has_same_steps=pl.col("other_step_ratio").max() == 0)
    )
    blunt = collective.filter(~is_sharp).join(known, on=["rank", "reference"])
    off_ns = (pl.col("apart_ns") - pl.col("known_ns")).abs()
    nearest = (
        tried.join(blunt.select("series", "known_ns", "has_same_steps"), on="series")
        .sort(pl.when("has_same_steps").then("other_step_ratio"), off_ns, "shift")
        .unique("series", keep="first", maintain_order=True)
        .select("series", nearest="shift")
    )
    shift = pl.coalesce("nearest", "shift")
    return best.join(nearest, on="series", how="left", maintain_order="left").select("series", shift=shift)


def _pairs(calls: pl.DataFrame) -> pl.DataFrame:
    """Each series beside the one of its operation that has the most calls, ``reference`` is the rank of that."""
    every = calls.group_by("series", maintain_order=True).agg(
        pl.col("rank", *KEY, "of_rank").first(), is_message=IS_MESSAGE.first(), is_sent=IS_SENT.first(), count=pl.len()
    )
    ordered = every.sort("count", "rank", descending=[True, False])
    most = ordered.group_by(*KEY, maintain_order=True).agg(
        reference_series=pl.col("series").first(), reference=pl.col("rank").first(), beside=pl.col("of_rank").first()
    )
    return (
        every.join(most, on=list(KEY), nulls_equal=True, maintain_order="left")
        # Of the rank that recorded most, each call is itself.
        .filter(pl.col("series") != pl.col("reference_series"))
        .with_columns(
            is_one_clock=pl.col("of_rank") == pl.col("beside"),
            # Of a message only when it was sent and when the other went on with it tell of each other.
            is_received=pl.col("is_message") & ~pl.col("is_sent"),
        )
        .drop("count", "of_rank", "beside", "is_sent")
    )


def _tried(ends: pl.DataFrame, pairs: pl.DataFrame, most: int) -> pl.DataFrame:
    """How well the first calls of each series fit those that they belong to by its shift; what pairs none is left out.

    count is how many there are, far_count how many do not fit by far; apart_ns is by how much most end later, spread_ns
    by how much three quarters differ from that at most, unfit_ratio the part that differs by more than the slack;
    other_step_ratio is the part in two steps, early_ratio the part that ends before it can.
    """
    found = native.call_shifts(
        ends,
        pairs.select("series", "reference_series", "shift", "is_received"),
        most=most,
        slack_ns=_SLACK_NS,
        one_clock_ns=_ONE_CLOCK_NS,
        by_far=_BY_FAR,
    )
    return pairs.hstack(pl.DataFrame(found)).filter(pl.col("count") > 0)


def _told_by_pauses(ends: pl.DataFrame, fits: pl.DataFrame) -> pl.DataFrame:
    """The fits without those shifts of several by which more calls, later in the recording, do not fit.

    Layers repeat within a step, so that its first calls fit a shift by a layer, too; a pause between steps does not.
    """
    several = fits.filter(~pl.col("is_message"), pl.len().over("series") > 1)
    if several.is_empty():
        return fits
    unfit = _tried(ends, several.drop(_FIT), _MORE_COMPARED)
    least = pl.col("far_count").min().over("series")
    wrong = unfit.filter(pl.col("far_count") > _MORE_UNFIT_RATIO * least + _MORE_UNFIT)
    return fits.join(wrong, on=["series", "shift"], how="anti")


def _counting(ends: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """The shifts that pair most calls of each series."""
    every = pl.DataFrame({"shift": range(-_MOST_SHIFT, _MOST_SHIFT + 1)})
    fits = _tried(ends, pairs.join(every, how="cross"), _COMPARED)
    most = pl.col("count").max().over("series")
    return fits.filter(pl.col("count") >= pl.min_horizontal(most, pl.max_horizontal(_PAIRS, _PAIRS_RATIO * most)))


def _fitting(tried: pl.DataFrame) -> pl.DataFrame:
    """The shifts by which ends differ most evenly; of messages all."""
    far_ns = pl.col("apart_ns").abs()
    fits = tried.filter(~pl.col("is_one_clock") | (far_ns == far_ns.min().over("series")))
    is_message = pl.col("is_message")
    fits = fits.filter(is_message | (pl.col("spread_ns") <= 2 * pl.col("spread_ns").min().over("series") + _SLACK_NS))
    # Calls in a row of equal length fit a shift by one too, but for the ends of the row.
    return fits.filter(
        is_message | (pl.col("unfit_ratio") <= pl.col("unfit_ratio").min().over("series") + _UNFIT_RATIO)
    )


def _with_votes(fits: pl.DataFrame, clocks: pl.DataFrame) -> pl.DataFrame:
    """Shifts with how many operations of the rank have one that gives the same difference of clocks, ``votes``.

    Calls with a number outvote all others.
    """
    numbered = fits.with_row_index("fit").with_columns(
        operation_id=pl.struct(KEY).rank("dense"), slot=pl.col("apart_ns") // _SAME_NS
    )
    who = ["rank", "reference"]
    near = numbered.select(*who, "operation_id", slot=pl.concat_list([pl.col("slot") + by for by in (-1, 0, 1)]))
    votes = near.explode("slot").group_by(*who, "slot").agg(votes=pl.col("operation_id").n_unique())
    of_reference = clocks.select(reference="rank", reference_ns="offset_ns", first_of_reference="first_rank")
    found = (
        numbered.join(votes, on=[*who, "slot"], how="left")
        .join(clocks, on="rank", how="left")
        .join(of_reference, on="reference", how="left")
    )
    off_ns = (pl.col("apart_ns") - (pl.col("offset_ns") - pl.col("reference_ns"))).abs()
    is_known = (pl.col("first_rank") == pl.col("first_of_reference")) & (off_ns <= _SAME_NS)
    every = numbered["operation_id"].max()
    more = pl.when(is_known.fill_null(False)).then(every).otherwise(0)
    return found.sort("fit").with_columns(pl.col("votes") + more)
