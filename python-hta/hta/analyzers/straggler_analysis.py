"""Which ranks may hold the others up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pandas as pd

from hta.analyzers.straggler import COLUMNS, find_stragglers_with_late_start_comm_kernels
from hta.common.trace import Trace

log = logging.getLogger("hta")


class StragglerAnalysis:
    """Questions about ranks that others wait for."""

    @classmethod
    def get_profiler_steps(cls, t: Trace) -> list[int]:
        """Training steps of all ranks, as far as they were kept."""
        return sorted({step for rank in t.get_ranks() for step in t.get_iterations(rank)})

    @classmethod
    def get_potential_stragglers(
        cls,
        t: Trace,
        profiler_steps: Sequence[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: Callable[..., pd.Series] = find_stragglers_with_late_start_comm_kernels,
    ) -> list[int]:
        """The ranks that are most likely to hold the others up, at most ``num_candidates``; most likely first.

        Raises ValueError where there are steps but none of those asked for.
        """
        available = cls.get_profiler_steps(t)
        steps = available if profiler_steps is None else sorted(set(available).intersection(profiler_steps))
        if not available:
            log.warning("there are no training steps, so ranks cannot be compared")
            return []
        if not steps:
            raise ValueError(
                f"invalid value for argument: profiler_steps={profiler_steps}; available profiler steps={available}"
            )
        is_default = straggler_identification_impl is find_stragglers_with_late_start_comm_kernels
        rows = _rows(t, steps, COLUMNS if is_default else None)
        count = max(num_candidates, 1)
        scores = straggler_identification_impl(rows, t.symbol_table, count, visualize)
        return [int(rank) for rank in scores.sort_values(ascending=False, kind="stable").index[:count]]


def _rows(t: Trace, steps: Sequence[int], columns: Sequence[str] | None) -> pd.DataFrame:
    """The rows of all ranks in these steps, with their ``rank`` and, as ``idx``, their place in the rank's frame."""
    frames = []
    for rank in t.get_ranks():
        frame = t.get_trace(rank)
        # Copying columns nobody looks at would take longer than looking at the others.
        wanted = frame.columns if columns is None else [column for column in columns if column in frame]
        rows = frame.loc[frame["iteration"].isin(steps), wanted]
        frames.append(rows.assign(rank=rank, idx=rows.index))
    together: pd.DataFrame = pd.concat(frames, ignore_index=True)
    return together
