"""Jobs that note which of their ranks are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holotrace.analyses import ALL
from holotrace.core.schema import Table
from holotrace.core.trace import RankTrace
from holotrace.discovery import Paths, RankSource, survey
from holotrace.engine.session import Session
from holotrace.engine.table_cache import TableCache
from holotrace.job import Job
from holotrace.loading.rank import load


def this_program() -> bytes:
    """Stands for the program that runs, whose files may be edited while tests run."""
    return b"this program"


class Reads(list[int]):
    """Ranks that were read, in order."""

    def load(self, source: RankSource, reads: Sequence[Table], /, *, every_problem: bool = False) -> RankTrace:
        self.append(source.rank)
        return load(source, reads, every_problem=every_problem)

    def open(self, paths: Paths, *, cache_bytes: int = 1 << 30, **session: Any) -> Job:
        """As ``holotrace.open``."""
        together = [table for analysis in ALL for table in analysis.reads]
        cache = TableCache(cache_bytes, together, load=self.load) if cache_bytes else None
        return Job(replace(Session(survey(paths), cache=cache, load=self.load, program=this_program), **session))
