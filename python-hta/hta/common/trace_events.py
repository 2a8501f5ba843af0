"""Events to add to a trace: counters and arrows."""

from __future__ import annotations

import logging
from typing import Any

import pandas as pd
import polars as pl

PHASE_COUNTER, PHASE_FLOW_START, PHASE_FLOW_END = "C", "s", "f"

log = logging.getLogger("hta")


def counter_table(series: pd.DataFrame, counter_name: str, counter_col: str, min_ts: int) -> pl.DataFrame:
    """A counter event per row of a time series, with its keys as columns; none where columns are missing.

    Args:
        series: ``ts``, ``pid`` and the values; and, where there are, the ``name`` and ``id`` of each row's counter.
        counter_name: What the values are, and the counter's name where rows have none.
        counter_col: The column of the values.
        min_ts: Microseconds to add to the times.
    """
    if missing := {"pid", "ts", counter_col} - set(series.columns):
        log.warning("a series without %s cannot become counters", ", ".join(sorted(missing)))
        return pl.DataFrame()
    pid = series["pid"]
    # A column of objects may hold both numbers and names of processes, and numbers of more than 64 bits.
    is_number = pd.api.types.infer_dtype(pid) in ("integer", "empty") and pid.between(-(2**63), 2**63 - 1).all()
    table = pl.DataFrame(
        {
            "pid": pl.Series(pid.tolist(), dtype=pl.Int64) if is_number else pl.Series(pid.map(str).tolist()),
            "ts": series["ts"].to_numpy() + min_ts,
            "args": pl.DataFrame({counter_name: series[counter_col].to_numpy()}).to_struct(),
            "ph": pl.repeat(PHASE_COUNTER, len(series), eager=True),
            "name": pl.Series(series["name"].tolist(), dtype=pl.String)
            if "name" in series.columns
            else pl.repeat(counter_name, len(series), eager=True),
        }
    )
    return table.with_columns(id=pl.Series(series["id"].tolist())) if "id" in series.columns else table


def flow_event(  # noqa: PLR0917  HTA's signature
    id: int,
    pid: int,
    tid: int,
    ts: int,
    is_start: bool,
    name: str,
    cat: str,
    args: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One end of an arrow; both have the same ``id``."""
    event: dict[str, Any] = {
        "ph": PHASE_FLOW_START if is_start else PHASE_FLOW_END,
        "id": id,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "cat": cat,
        "name": name,
    }
    if args is not None:
        event["args"] = args
    # An arrow ends at the event that encloses its end, not at the next one.
    return event if is_start else {**event, "bp": "e"}
