"""What some steps take longer for than others, on all ranks alike: devices that become slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job.candidates import Candidate, Job, Where, candidate, of_share
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.pace import FAMILIES_RATIO, SAME_RATIO, USUAL_QUANTILE
from holotrace.diagnosis.words.classes import SLOW_DEVICE

FEWEST, OTHERS = 2, 2
# What the same kernels take longer in some steps is more than clocks differ by as devices get warm.
_SLOWER_RATIO = 1.08
_KIND = ("name", "detail", "operator")


def causes(job: Job) -> Iterator[Candidate]:
    """Devices that all become slow."""
    everybody = job.ranks if len(job.ranks) == 1 else ()
    yield from _slow_devices(job, everybody)
    yield from _slow_stretches(job, everybody)


def slow(ratios: Mapping[int, float], longer: float, *, are_stretches: bool = False) -> tuple[int, ...]:
    """The steps that take ``longer`` than the others by their ratio to these: at least two in a row, not the first."""
    steps = sorted(ratios)
    found = [step for step in steps if ratios[step] > longer]
    others = [step for step in steps if step not in found]
    if len(found) < FEWEST or len(others) < OTHERS or found[0] == steps[0]:
        return ()
    places = [steps.index(step) for step in found]
    # What is slow may begin or end within a stretch.
    blurred = (found[0] - 1, found[-1] + 1) if are_stretches else ()
    # As much as the slow ones differ from them the others do not differ by chance.
    is_apart = max((ratios[step] for step in others if step not in blurred), default=1.0) < 1 + 0.5 * (longer - 1)
    return tuple(found) if is_apart and places[-1] - places[0] == len(places) - 1 else ()


def _slow_devices(job: Job, everybody: tuple[int, ...]) -> Iterator[Candidate]:
    """Devices whose kernels take longer from some step on, or for some steps, than the same ones in others."""
    by_step = _ratios(job)
    steps = slow({step: ratio for step, ratio, _ in by_step.iter_rows()}, _SLOWER_RATIO)
    of_all = by_step.filter(pl.col("step").is_in(steps))
    if not steps or (of_all["families"] < FAMILIES_RATIO).any():
        return
    share = of_all.select("step", part_ratio=1 - 1 / pl.col("ratio")).join(
        pl.DataFrame({"rank": job.ranks}, schema={"rank": job.rows.schema["rank"]}), how="cross"
    )
    parts = of_share(job.of(account.SEGMENT), share)
    time_ratio = total(of_all["ratio"]) / of_all.height
    where = Where(everybody, steps)
    yield candidate(SLOW_DEVICE, None, parts, where, time_ratio=round(time_ratio, 4), than="in the other steps")


def _slow_stretches(job: Job, everybody: tuple[int, ...]) -> Iterator[Candidate]:
    """Devices whose kernels take longer from some time on, in recordings of which nothing tells steps."""
    pieces = job.of(account.PACE)
    if pieces.is_empty():
        return
    of_rank = pieces.group_by("rank", "step").agg(ratio=pl.col("time_ns").sum() / pl.col("needed_ns").sum())
    middle = of_rank.group_by("step").agg(pl.col("ratio").quantile(0.5, "lower"))
    stretches = slow(dict(middle.iter_rows()), _SLOWER_RATIO, are_stretches=True)
    if not stretches or of_rank["rank"].n_unique() < len(job.ranks):
        return
    parts = pieces.filter(pl.col("step").is_in(stretches)).with_columns(part_ns=pl.col("time_ns") - pl.col("needed_ns"))
    time_ratio = total(parts["time_ns"]) / total(parts["needed_ns"])
    where = Where(everybody, ())
    yield candidate(
        SLOW_DEVICE, None, parts, where, time_ratio=round(time_ratio, 4), than="in the rest of the recording"
    )


def _ratios(job: Job) -> pl.DataFrame:
    """How much longer than usually most ranks compute what they compute in each step, and how much of it is longer.

    Returns ``step``, ``ratio`` and ``families``; nothing where steps have too little in common.
    """
    work = job.of(account.WORK).drop_nulls("step")
    own = work.group_by("rank", "step", *_KIND).agg(pl.col("time_ns", "count").sum())
    usual_ns = pl.col("time_ns").quantile(USUAL_QUANTILE, "lower").over("rank", *_KIND)
    usual_count = pl.col("count").quantile(0.5, "lower").over("rank", *_KIND)
    steps = pl.col("step").n_unique().over("rank", *_KIND) == own["step"].n_unique()
    beside = own.with_columns(usual_ns=usual_ns, is_same=steps & (pl.col("count") == usual_count))
    same = beside.filter("is_same", pl.col("usual_ns") > 0)
    if total(same["time_ns"]) < SAME_RATIO * total(own["time_ns"]):
        return pl.DataFrame(schema={"step": own.schema["step"], "ratio": pl.Float64(), "families": pl.Float64()})
    ratio = pl.col("time_ns").sum() / pl.col("usual_ns").sum()
    own_ratio = pl.col("time_ns") / pl.col("usual_ns")
    longer = pl.col("usual_ns").filter(own_ratio > 1 + 0.5 * (ratio - 1)).sum() / pl.col("usual_ns").sum()
    of_ranks = same.group_by("rank", "step").agg(ratio=ratio, families=longer)
    middle = pl.col("ratio", "families").quantile(0.5, "lower")
    return of_ranks.group_by("step").agg(middle).sort("step").select("step", "ratio", "families")
