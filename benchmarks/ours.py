"""What is measured of holotrace: `python -m ours PART …`, each part in a fresh process."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holotrace.core.schema import Table
    from holotrace.core.trace import RankTrace


# What the goals were set for; more analyses read more.
THREE = ("time_breakdown", "overlap", "kernels")


def load(path: str, columns: str) -> dict[str, float]:
    """From a file to frames."""
    tables = _tables(columns)
    started = time.perf_counter()
    trace = _load(path, tables)
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "rows": sum(frame.height for frame in trace.tables.values())}


def analyses(path: str) -> dict[str, float]:
    """The answers to all questions, from frames."""
    from holotrace.analyses import ALL

    started = time.perf_counter()
    trace = _load(path, _tables("analyses"))
    loaded = time.perf_counter()
    for analysis in (analysis for analysis in ALL if analysis.name in THREE):
        analysis.findings(analysis.combine([analysis.part(trace, {})], {}))
    return {"seconds": time.perf_counter() - loaded, "load_s": loaded - started}


def calls(path: str) -> dict[str, float]:
    """Who called whom, from frames."""
    from holotrace.derive import call_tree

    trace = _load(path, list(call_tree.READS))
    started = time.perf_counter()
    found = call_tree.calls(trace.tables)
    return {"seconds": time.perf_counter() - started, "rows": found.height}


def graph(path: str) -> dict[str, float]:
    """The graph of a job with its replay, and 100 counterfactuals, from frames."""
    import polars as pl

    from holotrace.graph import Changes, JobGraph
    from holotrace.graph.job import READS, numbered_part

    trace = _load(path, list(READS))
    started = time.perf_counter()
    found = JobGraph.from_parts(numbered_part(trace))
    found.step_times()
    built = time.perf_counter()
    work = found.activities.filter(pl.col("is_device")).select("activity", own_ns=pl.col("own_ns") // 2)
    found.step_times([Changes(own=work.gather_every(100, number)) for number in range(100)])
    asked = time.perf_counter()
    return {"seconds": built - started, "hundred_s": asked - built, "rows": found.activities.height}


def profile(path: str) -> dict[str, float]:
    """From a profile of XLA to columns of all its events."""
    import polars as pl
    from questions.profiles import STATS

    from holotrace._native import read_xplane

    started = time.perf_counter()
    space = read_xplane(path, stats=list(STATS.items()), arguments=False, hlo=False)
    events = pl.DataFrame(space.events(["line", "name", "start_ns", "duration_ps", *STATS]))
    return {"seconds": time.perf_counter() - started, "rows": events.height}


def ranks(path: str) -> dict[str, float]:
    """From the files of a job to frames, letting each rank go."""
    import holotrace

    tables = _tables("analyses")
    started = time.perf_counter()
    holotrace.open(path, cache_bytes=0).map(lambda trace: trace.rank, tables)
    return {"seconds": time.perf_counter() - started}


def dask(path: str, count: str) -> dict[str, float]:
    """All analyses of a job on a Dask cluster of processes, each as good as one core."""
    from distributed import Client, LocalCluster

    import holotrace

    cluster = LocalCluster(
        n_workers=int(count), threads_per_worker=1, dashboard_address=None, env={"POLARS_MAX_THREADS": "1"}
    )
    with cluster, Client(cluster) as client:
        executor = client.get_executor(pure=False)
        job = holotrace.open(path, executor=executor)
        # Each process imports what it needs before anything is timed.
        job.only(*job.ranks[: 4 * int(count)]).run()
        started = time.perf_counter()
        job.run()
        return {"seconds": time.perf_counter() - started}


def run(path: str) -> dict[str, float]:
    """From opening a job to the answers of all analyses."""
    import holotrace

    started = time.perf_counter()
    holotrace.open(path).run()
    return {"seconds": time.perf_counter() - started}


def report(path: str) -> dict[str, float]:
    """From a path to the page with everything."""
    import holotrace
    from holotrace.analyses import ALL
    from holotrace.analyses.lanes import DRAWN
    from holotrace.present import writers

    started = time.perf_counter()
    result = holotrace.open(path).run((*ALL, *DRAWN))
    written = writers.HTML.write_report
    page = written(writers.ShownReport(result)) if written else b""
    return {"seconds": time.perf_counter() - started, "page_bytes": len(page)}


def ask(path: str, analysis: str) -> dict[str, float]:
    """From a path to the answer of one analysis."""
    import holotrace

    started = time.perf_counter()
    rows = getattr(holotrace.open(path), analysis)().height
    return {"seconds": time.perf_counter() - started, "rows": rows}


def run_first(path: str) -> dict[str, float]:
    """The same of a dataset, as if nobody had asked it before."""
    import shutil
    from pathlib import Path

    shutil.rmtree(Path(path) / "answers", ignore_errors=True)
    return run(path)


def convert(path: str, out: str) -> dict[str, float]:
    """From the files of a job to its dataset; what a million events take, and what it takes on disk."""
    from pathlib import Path

    import holotrace

    started = time.perf_counter()
    holotrace.convert(path, out, overwrite=True)
    seconds = time.perf_counter() - started
    written = sum(file.stat().st_size for file in Path(out).rglob("*") if file.is_file())
    return {"seconds": seconds, "seconds_per_million": seconds / _events(out) * 1e6, "written_bytes": written}


def opening(path: str) -> dict[str, float]:
    """From a dataset of one rank to frames of all its tables; what a million events take."""
    seconds = load(path, "every")["seconds"]
    return {"seconds": seconds, "seconds_per_million": seconds / _events(path) * 1e6}


def importing() -> dict[str, float]:
    """The name, and with it the libraries beneath."""
    started = time.perf_counter()
    import holotrace  # noqa: F401  # importing it is what is timed

    return {"seconds": time.perf_counter() - started}


def _events(dataset: str) -> int:
    import holotrace

    return int(holotrace.open(dataset).query("SELECT sum(event_count) FROM rank_info").item())


def _load(path: str, tables: list[Table]) -> RankTrace:
    import holotrace
    from holotrace.loading.rank import load

    (source,) = holotrace.open(path).sources
    return load(source, tables)


def _tables(columns: str) -> list[Table]:
    from dataclasses import replace

    from holotrace.analyses import ALL as ANALYSES
    from holotrace.core.tables import ALL as TABLES
    from holotrace.core.tables import DEVICE_EVENTS, EVENTS

    if columns == "every":
        return list(TABLES)
    if columns == "ten":
        args = DEVICE_EVENTS.only("device", "stream", "correlation").columns
        return [replace(EVENTS, columns=(*EVENTS.columns, *args))]
    return [table for analysis in ANALYSES if analysis.name in THREE for table in analysis.reads]


_PARTS: dict[str, Callable[..., dict[str, float]]] = {
    "load": load,
    "analyses": analyses,
    "calls": calls,
    "graph": graph,
    "profile": profile,
    "ranks": ranks,
    "dask": dask,
    "run": run,
    "run_first": run_first,
    "report": report,
    "ask": ask,
    "convert": convert,
    "opening": opening,
    "import": importing,
}

if __name__ == "__main__":
    part, *arguments = sys.argv[1:]
    print(json.dumps(_PARTS[part](*arguments)))
