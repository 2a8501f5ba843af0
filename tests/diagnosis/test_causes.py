"""Causes: made-up jobs with known faults, from a simulation of ours and from one that is not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace import sample
from holotrace.diagnosis.job import equal_work, idle, in_turns, same_work, tokens, uneven
from holotrace.diagnosis.job import segments as job_segments
from holotrace.diagnosis.job.candidates import Candidate, beyond_others
from holotrace.diagnosis.job.candidates import Job as CausesJob
from holotrace.diagnosis.job.floors import least_ratio
from holotrace.diagnosis.job.meetings import Change, Meetings
from holotrace.diagnosis.job.one_cause import with_launches
from holotrace.diagnosis.rank import unfused
from holotrace.diagnosis.words.classes import (
    EXPOSED,
    INPUT,
    LAUNCH,
    MORE_WORK,
    SLOW_DEVICE,
    SYNCHRONIZATION,
)
from quick import every
from trace_files import REAL_TRACES

FAULTS = REAL_TRACES.parent / "faults"
# The class that a fault of the sample has, where it is not called so.
CLASSES = {"input-of-all": "input", "python-function": "logging"}
# Faults of the simulation that is not ours.
CAUSES = {
    "input": "input",
    "slow-device": SLOW_DEVICE,
    "communication": EXPOSED,
    "logging": "logging",
    "checkpoint": "checkpoint",
}


def causes_of(path: Path) -> list[dict[str, Any]]:
    return holotrace.open(path).causes().to_dicts()


@pytest.mark.parametrize("name", every(16, sorted(sample.KINDS)))
def test_the_first_cause_is_the_fault_that_was_planted(tmp_path: Path, name: str) -> None:
    truth = sample.write(tmp_path, ranks=4, steps=4, seed=3, faults=[name], stacks=True, compress=False)
    ((fault, cost_ns),) = truth.costs_ns.items()
    first = causes_of(tmp_path)[0]
    assert first["cause"] == CLASSES.get(name, name)
    assert tuple(first["ranks"]) == fault.ranks
    assert abs(first["cost_ns"] - cost_ns) < 0.2 * cost_ns
    names = sample.KINDS[name].responsible
    assert not names or any(said in f"{first['responsible']} {first['evidence']}" for said in names)
    hit = [step for position, step in enumerate(truth.steps) if fault.hits(truth.hit_rank(fault), position)]
    assert first["steps"] == hit


@pytest.mark.parametrize("seed", every(2, [1, 2]))
def test_nothing_is_said_of_a_clean_job(tmp_path: Path, seed: int) -> None:
    sample.write(tmp_path, ranks=4, steps=4, seed=seed, faults=[], compress=False)
    job = holotrace.open(tmp_path)
    assert job.causes().is_empty()
    assert [finding for finding in job.findings() if finding.severity != "info"] == []


def test_two_faults_are_two_causes_in_their_order_and_their_cost_is_between_the_least_and_the_most(
    tmp_path: Path,
) -> None:
    truth = sample.write(tmp_path, ranks=4, steps=6, seed=2, faults=["checkpoint", "slow-device"], stacks=True)
    found = causes_of(tmp_path)
    assert [cause["cause"] for cause in found] == [fault.kind for fault in truth.costs_ns]
    assert [tuple(cause["ranks"]) for cause in found] == [fault.ranks for fault in truth.costs_ns]
    for cause in found:
        assert cause["low_ns"] <= cause["cost_ns"] <= cause["high_ns"]
        assert 0 < cause["share_ratio"] < 1


def test_transfers_that_late_launches_expose_are_no_cause_beside_them(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=2, steps=6, seed=103, faults=["launch-bound"], compress=False)
    assert [cause["cause"] for cause in causes_of(tmp_path)] == ["launch-bound"]


def test_without_stacks_a_pause_of_the_host_says_what_to_record(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=4, steps=4, seed=1, faults=["python-function"], compress=False)
    first = causes_of(tmp_path)[0]
    assert first["confidence"] == "inferred"
    assert "with_stack=True" in first["to_know_more"]


def test_symptoms_are_folded_under_the_cause_that_explains_them(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=4, steps=4, seed=1, faults=["input"], compress=False)
    result = holotrace.open(tmp_path).run()
    (cause,) = (finding for finding in result.findings if finding.severity != "info")
    assert result.tables["causes"]["explains"].to_list() == [", ".join(cause.explains)]
    assert cause.rule == "input"
    assert {"idle-device", "straggling-rank"} <= set(cause.explains)
    assert "num_workers" in cause.what_to_do


@pytest.mark.parametrize(
    "name", every(5, ["d1_clean", "d2_loader", "d3_slow_gpu", "d4_fsdp", "d5_logging_one_rank", "d6_two_faults"])
)
def test_faults_of_another_simulation_are_found(name: str) -> None:
    if not FAULTS.is_dir():
        pytest.skip(f"{FAULTS} is not there")
    truth = json.loads((FAULTS / "truth.json").read_text())[name]
    found = causes_of(FAULTS / name)
    if truth["cause"] == "clean":
        assert found == []
        return
    first = found[0]
    assert (first["cause"], first["ranks"]) == (CAUSES[truth["cause"]], truth["ranks"])
    assert not truth["steps"] or first["steps"] == truth["steps"]
    assert abs(first["cost_ns"] - truth["cost_ns"]) < 0.2 * truth["cost_ns"]
    assert re.search("|".join(truth["mention"]), first["message"], re.IGNORECASE)
    if also := truth.get("also"):
        assert (found[1]["cause"], found[1]["ranks"]) == (CAUSES[also["cause"]], also["ranks"])
    assert len(found) == 1 + ("also" in truth)


PIECES = {"operator": ["aten::mm", "aten::add"], "count": [1, 1], "usual_count": [1.0, 1.0]}


def test_a_device_that_is_slow_at_products_only_is_slow_as_their_time_does_not_depend_on_the_data(
    tmp_path: Path,
) -> None:
    sample.write(tmp_path, events=2000, steps=2, ranks=8)
    found = holotrace.open(tmp_path).causes().filter(pl.col("ranks").list.len() > 0)
    assert found.select("cause", "ranks").rows() == [("slow-device", [2])]


@pytest.mark.parametrize("usual_ns", [[0.0, 0.0], [100.0, 0.0]])
def test_work_that_takes_other_ranks_no_time_makes_no_device_slow(usual_ns: list[float]) -> None:
    """A report on ranks whose work mostly had no duration ended in a division by zero."""
    kinds = pl.DataFrame({**PIECES, "time_ns": [90, 5_000], "usual_ns": usual_ns})
    assert not equal_work.is_slow_at_some(kinds)


def test_lookups_that_take_longer_on_one_rank_make_no_device_slow_as_memory_does() -> None:
    """Tables with more lookups were told as a slow device."""
    operators = ["fbgemm::lookup", "LookupBackward", "aten::add", "aten::sum"]
    kinds = pl.DataFrame(
        {
            "operator": operators,
            "name": ["embedding_forward", "embedding_backward", "add", "sum"],
            "detail": ["shape"] * 4,
            "count": [1] * 4,
            "usual_count": [1.0] * 4,
            "usual_ns": [1000.0] * 4,
        }
    )
    assert not equal_work.is_slow_at_some(kinds.with_columns(time_ns=pl.Series([1300, 1300, 1000, 1001])))
    assert equal_work.is_slow_at_some(kinds.with_columns(time_ns=pl.Series([1300, 1300, 1300, 1300])))


def test_work_that_counts_for_another_step_than_elsewhere_is_no_more_work() -> None:
    """A device that lagged behind its host by parts of a step was told to compute longer in one of them."""
    kinds = pl.DataFrame({"rank": [0, 1], "time_ns": [380, 360], "usual_ns": [380, 380]})
    beyond = pl.DataFrame({"rank": [0, 0, 1, 1], "beyond_ns": [0, 0, 15, 0]})
    assert not uneven._is_borne_out(1, kinds, beyond, 0.0)
    assert uneven._is_borne_out(1, kinds.with_columns(time_ns=pl.Series([380, 395])), beyond, 0.0)


@pytest.mark.parametrize(("of_rank_2", "lost"), [([3, 3, 3], [2]), ([3, 3, 4], []), ([4, 4, 5], []), ([3, 4, 4], [])])
def test_kernels_that_one_rank_lacks_were_lost(of_rank_2: list[int], lost: list[int]) -> None:
    kinds = pl.DataFrame(
        [
            {"name": name, "detail": "", "operator": "aten::mm", "cause": None, "rank": rank}
            | {"count": of_rank_2[place] if rank == 2 else 4, "usual_count": 4.0}
            for place, name in enumerate("abc")
            for rank in range(4)
        ]
    )
    assert equal_work.with_lost_kernels(kinds) == lost


def test_a_device_is_slow_at_equal_work_though_another_rank_has_other_shapes() -> None:
    """Beside a rank with longer sequences a slow device was told to have more work, and to be worth as much as both."""
    work = [
        {"row": "work", "rank": rank, "name": name, "operator": name, "cause": None, "count": 6}
        | {"detail": "long" if rank == 3 else "short", "time_ns": 135 if rank == 3 else 120 if rank == 2 else 100}
        for rank in range(4)
        for name in ("mm", "attention", "norm")
    ]
    job = CausesJob(pl.DataFrame(work, schema_overrides={"cause": pl.String}), pl.DataFrame(), (0, 1, 2, 3), 0)
    kinds = equal_work.by_kind(job)
    assert equal_work.is_slow(equal_work.with_others_pooled(kinds, 2), 0.2)
    assert not equal_work.is_slow(equal_work.with_others_pooled(kinds, 3), 0.35)


@pytest.mark.parametrize("has_operators", [True, False])
def test_ranks_with_more_of_different_work_are_different_causes(*, has_operators: bool) -> None:
    """One that sorts and one with longer sequences were told as one cause, by the operator of the dearer."""
    times = {0: (100, 10), 1: (100, 10), 2: (150, 10), 3: (100, 60), 4: (140, 20)}
    work = [
        {"row": "work", "rank": rank, "name": name, "cause": None, "detail": "", "count": 1}
        | {"operator": name if has_operators else None, "time_ns": time_ns}
        for rank, of_rank in times.items()
        for name, time_ns in zip(("mm", "sort"), of_rank, strict=True)
    ]
    rows = pl.DataFrame(work, schema_overrides=dict.fromkeys(("cause", "operator"), pl.String))
    kinds = equal_work.by_kind(CausesJob(rows, pl.DataFrame(), tuple(times), 0))
    classes = [(MORE_WORK, 2), (MORE_WORK, 3), (MORE_WORK, 4)]
    assert uneven._together(classes, kinds, {}) == [(MORE_WORK, [2, 4]), (MORE_WORK, [3])]


def test_a_rank_that_is_like_others_is_so_though_the_first_of_them_has_more_of_its_own() -> None:
    """Beside a rank with a hot table one with a larger batch was compared with nobody."""
    times = {0: (100, 10), 1: (50, 100), 2: (50, 60), 3: (50, 60)}
    work = [
        {"row": "work", "rank": rank, "name": name, "operator": None, "count": 1, "time_ns": time_ns}
        for rank, of_rank in {**times, 1: (100, 120), 0: (150, 60)}.items()
        for name, time_ns in zip(("lookup", "mm"), of_rank, strict=True)
    ]
    nobody = pl.DataFrame(schema={"match": pl.UInt32, "rank": pl.Int32, "collective": pl.String})
    job = CausesJob(pl.DataFrame(work), nobody, (0, 1, 2, 3), 0)
    assert [ranks.ranks for ranks in same_work.alike(job)] == [(0, 1, 2, 3)]


@pytest.mark.parametrize(
    ("steps", "causes"),
    [
        ({2: (3, 4, 5), 3: (3, 4, 5)}, [(SLOW_DEVICE, [2, 3])]),
        # One of two devices that throttle begins a step later.
        ({2: (3, 4, 5), 3: (4, 5)}, [(SLOW_DEVICE, [2, 3])]),
        ({2: (3, 4, 5), 3: (3,)}, [(SLOW_DEVICE, [2]), (SLOW_DEVICE, [3])]),
    ],
)
def test_devices_that_are_slow_in_other_steps_are_different_causes(
    steps: dict[int, tuple[int, ...]], causes: list[tuple[str, list[int]]]
) -> None:
    """A device that is slow from some step on and one that is slow once were told as one cause, of all those steps."""
    work = [{"row": "work", "rank": rank, "operator": "mm", "name": "mm", "detail": ""} for rank in (2, 3)]
    kinds = pl.DataFrame(work).with_columns(time_ns=120, usual_ns=100)
    assert uneven._together([(SLOW_DEVICE, 2), (SLOW_DEVICE, 3)], kinds, steps) == causes


def test_more_of_one_operator_is_another_cause_than_more_of_everything() -> None:
    """A rank with a hot table and one with a larger batch, most of which are lookups, were told as one cause."""
    times = {0: (100, 100), 1: (100, 100), 2: (300, 100), 3: (160, 140)}
    work = [
        {"row": "work", "rank": rank, "name": name, "operator": name, "cause": None, "detail": "", "count": 1}
        | {"time_ns": time_ns}
        for rank, of_rank in times.items()
        for name, time_ns in zip(("lookup", "mm"), of_rank, strict=True)
    ]
    rows = pl.DataFrame(work, schema_overrides={"cause": pl.String})
    kinds = equal_work.by_kind(CausesJob(rows, pl.DataFrame(), tuple(times), 0))
    assert uneven._together([(MORE_WORK, 2), (MORE_WORK, 3)], kinds, {}) == [(MORE_WORK, [2]), (MORE_WORK, [3])]


def test_of_ranks_that_take_turns_the_operator_is_named_that_takes_longer_in_their_turn() -> None:
    """In sum over the steps each had as much of it, so that what differed by chance was named."""
    work = pl.DataFrame(
        [
            {"rank": rank, "step": step, "name": name, "operator": name, "time_ns": time_ns}
            for rank in range(4)
            for step in range(4)
            for name, time_ns in (("mm", 150 if step == rank else 100), ("adam", 41 if rank == 3 else 40))
        ]
    )
    assert equal_work.largest(work, (0, 1, 2, 3), by=("step",)) == ("mm", "mm")


@pytest.mark.parametrize("dims", [None, "", "[[8,8]", "1.5", '{"a": 1}', "[1, [], [2.5], null]", "[" * 100_000])
def test_shapes_that_are_none_tell_nothing(dims: str | None) -> None:
    assert unfused._shapes(dims) == []


@pytest.mark.parametrize("ranks", every(2, [16, 48]))
@pytest.mark.slow
def test_of_many_ranks_only_the_straggler_is_named_though_each_differs_a_little(tmp_path: Path, ranks: int) -> None:
    truth = sample.write(tmp_path / "job", ranks=ranks, steps=2, events=3_000)
    table = holotrace.open(tmp_path / "job").causes()
    named = table.filter(pl.col("ranks").list.len() > 0)["ranks"].to_list()
    assert named == [[truth.straggler_rank]]


@pytest.mark.parametrize(
    ("elements", "time_ns", "ratio"),
    [
        # Of four ranks that send 100 each one gets 160, the others 80: spread evenly each gets 100.
        (160, [160, 80, 80, 80], 0.75),
        # Here the others have all that they send, and lack nothing.
        (200, [200, 100, 100, 100], 1.0),
    ],
)
def test_tokens_that_one_rank_has_too_much_are_those_that_others_lack(
    elements: int, time_ns: list[int], ratio: float
) -> None:
    """Experts were worth up to a third too much: balanced, the others would compute longer than they did."""
    visits = pl.DataFrame({"rank": [0, 1, 2, 3], "element_count": [elements, 100, 100, 100], "collective": "alltoall"})
    kinds = pl.DataFrame(
        [
            {"rank": rank, "name": "gemm", "detail": detail, "operator": "aten::mm", "cause": None, "time_ns": ns}
            | {"count": count, "usual_count": usual}
            for rank in range(4)
            # What the model computes beside its experts takes all ranks as long.
            for detail, ns, count, usual in (("dense", 500, 1, 1), (f"expert {rank}", time_ns[rank], 1, 0))
        ]
    )
    job = CausesJob(pl.DataFrame(), visits, (0, 1, 2, 3), 0)
    assert tokens.beyond_even(job, kinds, [0], "aten::mm") == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("times", "removed_ns"),
    [
        # No amount is that of most ranks: what two have too much the others lack.
        ([60, 60, 130, 130], [0, 0, 35, 35]),
        ([60, 130, 130, 60], [0, 35, 35, 0]),
        # Most have equally much, and would if the one had no more.
        ([100, 101, 99, 160], [0, 1, 0, 60]),
        # Of two ranks nobody knows which is the usual one.
        ([100, 150], [0, 25]),
    ],
)
def test_what_half_of_the_ranks_have_is_not_what_most_have(times: list[int], removed_ns: list[int]) -> None:
    """Uneven work was worth half as much again: all were to get as little as the lower half had."""
    usual = sorted(times)[(len(times) - 1) // 2]
    beyond = pl.DataFrame(
        [
            {"rank": rank, "step": step, "time_ns": time_ns, "beyond_ns": max(0, time_ns - usual)}
            for step in range(4)
            for rank, time_ns in enumerate(times)
        ]
    )
    assert in_turns._balanced(beyond).filter(step=0)["beyond_ns"].to_list() == removed_ns


def test_experts_of_each_layer_are_levelled_by_themselves() -> None:
    """Ranks with the most tokens in one layer and the fewest in the next were imbalanced by their sums alone."""
    segments = pl.DataFrame(
        [
            {"rank": rank, "step": 1, "match": match, "time_ns": 150 if (rank + match) % 2 else 50}
            for rank in range(2)
            for match in range(2)
        ]
    )
    assert tokens.level(segments).sort("rank", "match")["part_ns"].to_list() == [0, 50, 50, 0]


@pytest.mark.parametrize(("together_ns", "turns"), [(95, ()), (20, (2, 3))])
def test_ranks_that_are_slow_together_take_no_turns(together_ns: int, turns: tuple[int, ...]) -> None:
    """Half of the devices of a job were slow, now one the slowest, now another, and told as uneven work."""
    beyond = pl.DataFrame(
        [
            {"rank": rank, "step": step, "beyond_ns": 0 if rank < 2 else 100 if rank == 2 + step % 2 else together_ns}
            for rank in range(4)
            for step in range(6)
        ]
    ).with_columns(time_ns=1000 + pl.col("beyond_ns"))
    assert in_turns.who_takes(beyond) == turns


@pytest.mark.parametrize(("others_ns", "turns"), [(0, ()), (40, (2, 3))])
def test_devices_that_lag_behind_their_hosts_take_no_turns(others_ns: int, turns: tuple[int, ...]) -> None:
    """Work of one step counted for the next on one of two slow devices now and then, as if they took turns."""
    beyond = pl.DataFrame(
        [
            {"rank": rank, "step": step, "beyond_ns": 0 if rank < 2 else 100 if rank == 2 + step % 2 else 60}
            | {"time_ns": 1000 + (others_ns if rank < 2 else 100 if rank == 2 + step % 2 else 60)}
            for rank in range(4)
            for step in range(6)
        ]
    )
    assert in_turns.who_takes(beyond) == turns


def test_how_often_a_step_waits_is_not_told_where_no_steps_are_known() -> None:
    """Decoding that nobody marked waited often in the whole recording, and was told to wait often in a step."""
    wait = Candidate(SYNCHRONIZATION, Change(), evidence={"count": 1_000})
    ratios = [least_ratio(each, 4, shares_cores=False) for each in (wait, replace(wait, steps=(1, 2, 3)))]
    assert ratios == [0.05, 0.01]


@pytest.mark.parametrize(("each_us", "ratio"), [(60, 0.05), (150, 0.01)])
def test_a_stage_that_is_handed_a_batch_that_is_ready_does_not_wait_for_input(each_us: int, ratio: float) -> None:
    """Only the first stage of a healthy pipeline has a loader, of which 58 us a step, 1.2 % of it, were told."""
    loading = Candidate(INPUT, Change(), (0,), evidence={"time_ns": 4_000 * each_us, "count": 4})
    assert least_ratio(loading, 4, shares_cores=False) == ratio


def alone(rank: int) -> Meetings:
    """A rank that meets nobody, for 1,000 ns."""
    nobody = dict.fromkeys(("match", "rank", "arrival_ns", "left_ns", "time_ns", "needed_ns", "ready_ns"), pl.Int64)
    words = dict.fromkeys(("collective", "group", "group_ranks"), pl.String)
    return Meetings(pl.DataFrame(schema={**nobody, "clock_offset_ns": pl.Int64, **words}), {rank: 1_000}, {})


@pytest.mark.parametrize(("call_ratio", "told"), [(1.4, [(MORE_WORK, 50)]), (1.0, [(MORE_WORK, 20), (LAUNCH, 30)])])
def test_launching_what_a_rank_calls_beyond_the_others_is_a_part_of_its_more_work(
    call_ratio: float, told: list[tuple[str, int]]
) -> None:
    """One rank's additional calls were told twice, as more work and as a host that launches too slowly."""
    meetings = alone(1)
    work = Candidate(MORE_WORK, Change(removed={1: [(10, 20.0)]}), (1,), evidence={"call_ratio": call_ratio})
    launches = Candidate(LAUNCH, Change(removed={1: [(30, 30.0)]}), (1,))
    found = with_launches([(work, 20), (launches, 30)], meetings)
    assert [(candidate.cause, cost) for candidate, cost in found] == told


