"""holotrace sample: a job to try things on."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

FEW = 16  # ranks that are written here, one after another


@click.command(short_help="Write a simulated job with known faults, to try things on.")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--ranks", type=click.IntRange(min=1), default=8, show_default=True, help="Number of files to write, one per rank."
)
@click.option(
    "--steps", type=click.IntRange(min=1), default=5, show_default=True, help="Number of training steps in each file."
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same bytes.")
@click.option(
    "--events", type=click.IntRange(min=1), help="Number of entries in each file; by default as many as the steps need."
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    help="Plant this fault instead of the usual ones; may be given several times. none: a job without faults.",
)
@click.option("--stacks", is_flag=True, help="Record Python functions too.")
@click.option("--plain", is_flag=True, help="Write .json instead of .json.gz.")
def sample(
    *,
    out: Path,
    ranks: int,
    steps: int,
    seed: int,
    events: int | None,
    stacks: bool,
    plain: bool,
    faults: tuple[str, ...],
) -> None:
    """Write the traces of a simulated job with known faults into the folder OUT.

    By default the faults are a straggler, exposed communication and a stall. The file GROUND_TRUTH.txt beside the
    traces lists all faults; the most important ones are printed.
    """
    from holotrace.core.spread import cpu_count  # noqa: PLC0415  # with those below, not needed for --help
    from holotrace.engine.processes import Processes  # noqa: PLC0415
    from holotrace.sample import write  # noqa: PLC0415

    with ExitStack() as stack:
        # Starting processes takes as long as writing a few ranks.
        workers = stack.enter_context(Processes(cpu_count())) if ranks > FEW else None
        truth = write(
            out,
            ranks=ranks,
            steps=steps,
            seed=seed,
            events=events,
            stacks=stacks,
            compress=not plain,
            faults=[name for name in faults if name != "none"] if faults else None,
            executor=workers,
        )
    click.echo(truth.summary().removesuffix("\n"))
    click.echo(f"wrote {out}", err=True)
