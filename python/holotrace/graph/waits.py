"""Why ranks waited at collectives: what the late one did that the waiting one did not, to the nanosecond."""

from __future__ import annotations

import polars as pl

from holotrace.derive.names import pair
from holotrace.graph.job import JobGraph

# What no signature of an activity says: time until work starts or a call returns, what no edge explains, and when
# something began that waited for nothing.
LATENCY, UNEXPLAINED, BEGINNING = "latency", "unexplained", "beginning"
_NONE = pl.Schema(
    {
        "activity": pl.UInt32(),
        "late": pl.UInt32(),
        "rank": pl.Int32(),
        "signature": pl.Categorical(),
        "kind": pl.Categorical(),
        "ns": pl.Int64(),
        "waited_ns": pl.Int64(),
    }
)


def causes(graph: JobGraph) -> pl.DataFrame:
    """What each wait at a collective consists of, after Carnival's waiting-time analysis.

    A wait is the difference of two paths: what the late rank did since both were last at one collective, less what the
    waiting rank did. Waits on these paths are replaced by what they consist of, sign kept. The terms of a wait sum to
    it exactly.

    Returns a row per wait, rank and signature: activity (that waited), late (the activity that came last), rank (whose
    work it is), signature (name of a call, span or kernel; null outside of all), kind (host, data_loading, compute,
    communication, memory, latency, unexplained or beginning), ns (signed), waited_ns.
    """
    if graph.rows["crossing"].null_count() == graph.rows.own.height:
        return _NONE.to_frame()
    ranks = graph.ranks
    activities = graph.rows.select("rank", "kind", "name")
    labels_of = activities.select("kind", "name", label=pair("kind", "name"))
    known = labels_of.unique("label")
    texts = pl.col("kind", "name").cast(pl.String)
    known = known.sort(texts, nulls_last=True).with_row_index("signature")
    count = known.height
    rest = pl.DataFrame(
        {"signature": range(count, count + 3), "kind": [LATENCY, UNEXPLAINED, BEGINNING], "name": [None] * 3},
        schema=known.select("signature", texts).schema,
    )
    labels = pl.col("kind", "name").cast(pl.Categorical)
    numbered = labels_of.select("label").join(known.select("label", "signature"), on="label", maintain_order="left")
    of_activities = activities.select(
        numbered["signature"],
        process=pl.col("rank").replace_strict(ranks, pl.Series(range(len(ranks))), return_dtype=pl.UInt32),
    )
    visits, found = graph.replayer.waits(of_activities, lag=count, delay=count + 1, beginning=count + 2)
    at = visits.with_row_index("visit").select("visit", "activity", "waited_ns")
    return (
        found.join(at, on="visit", maintain_order="left")
        .join(at.select(late="visit", late_activity="activity"), on="late", maintain_order="left")
        .join(
            pl.concat([known.select("signature", texts), rest]).with_columns(labels),
            on="signature",
            maintain_order="left",
        )
        .select(
            "activity",
            late="late_activity",
            rank=ranks[found["process"]] if found.height else pl.lit(None, ranks.dtype),
            signature="name",
            kind="kind",
            ns="ns",
            waited_ns="waited_ns",
        )
    )
