"""What changed between two jobs as one HTML page that needs no network."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from holotrace.core.schema import Column
from holotrace.core.tables import PROBLEMS
from holotrace.present import change_chart, page_frame
from holotrace.present import format as fmt
from holotrace.present.charts.rows import Rows
from holotrace.present.page_tables import TableView, of_table

CAUSE = "cause"
# What a table is called and what it says, by what its rows are compared by.
_SECTIONS = {
    CAUSE: (
        "Step",
        "The parts of an average step, which add up to it; what it loses to each factor, which with computing adds up "
        "to it, too; and what each cause costs in a step, which may overlap.",
    ),
    "module": ("Modules", "Time of devices in all that each module of the model launched, forward and backward."),
    "program": ("Programs", "Time of devices in each XLA program. These times add up."),
    "operation": ("Operations of XLA", "Time of devices in each operation of XLA programs. These times add up."),
    "scope": ("Scopes", "Time of devices in each scope of the code, without the scopes in it. These times add up."),
    "name": (
        "Operations",
        "How often each operation and kernel ran, and for how long. Operations may contain each other, so their times "
        "cannot be added up.",
    ),
}
_COUNTS = ("before_count", "after_count")
_NAMES = ("name", "category", "change")
_IN_A_STEP = ("before_step_ns", "after_step_ns", "difference_step_ns")
_IN_ALL = ("before_total_ns", "after_total_ns", "difference_ns")


@dataclass(frozen=True)
class Comparison:
    """What a page tells of two jobs.

    Attributes:
        before: The job to compare with, as the user called it.
        after: The job that may have changed.
        verdict: Sentences that say what changed, the most important first.
        tables: Rows of ``columns``, by what they are compared by; parts of a step and causes by ``CAUSE``.
        columns: Of each table.
        problems: What could not be read.
        is_alike: Whether the steps of both can be held against each other.
        is_of_several: Whether one of them has several ranks.
    """

    before: str
    after: str
    verdict: tuple[str, ...]
    tables: Mapping[Any, pl.DataFrame]
    columns: tuple[Column, ...]
    problems: pl.DataFrame
    is_alike: bool
    is_of_several: bool


@dataclass(frozen=True)
class _Section:
    name: str
    title: str
    summary: str
    command: str
    table: TableView


def page(found: Comparison) -> str:
    """The whole page as text."""
    command = f"holotrace compare {' '.join(shlex.quote(fmt.printable(job)) for job in (found.before, found.after))}"
    sections = [
        _Section(by, *_SECTIONS[by], f"{command} --by {by}", _table(by, table, found.columns))
        for by, table in found.tables.items()
        if not table.is_empty()
    ]
    return page_frame.filled(
        "change.html.j2",
        title=f"{fmt.printable(found.before)} → {fmt.printable(found.after)}",
        headline=found.verdict[0],
        sentences=found.verdict[1:],
        waterfall=_waterfall(found),
        sections=sections,
        problems=of_table("problems", PROBLEMS.columns, found.problems),
        command=f"{command} --by {sections[0].name}" if sections else command,
    )


def _waterfall(found: Comparison) -> Rows | None:
    changes = found.tables.get(CAUSE)
    if changes is None or not found.is_alike:
        return None
    return change_chart.waterfall(changes, is_of_several=found.is_of_several)


def _table(by: str, table: pl.DataFrame, columns: tuple[Column, ...]) -> TableView:
    """The columns that tell of a step, where there are steps."""
    has_steps = table["difference_step_ns"].null_count() < table.height
    times = _IN_A_STEP if has_steps else _IN_ALL
    if by == CAUSE:
        # What adds up stands together.
        table = table.sort(pl.col("category").cast(pl.Enum(["step", "factor", "cause"])), maintain_order=True)
    names = _NAMES if table["category"].n_unique() > 1 else tuple(name for name in _NAMES if name != "category")
    chosen = (*names, *(() if by == CAUSE else _COUNTS), *times)
    kept = tuple(column for column in columns if column.name in chosen)
    return of_table(by, kept, table.select(column.name for column in kept), together=times)
