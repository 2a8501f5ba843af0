"""Who reads the ranks: threads or processes of this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

import click

from holotrace._optional import require
from holotrace.errors import InputError, UsageError

F = TypeVar("F", bound=Callable[..., Any])

_CHOSEN = f"{__name__}.chosen"


def chosen_executor() -> Executor | None:
    """What the options of the running command ask for; threads of this process where that is nothing."""
    chosen: Executor | None = click.get_current_context().meta.get(_CHOSEN)
    return chosen


def worker_options(function: F) -> F:
    """Who reads the ranks."""
    for decorate in (
        click.option(
            "--dask",
            metavar="ADDRESS",
            expose_value=False,
            callback=_use_dask,
            help="Read ranks on the Dask cluster whose scheduler is at this address.",
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            expose_value=False,
            callback=_use_processes,
            help="Read ranks in so many processes; by default in a thread per CPU.",
        ),
    ):
        function = decorate(function)
    return function


def _use_processes(context: click.Context, _: click.Parameter, workers: int | None) -> None:
    if workers is not None and not context.resilient_parsing:
        from holotrace._processes import Processes  # noqa: PLC0415  # not needed for --help

        processes = Processes(workers)
        # After an interrupt nobody waits for what they do.
        context.call_on_close(partial(processes.shutdown, wait=False, cancel_futures=True))
        _choose(context, processes)


def _use_dask(context: click.Context, _: click.Parameter, address: str | None) -> None:
    if address is None or context.resilient_parsing:
        return
    client = require("distributed", extra="dask").Client
    try:
        connected = context.with_resource(client(address, timeout="5s", set_as_default=False))
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}; give what dask-scheduler prints as its address"
        ) from error
    # A second try is a task of its own, not the first one's answer.
    _choose(context, connected.get_executor(pure=False))


def _choose(context: click.Context, executor: Executor) -> None:
    if _CHOSEN in context.meta:
        raise UsageError("--workers and --dask are two ways to read the same ranks; choose one")
    context.meta[_CHOSEN] = executor
