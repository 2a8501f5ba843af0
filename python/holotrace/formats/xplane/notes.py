"""What a profile lacks or repeats, as rows of the problems table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from holotrace.core.tables import PROBLEMS
from holotrace.formats.xplane.executions import Executed
from holotrace.formats.xplane.profile import Profile

_COLUMNS = ("problem", "count", "first_offset", "example", "action")
# Host calls that start work on a device.
_DISPATCH = (
    r"^(DoEnqueueProgram|tpu::System::Execute|PJRT_LoadedExecutable_Execute)$|ExecutableExecute|Executable::Execute"
)
_RECORD = "nothing was read; record while devices work, with host_tracer_level (ProfileOptions) at least 1"


def problems(profile: Profile, executed: Executed) -> pl.DataFrame:
    """What the reader met, and what follows from what is missing."""
    met = pl.DataFrame(profile.space.problems(list(_COLUMNS)))
    rows = [*_messages(profile), *_derived(profile), *_steps(executed), *_devices(profile, executed)]
    return pl.concat([met, pl.DataFrame(rows, schema=PROBLEMS.only(*_COLUMNS).empty().schema)])


def _row(problem: str, *, action: str, example: str | None = None, count: int = 1) -> dict[str, Any]:
    return {"problem": problem, "count": count, "first_offset": None, "example": example, "action": action}


def _messages(profile: Profile) -> Iterator[dict[str, Any]]:
    if profile.is_damaged:
        yield _row("compressed stream damaged", action="every whole entry before the damage was read")
    for kind, text in profile.space.messages:
        yield _row(f"{kind} of the profiler", example=text, action="read what it recorded")


def _derived(profile: Profile) -> Iterator[dict[str, Any]]:
    derived = profile.lines.filter(pl.col("role") == "derived", pl.col("event_count") > 0)
    if derived.height:
        names = ", ".join(derived["name"].unique().sort())
        count = int(derived["event_count"].sum())
        yield _row("lines made by a viewer", count=count, example=names, action="left out: they repeat other lines")


def _steps(executed: Executed) -> Iterator[dict[str, Any]]:
    steps = executed.steps
    if steps.others:
        yield _row(
            "steps of several names",
            count=len(steps.others),
            example=", ".join(steps.others),
            action=f"those of {steps.name} were taken, as numbers occur twice",
        )
    if steps.name and not steps.are_numbered:
        yield _row("step numbers repeat", example=steps.name, action="numbered in their order")
    if steps.kind == "inferred":
        yield _row("steps not marked", example=steps.rule, action="each was taken for a step")
    elif steps.kind == "none" and executed.operations.own.height:
        yield _row("steps not marked", action="read without steps; mark them with StepTraceAnnotation or StepTrace")


def _devices(profile: Profile, executed: Executed) -> Iterator[dict[str, Any]]:
    operations = executed.operations
    unplaced = int((~operations["is_placed"]).sum())
    if unplaced:
        yield _row("device not recorded", count=unplaced, action="read as work of device 0")
    if operations.own.is_empty():
        dispatched = profile.named(_DISPATCH).height
        runs = executed.modules.height
        if runs:
            yield _row(
                "operations not recorded", count=runs, action="runs of programs were read as the work of devices"
            )
        elif dispatched:
            yield _row("device work not recorded", count=dispatched, action="only the host's calls were read")
        elif not profile.lines["event_count"].sum():
            yield _row("nothing recorded", action=_RECORD)
