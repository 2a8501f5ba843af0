"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

from holotrace.job import Job
from holotrace.job import open as open_job
from holotrace.sources import OnDuplicate

F = TypeVar("F", bound=Callable[..., Any])


def job_arguments(function: F) -> F:
    """PATH, and how to look for traces there."""
    for decorate in (
        click.option(
            "--on-duplicate",
            type=click.Choice(get_args(OnDuplicate)),
            default="error",
            show_default=True,
            help="Where two files claim one rank: fail, or take the first or last by name.",
        ),
        click.option("--recursive", is_flag=True, help="Look for traces in subfolders too."),
        click.argument("path", nargs=-1, required=True),
    ):
        function = decorate(function)
    return function


rank_option = click.option(
    "--rank", "ranks", type=click.IntRange(min=0), multiple=True, help="Only this rank; may be given several times."
)


def job_at(path: tuple[str, ...], *, recursive: bool, on_duplicate: OnDuplicate, ranks: tuple[int, ...] = ()) -> Job:
    """The job that the shared arguments name."""
    job = open_job(path[0] if len(path) == 1 else path, recursive=recursive, on_duplicate=on_duplicate)
    return job.only(*ranks) if ranks else job
