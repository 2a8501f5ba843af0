"""Copies of a job's traces with more in them, to look at in Perfetto."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from holotrace.core.schema import empty
from holotrace.engine.comparable import Comparison
from holotrace.engine.map_ranks import Progress
from holotrace.engine.questions import Questions
from holotrace.engine.session import Session
from holotrace.errors import UsageError
from holotrace.export import counters as counter_series
from holotrace.export import critical_arrows, overlay, timeline
from holotrace.export.timeline import JobTimeline, Wanted
from holotrace.graph import job as job_graph
from holotrace.graph import path as job_path


def write_overlay(
    session: Session, folder: Path, counters: bool, critical_path: bool, of_step: int | None
) -> tuple[Path, ...]:
    """Write copies of the traces with counters or the critical path in them; returns the copies."""
    wanted = []
    if counters:
        asked = Questions(
            tuple((analysis, counter_series.OPTIONS[analysis.name]) for analysis in counter_series.ANALYSES)
        )
        tables = asked.combined(session.map(asked, asked.reads), (), Comparison())
        wanted.append(counter_series.counters(tables, session.ranks))
    if critical_path:
        found = session.map(partial(critical_arrows.of_rank, of_step=of_step), critical_arrows.READS)
        wanted.append(critical_arrows.critical_path(found))
    if not wanted:
        raise UsageError("nothing was asked for; say what to add: counters, critical_path")
    return overlay.write(wanted, session.sources, folder.expanduser())


def write_timeline(session: Session, path: Path, wanted: Wanted, progress: Progress | None) -> JobTimeline:
    """Write one trace of all ranks on one clock."""
    target = path.expanduser()
    sources = timeline.files(session.found.sources, target)
    seen = session.read(partial(timeline.of_rank, of_step=wanted.of_step), timeline.READS, sources)
    found = _path(session) if wanted.critical_path else None
    done = timeline.write_ranks(seen, sources, target, wanted, progress, path=found)
    session.noticed.add(done.problems.iter_rows(named=True))
    return replace(done, problems=session.problems())


def _path(session: Session) -> pl.DataFrame:
    parts = session.compared(job_graph.numbered_part, job_graph.READS)
    graph = job_graph.JobGraph.from_parts(pl.concat([empty(job_graph.PART), *parts]))
    return job_path.of(graph).select(*job_path.COLUMNS)