def test_what_all_ranks_do_in_one_step_is_not_what_one_rank_does_in_another() -> None:
    """All ranks allocated in the first step; that one did so later, too, was told as a cause of all ranks."""
    rows = [
        {"row": "gap", "rank": rank, "step": step, "at_ns": step, "time_ns": time, "cause": "allocator"}
        | {"count": 1, "name": "cudaMalloc", "detail": None, "event_id": 1, "start_ns": step}
        for rank in range(4)
        for step, time in enumerate((2_500, 100 if rank == 2 else 0, 0))
    ]
    job = CausesJob(pl.DataFrame(rows), pl.DataFrame(), (0, 1, 2, 3), floor_ns=30)
    found = {(c.ranks, c.steps, c.evidence["time_ns"]) for c in idle.causes(job)}
    assert found == {((), (0,), 10_000), ((2,), (1,), 100)}


@pytest.mark.parametrize("own", [60.0, 10.0, 0.0])
def test_a_rank_that_does_all_that_others_do_and_more_can_be_compared_with_them(own: float) -> None:
    """A rank whose own kernels took a third of its time was told to run another program, and not named."""
    usual = {"gemm": 70.0, "norm": 30.0}
    first, second, third = (
        same_work._Work(times, {})
        for times in (usual, usual | {"sort": own}, {"gemm": 30.0, "conv": 70.0, "sort": own})
    )
    assert same_work._is_alike(first, second, 0.99, 0.95)
    assert not same_work._is_alike(first, third, 0.99, 0.95)


