"""How many steps devices of XLA ran in a recording: hosts that are ahead mark others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.xla.steps import RAN


def of_changes(rows: pl.DataFrame) -> Callable[[Change], int]:
    """In how many steps what a change removes was seen: what hosts do in those that they marked, others in all."""
    marked, ran = of_hosts(rows), of_devices(rows)

    def count(change: Change) -> int:
        return marked if change.of_hosts or change.later or change.spent or change.waits else ran

    return count


def of_hosts(rows: pl.DataFrame) -> int:
    """How many steps hosts marked, at least one."""
    return max(1, rows.filter(pl.col("row") == account.STEP)["step"].n_unique())


def of_devices(rows: pl.DataFrame) -> int:
    """How many steps devices ran, those of the middle rank; those that hosts marked where that is not known.

    Where devices do what was launched before the recording, and that counts, they do less of what is launched last.
    """
    ran: Any = rows.filter(pl.col("row") == RAN)["count"].quantile(0.5, "lower")
    return of_hosts(rows) if ran is None else max(1, int(ran))
