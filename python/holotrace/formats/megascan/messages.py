"""What is sent from stage to stage of a pipeline, as the order of its passes tells."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable

import polars as pl

FORWARD, BACKWARD = "forward", "backward"
PASSES = (FORWARD, BACKWARD)


def between(passes: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """A row per message, by the time it is taken.

    Returns ``step``, ``number``, ``source`` and ``destination`` (ranks), ``sent_ns`` (the sender's pass is over),
    ``there_ns`` (it has come), ``free_ns`` (the receiver could have begun) and ``taken_ns`` (it begins). How long a
    message takes is what receivers that were waiting for one waited at the median.

    Args:
        passes: name, rank, step, microbatch, chunk, stage, start_ns and end_ns of the passes of all ranks.
        steps: rank, step and start_ns of each.
    """
    # Ranks of one stage have a pipeline each: the first of every stage are one.
    pipelines = passes.select("stage", "rank").unique().sort("stage", "rank")
    pipelines = pipelines.with_columns(pipeline=pl.int_range(pl.len()).over("stage"))
    last = pl.col("stage").max()
    is_forward = pl.col("name") == FORWARD
    # A chunk begins on the first stage with what the chunk before made on the last.
    begins = pl.when(is_forward).then(pl.col("stage") == 0).otherwise(pl.col("stage") == last)
    back = pl.when(is_forward).then(-1).otherwise(1)
    every = passes.join(pipelines, on=["stage", "rank"], maintain_order="left")
    needs = (
        every.join(steps.select("rank", "step", began_ns="start_ns"), on=["rank", "step"], maintain_order="left")
        .sort("rank", "start_ns", "end_ns")
        .with_columns(
            free_ns=pl.max_horizontal("began_ns", pl.col("end_ns").shift(1).over("rank", "step")),
            stage=pl.when(begins).then(pl.when(is_forward).then(last).otherwise(0)).otherwise(pl.col("stage") + back),
            chunk=pl.when(begins).then(pl.col("chunk") + back).otherwise("chunk"),
        )
    )
    key = ["pipeline", "step", "name", "microbatch", "chunk", "stage"]
    made = every.select(*key, source="rank", sent_ns="end_ns")
    found = needs.select(*key, "free_ns", destination="rank", taken_ns="start_ns").join(made, on=key)
    found = found.filter(pl.col("source") != pl.col("destination"), pl.col("sent_ns") <= pl.col("taken_ns"))
    took = found.filter(pl.col("sent_ns") >= pl.col("free_ns")).select(pl.col("taken_ns") - pl.col("sent_ns"))
    usual_ns = int(took.median().item() or 0)
    there = pl.min_horizontal(pl.col("sent_ns") + usual_ns, "taken_ns")
    return (
        found.with_columns(there_ns=there, free_ns=pl.min_horizontal("free_ns", "taken_ns"))
        .sort("taken_ns", "destination")
        .with_row_index("number")
        .select("step", "number", "source", "destination", "sent_ns", "there_ns", "free_ns", "taken_ns")
    )


def of_rank(sent: pl.DataFrame, flushed: pl.DataFrame, rank: int) -> pl.DataFrame:
    """What a rank sends and receives, as communication on its device, by time.

    A message that nobody waits for stands in a queue until it is taken: ``lane`` counts those at once. On its way it is
    a row of its own, that meets nothing.

    Args:
        sent: As of ``between``.
        flushed: As of ``flushes``.
        rank: The rank.
    """
    sending, receiving = sent.filter(source=rank).sort("sent_ns"), sent.filter(destination=rank)
    sending = sending.with_columns(lane=pl.Series(_lanes(sending), dtype=pl.Int64))
    to, of = pl.format("send to rank {}", "destination"), pl.format("receive from rank {}", "source")
    ends = ("source", "destination")
    of_pair = {
        "sequence": pl.col("number"),
        "group": pl.lit("pipeline"),
        "group_ranks": pl.format("[{}, {}]", pl.min_horizontal(ends), pl.max_horizontal(ends)),
        "group_size": pl.lit(2),
        "source_rank": pl.col("source"),
        "destination_rank": pl.col("destination"),
    }
    is_under_way = pl.col("there_ns") > pl.col("sent_ns")
    under_way = _row(sending.filter(is_under_way), to, "send", "sent_ns", "there_ns", lane=pl.col("lane"))
    taken = _row(sending, to, "send", "there_ns", "taken_ns", lane=pl.col("lane"), **of_pair)
    received = _row(receiving, of, "recv", "free_ns", "taken_ns", **of_pair)
    of_all = {
        "sequence": pl.col("step"),
        "group": pl.lit("all ranks"),
        "group_ranks": pl.lit(_as_json(flushed["rank"].unique())),
        "group_size": pl.lit(flushed["rank"].n_unique()),
    }
    met = _row(
        flushed.filter(rank=rank), pl.lit("wait for the last pass"), "barrier", "over_ns", "flushed_ns", **of_all
    )
    return pl.concat([taken, under_way, received, met], how="diagonal_relaxed").sort("start_ns", "end_ns")


def flushes(passes: pl.DataFrame) -> pl.DataFrame:
    """When each rank had done its passes of each step, and when all had: rank, step, over_ns, flushed_ns.

    Weights change when all gradients are there.
    """
    over = passes.group_by("rank", "step").agg(over_ns=pl.col("end_ns").max()).sort("rank", "step")
    return over.with_columns(flushed_ns=pl.col("over_ns").max().over("step"))


def _row(frame: pl.DataFrame, name: pl.Expr, collective: str, start: str, end: str, **others: pl.Expr) -> pl.DataFrame:
    return frame.select("step", name.alias("name"), collective=pl.lit(collective), start_ns=start, end_ns=end, **others)


def _as_json(ranks: Iterable[int]) -> str:
    return json.dumps(sorted(ranks))


def _lanes(sending: pl.DataFrame) -> list[int]:
    """For each message, by the time it is sent, a queue in which no other is until it is taken."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    lanes = []
    for sent_ns, taken_ns in sending.select("sent_ns", "taken_ns").iter_rows():
        while busy and busy[0][0] <= sent_ns:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        lanes.append(lane)
        heapq.heappush(busy, (taken_ns, lane))
    return lanes
