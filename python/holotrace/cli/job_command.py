"""What all commands over a job share: where it is, which ranks count, who reads them, and what is said at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from holotrace.cli.options import job_at, output_options, path_argument, rank_option, search_options
from holotrace.cli.output import tell_partial, write_shown
from holotrace.job import Job
from holotrace.present.writers import Shown


def job_command(
    short_help: str,
    *,
    name: str | None = None,
    every_analysis: bool = False,
    shows_problems: bool = False,
    path_first: bool = True,
    cls: type[click.Command] = click.Command,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function that gets ``job``, the job at PATH, and the options that it declares itself.

    Args:
        short_help: What it does, in a line.
        name: What it is called; by default as the function.
        every_analysis: Whether all analyses run, so that many ranks are worth processes.
        shows_problems: Whether it says itself which problems there are.
        path_first: Whether PATH comes before its own arguments.
        cls: What the command is.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        def run(path: tuple[str, ...], recursive: bool, on_duplicate: Any, ranks: tuple[int, ...], **own: Any) -> None:
            job = job_at(
                path, recursive=recursive, on_duplicate=on_duplicate, ranks=ranks, every_analysis=every_analysis
            )
            function(job=job, **own)
            if not shows_problems:
                tell_partial(job.noticed())

        return _command(function, run, name, short_help, path_first=path_first, cls=cls)

    return decorate


def table_command(
    short_help: str, *, name: str | None = None, path_first: bool = True, cls: type[click.Command] = click.Command
) -> Callable[[Callable[..., Shown]], click.Command]:
    """The same for a function that returns a table to show: in the form, to the place and as far as is asked for."""

    def decorate(function: Callable[..., Shown]) -> click.Command:
        @output_options
        def run(job: Job, limit: int | None, form: str | None, output: Any, **own: Any) -> None:
            shown = function(job=job, **own)
            write_shown(replace(shown, problems=job.noticed(), limit=limit), form, output)

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__click_params__ += getattr(function, "__click_params__", [])  # type: ignore[attr-defined]  # click put it there
        return job_command(short_help, name=name, shows_problems=True, path_first=path_first, cls=cls)(run)

    return decorate


def _command(
    function: Callable[..., Any],
    run: Callable[..., None],
    name: str | None,
    short_help: str,
    *,
    path_first: bool,
    cls: type[click.Command],
) -> click.Command:
    own = list(reversed(getattr(function, "__click_params__", [])))
    arguments = [parameter for parameter in own if isinstance(parameter, click.Argument)]
    path = path_argument()
    shared = click.command()(search_options(rank_option(lambda: None))).params
    called = name or function.__name__.replace("_", "-")
    command = click.command(called, cls=cls, short_help=short_help, help=function.__doc__)(run)
    options = [parameter for parameter in own if parameter not in arguments]
    command.params = [*([path, *arguments] if path_first else [*arguments, path]), *shared, *options]
    return command
