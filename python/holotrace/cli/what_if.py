"""holotrace what-if: what a step would gain if some of its work were faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holotrace.cli.job_command import table_command
from holotrace.errors import UsageError
from holotrace.job import Job
from holotrace.what_if import COLUMNS, PATH_COLUMNS
from holotrace.what_if import what_if as gain

if TYPE_CHECKING:
    from holotrace.present.writers import Shown


@table_command("What a step would gain if some of its work were faster.", name="what-if")
@click.option(
    "--scale",
    "scales",
    multiple=True,
    required=True,
    help="WHAT=FACTOR, e.g. communication=0, host=0.5 or '^aten::conv=0.8'; may be given several times.",
)
@click.option("--step", type=int, help="Which training step; by default the last that another one follows.")
@click.option("--by-segment", is_flag=True, help="The new path itself, a row per edge in its order.")
def what_if(job: Job, scales: tuple[str, ...], step: int | None, by_segment: bool) -> Shown:
    """How long the critical path of a step would be if some of its time were scaled, per rank.

    WHAT is what time is bound by (host, data_loading, compute, communication, memory, launch, kernel_delay) or a
    regular expression that names of operators, calls and kernels match.
    """
    from holotrace.present.writers import Shown  # noqa: PLC0415  # not needed for --help

    table = gain(job, dict(_scale(text) for text in scales), step=step, by_segment=by_segment)
    return Shown("what-if", table, PATH_COLUMNS if by_segment else COLUMNS, job.found.origin)


def _scale(text: str) -> tuple[str, float]:
    of, _, factor = text.rpartition("=")
    try:
        return of, float(factor)
    except ValueError:
        raise UsageError(f"--scale {text} names no factor; write WHAT=FACTOR, for example communication=0") from None
