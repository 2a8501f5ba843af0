"""What ranks computed between meetings: which of it can be compared, and where they took longer than others."""

from __future__ import annotations

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job.candidates import Job

# What is nearby is one half of what was compared, unless both take as much longer, but for so much.
_HALF, _EVEN_RATIO = 0.5, 0.25
_ENDS = ("first_ratio", "last_ratio")
# What is usual of ranks from one meeting to the next: what most take, or all in the mean.
MOST, MEAN = pl.col("own_ns").quantile(0.5, "lower"), pl.col("own_ns").mean()


def until_one_ends(segments: pl.DataFrame, job: Job) -> pl.DataFrame:
    """The segments but for those of steps after the last that all ranks computed in.

    Recordings end with their hosts' steps, and devices of a host that is further ahead get to fewer of the last ones.
    """
    computed = segments.filter(pl.col("time_ns") > 0).group_by("step").agg(pl.col("rank").n_unique())
    last = computed.filter(pl.col("rank") == len(job.ranks))["step"].max()
    return segments if last is None else segments.filter((pl.col("step") <= last).fill_null(value=True))


def met(segments: pl.DataFrame, job: Job) -> pl.DataFrame:
    """The segments with the meeting that the rank left next, ``match``; those of one meeting can be compared.

    So can those ``is_beside`` it, and those before the rank came to it. Only meetings that held most of their ranks up
    count: what is computed beside one may be done before or after it.
    """
    holds = (pl.col("time_ns") > 0).mean().over("match") > 0.5
    left = (
        job.visits.filter(holds)
        .select(
            "rank",
            "match",
            end_ns=pl.col("left_ns") + pl.col("clock_offset_ns"),
            came_ns=pl.col("arrival_ns") + pl.col("clock_offset_ns"),
        )
        .sort("end_ns")
    )
    order = segments.drop("match", "end_ns", "is_beside", strict=False).with_row_index("place").sort("at_ns")
    with_next = order.join_asof(
        left, left_on="at_ns", right_on="end_ns", by="rank", strategy="forward", check_sortedness=False
    )
    is_beside = (pl.col("start_ns") >= pl.col("came_ns")).fill_null(value=False)
    known = with_next.sort("place").with_columns(pl.col("match").fill_null(2**32 - 1), is_beside=is_beside)
    return known.drop("place", "end_ns", "came_ns")


def placed(
    segments: pl.DataFrame, beyond: pl.DataFrame, *, less: bool = False, usual_ns: pl.Expr = MOST
) -> pl.DataFrame:
    """Segments with the part of each that makes up what its rank and step has beyond others, ``part_ns``.

    It is where the rank took longer than is usual from one meeting to the next, or ``less``, and the rest of it where
    the rank came to a meeting that no other was next at; where there is nothing of either kind, it is all over.
    """
    where = ["step", "match", "is_beside"]
    key = ["rank", *where]
    between = (
        segments.group_by(key)
        .agg(own_ns=pl.col("time_ns").sum())
        .with_columns(
            is_alone=pl.len().over(where) == 1,
            usual_ns=usual_ns.over(where),
        )
    )
    differs_ns = pl.col("own_ns").cast(pl.Int64) - pl.col("usual_ns").cast(pl.Int64)
    differs_ns = -differs_ns if less else differs_ns
    alone_ns = pl.when("is_alone").then("own_ns").otherwise(0).sum()
    between = between.with_columns(longer_ns=differs_ns.clip(lower_bound=0)).with_columns(
        all_ns=pl.col("longer_ns").sum().over("rank", "step"), alone_ns=alone_ns.over("rank", "step")
    )
    shares = segments.join(between, on=key, how="left", nulls_equal=True).join(
        beyond.select("rank", "step", "beyond_ns", step_ns="time_ns"), on=["rank", "step"], nulls_equal=True
    )
    beyond_ns, time_ns = pl.col("beyond_ns"), pl.col("time_ns")
    rest_ns = pl.when(pl.col("alone_ns") > 0).then((beyond_ns - pl.col("all_ns")).clip(lower_bound=0)).otherwise(0)
    here = pl.when(pl.col("all_ns") > 0).then(pl.col("longer_ns") / pl.col("all_ns") / pl.col("own_ns"))
    compared = (beyond_ns - rest_ns) * time_ns * here.otherwise(1 / pl.col("step_ns"))
    part = pl.when("is_alone").then(rest_ns * time_ns / pl.col("alone_ns")).otherwise(compared)
    # No more than there is.
    return shares.with_columns(part_ns=pl.min_horizontal(part.fill_nan(0).fill_null(0), "time_ns"))


def with_rest(parts: pl.DataFrame, every: pl.DataFrame) -> pl.DataFrame:
    """Segments of ranks with their ``part_ns``, and all others of theirs, of which that is as much as of those nearby.

    What cannot be compared, since others have not recorded it, takes a rank as much longer as what it computes before
    or after that; if it takes longer all the time, as all that.
    """
    kept = ["rank", "step", "start_ns", "at_ns"]
    rest = every.filter(pl.col("time_ns") > 0).join(
        parts.filter(pl.col("time_ns") > 0), on=kept, how="anti", nulls_equal=True
    )
    if rest.is_empty():
        return parts
    done = pl.col("time_ns").cum_sum() / pl.col("time_ns").sum()
    ratio = pl.col("part_ns").sum() / pl.col("time_ns").sum()
    ends = (
        parts.filter(pl.col("time_ns") > 0)
        .sort("rank", "start_ns")
        .with_columns(done=done.over("rank"), begun=(done - pl.col("time_ns") / pl.col("time_ns").sum()).over("rank"))
        .group_by("rank")
        .agg(
            since_ns=pl.col("start_ns").min(),
            until_ns=pl.col("at_ns").max(),
            all_ratio=ratio,
            first_ratio=_of(pl.col("begun") < _HALF),
            last_ratio=_of(pl.col("done") > _HALF),
        )
    )
    less, more = (each("first_ratio", "last_ratio") for each in (pl.min_horizontal, pl.max_horizontal))
    is_even = less > _EVEN_RATIO * more
    ends = ends.with_columns(pl.when(is_even).then("all_ratio").otherwise(name).alias(name) for name in _ENDS)
    after = pl.when(pl.col("start_ns") >= pl.col("until_ns")).then("last_ratio").otherwise("all_ratio")
    near = pl.when(pl.col("start_ns") < pl.col("since_ns")).then("first_ratio").otherwise(after)
    told = rest.join(ends, on="rank").with_columns(part_ns=pl.col("time_ns") * near)
    return pl.concat([parts, told.select(column for column in parts.columns if column in told.columns)], how="diagonal")


def _of(those: pl.Expr) -> pl.Expr:
    """What part of the time of those segments is ``part_ns``."""
    return pl.col("part_ns").filter(those).sum() / pl.col("time_ns").filter(those).sum()


def beyond_ratio(beyond: pl.DataFrame) -> float:
    """How much longer ranks compute than others."""
    return total(beyond["beyond_ns"]) / max(1.0, total(beyond["time_ns"]) - total(beyond["beyond_ns"]))
