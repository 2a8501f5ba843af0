"""The parts of the job's critical path, one by one, for the timeline."""

from __future__ import annotations

import polars as pl

from holotrace.core.analysis import per_job
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column, Unit
from holotrace.graph import job, path
from holotrace.graph import rank as of_rank
from holotrace.graph.job import JobGraph
from holotrace.graph.stretches import Stretches

# A page has room for no more: the longest.
MOST_PARTS = 12_000


def _parts(graph: JobGraph) -> pl.DataFrame:
    found = path.of(graph).select("rank", "name", "start_ns", "end_ns", bound_by="kind")
    parts = found.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    return _longest(parts).select("rank", "bound_by", "name", "start_ns", "duration_ns")


def _longest(parts: pl.DataFrame) -> pl.DataFrame:
    least = parts["duration_ns"].top_k(MOST_PARTS).min()
    long = parts.filter(pl.col("duration_ns") >= pl.lit(least, pl.Int64))
    return long.sort("duration_ns", "start_ns", "rank", descending=[True, False, False]).head(MOST_PARTS)


# With what job_path declares of its parts, it shares them and the graph that is made of them.
@per_job(
    part=of_rank.part,
    part_columns=of_rank.PART,
    joined=Stretches,
    each=_parts,
    columns=(
        Column("bound_by", Unit.TEXT, "What the time is bound by, as in job_path"),
        Column("name", Unit.TEXT, "Call, span or device work that took the time, or that began after it"),
        Column("start_ns", Unit.NS, "Start, since 1970 if the files say so, on the clock of the median rank"),
        Column("duration_ns", Unit.NS, "Time of the step that is this part's"),
    ),
    reads=job.READS,
    chart=Ranking(x="name", y=("duration_ns",), title="Time of the critical path by name"),
)
def path_parts(graphs: Stretches) -> pl.DataFrame:
    """Where the critical path of the job is at each time: the longest of its parts, in order of time."""
    longest = _longest(pl.concat(graphs.map(_parts)))
    return longest.sort("start_ns", "rank")
