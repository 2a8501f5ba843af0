"""For how long the stages of a pipeline wait for each other, and how much of that no schedule in a row avoids."""

from __future__ import annotations

import polars as pl

from holotrace.present import exposed
from holotrace.present import format as fmt

_SENT, _RECEIVED = "send", "recv"
_NEEDED = ("rank", "collective", "count", "exposed_ns")
# Of two stages nothing tells a pipeline from ranks that exchange something.
_FEWEST_STAGES = 3
_FEWEST_STEPS = 2
# Less of the time is no limit of a job.
_LEAST_RATIO = 0.05
# Schedules that wait for less than this part of it are of another kind.
_AT_BEST_RATIO = 0.8


def waiting(communication: pl.DataFrame | None, breakdown: pl.DataFrame | None, steps: int) -> str:
    """A sentence on it; empty of other jobs, and where it is little of the time.

    A pipeline of p stages that compute for equally long waits for (p - 1) / (m + p - 1) of the time if it puts m
    micro-batches through in each step, all forward passes first or one after the other with backward passes
    (Narayanan et al., 2021, section 2.2).

    Args:
        communication: The table of that analysis.
        breakdown: The table of ``time_breakdown``.
        steps: How many every rank recorded; 1 where there are none.
    """
    if communication is None or breakdown is None or not {*_NEEDED} <= {*communication.columns}:
        return ""
    stages, batches = _shape(communication, breakdown, steps)
    is_told = pl.col("collective").is_in((_SENT, _RECEIVED))
    ratio = exposed.ratio(communication, breakdown, float(communication.filter(is_told)["exposed_ns"].sum()))
    if stages < _FEWEST_STAGES or ratio <= _LEAST_RATIO:
        return ""
    said = f"Stages of the pipeline wait for each other {fmt.percent(ratio)} of the time"
    at_best = (stages - 1) / (batches + stages - 1)
    # Where steps are not known, or there is one, the messages may be those of several.
    if steps < _FEWEST_STEPS or ratio < _AT_BEST_RATIO * at_best:
        return f"{said}."
    many = f"{batches} micro-batch{'es' if batches > 1 else ''} in each step"
    return f"{said}; {stages} even stages with {many} wait {fmt.percent(at_best)}, and less with more micro-batches."


def _shape(communication: pl.DataFrame, breakdown: pl.DataFrame, steps: int) -> tuple[int, int]:
    """How many stages there are, and micro-batches in a step; none where ranks do not send to each other in a row.

    In a row, each stage but the first and the last exchanges twice as many messages as these, with two others.
    """
    messages = communication.filter(pl.col("collective").is_in((_SENT, _RECEIVED)))
    each = pl.col("count").filter
    counts = messages.group_by("rank").agg(
        sent=each(pl.col("collective") == _SENT).sum(), received=each(pl.col("collective") == _RECEIVED).sum()
    )
    if counts.is_empty() or counts.height < breakdown["rank"].n_unique():
        return 0, 0
    least = int(counts.select(pl.min_horizontal(pl.min("sent", "received"))).item())
    of_ends = counts.filter(sent=least, received=least).height
    of_others = counts.filter(sent=2 * least, received=2 * least).height
    is_row = least > 0 and of_ends > 0 and of_ends % 2 == 0 and of_ends + of_others == counts.height
    if not is_row or (2 * counts.height) % of_ends or least % steps:
        return 0, 0
    return 2 * counts.height // of_ends, least // steps
