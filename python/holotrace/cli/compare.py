"""holotrace compare: what changed between two jobs."""

from __future__ import annotations

from typing import TypedDict, get_args

import click
import polars as pl

from holotrace.cli.console import console
from holotrace.cli.errors import FOUND
from holotrace.cli.options import job_at, output_options_in, rank_option, search_options
from holotrace.cli.output import put, tell_partial, write_shown
from holotrace.comparing import COLUMNS, By, everything, of_causes, step_change
from holotrace.comparing import compare as differences
from holotrace.discovery import OnDuplicate
from holotrace.errors import UsageError
from holotrace.job import Job
from holotrace.present import writers
from holotrace.step_changes import StepChange
from holotrace.stores import Place, place


class _Ranks(TypedDict):
    """The ranks of both jobs that count; all where there are none."""

    ranks: tuple[int, ...] | None
    after_ranks: tuple[int, ...] | None


@click.command(short_help="What changed between two jobs.")
@click.argument("before")
@click.argument("after")
@search_options
@rank_option
@click.option("--step", "steps", type=int, multiple=True, help="Only this step; may be given several times.")
@click.option(
    "--after-rank",
    "after_ranks",
    type=click.IntRange(min=0),
    multiple=True,
    help="Rank of AFTER, if it differs from that of BEFORE; may be given several times.",
)
@click.option(
    "--after-step",
    "after_steps",
    type=int,
    multiple=True,
    help="Step of AFTER, if it differs from that of BEFORE; may be given several times.",
)
@click.option("--device/--host", default=None, help="Only what ran on a device, or only what the host did.")
@click.option(
    "--by",
    type=click.Choice(get_args(By)),
    help="What each row stands for: the name of an operation, a module of the model, a cause of lost time, or an XLA "
    "program, operation or scope.  [default: name; html: all of them]",
)
@click.option(
    "--fail-above",
    type=click.FloatRange(min=0),
    metavar="PERCENT",
    help=f"End with exit code {FOUND} if a step takes longer than before by more than this, and than it may by chance.",
)
@output_options_in(writers.OF_CHANGES)
@click.pass_context
def compare(
    context: click.Context,
    *,
    before: str,
    after: str,
    recursive: bool,
    on_duplicate: OnDuplicate,
    limit: int | None,
    form: str | None,
    output: Place | None,
    device: bool | None,
    by: By | None,
    ranks: tuple[int, ...],
    steps: tuple[int, ...],
    after_ranks: tuple[int, ...],
    after_steps: tuple[int, ...],
    fail_above: float | None,
) -> None:
    """How often each operation and kernel ran in the jobs BEFORE and AFTER, for how long, and the differences.

    Name and category identify an operation; the largest difference in time comes first. Operations may contain each
    other, so their times cannot be added up.

    With --by module, times are the device times of all work that a module launched. With --by cause, rows are the parts
    of an average step, which add up to the step, what it loses to each factor, which with computing adds up to it too,
    and the cost of each cause in a step; a verdict says why the step takes longer. With --by program, operation or
    scope, times are those of XLA's operations, which add up. A page, -o change.html, shows the verdict, a chart of how
    the step became longer or shorter, and all of these. To compare runs of one log directory, give LOGDIR/RUN.
    """
    first, second = (job_at((path,), recursive=recursive, on_duplicate=on_duplicate) for path in (before, after))
    jobs = first, second
    of_ranks = _Ranks(ranks=ranks or None, after_ranks=after_ranks or None)
    is_of_steps = bool(steps or after_steps)
    if fail_above is not None and is_of_steps:
        raise UsageError("--fail-above judges all steps of both jobs; leave out --step and --after-step")
    writer = writers.form_of(form, None if output is None else output.name, writers.OF_CHANGES, writers.TABLE)
    change: StepChange | None = None
    if writer is writers.HTML:
        if by is not None or limit is not None or is_of_steps or device is not None:
            raise UsageError(
                "a page shows everything; leave out --by, --limit, --step, --after-step, --device and --host"
            )
        change = _write_page(jobs, (before, after), of_ranks, output, must_have_steps=fail_above is not None)
    else:
        by = by or "name"
        is_by_cause = by == "cause" and not is_of_steps and device is None
        if is_by_cause or fail_above is not None:
            change = step_change(*jobs, **of_ranks)
        if is_by_cause and change is not None:
            table, verdict = of_causes(change), change.verdict
        else:
            table = differences(
                *jobs, **of_ranks, steps=steps or None, after_steps=after_steps or None, device=device, by=by
            )
            verdict = ()
        none = f"No rows. Neither recording has anything to compare by {by} in what you asked for."
        source = f"{before} -> {after}"
        problems = pl.concat([job.noticed() for job in jobs])
        shown = writers.Shown("compare", table, COLUMNS, source, problems, limit, verdict=verdict, when_empty=none)
        write_shown(shown, form, output)
    if change is not None and fail_above is not None and change.exceeds(fail_above):
        click.echo(f"{change.told} That is more than {fail_above:g}%.", err=True)
        context.exit(FOUND)


def _write_page(
    jobs: tuple[Job, Job],
    names: tuple[str, str],
    of_ranks: _Ranks,
    output: Place | None,
    *,
    must_have_steps: bool,
) -> StepChange | None:
    """Write one page on everything that changed; returns what became of a step, or None if nothing tells."""
    from holotrace.present import change_page, terminal  # noqa: PLC0415  # templates and rich, not needed for --help

    told, change = everything(*jobs, names, **of_ranks, must_have_steps=must_have_steps)
    put(change_page.page(told), writers.HTML, output or place("change.html"))
    console().print(terminal.in_box(" -> ".join(names), told.verdict))
    tell_partial(told.problems)
    return change
