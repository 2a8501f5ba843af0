"""holotrace convert: traces as a dataset."""

from __future__ import annotations

import click

from holotrace.cli.console import progress_bar
from holotrace.cli.executors import chosen_executor
from holotrace.cli.options import Output, job_at, rank_option, search_options
from holotrace.convert import convert as to_dataset
from holotrace.discovery import OnDuplicate, spelled
from holotrace.stores import Place


@click.command(short_help="Traces as a dataset of Parquet files.")
@click.argument("path", nargs=-1, required=True)
@click.argument("out", type=Output(folder=True))
@search_options
@rank_option
@click.option("--overwrite", is_flag=True, help="Write ranks again that are there, also from other files.")
@click.option("--answers", is_flag=True, help="Keep the answers of all analyses too, for whoever opens it first.")
def convert(  # noqa: PLR0917  # click gives them by name
    path: tuple[str, ...],
    out: Place,
    recursive: bool,
    on_duplicate: OnDuplicate,
    ranks: tuple[int, ...],
    overwrite: bool,
    answers: bool,
) -> None:
    """Write the traces at PATH as a dataset into the folder OUT, or add their ranks to the one that is there.

    A dataset opens like traces do, smaller and faster, and DuckDB, Polars, pandas and Spark read its Parquet files.
    An interrupted conversion goes on where it stopped when it is run again.
    """
    job = job_at(path, recursive=recursive, on_duplicate=on_duplicate, ranks=ranks)
    with progress_bar("Converting") as progress:
        done = to_dataset(job, out, overwrite=overwrite, answers=answers, executor=chosen_executor(), progress=progress)
    for problem in done.problems.iter_rows(named=True):
        click.echo(f"rank {problem['rank']} was left out: {problem['example']}", err=True)
    kept = f", kept rank {spelled(done.kept)}" if done.kept else ""
    wrote = f"wrote rank {spelled(done.written)}" if done.written else "wrote nothing"
    click.echo(f"{wrote}{kept}: {done.path}", err=True)