@pytest.mark.parametrize(("is_pipeline", "is_told"), [(False, True), (True, False)])
def test_ranks_with_nearly_the_same_kernels_can_be_compared_where_none_is_a_stage(
    is_pipeline: bool, is_told: bool
) -> None:
    """Of two ranks on one CPU the one that computes another batch, too, was told to run another program."""
    kernels = {0: {"gemm": 30, "gelu": 60, "norm": 8, "copy": 2}, 1: {"gemm": 150, "gelu": 15, "norm": 8, "normal": 7}}
    rows = [
        {"rank": rank, "row": "work", "name": name, "operator": None, "count": 1, "time_ns": time}
        for rank in kernels
        for name, time in kernels[rank].items()
    ]
    visits = pl.DataFrame({"match": 0, "rank": [0, 1], "collective": ["send/recv" if is_pipeline else "allreduce"] * 2})
    groups = same_work.alike(CausesJob(pl.DataFrame(rows), visits, (0, 1), floor_ns=1))
    assert [group.ranks for group in groups] == ([(0, 1)] if is_told else [(0,), (1,)])


def test_of_two_ranks_what_the_other_takes_longer_for_is_no_part_of_equal_work() -> None:
    """More calls of one of two ranks were told to be calls of equal shapes, whose times vary on one CPU."""
    times = {"addmm": (20, 20, 6), "gelu": (18, 3, 6), "mm": (20, 55, 6), "addmm of another batch": (0, 20, 0)}
    rows = [
        {"rank": rank, "row": "work", "name": name, "detail": "", "operator": name, "time_ns": ns, "count": count}
        for name, (first, second, calls) in times.items()
        for rank, ns, count in ((0, first, calls), (1, second, 6))
        if ns
    ]
    kinds = equal_work.by_kind(CausesJob(pl.DataFrame(rows), pl.DataFrame(), (0, 1), floor_ns=1))
    assert not equal_work.is_equal(kinds, (1,))
    assert equal_work.is_equal(kinds.filter(pl.col("name") != "addmm of another batch"), (1,))


