"""holotrace timeline: all ranks in one trace."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from holotrace.cli.console import console, progress_bar
from holotrace.cli.job_command import job_command
from holotrace.export.merge import Detail
from holotrace.job import Job

_NS_PER_MS = 1_000_000


@job_command("Write all ranks into one trace on one clock, for Perfetto.", shows_problems=True)
@click.option(
    "--step",
    type=int,
    help="Only what ran while any rank was in this step, or while a device did the work of this step.",
)
@click.option(
    "--start",
    type=float,
    metavar="MS",
    help="Only what ran after this time, in milliseconds from the first event of all ranks.",
)
@click.option("--end", type=float, metavar="MS", help="Only what ran before this time, counted in the same way.")
@click.option(
    "--detail",
    type=click.Choice(get_args(Detail)),
    default="python",
    show_default=True,
    help="Which events to write: device: only what ran on devices; host: also calls and operators; python: everything.",
)
@click.option(
    "--critical-path", is_flag=True, help="Add the critical path through all ranks, with arrows where it changes ranks."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Where to write the trace; the name ends in .json.gz, .json.zst or .json.",
)
def timeline(
    *,
    job: Job,
    step: int | None,
    start: float | None,
    end: float | None,
    detail: Detail,
    critical_path: bool,
    output: Path,
) -> None:
    """Write all ranks into one trace on one clock; drop it onto https://ui.perfetto.dev to see it.

    The offset of each rank's clock is estimated from the ends of collectives and subtracted from its times. The table
    shows this offset for each rank, and how far the ends of collectives still differ after the correction.
    """
    from holotrace.export.timeline import RANKS  # noqa: PLC0415
    from holotrace.present import format as fmt  # noqa: PLC0415  # with the two below, not needed for --help
    from holotrace.present import terminal  # noqa: PLC0415

    with progress_bar("Writing") as progress:
        done = job.write_timeline(
            output,
            of_step=step,
            start_ns=_ns(start),
            end_ns=_ns(end),
            detail=detail,
            critical_path=critical_path,
            progress=progress,
        )
    screen = console()
    screen.print(terminal.table(done.ranks, RANKS, limit=None, width=screen.width))
    for problem in done.problems.iter_rows(named=True):
        where = "" if problem["rank"] is None else f"rank {problem['rank']}: "
        example = f" ({fmt.printable(problem['example'])})" if problem["example"] else ""
        click.echo(f"{where}{problem['problem']}{example}; {problem['action']}", err=True)
    click.echo(done.said(), err=True)
    click.echo(f"wrote {done.path}", err=True)


def _ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * _NS_PER_MS)
