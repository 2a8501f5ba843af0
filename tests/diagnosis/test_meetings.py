"""A job that is replayed from meeting to meeting, some of its time not spent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace.diagnosis.job.meetings import LATE, NOTHING_BEFORE, Change, Meetings
from holotrace.diagnosis.rank import account, own_meetings
from trace_files import ALL_REDUCE, write_trace

# No meetings.
NONE = pl.DataFrame(
    schema={
        **dict.fromkeys(("match", "rank", "arrival_ns", "left_ns", "time_ns", "needed_ns", "ready_ns"), pl.Int64()),
        "clock_offset_ns": pl.Int64(),
        "collective": pl.String(),
        "group": pl.String(),
        "group_ranks": pl.String(),
    }
)


def late(begun_ns: int, **times: int) -> pl.DataFrame:
    """What rank 0 launched late."""
    return pl.DataFrame([{"rank": 0, "begun_ns": begun_ns, **times}], LATE)


def message(*, needed_ns: int | None) -> Meetings:
    """Rank 1 computes until 100 and then needs what rank 0 has sent it from 40 to 50; both end at 140."""
    rows = [
        {"rank": 0, "arrival_ns": 40, "left_ns": 50, "needed_ns": None},
        {"rank": 1, "arrival_ns": 0, "left_ns": 50, "needed_ns": needed_ns},
    ]
    visits = pl.DataFrame(rows, schema_overrides={"needed_ns": pl.Int64}).with_columns(
        ready_ns=pl.lit(None, pl.Int64),
        match=0,
        time_ns=0,
        clock_offset_ns=0,
        collective=pl.lit("send/recv"),
        group=pl.lit("pp"),
        group_ranks=pl.lit("[0, 1]"),
    )
    return Meetings(visits, {0: 140, 1: 140}, {})


@pytest.mark.parametrize(("needed_ns", "end_ns"), [(100, 90), (None, 80)])
def test_a_rank_that_computes_less_waits_for_a_message_that_it_did_not_wait_for(
    needed_ns: int | None, end_ns: int
) -> None:
    faster = Change(removed={1: [(90, 60)]})
    assert message(needed_ns=needed_ns).ends(faster)[1] == end_ns


def test_what_came_late_on_a_rank_that_is_not_there_is_left_out() -> None:
    unknown = late(250, since_ns=70, gap_ns=150, launched_ns=250).with_columns(rank=pl.lit(7, pl.Int64))
    assert Meetings(NONE, {0: 300}, {}, late=unknown).ends(Change()) == {0: 300}


def test_without_changes_the_recorded_times_remain() -> None:
    assert message(needed_ns=100).ends(Change()) == {0: 140, 1: 140}


def test_a_message_that_comes_while_a_rank_waits_for_another_does_not_hold_it_back() -> None:
    """A slow link of a pipeline was worth less than half: waits were undone in the order in which they began."""
    rows = [
        # Rank 1 stands still from 100, until the slow message of rank 0 is there; what rank 2 sends it needs later.
        {"match": 0, "rank": 0, "arrival_ns": 110_000, "left_ns": 200_000, "time_ns": 0, "needed_ns": None},
        {"match": 0, "rank": 1, "arrival_ns": 0, "left_ns": 200_000, "time_ns": 100_000, "needed_ns": 200_000},
        {"match": 1, "rank": 2, "arrival_ns": 150_000, "left_ns": 190_000, "time_ns": 0, "needed_ns": None},
        {"match": 1, "rank": 1, "arrival_ns": 0, "left_ns": 190_000, "time_ns": 90_000, "needed_ns": 300_000},
    ]
    visits = pl.DataFrame(rows, schema_overrides={"needed_ns": pl.Int64}).with_columns(
        ready_ns=pl.lit(None, pl.Int64),
        clock_offset_ns=0,
        collective=pl.lit("send/recv"),
        group=pl.lit("pp"),
        group_ranks=pl.format("[1, {}]", "match"),
    )
    meetings = Meetings(visits, dict.fromkeys(range(3), 400000), {})
    assert meetings.ends(Change(transfer={0: 1 / 9}))[1] == 320_000


@pytest.mark.parametrize(
    ("change", "end_ns"),
    [
        # The host is in a function from 70 to 250: a device that computes 60 less only waits for it longer.
        (Change(removed={0: [(90, 60)]}), 300),
        # It begins that function earlier if the device has done earlier what it did before.
        (Change(removed={0: [(60, 30)]}), 270),
        (Change(removed={0: [(250, 100)]}, of_hosts={0: [(250, 100)]}), 200),
        (Change(removed={0: [(90, 60), (250, 100)]}, of_hosts={0: [(250, 100)]}), 180),
    ],
)
def test_a_faster_device_waits_longer_for_a_host_that_launches_late(change: Change, end_ns: int) -> None:
    """A slow device beside a slow data loader was worth too much: the loader takes as long with a faster one."""
    alone = Meetings(NONE, {0: 300}, {}, late=late(250, since_ns=70, gap_ns=150, launched_ns=250))
    assert alone.ends(change)[0] == end_ns


@pytest.mark.parametrize(
    ("change", "end_ns"),
    [
        (Change(removed={0: [(90, 15)]}), 285),
        # It was launched only 20 before it began.
        (Change(removed={0: [(90, 60)]}), 280),
        # The host goes on earlier if the device has done earlier what it waited for.
        (Change(removed={0: [(60, 30)]}), 270),
        # It is not known how much earlier it would be launched.
        (Change(removed={0: [(90, 60)]}, of_hosts={0: [(90, 60)]}), 240),
    ],
)
def test_a_faster_device_begins_nothing_before_it_is_launched(change: Change, end_ns: int) -> None:
    """A slow device that kept up with its host was worth all of its slowness, though a fast one only waits."""
    alone = Meetings(NONE, {0: 300}, {}, late=late(250, since_ns=70, gap_ns=0, launched_ns=230))
    assert alone.ends(change)[0] == end_ns


@pytest.mark.parametrize(("lag_ms", "saved_ms"), [(1, 141), (5, 145), (60, 170)])
def test_what_a_host_sends_as_it_launches_is_there_earlier_if_it_launches_earlier(lag_ms: int, saved_ms: int) -> None:
    """What a wait exposes was worth nothing where programs begin long after their launch, when their batch is there."""
    times = {"returned_ns": 220_000_000, "began_ns": 50_000_000, "ready_ns": 100_000_000, "before_ns": NOTHING_BEFORE}
    waits = pl.DataFrame({"rank": 0, **times})
    begun_ms = 240 + lag_ms
    late_ms = {"since_ns": 220, "gap_ns": begun_ms - 100, "launched_ns": 240}
    launched = late(begun_ms * 1_000_000, **{name: ms * 1_000_000 for name, ms in late_ms.items()})
    alone = Meetings(NONE, {0: 400_000_000}, {}, late=launched, waits=waits, waiting={0})
    assert alone.ends(Change())[0] == 400_000_000
    assert alone.saved_ns(Change(waits={0: frozenset({220_000_000})})) == saved_ms * 1_000_000


@pytest.mark.parametrize(("before_ms", "saved_ms"), [(None, 141), (30, 141), (90, 130), (100, 120)])
def test_a_host_that_does_not_wait_early_waits_for_what_its_device_did_before(
    before_ms: int | None, saved_ms: int
) -> None:
    """Reading the loss of each second step was worth half as much again, beside compiling in one of the others.

    Without it, a host that reads the loss of the step before is not further ahead than by that step.
    """
    before_ns = NOTHING_BEFORE if before_ms is None else before_ms * 1_000_000
    times = {"returned_ns": 220_000_000, "began_ns": 50_000_000, "ready_ns": 100_000_000, "before_ns": before_ns}
    waits = pl.DataFrame({"rank": 0, **times})
    launched = late(241_000_000, since_ns=220_000_000, gap_ns=141_000_000, launched_ns=240_000_000)
    alone = Meetings(NONE, {0: 400_000_000}, {}, late=launched, waits=waits, waiting={0})
    assert alone.saved_ns(Change(waits={0: frozenset({220_000_000})})) == saved_ms * 1_000_000


@pytest.mark.parametrize(("hidden_ns", "end_ns"), [(0, 280), (20, 260), (500, 240)])
def test_what_a_host_does_not_do_it_does_not_do_either_while_its_device_works(hidden_ns: int, end_ns: int) -> None:
    """A loader of all ranks that is as slow as their devices was worth half of what it cost.

    Some wait for others, whose devices wait for the loader, and theirs hid it until then.
    """
    alone = Meetings(NONE, {0: 300}, {}, late=late(250, since_ns=70, gap_ns=0, launched_ns=230))
    spent = {0: [(200, float(hidden_ns))]} if hidden_ns else {}
    assert alone.ends(Change({0: [(90, 60.0)]}, spent=spent))[0] == end_ns


def test_a_host_that_had_waited_within_what_it_does_not_do_had_begun_that_before() -> None:
    """A checkpoint was worth two thirds of what it cost, as the host waits for copies within it."""
    alone = Meetings(NONE, {0: 300}, {}, late=late(250, since_ns=70, gap_ns=0, launched_ns=230))
    assert alone.ends(Change({0: [(240, 200.0)]}, spent={0: [(200, 180.0)]}))[0] == 100


def test_of_two_that_end_at_once_a_rank_waited_for_the_one_that_it_mostly_waits_for() -> None:
    """Gathering parameters late was worth less where gradients of the layer before ended a moment after."""
    rows = [
        {"match": match, "collective": collective, "arrival_ns": start, "left_ns": end, "time_ns": held}
        for match, (collective, start, end, held) in enumerate(
            [
                ("gather", 100_000, 200_000, 100_000),
                ("scatter", 100_000, 202_000, 102_000),
                ("gather", 300_000, 400_000, 100_000),
                ("scatter", 300_000, 450_000, 0),
            ]
        )
    ]
    visits = pl.DataFrame(rows).with_columns(
        rank=0,
        needed_ns=pl.lit(None, pl.Int64),
        ready_ns=pl.lit(None, pl.Int64),
        clock_offset_ns=0,
        group=pl.col("collective"),
        group_ranks=pl.lit(""),
    )
    meetings = Meetings(visits, {0: 500_000}, {})
    assert meetings.saved_ns(Change(transfer={0: 0.5, 2: 0.5})) == 100_000
    assert meetings.saved_ns(Change(transfer={1: 0.5, 3: 0.5})) == 0


def test_replicas_that_never_meet_count_by_how_many_they_are() -> None:
    """Of ranks without communication only what the last to end lost was told: one recorded for itself, or later."""
    replicas = Meetings(NONE, {0: 100, 1: 1_000}, {})
    assert replicas.lasted_ns({0: 90, 1: 0}) == (10 + 1_000) // 2
    assert replicas.saved_ns(Change(removed={0: [(95, 8)]})) == 8 // 2
    assert not replicas.meet_others(set())


def test_of_ranks_that_meet_the_last_one_counts() -> None:
    pair = message(needed_ns=100)
    assert pair.lasted_ns({0: 0, 1: 20}) == 140
    assert pair.saved_ns(Change(removed={0: [(120, 20)]})) == 0
    assert [pair.meet_others(ranks) for ranks in ({0}, {0, 1}, set[int]())] == [True, False, True]


@pytest.mark.parametrize(("ready_ns", "end_ns"), [(75_000, 105_000), (None, 80_000)])
def test_what_stood_in_a_queue_begins_when_it_is_computed_though_the_queue_moves_on_earlier(
    ready_ns: int | None, end_ns: int
) -> None:
    """A pause was worth 1.6 times as much as was lost by it beside a slow device, which then was last to all else."""
    visits = pl.DataFrame(
        {
            "match": [0, 0, 1, 1],
            "rank": [0, 1, 0, 1],
            "arrival_ns": [100_000, 20_000, 110_000, 110_000],
            "left_ns": [110_000, 110_000, 140_000, 140_000],
            "time_ns": [0, 0, 10_000, 60_000],
            "ready_ns": [30_000, 20_000, 30_000, ready_ns],
        },
        schema_overrides={"ready_ns": pl.Int64},
    ).with_columns(
        needed_ns=pl.lit(None, pl.Int64),
        clock_offset_ns=0,
        collective=pl.lit("allreduce"),
        group=pl.lit("0"),
        group_ranks=pl.lit("[0, 1]"),
    )
    meetings = Meetings(visits, {0: 140_000, 1: 140_000}, {})
    paused = Change(removed={0: [(100_000, 60_000)]})
    assert meetings.ends(paused) == {0: end_ns, 1: end_ns}


def test_one_queue_holds_its_meetings_one_after_the_other_though_ranks_come_to_them_at_once() -> None:
    """Products in fp32 were worth more than they took: without them gradients are reduced one after the other."""
    visits = pl.DataFrame(
        {
            "match": [0, 1],
            "rank": [0, 0],
            "arrival_ns": [100_000, 300_000],
            "left_ns": [180_000, 380_000],
            "time_ns": [0, 80_000],
        }
    ).with_columns(
        needed_ns=pl.lit(None, pl.Int64),
        ready_ns=pl.lit(None, pl.Int64),
        clock_offset_ns=0,
        collective=pl.lit("allreduce"),
        group=pl.lit("0"),
        group_ranks=pl.lit("[0]"),
    )
    meetings = Meetings(visits, {0: 400_000}, {})
    # From 120 on the second one waits until the first one has ended.
    assert meetings.saved_ns(Change(removed={0: [(280_000, 180_000)]})) == 120_000


@pytest.mark.parametrize(("begins_us", "held_ns"), [(60.0, 20_000), (59.999, 19_999), (58.0, 0)])
def test_what_waits_for_a_collective_may_seem_to_begin_before_it_ends_since_files_round_times(
    tmp_path: Path, begins_us: float, held_ns: int
) -> None:
    """Half of the collectives of a slow device seemed to delay nobody, and it was worth two thirds of what it cost."""
    work = [("gemm", 0, 10, 30, 7), ("nccl", 10, 31, 29, 20), ("gemm", 20, begins_us, 10, 7)]
    write_trace(tmp_path / "rank-0.json", events=launched(work))
    (found,) = holotrace.open(tmp_path).map(lambda rank: own_meetings.of_rank(rank, 0), account.READS)
    assert found["time_ns"].to_list() == [held_ns]


def launched(work: Sequence[tuple[str, float, float, float, int]]) -> list[dict[str, object]]:
    """Calls of a host and their kernels: name, when it was launched, began, how long it took, in us; and its stream."""
    events: list[dict[str, object]] = []
    for number, (name, at, begins, lasts, stream) in enumerate(work):
        place, call = {"pid": 0, "tid": stream}, {"pid": 1, "tid": 1, "name": "cudaLaunchKernel"}
        args = {"correlation": number, "stream": stream, "device": 0, **(ALL_REDUCE if name == "nccl" else {})}
        kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" if name == "nccl" else name
        events += [
            {"ph": "X", "cat": "cuda_runtime", **call, "ts": at, "dur": 5, "args": {"correlation": number}},
            {"ph": "X", "cat": "kernel", "name": kernel, **place, "ts": begins, "dur": lasts, "args": args},
        ]
    return events


@pytest.mark.parametrize(("lasts_us", "is_known"), [(40, True), (90, False)])
def test_what_is_communicated_is_ready_when_all_is_that_was_launched_before_it(
    tmp_path: Path, lasts_us: int, is_known: bool
) -> None:
    """Unless some of its kind begin before that has ended."""
    # The second one stands behind the first.
    work = [("gemm", 0, 10, 20, 7), ("nccl", 10, 31, 60, 20), ("gemm", 20, 30, lasts_us, 7), ("nccl", 30, 92, 30, 20)]
    write_trace(tmp_path / "rank-0.json", events=launched(work))
    (found,) = holotrace.open(tmp_path).map(lambda rank: own_meetings.of_rank(rank, 0), account.READS)
    assert found["ready_ns"].to_list() == [None, 70_000 if is_known else None]


def test_what_a_host_does_for_one_device_after_the_other_holds_each_up_before_it_meets_the_others() -> None:
    """Devices that go their own way were held up by calls of the host before and after the meeting: 17 of 27 ms."""
    rows = [
        # A call of the host ends at 95: the first device has come to the first meeting, and waits for the second.
        {"match": 0, "device": 0, "arrival_ns": 90_000, "left_ns": 100_000},
        {"match": 0, "device": 1, "arrival_ns": 100_000, "left_ns": 100_000},
        {"match": 1, "device": 0, "arrival_ns": 190_000, "left_ns": 200_000},
        {"match": 1, "device": 1, "arrival_ns": 200_000, "left_ns": 200_000},
    ]
    devices = pl.DataFrame(rows).with_columns(
        needed_ns=pl.lit(None, pl.Int64),
        ready_ns=pl.lit(None, pl.Int64),
        time_ns=pl.col("left_ns") - pl.col("arrival_ns"),
        rank=0,
        clock_offset_ns=0,
        collective=pl.lit("all-reduce"),
        group=pl.lit("dp"),
        group_ranks=pl.lit("[0, 1]"),
    )
    visits = devices.filter(device=1).with_columns(device=pl.lit(None, pl.Int64))
    held = Meetings(visits, {0: 210_000}, {}, devices=devices)
    assert held.ends(Change(removed={0: [(95_000, 60_000)]})) == {0: 150_000}
    assert held.ends(Change(removed={0: [(95_000, 60_000), (205_000, 3_000)]})) == {0: 147_000}
