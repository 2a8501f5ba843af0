"""By how many calls of an operation without numbers ranks began to record later than others."""

from __future__ import annotations

import polars as pl

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


def of_ranks(ordered: pl.DataFrame, clocks: pl.DataFrame) -> pl.DataFrame:
    """By how many calls each rank began to record later than the rank that recorded most, for each operation.

    A collective ends for all at once, so with the right shift ends differ by the clocks' difference alone, which stays
    the same; with a wrong one they differ now more, now less. Where several shifts fit, as of calls at equal distances,
    those count by which other operations, and ``clocks``, give the same difference. Devices of one rank share a clock,
    so that their ends say it themselves.
    """
    fits = _told_by_pauses(ordered, _fitting(_compared(ordered)))
    # Of ranks with other clocks the steps, which all count alike, say more than how far the clocks would be apart.
    is_apart, is_message = pl.col("apart_ns").abs() > _ONE_CLOCK_NS, pl.col("is_message")
    unlike = pl.when(is_apart).then(pl.col("other_step_ratio") + pl.col("unfit_ratio")).otherwise(-1.0)
    # Of messages the ends say nothing.
    unlike = pl.when(is_message).then(pl.col("other_step_ratio") + pl.col("early_ratio")).otherwise(unlike)
    votes = pl.when(is_message).then(0).otherwise(-pl.col("votes").cast(pl.Int64))
    apart_ns = pl.when(is_message).then(0.0).otherwise(pl.col("apart_ns").abs())
    return (
        _with_votes(fits, clocks)
        .with_columns(unlike=unlike)
        .sort(votes, "unlike", apart_ns, pl.col("shift").abs(), "shift")
        .group_by("rank", *KEY, maintain_order=True)
        .agg(pl.col("shift").first())
    )


def _compared(ordered: pl.DataFrame, tried: pl.DataFrame | None = None) -> pl.DataFrame:
    """The first calls of each rank beside those that they belong to with each shift: how far apart these end.

    With shifts that are ``tried`` for some operations these alone, and more calls.
    """
    # Of a message only when it was sent and when the other went on with it tell of each other.
    ordered = ordered.with_columns(
        end_ns=pl.when(IS_SENT).then("start_ns").otherwise("end_ns"),
        is_received=pl.when(IS_MESSAGE).then(~IS_SENT),
    )
    counts = ordered.group_by("rank", *KEY).agg(count=pl.len()).sort("count", "rank", descending=[True, False])
    most = counts.group_by(*KEY, maintain_order=True).first()
    reference = ordered.join(most, on=["rank", *KEY], how="semi", nulls_equal=True).select(
        *KEY, position="ordinal", reference_ns="end_ns", reference_step="step", reference="rank", beside="of_rank"
    )
    # Of the rank that recorded most, each call is itself.
    others = ordered.join(most, on=["rank", *KEY], how="anti", nulls_equal=True)
    return (
        _shifted(others.select("rank", "of_rank", *KEY, "ordinal", "end_ns", "step", "is_received"), tried)
        .with_columns(position=pl.col("ordinal") + pl.col("shift"))
        .join(reference, on=[*KEY, "position"], nulls_equal=True)
        .select(
            *("rank", *KEY, "shift", "reference", "is_received"),
            apart_ns=pl.col("end_ns") - pl.col("reference_ns"),
            is_other_step=pl.col("step") != pl.col("reference_step"),
            is_one_clock=pl.col("of_rank") == pl.col("beside"),
        )
    )


def _shifted(calls: pl.DataFrame, tried: pl.DataFrame | None) -> pl.DataFrame:
    if tried is None:
        every = pl.DataFrame({"shift": range(-_MOST_SHIFT, _MOST_SHIFT + 1)})
        return calls.filter(pl.col("ordinal") < _COMPARED).join(every, how="cross")
    more = calls.filter(pl.col("ordinal") < _MORE_COMPARED)
    return more.join(tried.select("rank", *KEY, "shift"), on=["rank", *KEY], nulls_equal=True)


def _told_by_pauses(ordered: pl.DataFrame, fits: pl.DataFrame) -> pl.DataFrame:
    """The fits without those shifts of several by which more calls, later in the recording, do not fit.

    Layers repeat within a step, so that its first calls fit a shift by a layer, too; a pause between steps does not.
    """
    several = fits.filter(~pl.col("is_message"), pl.len().over("rank", *KEY) > 1)
    if several.is_empty():
        return fits
    off_ns = (pl.col("apart_ns") - pl.col("apart_ns").median()).abs()
    is_unfit = off_ns > pl.max_horizontal(_SLACK_NS, _BY_FAR * off_ns.quantile(0.75))
    place = ["rank", *KEY, "shift"]
    unfit = _compared(ordered, several).group_by(place).agg(count=is_unfit.sum())
    least = pl.col("count").min().over("rank", *KEY)
    wrong = unfit.filter(pl.col("count") > _MORE_UNFIT_RATIO * least + _MORE_UNFIT)
    return fits.join(wrong, on=place, how="anti", nulls_equal=True)


def _fitting(pairs: pl.DataFrame) -> pl.DataFrame:
    """The shifts by which ends differ most evenly; of messages all."""
    apart = pl.col("apart_ns")
    # None was received before it was sent.
    is_early = pl.when("is_received").then(apart < -_ONE_CLOCK_NS).otherwise(apart > _ONE_CLOCK_NS)
    fits = (
        pairs.group_by("rank", *KEY, "shift", "reference")
        .agg(
            count=pl.len(),
            spread_ns=(apart - apart.median()).abs().quantile(0.75),
            # Calls in a row of equal length fit a shift by one too, but for the ends of the row.
            unfit_ratio=((apart - apart.median()).abs() > _SLACK_NS).mean(),
            apart_ns=apart.median(),
            other_step_ratio=pl.col("is_other_step").mean().fill_null(0.0),
            is_one_clock=pl.col("is_one_clock").first(),
            is_message=pl.col("is_received").is_not_null().first(),
            early_ratio=is_early.mean(),
        )
        .with_columns(most=pl.col("count").max().over("rank", *KEY))
        .filter(pl.col("count") >= pl.min_horizontal("most", pl.max_horizontal(_PAIRS, _PAIRS_RATIO * pl.col("most"))))
    )
    far_ns = pl.col("apart_ns").abs()
    fits = fits.filter(~pl.col("is_one_clock") | (far_ns == far_ns.min().over("rank", *KEY)))
    is_message = pl.col("is_message")
    return fits.filter(
        is_message | (pl.col("spread_ns") <= 2 * pl.col("spread_ns").min().over("rank", *KEY) + _SLACK_NS)
    ).filter(is_message | (pl.col("unfit_ratio") <= pl.col("unfit_ratio").min().over("rank", *KEY) + _UNFIT_RATIO))


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
    found = numbered.join(votes, on=[*who, "slot"], how="left").join(clocks, on=who, how="left", suffix="_known")
    is_known = (pl.col("apart_ns") - pl.col("apart_ns_known")).abs() <= _SAME_NS
    every = numbered["operation_id"].max()
    more = pl.when(is_known.fill_null(False)).then(every).otherwise(0)
    return found.sort("fit").with_columns(pl.col("votes") + more)
