"""holotrace what-if: what a step would gain if some of its work were faster."""

from __future__ import annotations

from pathlib import Path

import click

from holotrace.cli.options import job_arguments, job_at, output_options, rank_option
from holotrace.cli.output import Shown, write_shown
from holotrace.discovery import OnDuplicate
from holotrace.errors import UsageError
from holotrace.what_if import COLUMNS, PATH_COLUMNS
from holotrace.what_if import what_if as gain


@click.command("what-if", short_help="What a step would gain if some of its work were faster.")
@job_arguments
@rank_option
@click.option(
    "--scale",
    "scales",
    multiple=True,
    required=True,
    help="WHAT=FACTOR, e.g. communication=0, host=0.5 or '^aten::conv=0.8'; may be given several times.",
)
@click.option("--step", type=int, help="Which training step; by default the last that another one follows.")
@click.option("--by-segment", is_flag=True, help="The new path itself, a row per edge in its order.")
@output_options
def what_if(  # noqa: PLR0917  # click gives them by name
    path: tuple[str, ...],
    recursive: bool,
    on_duplicate: OnDuplicate,
    ranks: tuple[int, ...],
    scales: tuple[str, ...],
    step: int | None,
    by_segment: bool,
    limit: int | None,
    form: str | None,
    output: Path | None,
) -> None:
    """How long the critical path of a step would be if some of its time were scaled, per rank.

    WHAT is what time is bound by (host, data_loading, compute, communication, memory, launch, kernel_delay) or a
    regular expression that names of operators, calls and kernels match.
    """
    job = job_at(path, recursive=recursive, on_duplicate=on_duplicate, ranks=ranks)
    table = gain(job, dict(_scale(text) for text in scales), step=step, by_segment=by_segment)
    columns = PATH_COLUMNS if by_segment else COLUMNS
    write_shown(Shown("what-if", table, columns, job.found.origin), form, limit, output)


def _scale(text: str) -> tuple[str, float]:
    of, _, factor = text.rpartition("=")
    try:
        return of, float(factor)
    except ValueError:
        raise UsageError(f"--scale {text} names no factor; write WHAT=FACTOR, for example communication=0") from None
