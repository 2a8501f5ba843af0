"""What a straggling job loses, by the rules of "Understanding Stragglers in Large Model Training" (OSDI 2025).

``python benchmarks/published/straggler_what_if.py TRACE.parquet`` reads the operations of a job in the schema of its
artifact (ByteDance-Seed/StragglerAnalysis) and prints S, M_W and M_S. Which operation waits for which is stated here;
when everything happens then, with and without the slow ones, is computed by ``holotrace.graph``.

The columns: dp_rank, stage, rank, step, optype, start_ts and duration (seconds), seq_id, mc (model chunk), gmc.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

import polars as pl

from holotrace.graph.engine import Changes, Replay, end_of, start_of

FORWARD, BACKWARD = "forward-compute", "backward-compute"
GATHER, SCATTER = "params-all-gather", "grads-reduce-scatter"
LAYERNORM, EMBEDDING, SEPARATE = (f"{of}-grads-all-reduce" for of in ("layernorm", "embedding", "separate"))
CLIP, OPTIMIZER, PAUSE = "optimizer-clip-main-grad", "optimizer", "gc"
# Where each kind of message goes: the stage that is so far away takes part in it by the other kind.
PEERS = {
    "forward-send": ("forward-recv", 1),
    "forward-recv": ("forward-send", -1),
    "backward-send": ("backward-recv", -1),
    "backward-recv": ("backward-send", 1),
}
# Operations of all data-parallel ranks that go on together.
OVER_RANKS = (GATHER, SCATTER, SEPARATE, CLIP)
# Their ideal time is the median; that of all others the mean.
BY_MEDIAN = (*PEERS, GATHER, SCATTER, LAYERNORM, EMBEDDING, SEPARATE, CLIP)
# Clocks of the recording, in seconds: messages are matched, and times below zero are believed, within these.
MATCH_S, NEGATIVE_S = 5e-5, 1e-2
WORST_RATIO = 0.03

Op = tuple[str, int, int]  # type, number and stage


@dataclass
class Template:
    """What waits for what within one step of one data-parallel rank: the same in all of them."""

    waits: list[tuple[Op, Op]] = field(default_factory=list)
    groups: list[list[Op]] = field(default_factory=list)

    def chain(self, ops: list[Op], first: list[Op] | None = None) -> None:
        before = first or []
        for op in ops:
            self.waits.extend((other, op) for other in before)
            before = [op]


def template(ops: pl.DataFrame, *, is_parallel: bool) -> Template:
    """Which operations wait for which, told by the first step of the first data-parallel rank."""
    one = ops.filter(pl.col("dp_rank") == 0, pl.col("step") == pl.col("step").min()).sort("start_ts", "seq_id")
    rows = one.with_columns(pl.col("optype").cast(pl.String), end_ts=pl.col("start_ts") + pl.col("duration")).to_dicts()
    stages = 1 + max(row["stage"] for row in rows)
    chunks = (1 + max(row["mc"] for row in rows)) * stages
    made = Template()
    messages: dict[tuple[Op, Op], list[Op]] = defaultdict(list)
    for stage in range(stages):
        of_stage = [row for row in rows if row["stage"] == stage]
        compute = [row for row in of_stage if row["optype"] in (FORWARD, BACKWARD)]
        made.chain([_op(row) for row in compute])
        _send_and_receive(made, of_stage, compute, messages, (stage, stages, chunks))
        if is_parallel:
            _parallel(made, of_stage, compute)
        _after_compute(made, of_stage, compute, is_parallel=is_parallel, is_outer=stage in (0, stages - 1))
    made.groups.extend(messages.values())
    made.groups.append([(EMBEDDING, 0, stage) for stage in sorted({0, stages - 1})])
    made.groups.append([(CLIP, 0, stage) for stage in range(stages)])
    if is_parallel:
        made.groups.extend([_op(row)] for row in rows if row["optype"] in (GATHER, SCATTER, SEPARATE))
    return made


def _op(row: dict[str, object]) -> Op:
    return str(row["optype"]), int(str(row["seq_id"])), int(str(row["stage"]))


def _send_and_receive(made: Template, ops: list, compute: list, messages: dict, place: tuple[int, int, int]) -> None:
    stage, stages, chunks = place
    for kind, (peer, distance) in PEERS.items():
        of_kind = [row for row in ops if row["optype"] == kind]
        made.chain([_op(row) for row in of_kind])
        matched = _matched(of_kind, [row for row in compute if row["optype"].split("-")[0] == kind.split("-")[0]])
        sent = 0
        for row in of_kind:
            work = matched.get(_op(row))
            if work is not None:
                _wait_for_work(made, kind, _op(row), _op(work))
            # Some that were recorded never went anywhere: at the ends of the step and of the pipeline.
            if work is None or not 0 <= work["gmc"] + distance < chunks:
                made.groups.append([_op(row)])
                continue
            ends = ((kind, sent, stage), (peer, sent, (stage + distance) % stages))
            messages[min(ends), max(ends)].append(_op(row))
            sent += 1
    first = next((number for number, row in enumerate(compute) if row["optype"] == BACKWARD), 0)
    if first >= 2:
        there = {_op(row) for row in ops}
        early = [(kind, 0, stage) for kind in ("backward-recv", "backward-send")]
        made.waits.extend((_op(compute[first - 2]), op) for op in early if op in there)


def _matched(messages: list, compute: list) -> dict:
    """The computation that each message is for: the one that waits for it, or that it waits for."""
    if not messages or not compute:
        return {}
    is_receive = messages[0]["optype"].endswith("recv")
    if is_receive:
        limit = max(row["start_ts"] for row in compute) + MATCH_S
        real = [row for row in messages if row["start_ts"] <= limit]
    else:
        limit = min(row["end_ts"] for row in compute) - MATCH_S
        real = [row for row in messages if row["end_ts"] >= limit]
    # The first one may not have been recorded.
    skipped = int(is_receive and len(real) + 1 == len(compute))
    by_number = {row["seq_id"]: row for row in compute}
    return {_op(row): by_number[number] for number, row in enumerate(real, skipped) if number in by_number}


def _wait_for_work(made: Template, kind: str, message: Op, work: Op) -> None:
    if kind.endswith("send"):
        made.waits.append((work, message))
        return
    made.waits.append((message, work))
    optype, number, stage = work
    if number > 0:
        made.waits.append(((optype, number - 1, stage), message))


def _parallel(made: Template, ops: list, compute: list) -> None:
    """Parameters are gathered before a chunk's first forward pass; gradients go out after its last backward pass."""
    made.chain([_op(row) for row in ops if row["optype"] in (GATHER, SCATTER)])
    last_gather = {row["mc"]: row for row in sorted(ops, key=lambda row: row["seq_id"]) if row["optype"] == GATHER}
    for chunk, row in last_gather.items():
        forward = [work for work in compute if work["mc"] == chunk and work["optype"] == FORWARD]
        made.waits.append((_op(row), _op(min(forward, key=lambda work: work["start_ts"]))))
    if not any(row["optype"] == SEPARATE for row in ops):
        return
    first_scatter: dict = {}
    for row in sorted(ops, key=lambda row: row["seq_id"]):
        if row["optype"] == SCATTER:
            first_scatter.setdefault(row["mc"], row)
    for chunk, row in first_scatter.items():
        backward = [work for work in compute if work["mc"] == chunk and work["optype"] == BACKWARD]
        made.waits.append((_op(max(backward, key=lambda work: work["end_ts"])), _op(row)))