def test_what_a_rank_computes_more_before_a_meeting_is_not_taken_from_what_it_computes_beside_it() -> None:
    """Of extra work before an all-reduce a third was placed beside it, where it holds nobody up."""
    rows = [
        {"row": "segment", "rank": rank, "step": 1, "start_ns": start, "at_ns": end, "time_ns": end - start, "count": 1}
        | {"detail": None, "event_id": 1}
        for rank, came in ((0, 100), (1, 100), (2, 150))
        for start, end in ((0, came), (came, came + 80))
    ]
    visits = pl.DataFrame(
        [
            {"match": 7, "rank": rank, "arrival_ns": came, "left_ns": 250, "clock_offset_ns": 0, "time_ns": 20}
            for rank, came in ((0, 100), (1, 100), (2, 150))
        ]
    )
    job = CausesJob(pl.DataFrame(rows), visits, (0, 1, 2), floor_ns=5)
    segments = job_segments.met(job.rows, job)
    beyond = beyond_others(segments, job, ())
    placed = job_segments.placed(segments, beyond).filter(pl.col("part_ns") > 0)
    assert placed.select("rank", "at_ns", "part_ns").rows() == [(2, 150, 50.0)]


def test_what_a_rank_computes_more_is_not_all_placed_where_it_can_be_compared() -> None:
    """A rank of several groups came to another meeting next; its 50 ns were cut to the 2 of which others took 1."""
    rows = [
        {"row": "segment", "rank": rank, "step": 1, "start_ns": start, "at_ns": end, "time_ns": end - start, "count": 1}
        | {"detail": None, "event_id": 1}
        for rank, first, last in ((0, 1, 101), (1, 1, 101), (2, 2, 151))
        for start, end in ((0, first), (first, last))
    ]
    held = {"arrival_ns": 0, "clock_offset_ns": 0, "time_ns": 20}
    visits = pl.DataFrame(
        [
            {"match": match, "rank": rank, "left_ns": left} | held
            for rank, own in ((0, 7), (1, 7), (2, 8))
            for match, left in ((6, 3), (own, 250))
        ]
    )
    job = CausesJob(pl.DataFrame(rows), visits, (0, 1, 2), floor_ns=5)
    segments = job_segments.met(job.rows, job)
    placed = job_segments.placed(segments, beyond_others(segments, job, ())).filter(pl.col("part_ns") > 0)
    assert placed.select("rank", "at_ns", pl.col("part_ns").round()).rows() == [(2, 2, 1.0), (2, 151, 49.0)]


def test_of_kernels_that_no_operator_is_known_of_the_kernel_is_named() -> None:
    """Another operator, which took a little longer, was named for work that was a kernel's."""
    kinds = pl.DataFrame(
        {
            "rank": [0, 1, 0, 1],
            "name": ["copy", "copy", "gemm", "gemm"],
            "operator": [None, None, "aten::mm", "aten::mm"],
            "time_ns": [0, 900, 500, 510],
        }
    )
    assert equal_work.largest(kinds, (1,)) == ("copy", "copy")
