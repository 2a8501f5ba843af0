"""Why ranks wait for each other at collectives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Links
from holotrace.core.schema import Column, Unit
from holotrace.derive.names import pair
from holotrace.graph import job
from holotrace.graph import rank as of_rank
from holotrace.graph.job import JobGraph
from holotrace.graph.stretches import Stretches
from holotrace.graph.waits import UNEXPLAINED, causes

# Differences are listed until so much of them is; the rest is one row.
LISTED_RATIO = 0.95
_WAIT = ["waiting_rank", "group"]


class _Sums(NamedTuple):
    """What the waits in a graph consist of, by rank, wait and signature, and how long they are, by wait."""

    terms: pl.DataFrame
    waited: pl.DataFrame


def _summed(graph: JobGraph) -> _Sums:
    at = graph.rows.filter(graph.is_told).select("activity", "step", "group", waiting_rank="rank")
    terms = causes(graph)
    # What both did for as long cancels, wherever it was done.
    net = (
        terms.select("activity", "signature", "kind", "rank", "ns")
        .sort(-pl.col("ns"), "rank")
        .group_by("activity", label=pair("signature", "kind"), maintain_order=True)
        .agg(pl.col("ns").sum(), pl.col("signature", "kind", "rank").first())
        .filter(pl.col("ns") != 0)
        .join(at, on="activity", maintain_order="left")
    )
    waiting = terms.unique("activity").select("activity", "waited_ns").join(at, on="activity")
    of_terms = net.group_by("rank", *_WAIT, "signature", "kind").agg(
        excess_ns=pl.col("ns").sum(),
        wait_count=pl.col("activity").n_unique().cast(pl.Int64),
        step_count=pl.col("step").drop_nulls().n_unique().cast(pl.Int64),
    )
    of_waits = waiting.group_by(_WAIT).agg(pl.col("waited_ns").sum())
    texts = pl.col("group").cast(pl.String)
    of_terms = of_terms.with_columns(texts, pl.col("signature", "kind").cast(pl.String))
    return _Sums(of_terms, of_waits.with_columns(texts))


@per_job(
    part=of_rank.part,
    part_columns=of_rank.PART,
    joined=Stretches,
    each=_summed,
    columns=(
        Column("waiting_rank", Unit.RANK, "Rank that waited"),
        Column("group", Unit.TEXT, "Process group it waited in; null if unknown"),
        Column(
            "signature",
            Unit.TEXT,
            "Call, span or kernel whose time differs between the ranks; null outside of all calls, and for kind rest",
        ),
        Column(
            "kind",
            Unit.TEXT,
            "host, data_loading, compute, communication, memory, latency, beginning, unexplained or rest",
        ),
        Column(
            "excess_ns",
            Unit.NS,
            "Its time on the late rank's path minus that on the waiting rank's path; may be negative",
        ),
        Column(
            "waited_ns",
            Unit.NS,
            "All waiting time of the rank in the group, of all of its devices; excess_ns of its rows sums to this",
        ),
        Column("wait_count", Unit.COUNT, "Number of waits that it contributes to"),
        Column("step_count", Unit.COUNT, "Number of steps in which it contributes to a wait"),
        Column("explained_ratio", Unit.RATIO, "Part of waited_ns that is not unexplained; null where it did not wait"),
    ),
    reads=job.READS,
    chart=Links(
        x="waiting_rank",
        y=("excess_ns",),
        to="rank",
        title="Who waited for whom",
        leaves="These ranks waited",
        reaches="for what these did longer",
        nobody="Small differences",
    ),
)
def waits(graphs: Stretches) -> pl.DataFrame:
    """Why ranks wait for each other at collectives.

    A rank waits for the last one. The cause is the difference between what both did since their last common collective;
    what both did for the same time cancels out, and a wait inside one of the paths is replaced by its own cause. The
    rank of a row is the one that did most of the difference, which need not be the one that arrived last. The rows of a
    waiting rank and group sum to its waits. Small differences are combined into one row of the kind `rest`; a rank that
    never waited has one row of zeros.
    """
    ranks = pl.Series("rank", graphs.ranks, pl.Int32())
    if len(ranks) == 1:  # its devices may wait for each other, but for no rank
        return _without(ranks, waits.nothing)
    sums = graphs.map(_summed)
    found = (
        pl.concat([each.terms for each in sums])
        .group_by("rank", *_WAIT, "signature", "kind")
        .agg(pl.all().sum())
        .sort(*_WAIT, -pl.col("excess_ns").abs(), "rank", "kind", "signature", nulls_last=True)
    )
    waited = pl.concat([each.waited for each in sums]).group_by(_WAIT).agg(pl.all().sum())
    unexplained = (
        found.filter(pl.col("kind") == UNEXPLAINED).group_by(_WAIT).agg(missing=pl.col("excess_ns").abs().sum())
    )
    explained = 1 - pl.col("missing").fill_null(0) / pl.col("waited_ns")
    table = (
        _with_rest(found)
        .join(waited, on=_WAIT, nulls_equal=True, maintain_order="left")
        .join(unexplained, on=_WAIT, nulls_equal=True, how="left", maintain_order="left")
        .with_columns(explained_ratio=pl.when(pl.col("waited_ns") > 0).then(explained.clip(lower_bound=0)))
        .drop("missing")
    )
    return pl.concat([table, _without(ranks, table)]).sort("waiting_rank", maintain_order=True)


def _without(ranks: pl.Series, table: pl.DataFrame) -> pl.DataFrame:
    """A row of zeros for each rank that never waited."""
    others = ranks.to_frame("rank").filter(~pl.col("rank").is_in(pl.lit(table["waiting_rank"]).implode()))
    counts = ("excess_ns", "waited_ns", "wait_count", "step_count")
    zeros = others.with_columns(
        pl.col("rank").alias("waiting_rank"), pl.lit("rest").alias("kind"), *(pl.lit(0).alias(name) for name in counts)
    )
    return pl.concat([table.clear(), zeros.cast({name: table.schema[name] for name in counts})], how="diagonal")


def _with_rest(found: pl.DataFrame) -> pl.DataFrame:
    """The rows that make most of the differences, and one for the rest of each wait."""
    size = pl.col("excess_ns").abs()
    before = (size.cum_sum() - size).over(_WAIT)
    is_listed = before < LISTED_RATIO * size.sum().over(_WAIT)
    rest = (
        found.filter(~is_listed)
        .group_by(_WAIT)
        .agg(pl.col("excess_ns").sum(), pl.col("wait_count").max(), pl.col("step_count").max())
        .with_columns(rank=pl.lit(None, pl.Int32), signature=pl.lit(None, pl.String), kind=pl.lit("rest"))
    )
    both = pl.concat([found.filter(is_listed), rest.select(found.columns)])
    return both.sort(*_WAIT, -pl.col("excess_ns").abs(), "rank", "kind", "signature", nulls_last=True)


@waits.rule
def waits_not_explained(table: pl.DataFrame) -> Iterator[Finding]:
    """More than a fifth of the time that ranks wait for each other has no cause that was recorded.

    Something held the late rank up that is in no path of its recording.

    Record all ranks at once, with synchronisations and Python stacks.
    """
    waited = table.unique(["waiting_rank", "group"])
    missing = waited.select(
        ((1 - pl.col("explained_ratio")) * pl.col("waited_ns")).sum() / pl.col("waited_ns").sum()
    ).item()
    if missing is not None and missing > 0.2:
        message = "{missing_ratio:percent} of the time that ranks wait for each other has no recorded cause"
        ranks = tuple(waited["waiting_rank"].unique().sort())
        yield Finding("info", message, ranks, values={"missing_ratio": missing})