def _after_compute(made: Template, ops: list, compute: list, *, is_parallel: bool, is_outer: bool) -> None:
    stage = compute[0]["stage"]
    pause: Op = (PAUSE, 0, stage)
    made.waits.append((_op(max(compute, key=lambda row: row["end_ts"])), pause))
    scatters = [_op(row) for row in sorted(ops, key=lambda row: row["seq_id"]) if row["optype"] == SCATTER]
    is_hidden = any(row["optype"] == SEPARATE for row in ops)
    reduced: list[Op] = [(LAYERNORM, 0, stage), *([(EMBEDDING, 0, stage)] if is_outer else [])]
    first = [pause]
    if is_parallel and is_hidden:
        first = [*scatters[-1:], pause]
        reduced.append((SEPARATE, 0, stage))
    elif is_parallel:
        reduced.extend(scatters)
    made.chain([*reduced, (CLIP, 0, stage), (OPTIMIZER, 0, stage)], first)


def graph(ops: pl.DataFrame, made: Template) -> tuple[pl.DataFrame, Replay]:
    """Every operation with what it takes itself, as recorded and at its ideal, and all of them to replay."""
    key = ["optype", "seq_id", "stage"]
    schema = {"optype": pl.String, "seq_id": pl.Int64, "stage": pl.Int64}
    members = pl.DataFrame(
        [(*op, group) for group, of_group in enumerate(made.groups) for op in of_group],
        schema={**schema, "group": pl.Int64},
        orient="row",
    ).unique(key, keep="last")
    rows = (
        ops.with_columns(pl.col("optype").cast(pl.String), pl.col("seq_id", "stage").cast(pl.Int64))
        .join(members, on=key, how="left", maintain_order="left")
        .with_columns(
            together=pl.when(pl.col("optype").is_in(OVER_RANKS)).then(-1).otherwise(pl.col("dp_rank").cast(pl.Int64)),
            end_ts=pl.col("start_ts") + pl.col("duration"),
        )
    )
    crossing = ["group", "step", "together"]
    moved = pl.col("end_ts") - pl.col("start_ts").max().over(crossing)
    own = pl.when(pl.col("group").is_null()).then("duration").when(moved > -NEGATIVE_S).then(moved).otherwise(0.0)
    rows = rows.with_columns(own_s=own.cast(pl.Float64)).with_columns(
        own_ns=_ns(pl.col("own_s")),
        ideal_ns=_ns(
            pl.when(pl.col("optype").is_in(BY_MEDIAN))
            .then(pl.col("own_s").median().over("optype"))
            .otherwise(pl.col("own_s").mean().over("optype"))
        ),
        crossing=pl.when(pl.col("group").is_not_null()).then(pl.struct(crossing).rank("dense")),
        start_ns=0,
        end_ns=0,
    )
    rows = rows.with_row_index("activity")
    at = rows.select("activity", "dp_rank", "step", *key)
    waits = pl.DataFrame(
        [(*before, *after) for before, after in made.waits],
        schema={**{f"{name}_before": kind for name, kind in schema.items()}, **schema},
        orient="row",
    ).unique()
    before = at.rename({name: f"{name}_before" for name in ("activity", *key)})
    edges = (
        waits.join(at, on=key)
        .join(before, on=["dp_rank", "step", *(f"{name}_before" for name in key)])
        .select(from_point=end_of(pl.col("activity_before")), to_point=start_of(pl.col("activity")), lag_ns=0)
    )
    return rows, Replay(rows, edges)


