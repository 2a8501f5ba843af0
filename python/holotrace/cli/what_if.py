"""holotrace what-if: what a step would gain if some of its work were faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holotrace.cli.job_command import table_command
from holotrace.errors import UsageError
from holotrace.job import Job
from holotrace.job_what_if import COLUMNS as JOB_COLUMNS
from holotrace.job_what_if import job_what_if
from holotrace.what_if import COLUMNS, PATH_COLUMNS
from holotrace.what_if import what_if as gain

if TYPE_CHECKING:
    from holotrace.present.writers import Shown


@table_command("What a step would gain if some of its work were faster.", name="what-if")
@click.option(
    "--scale",
    "scales",
    multiple=True,
    help="WHAT=FACTOR, e.g. communication=0, host=0.5 or '^aten::conv=0.8'; may be given several times.",
)
@click.option("--step", type=int, help="Which training step; by default the last that another one follows.")
@click.option("--by-segment", is_flag=True, help="The new path itself, a row per edge in its order.")
@click.option("--whole-job", is_flag=True, help="Replay all ranks together, so that a faster rank lets others go on.")
@click.option("--like-median", is_flag=True, help="All work takes as long as the median rank's; of the whole job.")
@click.option("--bandwidth", type=float, default=1.0, help="Collectives move data so much faster; of the whole job.")
def what_if(
    job: Job,
    *,
    scales: tuple[str, ...],
    step: int | None,
    by_segment: bool,
    whole_job: bool,
    like_median: bool,
    bandwidth: float,
) -> Shown:
    """How long the critical path of a step would be if some of its time were scaled, per rank.

    WHAT is what time is bound by (host, data_loading, compute, communication, memory, launch, kernel_delay) or a
    regular expression that names of operators, calls and kernels match.
    """
    from holotrace.present.writers import Shown  # noqa: PLC0415  # not needed for --help

    if whole_job or like_median or bandwidth != 1:
        factors = dict(_scale(text) for text in scales)
        like = "median" if like_median else None
        table = job_what_if(job, factors, like=like, bandwidth=bandwidth, step=step)
        return Shown("what-if", table, JOB_COLUMNS, job.found.origin)
    if not scales:
        raise UsageError("nothing is scaled; write --scale WHAT=FACTOR, for example --scale communication=0")
    table = gain(job, dict(_scale(text) for text in scales), step=step, by_segment=by_segment)
    return Shown("what-if", table, PATH_COLUMNS if by_segment else COLUMNS, job.found.origin)


def _scale(text: str) -> tuple[str, float]:
    of, _, factor = text.rpartition("=")
    try:
        return of, float(factor)
    except ValueError:
        raise UsageError(f"--scale {text} names no factor; write WHAT=FACTOR, for example communication=0") from None
