"""The time before each piece of work in which its queue had nothing to do."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holotrace import _native
from holotrace.derive import groups


def before(work: pl.DataFrame, *, by: Sequence[str]) -> pl.DataFrame:
    """All ``work`` with ``reached_ns``, where what began earlier in its group ends, and ``gap_ns``; null for the first.

    Each group has a number, from 0, as ``group``.
    Work that begins before that time overlaps with what began earlier; its gap is 0. Of work that begins at the same
    time the lower ``event_id`` is the earlier.
    """
    spans = work[["event_id", "start_ns", "end_ns"]].hstack([groups.numbered(work, by)])
    return work.hstack(pl.DataFrame(_native.before(spans)))