def _ns(seconds: pl.Expr) -> pl.Expr:
    return (seconds * 1e9).round().cast(pl.Int64)


def slowdown(ops: pl.DataFrame, *, is_parallel: bool) -> dict[str, float]:
    """S, M_W and M_S of the job."""
    rows, replay = graph(ops, template(ops, is_parallel=is_parallel))
    last = pl.col("stage") == pl.col("stage").max()
    ranks, stages = (rows[name].unique().sort().to_list() for name in ("dp_rank", "stage"))
    keeps = [
        pl.lit(True),
        pl.lit(False),
        *(pl.col("dp_rank") == rank for rank in ranks),
        *(pl.col("stage") == stage for stage in stages),
        ~last,
    ]
    times = _step_times(rows, replay, keeps)
    recorded, ideal, rest = times[0], times[1], [time / times[1] for time in times[2:]]
    of_rank, of_stage = dict(zip(ranks, rest, strict=False)), dict(zip(stages, rest[len(ranks) :], strict=False))
    workers = rows.select("rank", "dp_rank", "stage").unique().sort("rank").to_dicts()
    workers.sort(key=lambda row: -min(of_rank[row["dp_rank"]], of_stage[row["stage"]]))
    worst = [row["rank"] for row in workers[: ceil(WORST_RATIO * len(workers))]]
    (without_worst,) = _step_times(rows, replay, [~pl.col("rank").is_in(worst)])
    lost = recorded - ideal
    return {"S": recorded / ideal, "M_W": (recorded - without_worst) / lost, "M_S": (recorded - times[-1]) / lost}


def _step_times(rows: pl.DataFrame, replay: Replay, keeps: list[pl.Expr]) -> list[float]:
    """Mean time of a step where the operations that each of ``keeps`` is true of take as long as recorded."""
    changes = [
        Changes(own=rows.select("activity", own_ns="ideal_ns", kept=kept).filter(~pl.col("kept"))) for kept in keeps
    ]
    ends = replay.cases(changes, rows.select(point=end_of(pl.col("activity")))["point"])
    step = pl.concat([rows["step"]] * len(keeps))
    took = ends.with_columns(step).group_by("case", "step").agg(pl.col("time_ns").max())
    return took.group_by("case").agg(pl.col("time_ns").mean()).sort("case")["time_ns"].to_list()


def main(path: Path) -> None:
    ops = pl.read_parquet(path)
    is_parallel = ops["dp_rank"].n_unique() > 1 or bool(ops["optype"].cast(pl.String).is_in([GATHER, SCATTER]).any())
    print(json.dumps(slowdown(ops, is_parallel=is_parallel)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
