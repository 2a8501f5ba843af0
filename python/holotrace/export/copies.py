"""Copies of a job's traces with more in them, to look at in Perfetto."""

from __future__ import annotations

import os
from abc import abstractmethod
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from holotrace.core.problems import frame
from holotrace.discovery import RankSource, Survey
from holotrace.engine.job_tables import JobTables
from holotrace.engine.map_ranks import Progress, Visit, read_ranks
from holotrace.errors import UsageError
from holotrace.export import counters as counter_series
from holotrace.export import critical_arrows, overlay, timeline
from holotrace.export.merge import Detail
from holotrace.export.timeline import JobTimeline


class JobCopies(JobTables):
    """A job whose traces can be written anew."""

    found: Survey
    _executor: Executor | None

    @property
    @abstractmethod
    def sources(self) -> tuple[RankSource, ...]:
        """The file of each rank that is in one."""

    def write_overlay(
        self,
        folder: str | os.PathLike[str],
        *,
        counters: bool = False,
        critical_path: bool = False,
        of_step: int | None = None,
    ) -> tuple[Path, ...]:
        """Write copies of the traces with more in them, to look at in Perfetto.

        Returns the copies, e.g. ``rank-N-with-counters-and-critical-path`` in ``folder``, packed as the traces are;
        ranks that nothing is added to have none. All else in them is as it was recorded.

        Args:
            folder: Made if need be; none that holds the traces.
            counters: Add queue lengths and bandwidths of copies over time.
            critical_path: Mark the events on a step's critical path, with ``critical`` in their args, and add arrows
                from each to the one that waited for it.
            of_step: Critical path of which step; by default of the last that another one follows.
        """
        wanted = []
        if counters:
            tables = self.run(counter_series.ANALYSES, counter_series.OPTIONS).tables
            wanted.append(counter_series.counters(tables, self.ranks))
        if critical_path:
            found = self.map(partial(critical_arrows.of_rank, of_step=of_step), critical_arrows.READS)
            wanted.append(critical_arrows.critical_path(self.ranks, found))
        if not wanted:
            raise UsageError("nothing was asked for; say what to add: counters, critical_path")
        return overlay.write(wanted, self.sources, Path(folder).expanduser())

    def write_timeline(
        self,
        path: str | os.PathLike[str],
        *,
        of_step: int | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        detail: Detail = "python",
        progress: Progress | None = None,
    ) -> JobTimeline:
        """Write one trace of all ranks on one clock, to look at in Perfetto.

        Processes, threads and arrows of a rank are its own, under names that begin with the rank. All else is as it was
        recorded, but for times of ranks whose clock is apart from the others': see ``clocks``.

        Args:
            path: A file, packed as its suffix says: ``.json.gz``, ``.json.zst`` or ``.json``. Replaced if it is there.
            of_step: Only what ran while any rank was in this step or did its work on a device.
            start_ns: Only what ran from then on, counted from the first event of all ranks.
            end_ns: Only what ran before then.
            detail: "device" for what ran on devices only, "host" for all but Python functions, "python" for all.
            progress: Called with the number of ranks written and of all.
        """
        wanted = timeline.Wanted(detail, start_ns, end_ns, of_step)
        target = Path(path).expanduser()
        sources = timeline.files(self.found.sources, target)
        visit = Visit(partial(timeline.of_rank, of_step=of_step), timeline.READS)
        seen, unread = read_ranks(visit, sources, executor=self._executor)
        done = timeline.write_ranks(seen, sources, target, wanted, progress)
        return replace(done, problems=pl.concat([frame(unread), done.problems]))
