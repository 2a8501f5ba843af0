"""Kernels of one collective are found on all ranks, whenever their recordings began and whatever their clocks say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import polars as pl
import pytest

import holotrace
from drawing import described, device_trace, trace
from holotrace.core.schema import empty
from holotrace.core.tables import RANK
from holotrace.derive import collectives, lost_calls
from holotrace.derive.collectives import CALLS, by_member, matched
from xplane_files import Event, Line, Plane, space


@pytest.mark.parametrize("seed", range(25))
def test_calls_without_numbers_are_matched_from_where_all_ranks_recorded_them(seed: int) -> None:
    random = Random(seed)
    ranks, count = random.choice([2, 3, 8]), random.randint(12, 40)
    first, last = ({rank: random.choice([0, 0, 1, 2]) for rank in range(ranks)} for _ in "ab")
    ahead_ns = {rank: random.choice([0, 0, 1_700_000, -4_000_000]) for rank in range(ranks)}
    rows, end_ns = [], 10**18
    for number in range(count):
        end_ns += random.randint(400_000, 600_000)
        for rank in range(ranks):
            if first[rank] <= number < count - last[rank]:
                ends = end_ns + ahead_ns[rank] + random.randint(0, 5_000)
                # The step stands for the number that the trace does not tell.
                rows.append(
                    {"rank": rank, "operation": "k", "step": number, "start_ns": ends - 100_000, "end_ns": ends}
                )
    calls = pl.concat(
        [empty((RANK, *CALLS)), pl.DataFrame(rows).cast({"rank": pl.Int32, "operation": pl.Categorical})],
        how="diagonal",
    )
    found = matched(by_member(calls.sample(fraction=1, shuffle=True, seed=seed)))
    together = found.group_by("match").agg(pl.col("step").n_unique(), ranks=pl.col("rank").n_unique())
    assert together["step"].unique().to_list() == [1]
    assert together["ranks"].unique().to_list() == [ranks]
    assert together.height == count - max(first.values()) - max(last.values())


@pytest.mark.parametrize("told", ["another operation", "numbers", "steps"])
def test_calls_at_equal_distances_are_matched_by_the_clocks_that_all_else_tells(told: str) -> None:
    """Of two machines whose clocks differ, every shift of decoding steps of equal length fits as well."""
    ahead_ns, apart_ns = 2_600_000, 1_000_000
    rows = [
        {
            "rank": rank,
            "operation": "k",
            "step": number // 4 if told == "steps" else None,
            "end_ns": 10**18 + number * apart_ns + rank * ahead_ns,
            "event_id": number,
        }
        for number in range(40)
        for rank in range(2)
    ]
    if told != "steps":
        rows += [
            {
                "rank": rank,
                "operation": "other",
                "group": "0" if told == "numbers" else None,
                "sequence": number if told == "numbers" else None,
                "end_ns": 10**18 + number * number * 310_000 + rank * ahead_ns,
                "event_id": number,
            }
            for number in range(12)
            for rank in range(2)
        ]
    label = pl.Categorical()
    schema = {"rank": pl.Int32(), "operation": label, "group": label, "event_id": pl.UInt32()}
    frame = pl.DataFrame(rows, schema_overrides=schema, infer_schema_length=None)
    calls = pl.concat(
        [empty((RANK, *CALLS)), frame.with_columns(start_ns=pl.col("end_ns") - 50_000)], how="diagonal_relaxed"
    )
    found = matched(by_member(calls))
    assert found.group_by("match").agg(pl.col("event_id").n_unique())["event_id"].unique().to_list() == [1]
    assert found["match"].n_unique() == len(rows) // 2


def test_layers_that_repeat_are_matched_by_the_pauses_between_steps() -> None:
    """A rank of a server that paused for 4.4 ms in each step, of 192 calls, was worth 3.8 of 70 ms: ranks of another
    machine, whose clock differs by 0.5 ms, were matched with what came eight calls later."""
    us, layers = 1_000, 120
    ends = [10**18]
    for number in range(1, 4 * layers):
        ends.append(ends[-1] + (60 * us if number % 2 else 88 * us) + (4_400 * us if number % layers == 0 else 0))
    random = Random(2)
    rows = [
        {
            "rank": rank,
            "operation": "k",
            "end_ns": end_ns + rank * 520 * us + random.randint(0, 900),
            "event_id": number,
        }
        for number, end_ns in enumerate(ends)
        for rank in range(2)
    ]
    schema = {"rank": pl.Int32(), "operation": pl.Categorical(), "event_id": pl.UInt32()}
    frame = pl.DataFrame(rows, schema_overrides=schema).with_columns(start_ns=pl.col("end_ns") - 20 * us)
    found = matched(by_member(pl.concat([empty((RANK, *CALLS)), frame], how="diagonal_relaxed")))
    assert found.group_by("match").agg(pl.col("event_id").n_unique())["event_id"].unique().to_list() == [1]
    assert found["match"].n_unique() == len(ends)


@pytest.mark.parametrize("lost", [range(10, 19), range(30, 34), (*range(20, 26), *range(40, 44))])
def test_calls_after_some_that_a_rank_lost_are_matched_with_their_own(lost: Sequence[int]) -> None:
    """A profiler that lost kernels in the middle of a step moved all later collectives of the rank: a slow device was
    worth 3.9 instead of 22 ms."""
    random, ends = Random(3), [10**18]
    for number in range(1, 64):
        ends.append(ends[-1] + random.randint(400_000, 900_000) + (5_000_000 if number % 16 == 0 else 0))
    rows = [
        {
            "rank": rank,
            "operation": "k",
            "end_ns": end_ns + rank * 1_700_000 + random.randint(0, 4_000),
            "event_id": number,
        }
        for number, end_ns in enumerate(ends)
        for rank in range(3)
        if rank != 1 or number not in lost
    ]
    schema = {"rank": pl.Int32(), "operation": pl.Categorical(), "event_id": pl.UInt32()}
    frame = pl.DataFrame(rows, schema_overrides=schema).with_columns(start_ns=pl.col("end_ns") - 20_000)
    found = matched(by_member(pl.concat([empty((RANK, *CALLS)), frame], how="diagonal_relaxed")))
    assert found.group_by("match").agg(pl.col("event_id").n_unique())["event_id"].unique().to_list() == [1]
    assert found["match"].n_unique() == len(ends) - len(lost)


def test_calls_that_end_at_other_times_on_each_rank_keep_their_order() -> None:
    """Where ranks leave exchanges one after the other a third of them was left out, as one rank had some fewer: another
    straggler was named in a recording of torchrec."""
    random = Random(5)
    rows = [
        {
            "key": 1,
            "series": rank,
            "operation": "k",
            "position": number,
            "end_ns": 10**18 + number * 2_000_000 + random.randint(0, 900_000),
        }
        for rank in range(4)
        for number in range(16 if rank != 2 else 14)
    ]
    calls = pl.DataFrame(rows)
    assert lost_calls.placed(calls).equals(calls)


def test_devices_of_one_rank_are_matched_by_their_clock_however_their_calls_repeat() -> None:
    """One shift fitted calls at equal distances as well as another, and seconds lay between what was matched."""
    random = Random(1)
    apart_ns = [random.randint(0, 1_000_000) for _ in range(9)]
    rows = [
        {
            "rank": 0,
            "device": device,
            "operation": operation,
            # The calls repeat, and so does what keeps a device from leaving at once.
            "end_ns": 10**18 + number * 5_000_000 + device * apart_ns[(number + place) % 9],
            "event_id": number,
        }
        for number in range(90)
        for device in range(4)
        for place, operation in enumerate("abcd")
    ]
    schema = {"rank": pl.Int32(), "operation": pl.Categorical(), "event_id": pl.UInt32()}
    frame = pl.DataFrame(rows, schema_overrides=schema)
    calls = pl.concat(
        [empty((RANK, *CALLS)), frame.with_columns(start_ns=pl.col("end_ns") - 50_000)], how="diagonal_relaxed"
    )
    found = matched(by_member(calls))
    assert found.group_by("match").agg(pl.col("event_id").n_unique())["event_id"].unique().to_list() == [1]
    assert found["match"].n_unique() == len(rows) // 4


@pytest.mark.parametrize(("host", "count"), [("CGG", 3), ("C..", 1)])
def test_what_a_graph_replays_without_numbers_is_matched_beside_calls_that_have_some(host: str, count: int) -> None:
    """A rank whose graph was slow delayed no other; what was launched before the recording has lost its number."""
    drawn = f"""
        host    |{host}............................|
        comm    |.....CCCCC...GGGGG....GGGGG....|
    """
    told = {"sequence": [1, None, None], "group": ["0", None, None], "collective": ["allreduce", None, None]}
    calls = pl.concat(
        collectives.calls(described(trace(drawn, rank), **told)).with_columns(rank=pl.lit(rank)) for rank in range(2)
    )
    assert matched(by_member(calls))["match"].n_unique() == count


def test_operations_of_one_kernel_are_matched_by_their_names() -> None:
    """RCCL runs one kernel for all: a gather that another queue's reduction overtook was matched with that."""
    calls = []
    for rank in range(2):
        begun = [(1_000 * number + 10 * ((place + rank) % 2), place) for number in range(5) for place in range(2)]
        kernels = [
            {"name": "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "kind": "communication", "device": 0}
            | {"event_id": event_id, "stream": place, "start_ns": start_ns, "end_ns": start_ns // 100 * 100 + 300}
            for event_id, (start_ns, place) in enumerate(begun)
        ]
        names = [("_allgather_base", "_reduce_scatter_base")[place] for _, place in sorted(begun)]
        told = described(device_trace(kernels), collective=names, group="0")
        calls.append(collectives.calls(told).with_columns(rank=pl.lit(rank)))
    found = matched(by_member(pl.concat(calls))).group_by("match").agg(pl.col("collective").n_unique())
    assert found["collective"].to_list() == [1] * 10


def test_ranks_of_which_no_operators_were_recorded_meet_those_that_are_in_the_same_queue() -> None:
    """They met each other only, and what delayed all was laid to half of the job."""
    groups = {0: "[0, 1]", 1: "[0, 1]", 2: "[2, 3]", 3: "[2, 3]"}
    rows = [
        {
            "rank": rank,
            "kernel": "ncclDevKernel_AllReduce",
            "stream": stream,
            # Of rank 1 nothing tells more than its kernels.
            "operation": "ncclDevKernel_AllReduce" if rank == 1 else "allreduce",
            "collective": "ncclDevKernel_AllReduce" if rank == 1 else "allreduce",
            "group": None if rank == 1 else "tp" if stream == 20 else "dp",
            "group_ranks": None if rank == 1 else groups[rank] if stream == 20 else "[0, 1, 2, 3]",
            "sequence": None if rank == 1 else number,
            "end_ns": 10**18 + number * number * 310_000 + stream * 1_000,
            "event_id": number,
        }
        for number in range(8)
        for rank in groups
        for stream in (20, 24)
    ]
    label = pl.Categorical()
    texts = ("kernel", "operation", "collective", "group", "group_ranks")
    schema = {"rank": pl.Int32(), "event_id": pl.UInt32(), **dict.fromkeys(texts, label)}
    frame = pl.DataFrame(rows, schema_overrides=schema, infer_schema_length=None)
    calls = pl.concat(
        [empty((RANK, *CALLS)), frame.with_columns(start_ns=pl.col("end_ns") - 50_000)], how="diagonal_relaxed"
    )
    found = matched(by_member(calls)).group_by("match").agg("of_rank", pl.col("collective", "event_id").unique())
    together = {tuple(sorted(ranks)) for ranks in found["of_rank"].to_list()}
    assert (found.height, together) == (24, {(0, 1), (2, 3), (0, 1, 2, 3)})
    assert found["event_id"].list.len().unique().to_list() == [1]
    assert found["collective"].to_list() == [["allreduce"]] * 24


def test_a_collective_of_all_devices_is_in_no_group_of_those_beside_it(tmp_path: Path) -> None:
    """Programs of XLA name no groups where all devices take part; the line of a TPU shows collectives of any."""
    ops = [
        Event(
            f"%all-reduce.{at} = f32[8] all-reduce(f32[8] %p), replica_groups={groups}",
            at * 10**8,
            10**7,
            {"hlo_category": "all-reduce"},
            f"all-reduce.{at}",
        )
        for at, groups in enumerate(("{{0,1},{2,3}}", "{}"))
    ]
    path = tmp_path / "host.xplane.pb"
    programs = [Event("jit_f(1)", 0, 2 * 10**8)]
    path.write_bytes(space(Plane("/device:TPU:0", [Line("XLA Modules", programs, id=2), Line("XLA Ops", ops, id=3)])))
    found = holotrace.open(path).communication().select("group", "group_ranks").sort("group")
    assert found["group_ranks"].to_list() == ["[[0,1],[2,3]]", None]
