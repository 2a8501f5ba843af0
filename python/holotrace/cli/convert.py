"""holotrace convert: traces as a dataset."""

from __future__ import annotations

import click
import polars as pl

from holotrace.cli.console import progress_bar
from holotrace.cli.executors import chosen_executor
from holotrace.cli.job_command import job_command
from holotrace.cli.options import Output
from holotrace.cli.output import tell_partial
from holotrace.converting import convert as to_dataset
from holotrace.core.problems import LOST, UNREAD, frame
from holotrace.discovery import spelled
from holotrace.discovery.completeness import DOUBTS
from holotrace.job import Job
from holotrace.stores import Place


@job_command("Write traces as a dataset of Parquet files.", shows_problems=True)
@click.argument("out", type=Output(folder=True))
@click.option(
    "--overwrite", is_flag=True, help="Write ranks again that the dataset already holds, even from other files."
)
@click.option("--answers", is_flag=True, help="Also compute and keep the answers of all analyses.")
def convert(job: Job, out: Place, overwrite: bool, answers: bool) -> None:
    """Write the traces at PATH as a dataset into the folder OUT, or add their ranks to the dataset that is there.

    A dataset opens like traces, but is smaller and faster. DuckDB, Polars, pandas and Spark can read its Parquet
    files. If a conversion was interrupted, run it again: it continues where it stopped.
    """
    with progress_bar("Converting") as progress:
        done = to_dataset(job, out, overwrite=overwrite, answers=answers, executor=chosen_executor(), progress=progress)
    for problem in done.problems.filter(pl.col("problem").is_in((UNREAD, LOST))).iter_rows(named=True):
        click.echo(f"rank {problem['rank']} was left out: {problem['example']}", err=True)
    # Ranks that are missing may be added later.
    noticed = (row for row in job.found.problems if row["problem"] not in DOUBTS)
    tell_partial(pl.concat([frame(noticed), done.problems]))
    kept = f", kept rank {spelled(done.kept)}" if done.kept else ""
    wrote = f"wrote rank {spelled(done.written)}" if done.written else "wrote nothing"
    click.echo(f"{wrote}{kept}: {done.path}", err=True)
