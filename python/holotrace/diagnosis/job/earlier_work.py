"""What devices did that had been launched before the recording: it costs nothing, and explains why nothing ran."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.diagnosis.job.candidates import Candidate
from holotrace.diagnosis.job.floors import USUAL
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import EARLIER

# Evidence: how long the device of the rank did it that did it the longest.
LASTED = "lasted_ns"


def known(rows: pl.DataFrame, windows: pl.DataFrame) -> Iterator[Candidate]:
    """The ranks whose devices did so for much of their ``windows``."""
    whole = windows.select("rank", whole_ns="time_ns")
    sums = rows.filter(pl.col("row") == account.EARLIER).group_by("rank").agg(pl.col("time_ns").sum())
    found = sums.join(whole, on="rank")
    much = found.filter(pl.col("time_ns") > USUAL[EARLIER] * pl.col("whole_ns")).sort("rank")
    if not much.is_empty():
        is_all = much["rank"].n_unique() == windows["rank"].n_unique() > 1
        ranks = () if is_all else tuple(much["rank"].unique(maintain_order=True))
        yield Candidate(EARLIER, Change(), ranks, evidence={LASTED: max(much["time_ns"])})
