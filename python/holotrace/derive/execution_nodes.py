"""Which node of an execution trace each recorded call is."""

from __future__ import annotations

import polars as pl


def execution_nodes(calls: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """The calls that are nodes of an execution trace: ``event_id`` and ``node``, in order of the calls.

    They have the same record function id and name; without such ids, as PyTorch wrote them until 2.3, the external id,
    which was the same. Of nodes with one id the first counts.

    Args:
        calls: Operators of one rank, e.g. ``job.table("cpu_ops", rank=0)``, recorded in the same run: ``event_id``,
            ``name``, ``record_function`` and ``external`` are needed.
        nodes: What ``execution_trace`` returned.
    """
    has_ids = calls["record_function"].fill_null(0).gt(0).any()
    ids = calls.select(
        "event_id",
        pl.col("name").cast(pl.String),
        record_function=pl.col("record_function" if has_ids else "external").cast(pl.Int64),
    )
    known = nodes.filter(pl.col("record_function") > 0).unique(
        ["record_function", "name"], keep="first", maintain_order=True
    )
    return (
        ids.join(known, on=["record_function", "name"], maintain_order="left")
        .unique("node", keep="first", maintain_order=True)
        .select("event_id", "node")
    )
