"""holotrace overlay: the traces with more in them."""

from __future__ import annotations

from pathlib import Path

import click

from holotrace.cli.job_command import job_command
from holotrace.errors import UsageError
from holotrace.job import Job


@job_command("Copy traces, with counters or the critical path added, for Perfetto.")
@click.option("--counters", is_flag=True, help="Add the length of each queue and the bandwidth of copies over time.")
@click.option("--critical-path", is_flag=True, help="Mark the critical path of a step: the longest path of waiting.")
@click.option("--step", type=int, help="Step for the critical path; by default the last one that another step follows.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for the copies; it is created if needed, and must not hold the traces.",
)
def overlay(job: Job, counters: bool, critical_path: bool, step: int | None, output: Path) -> None:
    """Write copies of the traces with counters or the critical path added; recorded events stay unchanged.

    Drop a copy onto https://ui.perfetto.dev to see it.
    """
    if not (counters or critical_path):
        raise UsageError("nothing was asked for; say what to add: --counters, --critical-path")
    if step is not None and not critical_path:
        raise UsageError("--step says whose critical path to show; add --critical-path")
    for written in job.write_overlay(output, counters=counters, critical_path=critical_path, of_step=step):
        click.echo(f"wrote {written}", err=True)
