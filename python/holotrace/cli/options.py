"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from holotrace.cli.executors import chosen_executor, worker_options
from holotrace.cli.output import WIDE
from holotrace.discovery import OnDuplicate, survey
from holotrace.engine.session import Session
from holotrace.job import Job
from holotrace.loading.own_kinds import with_kinds
from holotrace.loading.own_limits import with_limits
from holotrace.present.writers import OF_TABLES, TERMINAL_ROWS, Writer
from holotrace.stores import Place, Remote, place

F = TypeVar("F", bound=Callable[..., Any])
_KINDS = f"{__name__}.kinds"
_PEAKS = f"{__name__}.peaks"


class Output(click.Path):
    """A file or folder to write, here or in an object store."""

    def __init__(self, *, folder: bool = False) -> None:
        super().__init__(path_type=Path, dir_okay=folder, file_okay=not folder)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        where: Place = place(value)
        return where if isinstance(where, Remote) else super().convert(value, param, ctx)


def _remember_kinds(context: click.Context, _: click.Parameter, file: Path | None) -> None:
    if file is not None:
        context.meta[_KINDS] = file


def _remember_peaks(context: click.Context, _: click.Parameter, file: Path | None) -> None:
    if file is not None:
        context.meta[_PEAKS] = file


def _remember_wide(context: click.Context, _: click.Parameter, is_wide: bool) -> None:
    context.meta[WIDE] = is_wide


def path_argument() -> click.Argument:
    """Where a job is; shells complete names of files."""
    return click.Argument(["path"], nargs=-1, required=True, type=click.Path())


def search_options(function: F) -> F:
    """How to look for traces in a place, and who reads them."""
    for decorate in (
        worker_options,
        click.option(
            "--on-duplicate",
            type=click.Choice(get_args(OnDuplicate)),
            default="error",
            show_default=True,
            help="What to do if two files have the same rank: fail, or take the first or the last by name.",
        ),
        click.option(
            "--kinds",
            type=click.Path(path_type=Path),
            expose_value=False,
            callback=_remember_kinds,
            help="A TOML file with your own rules for the kinds of device work.",
        ),
        click.option(
            "--peaks",
            type=click.Path(path_type=Path),
            expose_value=False,
            callback=_remember_peaks,
            help="A TOML file with peaks of devices, which is used before the built-in table.",
        ),
        click.option("--recursive", is_flag=True, help="Also look for traces in subfolders."),
    ):
        function = decorate(function)
    return function


def output_options_in(forms: Sequence[Writer]) -> Callable[[F], F]:
    """How much of a table to show, how and where, where it can be written in these forms."""

    def decorated(function: F) -> F:
        for decorate in (
            click.option("-o", "--output", type=Output(), help="Write to this file."),
            click.option(
                "--wide",
                is_flag=True,
                expose_value=False,
                callback=_remember_wide,
                help="On a terminal, show all columns and full names, however wide the table gets.",
            ),
            click.option(
                "--format",
                "form",
                type=click.Choice([writer.name for writer in forms]),
                help="Format of the answer; by default, it follows from the name of the output file, or is a table.",
            ),
            click.option(
                "--limit",
                type=click.IntRange(min=0),
                help=f"Show at most this number of rows; by default {TERMINAL_ROWS} on a terminal and all rows "
                "elsewhere.",
            ),
        ):
            function = decorate(function)
        return function

    return decorated


output_options = output_options_in(OF_TABLES)

rank_option = click.option(
    "--rank", "ranks", type=click.IntRange(min=0), multiple=True, help="Only this rank; may be given several times."
)


def job_at(
    path: tuple[str, ...],
    *,
    recursive: bool,
    on_duplicate: OnDuplicate,
    ranks: tuple[int, ...] = (),
    every_analysis: bool = False,
) -> Job:
    """The job that the shared arguments name, and whether all analyses will run on it."""
    found = survey(path[0] if len(path) == 1 else path, recursive=recursive, on_duplicate=on_duplicate)
    found = with_kinds(found, click.get_current_context().meta.get(_KINDS, ()))
    found = with_limits(found, peaks=click.get_current_context().meta.get(_PEAKS))
    session = Session(found).only(ranks) if ranks else Session(found)
    executor = chosen_executor(len(session.ranks) if every_analysis else 0)
    return Job(replace(session, executor=executor))
