"""holotrace what-if: what a job would gain if some of its work were faster."""

from __future__ import annotations

import click

from holotrace.cli.job_command import table_command
from holotrace.errors import UsageError
from holotrace.gains import ASSUMPTIONS, COLUMNS, PATH_COLUMNS
from holotrace.gains import what_if as gain
from holotrace.job import Job
from holotrace.present.writers import Shown


@table_command("What a job would gain if some of its work were faster.", name="what-if")
@click.option(
    "--scale",
    "scales",
    multiple=True,
    help="WHAT=FACTOR, e.g. communication=0, host=0.5 or '^aten::conv=0.8'; may be given several times.",
)
@click.option("--like-median", is_flag=True, help="Let all work take as long as on the median rank.")
@click.option("--bandwidth", type=float, default=1.0, help="Let collectives move data faster by this factor.")
@click.option("--assume", multiple=True, type=click.Choice(ASSUMPTIONS), help="Apply a predefined change.")
@click.option("--of-rank", type=int, multiple=True, help="Only work of this rank changes; may be given several times.")
@click.option("--of-group", multiple=True, help="Only collectives of this process group change.")
@click.option("--of-collective", multiple=True, help="Only collectives of this kind change, e.g. all_reduce.")
@click.option("--of-category", multiple=True, help="Only kernels of this category change, e.g. gemm or attention.")
@click.option("--of-module", multiple=True, help="Only work of modules whose path this regular expression matches.")
@click.option("--step", type=int, help="Only what was launched in this step; by default all that was recorded.")
@click.option("--by-segment", is_flag=True, help="Show the new critical path of the job, one row per part, in order.")
def what_if(
    job: Job,
    *,
    scales: tuple[str, ...],
    like_median: bool,
    bandwidth: float,
    assume: tuple[str, ...],
    of_rank: tuple[int, ...],
    of_group: tuple[str, ...],
    of_collective: tuple[str, ...],
    of_category: tuple[str, ...],
    of_module: tuple[str, ...],
    step: int | None,
    by_segment: bool,
) -> Shown:
    """Show how long a job would take with some changes, by replaying all of its ranks together.

    WHAT is a kind of time (host, data_loading, compute, communication, memory, launch, kernel_delay) or a regular
    expression for names of calls, spans and kernels.
    """
    from holotrace.graph.vocabulary import Within  # noqa: PLC0415  # with the one below not needed for --help

    if not (scales or like_median or assume or bandwidth != 1):
        raise UsageError("nothing is changed; write --scale WHAT=FACTOR, for example --scale communication=0")
    table = gain(
        job,
        dict(_scale(text) for text in scales),
        like="median" if like_median else None,
        bandwidth=bandwidth,
        assume=assume,
        within=Within(of_rank, of_group, of_collective, of_category, of_module),
        step=step,
        by_segment=by_segment,
    )
    return Shown("what-if", table, PATH_COLUMNS if by_segment else COLUMNS, job.found.origin)


def _scale(text: str) -> tuple[str, float]:
    of, _, factor = text.rpartition("=")
    try:
        return of, float(factor)
    except ValueError:
        raise UsageError(f"--scale {text} names no factor; write WHAT=FACTOR, for example communication=0") from None
