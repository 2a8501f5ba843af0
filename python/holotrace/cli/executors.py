"""Who reads the ranks: threads or processes of this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

import click

from holotrace.core.spread import cpu_count
from holotrace.engine.processes import Processes
from holotrace.errors import InputError, UsageError, require

F = TypeVar("F", bound=Callable[..., Any])

_CHOSEN = f"{__name__}.chosen"
# Threads have run all analyses on so many ranks before another process has started.
_FEW = 8  # ranks


def chosen_executor(
    ranks: int = 0, *, start: Callable[[int], Processes] = Processes, cpus: int | None = None
) -> Executor | None:
    """Who the options of the running command say; by default threads of this process, or processes for many ranks.

    Args:
        ranks: On how many all analyses run. What else is done with ranks is too little to start processes for.
        start: Starts so many processes.
        cpus: How many there are; by default those that this process may use.
    """
    context = click.get_current_context()
    workers = min(ranks, cpus or cpu_count())
    if _CHOSEN not in context.meta and ranks > _FEW and workers > 1:
        _choose(context, _until_the_end(context, start(workers)))
    chosen: Executor | None = context.meta.get(_CHOSEN)
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
            type=click.IntRange(min=0),
            expose_value=False,
            callback=_use_processes,
            help="Number of processes that read ranks; 0 means threads of this process, one per CPU. The default is "
            f"threads, or one process per CPU if all analyses run on more than {_FEW} ranks.",
        ),
    ):
        function = decorate(function)
    return function


def _use_processes(context: click.Context, _: click.Parameter, workers: int | None) -> None:
    if workers is not None and not context.resilient_parsing:
        _choose(context, _until_the_end(context, Processes(workers)) if workers else None)


def _until_the_end(context: click.Context, processes: Processes) -> Processes:
    # After an interrupt nobody waits for what they do.
    context.call_on_close(partial(processes.shutdown, wait=False, cancel_futures=True))
    return processes


def _use_dask(context: click.Context, _: click.Parameter, address: str | None) -> None:
    if address is None or context.resilient_parsing:
        return
    client = require("distributed", extra="dask").Client
    try:
        # A client of what is no address would wait for itself as it ends.
        require("distributed.comm", extra="dask").get_address_host_port(address)
        connected = context.with_resource(client(address, timeout="5s", set_as_default=False))
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}; give what dask-scheduler prints as its address"
        ) from error
    # A second try is a task of its own, not the first one's answer.
    _choose(context, connected.get_executor(pure=False))


def _choose(context: click.Context, executor: Executor | None) -> None:
    if _CHOSEN in context.meta:
        raise UsageError("--workers and --dask are two ways to read the same ranks; choose one")
    context.meta[_CHOSEN] = executor
