"""Schedules of MegaScan: every rank of one file, what they waited for, and the stage that holds the others up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace import InputError
from trace_files import REAL_TRACES, needs_real_traces

FORWARD_US, BACKWARD_US, TRANSFER_US = 3_000, 6_000, 400
MICROBATCHES = 8


def simulated(speeds: Sequence[float], steps: int = 4) -> tuple[list[dict[str, Any]], int]:
    """Entries of a pipeline whose stages need so much times the time, and how long it takes in all, in µs.

    All micro-batches go forward and then all backward; a pass begins when the rank and its input are ready.
    """
    entries: list[dict[str, Any]] = []
    now = 0
    for step in range(steps):
        over: dict[tuple[str, int, int], int] = {}
        free = [now] * len(speeds)
        stages = range(len(speeds))
        orders = (("forward", FORWARD_US, list(stages), -1), ("backward", BACKWARD_US, list(stages)[::-1], 1))
        for name, time_us, order, back in orders:
            for batch in range(MICROBATCHES):
                for stage in order:
                    sent = over.get((name, batch, stage + back))
                    begin = max(free[stage], 0 if sent is None else sent + TRANSFER_US)
                    over[name, batch, stage] = free[stage] = begin + round(time_us * speeds[stage])
                    place = {"name": name, "pid": stage, "tid": 0}
                    args = {"iteration": step, "microbatch": batch, "model_chunk": 0, "pp_rank": stage}
                    entries.append({**place, "ph": "B", "ts": begin, "args": {"iteration": step}})
                    entries.append({**place, "ph": "E", "ts": free[stage], "args": args})
        now = max(free)
    return sorted(entries, key=lambda entry: (entry["ts"], entry["ph"] == "B")), now


def written(folder: Path, entries: list[dict[str, Any]]) -> Path:
    path = folder / "aggregated.json"
    path.write_text(json.dumps(entries, indent=1))
    return path


def test_each_rank_of_a_file_has_its_passes_steps_and_messages(tmp_path: Path) -> None:
    entries = simulated([1, 1])[0]
    job = holotrace.open(written(tmp_path, entries))
    assert job.ranks == (0, 1)
    assert job.info()["world_count"].to_list() == [2, 2]
    # What is inferred is said to be: eight messages each way in each of four steps.
    told = job.problems().select("rank", "problem", "example").rows()
    assert told == [(0, "messages not recorded", f"{2 * MICROBATCHES * 4} messages between stages")]
    # Those of the file, without what follows from them.
    assert job.info()["event_count"].sum() == len(entries)
    assert job.table("steps", rank=1)["step"].to_list() == [0, 1, 2, 3]
    work = job.table("device_events", rank=1).filter(step=0)
    computed = work.filter(kind="compute").sort("start_ns")
    assert computed["name"].to_list() == ["forward"] * MICROBATCHES + ["backward"] * MICROBATCHES
    assert computed["start_ns"][0] == (FORWARD_US + TRANSFER_US) * 1000
    # It waited for the first output of the other stage from the beginning of the step on.
    first = work.filter(name="receive from rank 0").sort("start_ns").row(0, named=True)
    assert (first["start_ns"], first["end_ns"]) == (0, computed["start_ns"][0])
    sent = job.table("collectives", rank=0).filter(pl.col("name") == "send to rank 1", pl.col("sequence") == 0)
    # The first message was on its way as long as receivers wait for one.
    assert sent["end_ns"].to_list() == [(FORWARD_US + TRANSFER_US) * 1000]
    assert job.replay()["error_ratio"].abs().max() == 0
    # Of the host nothing is known, so that it limits nothing.
    assert job.job_path().filter(bound_by="host").is_empty()


@pytest.mark.parametrize("stage", [0, 1, 3])
@pytest.mark.parametrize("speed", [1.4, 2.0])
def test_a_slow_stage_is_named_with_what_the_job_would_gain(stage: int, speed: float, tmp_path: Path) -> None:
    speeds = [1.0] * 4
    entries, slow_us = simulated([*speeds[:stage], speed, *speeds[stage + 1 :]])
    _, even_us = simulated(speeds)
    found = holotrace.open(written(tmp_path, entries)).causes()
    first = found.row(0, named=True)
    assert (first["cause"], first["ranks"]) == ("pipeline-bubble", [stage])
    assert first["cost_ns"] == pytest.approx((slow_us - even_us) * 1000, rel=0.1)


def test_equal_stages_have_no_cause(tmp_path: Path) -> None:
    assert holotrace.open(written(tmp_path, simulated([1.0] * 4)[0])).causes().is_empty()


def test_a_much_slower_stage_is_told_alone(tmp_path: Path) -> None:
    first = holotrace.open(written(tmp_path, simulated([1.18, 1, 1, 1.57])[0])).findings()[0]
    assert (first.rule, first.ranks) == ("pipeline-bubble", (3,))
    assert "1.57 times" in first.message


def test_ranks_of_one_stage_have_a_pipeline_each(tmp_path: Path) -> None:
    entries = []
    for replica in (0, 1):
        # As Megatron numbers ranks: those of one stage stand together.
        entries += [{**entry, "pid": 2 * entry["pid"] + replica} for entry in simulated([1, 1 + replica], steps=2)[0]]
    job = holotrace.open(written(tmp_path, sorted(entries, key=lambda entry: (entry["ts"], entry["ph"] == "B"))))
    sent = job.table("collectives").filter(pl.col("collective") == "send").drop_nulls("destination_rank")
    assert set(sent.select("rank", "destination_rank").iter_rows()) == {(0, 2), (2, 0), (1, 3), (3, 1)}


def test_what_one_rank_recorded_is_refused_with_the_way_out(tmp_path: Path) -> None:
    entries = [{**entry, "rel_ts": entry["ts"]} for entry in simulated([1, 1])[0]]
    with pytest.raises(InputError, match="by a clock of its own; give the file that its aggregation made"):
        holotrace.open(written(tmp_path, entries))


def test_a_rank_that_a_file_does_not_hold_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, simulated([1, 1])[0])
    assert holotrace.open({1: path}).ranks == (1,)
    with pytest.raises(InputError, match="holds no rank 7; it has ranks 0-1"):
        holotrace.open({7: path}).overlap()


def test_a_schedule_of_nothing_beside_others_is_left_out(tmp_path: Path) -> None:
    written(tmp_path, simulated([1, 1])[0])
    nothing = [{**entry, "name": "other"} for entry in simulated([1, 1])[0]]
    (tmp_path / "other.json").write_text(json.dumps(nothing))
    job = holotrace.open(tmp_path)
    assert job.ranks == (0, 1)
    assert job.problems().filter(problem="file left out")["example"].str.contains("no forward").to_list() == [True]


def test_a_schedule_without_any_pass_that_ended_is_refused(tmp_path: Path) -> None:
    entries = [{**entry, "name": "other"} for entry in simulated([1, 1])[0]]
    with pytest.raises(InputError, match="no forward and no backward pass that ended"):
        holotrace.open(written(tmp_path, entries))


def test_entries_that_lack_something_cost_only_themselves(tmp_path: Path) -> None:
    entries = simulated([1, 1])[0]
    del entries[7]["args"]
    entries[11] = {**entries[11], "pid": "elsewhere"}
    job = holotrace.open(written(tmp_path, entries))
    assert job.ranks == (0, 1)
    lost = len(entries) // 2 - job.table("device_events").filter(kind="compute").height
    assert lost > 0
    told = dict(job.problems().group_by("problem").agg(pl.col("count").sum()).iter_rows())
    # Of a pass on a line of its own there is neither begin nor end.
    assert told["pass left out"] == lost
    assert not job.step_times().is_empty()


@needs_real_traces
@pytest.mark.parametrize(
    "path",
    [
        "data-1-pipeline-4-tensor-1-pp/data-1-pipeline-4-tensor-1-pp-aggregated.json.gz",
        "profiling/data-1-pipeline-4-tensor-1-dpp-aggregated.json.gz",
        "profiling/data-1-pipeline-4-tensor-1-dpp-aggregated.e30fc0.json.gz",
    ],
)
def test_the_last_stage_of_a_published_job_holds_the_others_up(path: str) -> None:
    """Its last chunk takes 17 and 19 ms, where those of all other stages take 3 and 7."""
    found = holotrace.open(REAL_TRACES / "megatronapp" / path).causes()
    stage = found.filter(cause="pipeline-bubble").row(0, named=True)
    assert stage["ranks"] == [3]
    assert "chunk 3" in stage["message"]
    assert found["cause"].to_list() == ["pipeline-bubble", "unrecorded-host"]
    assert stage["share_ratio"] > 0.05
