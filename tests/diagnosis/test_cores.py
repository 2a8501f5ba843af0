"""Devices of one host that the others of it wait for."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis.job import cores
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import INPUT, MORE_WORK, SLOW_DEVICE, UNEVEN_WORK

MS = 1_000_000
STEPS, STEP_NS = 5, 100 * MS
EQUAL = {"dot.1": (20, 4), "dot.2": (20, 4)}


def found(work: list[dict[str, tuple[int, int]]], late: int) -> list[Candidate]:
    """Causes of a rank whose devices compute this, in ms and calls of each step, and one of which comes ``late`` ms."""
    computed = [
        {"row": account.CORE, "rank": 0, "device": device, "name": name, "time_ns": ms * MS * STEPS, "count": count}
        for device, of_device in enumerate(work)
        for name, (ms, count) in of_device.items()
    ]
    last = max(range(len(work)), key=lambda device: sum(ms for ms, _ in work[device].values()))
    come = [
        {
            "rank": 0,
            "match": step,
            "step": step,
            "device": device,
            "event_id": step,
            "clock_offset_ns": 7,
            "arrival_ns": step * STEP_NS + (50 + late * (device == last)) * MS,
            "left_ns": (step + 1) * STEP_NS,
            "come_ns": step * STEP_NS + (50 + late) * MS,
            "time_ns": STEP_NS - (50 + late) * MS,
            "exposed_ns": STEP_NS - (50 + late * (device == last)) * MS,
        }
        for step in range(STEPS)
        for device in range(len(work))
    ]
    rank = {"rank": pl.Int32()}
    rows = pl.DataFrame(computed, schema_overrides=rank)
    rows = rows.select("rank").hstack(filled(rows.drop("rank"), account.COLUMNS))
    job = Job(rows, pl.DataFrame(), (0,), MS)
    queue = pl.lit(None, pl.Int64).alias("queue")
    return list(cores.causes(job, pl.DataFrame(come, schema_overrides=rank).with_columns(queue)))


def test_a_device_that_takes_longer_for_the_same_is_slow() -> None:
    slow = {name: (ms * 3 // 2, count) for name, (ms, count) in EQUAL.items()}
    (cause,) = found([EQUAL, slow, EQUAL, EQUAL], late=20)
    assert (cause.cause, cause.ranks, cause.responsible) == (SLOW_DEVICE, (0,), None)
    assert (cause.evidence["device"], cause.evidence["time_ratio"]) == (1, pytest.approx(1.5))
    # It is taken away where the device came, on the clock of its rank.
    assert cause.change.of_devices == {(0, 1): [(step * STEP_NS + 70 * MS + 7, 20.0 * MS) for step in range(STEPS)]}


def test_a_device_that_computes_more_is_not_slow_and_what_it_has_more_of_is_responsible() -> None:
    (cause,) = found([EQUAL, EQUAL, {**EQUAL, "while.1": (20, 9)}], late=20)
    assert (cause.cause, cause.responsible, cause.evidence["device"]) == (MORE_WORK, "while.1", 2)
    assert "is_equal" not in cause.evidence


def test_devices_that_come_late_without_computing_longer_are_not_blamed() -> None:
    assert found([EQUAL, EQUAL, EQUAL], late=20) == []


def test_nothing_is_said_of_devices_that_come_together() -> None:
    assert found([EQUAL, {**EQUAL, "while.1": (20, 9)}], late=0) == []


def late(*collectives: tuple[int, int, int, int]) -> list[int]:
    """How long a device is late, in ms, at collectives to which the other comes, and then it, and that end so exposed.

    The late one stands still in none of them.
    """
    come = [
        {
            "match": match,
            "device": device,
            "arrival_ns": arrival * MS,
            "come_ns": last * MS,
            "left_ns": left * MS,
            "exposed_ns": exposed * MS * (device == 0),
            "time_ns": 0,
        }
        for match, (first, last, left, exposed) in enumerate(collectives)
        for device, arrival in enumerate((first, last))
    ]
    columns = {"rank": 0, "step": 0, "event_id": 0, "clock_offset_ns": 0, "queue": None}
    found = cores.late(pl.DataFrame(come).with_columns(**{name: pl.lit(value) for name, value in columns.items()}))
    return [ns // MS for ns in found.sort("match")["time_ns"]]


def test_a_transfer_that_computing_would_have_hidden_is_a_part_of_what_others_stand_still_for() -> None:
    """They computed while they waited, so that all of the transfer after that seemed to be exposed in any case."""
    assert late((0, 20, 30, 12)) == [12]
    assert late((0, 20, 30, 30)) == [20]


def test_what_is_awaited_after_others_have_ended_is_stood_still_for_once() -> None:
    """Both were exposed at the same time, before they were over."""
    assert late((0, 20, 40, 10), (20, 39, 41, 11)) == [10, 1]


def test_devices_stand_still_for_collectives_under_way_at_once_one_after_the_other() -> None:
    """Gradients of one layer are on their way while those of the next are computed, and the device that came first was
    said to stand still for both: a device slower by a quarter cost 1.7 times as much as it did.
    """
    assert late((0, 48, 65, 24), (41, 100, 117, 35), (106, 152, 168, 0)) == [24, 11, 0]


def test_a_device_that_waits_for_another_in_one_group_makes_nobody_late_in_the_next() -> None:
    """Of two devices that come late to their groups one had waited for the other, and a third had come in time."""
    groups = [((0, 0), (1, 20)), ((2, 0), (3, 9)), ((0, 21), (2, 10)), ((1, 21), (3, 10))]
    come = [
        {
            "match": match,
            "device": device,
            "arrival_ns": arrival * MS,
            "come_ns": (last := max(each for _, each in group)) * MS,
            "left_ns": (last + 1) * MS,
            "exposed_ns": (last + 1 - arrival) * MS,
            "time_ns": 0,
        }
        for match, group in enumerate(groups)
        for device, arrival in group
    ]
    columns = {"rank": 0, "step": 0, "event_id": 0, "clock_offset_ns": 0, "queue": None}
    found = cores.late(pl.DataFrame(come).with_columns(**{name: pl.lit(value) for name, value in columns.items()}))
    by_device = found.group_by("device").agg(pl.col("time_ns").sum() / MS).sort("device")
    # Device 3 is late to its first group, at a time at which others wait for device 1 for longer.
    assert by_device.rows() == [(0, 0.0), (1, 21.0), (3, 0.0)]


def longer(*ranks: int, device: int | None = None, cause: str = SLOW_DEVICE) -> Candidate:
    return Candidate(cause, Change(), ranks, evidence={} if device is None else {cores.DEVICE: device})


def test_ranks_that_their_devices_explain_are_told_by_these() -> None:
    devices = [(longer(1, device=3), 90), (longer(2, device=0), 80)]
    other = (longer(1, cause=INPUT), 50)
    assert cores.told_once([*devices, (longer(1, 2), 200), other]) == [*devices, other]


def test_ranks_that_take_turns_are_told_by_the_devices_that_make_each_late() -> None:
    devices = [(longer(0, device=3), 8), (longer(1, device=2, cause=MORE_WORK), 3)]
    turns = (Candidate(UNEVEN_WORK, Change()), 9)
    assert cores.told_once([*devices, turns]) == devices
    more = (Candidate(UNEVEN_WORK, Change()), 90)
    assert cores.told_once([*devices, more]) == [*devices, more]


def test_what_devices_have_in_turns_is_not_told_of_ranks_or_of_one_of_them_again() -> None:
    turns = (Candidate(UNEVEN_WORK, Change(), evidence={cores.DEVICES: 4}), 9)
    slow = (longer(0, device=1), 3)
    others = [(longer(0, device=3, cause=MORE_WORK), 8), (Candidate(UNEVEN_WORK, Change()), 4), (longer(1), 2)]
    assert cores.told_once([turns, slow, *others[:2]]) == [turns, slow]
    much = (longer(0, device=3, cause=MORE_WORK), 90)
    assert cores.told_once([turns, slow, much]) == [slow, much]


def test_no_device_is_told_beside_ranks_that_are_late_as_a_whole() -> None:
    """A device of one of two slow ranks was told beside both."""
    whole = (longer(1, 2), 200)
    assert cores.told_once([(longer(1, device=3), 90), whole]) == [whole]
