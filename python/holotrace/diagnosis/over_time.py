"""What some steps take longer for than others, on all ranks alike: evaluations, and devices that become slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from holotrace.diagnosis import account
from holotrace.diagnosis.candidates import Candidate, Job, Where, candidate, of_share, total
from holotrace.diagnosis.classes import SLOW_DEVICE

# The steps that are not slow take about as long as the quickest of them, and a recording begins with one of them.
USUAL_QUANTILE = 0.25
FEWEST, OTHERS = 2, 2
# What the same kernels take longer in some steps is more than clocks differ by as devices get warm.
_SLOWER_RATIO = 1.08
# So much of a device's time is spent on the same kernels in each step, and so much of that is slow.
_SAME_RATIO, _FAMILIES_RATIO = 0.5, 0.7
_KIND = ("name", "detail", "operator")


def causes(job: Job) -> Iterator[Candidate]:
    """Work beside the steps' own that all ranks do, and devices that all become slow."""
    everybody = job.ranks if len(job.ranks) == 1 else ()
    yield from _beside_steps(job, everybody)
    yield from _slow_devices(job, everybody)


def slow(ratios: Mapping[int, float], longer: float) -> tuple[int, ...]:
    """The steps that take ``longer`` than the others by their ratio to these: at least two in a row, not the first."""
    steps = sorted(ratios)
    found = [step for step in steps if ratios[step] > longer]
    others = [step for step in steps if step not in found]
    if len(found) < FEWEST or len(others) < OTHERS or found[0] == steps[0]:
        return ()
    places = [steps.index(step) for step in found]
    # As much as the slow ones differ from them the others do not differ by chance.
    is_apart = max(ratios[step] for step in others) < 1 + 0.5 * (longer - 1)
    return tuple(found) if is_apart and places[-1] - places[0] == len(places) - 1 else ()


def _beside_steps(job: Job, everybody: tuple[int, ...]) -> Iterator[Candidate]:
    """What devices compute beside the steps' own work, as in evaluations; what one has more of it is that rank's."""
    work = job.of(account.WORK).drop_nulls(["cause", "step"])
    own = work.group_by("rank", "step", "cause", "operator").agg(pl.col("time_ns").sum())
    common = own.group_by("step", "cause", "operator").agg(
        common_ns=pl.col("time_ns").min(), ranks=pl.col("rank").n_unique(), most_ns=pl.col("time_ns").max()
    )
    common = common.filter(pl.col("ranks") == len(job.ranks))
    for (cause, name), of_name in common.group_by("cause", "operator", maintain_order=True):
        share = own.join(of_name, on=["step", "cause", "operator"]).select(
            "rank", "step", part_ratio=pl.col("common_ns") / pl.col("time_ns")
        )
        # What tells kernels apart is nothing that is around them.
        rows = work.filter(cause=cause, operator=name).with_columns(at_ns="start_ns", detail=pl.lit(None, pl.String))
        steps = tuple(sorted(of_name["step"].unique()))
        yield candidate(str(cause), str(name), of_share(rows, share), Where(everybody, steps))


def _slow_devices(job: Job, everybody: tuple[int, ...]) -> Iterator[Candidate]:
    """Devices whose kernels take longer from some step on, or for some steps, than the same ones in others."""
    by_step = _ratios(job)
    steps = slow({step: ratio for step, ratio, _ in by_step.iter_rows()}, _SLOWER_RATIO)
    of_all = by_step.filter(pl.col("step").is_in(steps))
    if not steps or (of_all["families"] < _FAMILIES_RATIO).any():
        return
    share = of_all.select("step", part_ratio=1 - 1 / pl.col("ratio")).join(
        pl.DataFrame({"rank": job.ranks}, schema={"rank": job.rows.schema["rank"]}), how="cross"
    )
    parts = of_share(job.of(account.SEGMENT), share)
    time_ratio = total(of_all["ratio"]) / of_all.height
    where = Where(everybody, steps)
    yield candidate(SLOW_DEVICE, None, parts, where, time_ratio=round(time_ratio, 4), than="in the other steps")


def _ratios(job: Job) -> pl.DataFrame:
    """How much longer than usually most ranks compute what they compute in each step, and how much of it is longer.

    Returns ``step``, ``ratio`` and ``families``; nothing where steps have too little in common.
    """
    work = job.of(account.WORK).filter(pl.col("cause").is_null()).drop_nulls("step")
    own = work.group_by("rank", "step", *_KIND).agg(pl.col("time_ns", "count").sum())
    usual_ns = pl.col("time_ns").quantile(USUAL_QUANTILE, "lower").over("rank", *_KIND)
    usual_count = pl.col("count").quantile(0.5, "lower").over("rank", *_KIND)
    steps = pl.col("step").n_unique().over("rank", *_KIND) == own["step"].n_unique()
    beside = own.with_columns(usual_ns=usual_ns, is_same=steps & (pl.col("count") == usual_count))
    same = beside.filter("is_same", pl.col("usual_ns") > 0)
    if total(same["time_ns"]) < _SAME_RATIO * total(own["time_ns"]):
        return pl.DataFrame(schema={"step": own.schema["step"], "ratio": pl.Float64(), "families": pl.Float64()})
    ratio = pl.col("time_ns").sum() / pl.col("usual_ns").sum()
    own_ratio = pl.col("time_ns") / pl.col("usual_ns")
    longer = pl.col("usual_ns").filter(own_ratio > 1 + 0.5 * (ratio - 1)).sum() / pl.col("usual_ns").sum()
    of_ranks = same.group_by("rank", "step").agg(ratio=ratio, families=longer)
    middle = pl.col("ratio", "families").quantile(0.5, "lower")
    return of_ranks.group_by("step").agg(middle).sort("step").select("step", "ratio", "families")
