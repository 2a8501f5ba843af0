"""Copies of a job's traces with more in them, to look at in Perfetto."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from holotrace.engine.map_ranks import Progress
from holotrace.engine.session import Session
from holotrace.errors import UsageError
from holotrace.export import counters as counter_series
from holotrace.export import critical_arrows, overlay, timeline
from holotrace.export.timeline import JobTimeline, Wanted


def write_overlay(
    session: Session, folder: Path, counters: bool, critical_path: bool, of_step: int | None
) -> tuple[Path, ...]:
    """Write copies of the traces with counters or the critical path in them; returns the copies."""
    wanted = []
    if counters:
        tables = session.run(counter_series.ANALYSES, counter_series.OPTIONS).tables
        wanted.append(counter_series.counters(tables, session.ranks))
    if critical_path:
        found = session.map(partial(critical_arrows.of_rank, of_step=of_step), critical_arrows.READS)
        wanted.append(critical_arrows.critical_path(session.ranks, found))
    if not wanted:
        raise UsageError("nothing was asked for; say what to add: counters, critical_path")
    return overlay.write(wanted, session.sources, folder.expanduser())


def write_timeline(session: Session, path: Path, wanted: Wanted, progress: Progress | None) -> JobTimeline:
    """Write one trace of all ranks on one clock."""
    target = path.expanduser()
    sources = timeline.files(session.found.sources, target)
    seen = session.read(partial(timeline.of_rank, of_step=wanted.of_step), timeline.READS, sources)
    done = timeline.write_ranks(seen, sources, target, wanted, progress)
    session.noticed.add(done.problems.iter_rows(named=True))
    return replace(done, problems=session.problems())
