"""Parts of recordings that cannot be compared: of turns that some ranks have only a part of, or lost work of."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.computed import MOST_PIECES

_MOST_RATIO = 0.5
_COMPUTED = (account.WORK, account.SEGMENT)


def without(job: Job) -> Job:
    """The job without what ranks computed in steps of which half of them lost work, and parts of steps and turns.

    Those that have all of it would have more work than is usual.
    """
    ranks = job.of(account.LOST).group_by("step").agg(pl.col("rank").n_unique()).drop_nulls()
    lost = ranks.filter(2 * pl.col("rank") >= len(job.ranks))["step"]
    is_lost = pl.col("row").is_in(_COMPUTED) & pl.col("step").is_in(pl.lit(lost).implode()).fill_null(value=False)
    return _of_ends(_of_turns(job if lost.is_empty() else replace(job, rows=job.rows.filter(~is_lost))))


def _of_ends(job: Job) -> Job:
    """The job without what ranks computed in the first and the last step, and before, if not all have as much.

    Devices are in the middle of programs of XLA as recordings begin and end, and elsewhere on each rank; so are hosts
    in the middle of turns. Steps that PyTorch marks were recorded from beginning to end, and so was one of which the
    rank has as much in another step.
    """
    if not _is_xla(job) and not job.of(account.STEP).is_empty():
        return job
    computed = job.of(account.WORK).group_by("rank", "step").agg(pl.col("count").sum())
    ranks = pl.DataFrame({"rank": job.ranks}, schema={"rank": computed.schema["rank"]})
    every = computed.select("step").unique().join(ranks, how="cross")
    counts = every.join(computed, on=["rank", "step"], how="left", nulls_equal=True).with_columns(
        pl.col("count").fill_null(0)
    )
    is_marked = pl.col("step").is_not_null()
    is_usual = is_marked & (pl.len().over("rank", "count", is_marked) > 1) & (pl.col("count") > 0)
    is_same = pl.col("count").n_unique().over("step") == 1
    is_end = ~is_marked | pl.col("step").is_in([counts["step"].min(), counts["step"].max()])
    # Without steps nothing is before them.
    is_part = is_end & ~is_usual & ~is_same & pl.lit(counts["step"].null_count() < counts.height)
    parts = counts.filter(is_part).select("step").unique()
    is_computed = pl.col("row").is_in(_COMPUTED)
    others = job.rows.filter(is_computed).join(parts, on="step", how="anti", nulls_equal=True, maintain_order="left")
    return replace(job, rows=pl.concat([job.rows.filter(~is_computed), others]))


def _is_xla(job: Job) -> bool:
    return account.XLA in job.of(account.WINDOW)["detail"]


def _of_turns(job: Job) -> Job:
    """The job without what ranks computed before their first turn, and in those that not all ranks have.

    Marked steps have numbers that count for all ranks.
    """
    turns = job.of(account.WORK).group_by("rank").agg(first=pl.col("step").min(), last=pl.col("step").max())
    first, last = turns["first"].max(), turns["last"].min()
    if last is None or not job.of(account.STEP).is_empty():
        return job
    is_computed = pl.col("row").is_in(_COMPUTED)
    is_of_all = pl.col("step").is_between(pl.lit(first), pl.lit(last)).fill_null(value=False)
    return replace(job, rows=job.rows.filter(~is_computed | is_of_all))


def in_common(job: Job) -> Job:
    """The job, where nothing marks steps or turns, without what not all ranks have recorded.

    That is what they computed before the first meeting of all of them that each has recorded, and after the last, if
    some run more kernels there than others. Where they never all meet that is the whole.
    """
    work = job.of(account.WORK)
    is_told_by_steps = work.is_empty() or work["step"].null_count() < work.height
    if len(job.ranks) == 1 or is_told_by_steps:
        return job
    is_computed = pl.col("row").is_in(_COMPUTED)
    bounds = pl.DataFrame() if job.visits.is_empty() else _bounds(job)
    is_bound = bounds.height == len(job.ranks) and max(*bounds["before"], *bounds["after"]) < MOST_PIECES
    if not is_bound:
        return job if _are_as_many(work, job) else replace(job, rows=job.rows.filter(~is_computed))
    computed = job.rows.filter(is_computed).join(bounds, on="rank", how="left", maintain_order="left")
    for is_there in (pl.col("start_ns") < pl.col("since_ns"), pl.col("start_ns") >= pl.col("until_ns")):
        if not _are_as_many(computed.filter(is_there, pl.col("row") == account.WORK), job):
            computed = computed.filter(~is_there)
    return replace(job, rows=pl.concat([job.rows.filter(~is_computed), computed.select(job.rows.columns)]))


def computed(job: Job) -> pl.DataFrame:
    """All segments of the ranks, also of what had been launched before the recording."""
    return pl.concat([job.of(account.SEGMENT), job.of(account.BEFORE)])


def are_most(part: Job, whole: Job) -> bool:
    """Whether most of what the ranks computed is in a part of the job."""
    left, every = (total(job.of(account.WORK)["time_ns"]) for job in (part, whole))
    return left > _MOST_RATIO * every


def _are_as_many(work: pl.DataFrame, job: Job) -> bool:
    """Whether all ranks run as many of these kernels, be it none."""
    counts = work.group_by("rank").agg(pl.col("count").sum())["count"]
    return len(counts) in (0, len(job.ranks)) and counts.n_unique() <= 1


def _bounds(job: Job) -> pl.DataFrame:
    """What each rank has between the first and the last meeting of all ranks: rank, since_ns and until_ns.

    Beside that it has how many meetings of all are ``before`` and ``after``, which not all have recorded.
    """
    work = job.of(account.WORK)
    ran = work.group_by("rank").agg(begin_ns=pl.col("start_ns").min(), end_ns=pl.col("start_ns").max())
    own = job.visits.filter(pl.col("rank").is_in(job.ranks)).with_columns(next_ns=_went_on_ns(job))
    is_of_all = (pl.col("rank").n_unique() == len(job.ranks)).over("match")
    is_of_all &= pl.col("next_ns").is_not_null().all().over("match")
    next_ns = own.filter(is_of_all).select(
        rank=pl.col("rank").cast(ran.schema["rank"]), next_ns="next_ns", match="match"
    )
    is_within = pl.col("next_ns").is_between("begin_ns", "end_ns").all().over("match")
    of_all = pl.col("next_ns").filter("is_within")
    return (
        next_ns.join(ran, on="rank")
        .with_columns(is_within=is_within)
        .group_by("rank")
        .agg(
            since_ns=of_all.min(),
            until_ns=of_all.max(),
            before=(pl.col("next_ns") < of_all.min()).sum(),
            after=(pl.col("next_ns") > of_all.max()).sum(),
        )
        .drop_nulls("since_ns")
    )


def _went_on_ns(job: Job) -> pl.Expr:
    """When ranks went on from meetings, by their own clocks: with what they launched after each, if all launched any.

    Of one that has nothing but what had been launched before its recording only those tell that held all of them up.
    """
    known = job.visits.drop_nulls("next_ns")["rank"].unique()
    is_launched = pl.lit({*job.ranks} <= {*known})
    held = pl.when(pl.col("time_ns") > 0).then(pl.col("left_ns") + pl.col("clock_offset_ns"))
    return pl.when(is_launched).then("next_ns").otherwise(held)
