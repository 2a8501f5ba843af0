"""holotrace compare: what changed between two jobs."""

from __future__ import annotations

from typing import get_args

import click
import polars as pl

from holotrace.cli.errors import FOUND
from holotrace.cli.options import job_at, output_options, rank_option, search_options
from holotrace.cli.output import write_shown
from holotrace.comparing import COLUMNS, By, of_causes, step_change
from holotrace.comparing import compare as differences
from holotrace.discovery import OnDuplicate
from holotrace.errors import UsageError
from holotrace.present.writers import Shown
from holotrace.stores import Place


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
    default="name",
    show_default=True,
    help="What each row stands for: the name of an operation, a module of the model, a cause of lost time, or an XLA "
    "program, operation or scope.",
)
@click.option(
    "--fail-above",
    type=click.FloatRange(min=0),
    metavar="PERCENT",
    help=f"End with exit code {FOUND} if a step takes longer than before by more than this, and than it may by chance.",
)
@output_options
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
    by: By,
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
    scope, times are those of XLA's operations, which add up. To compare runs of one log directory, give LOGDIR/RUN.
    """
    jobs = [job_at((path,), recursive=recursive, on_duplicate=on_duplicate) for path in (before, after)]
    chosen, after_chosen = ranks or None, after_ranks or None
    is_by_cause = by == "cause" and not steps and not after_steps and device is None
    if fail_above is not None and (steps or after_steps):
        raise UsageError("--fail-above judges all steps of both jobs; leave out --step and --after-step")
    is_asked = is_by_cause or fail_above is not None
    change = step_change(*jobs, ranks=chosen, after_ranks=after_chosen) if is_asked else None
    if is_by_cause and change is not None:
        table, verdict = of_causes(change), change.verdict
    else:
        table = differences(
            *jobs,
            ranks=chosen,
            steps=steps or None,
            after_ranks=after_chosen,
            after_steps=after_steps or None,
            device=device,
            by=by,
        )
        verdict = ()
    problems = pl.concat([job.noticed() for job in jobs])
    none = f"No rows. Neither recording has anything to compare by {by} in what you asked for."
    shown = Shown("compare", table, COLUMNS, f"{before} -> {after}", problems, limit, verdict=verdict, when_empty=none)
    write_shown(shown, form, output)
    if change is not None and fail_above is not None and change.exceeds(fail_above):
        click.echo(f"{change.told} That is more than {fail_above:g}%.", err=True)
        context.exit(FOUND)
