"""Devices of one host that the others of it wait for."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis import account, cores
from holotrace.diagnosis.candidates import Candidate, Job
from holotrace.diagnosis.classes import INPUT, MORE_WORK, SLOW_DEVICE
from holotrace.diagnosis.meetings import Change

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
            "time_ns": STEP_NS - (50 + late) * MS,
            "lost_ns": 0 if device == last else late * MS,
        }
        for step in range(STEPS)
        for device in range(len(work))
    ]
    rank = {"rank": pl.Int32()}
    rows = pl.DataFrame(computed, schema_overrides=rank)
    rows = rows.select("rank").hstack(filled(rows.drop("rank"), account.COLUMNS))
    job = Job(rows, pl.DataFrame(), (0,), MS)
    return list(cores.causes(job, pl.DataFrame(come, schema_overrides=rank)))


def test_a_device_that_takes_longer_for_the_same_is_slow() -> None:
    slow = {name: (ms * 3 // 2, count) for name, (ms, count) in EQUAL.items()}
    (cause,) = found([EQUAL, slow, EQUAL, EQUAL], late=20)
    assert (cause.cause, cause.ranks, cause.responsible) == (SLOW_DEVICE, (0,), None)
    assert (cause.evidence["device"], cause.evidence["time_ratio"]) == (1, pytest.approx(1.5))
    # It is taken away where the device came, on the clock of its rank.
    assert cause.change.removed == {0: [(step * STEP_NS + 70 * MS + 7, 20.0 * MS) for step in range(STEPS)]}


def test_a_device_that_computes_more_is_not_slow_and_what_it_has_more_of_is_responsible() -> None:
    (cause,) = found([EQUAL, EQUAL, {**EQUAL, "while.1": (20, 9)}], late=20)
    assert (cause.cause, cause.responsible, cause.evidence["device"]) == (MORE_WORK, "while.1", 2)
    assert "is_equal" not in cause.evidence


def test_devices_that_come_late_without_computing_longer_are_not_blamed() -> None:
    assert found([EQUAL, EQUAL, EQUAL], late=20) == []


def test_nothing_is_said_of_devices_that_come_together() -> None:
    assert found([EQUAL, {**EQUAL, "while.1": (20, 9)}], late=0) == []


def longer(*ranks: int, device: int | None = None, cause: str = SLOW_DEVICE) -> Candidate:
    return Candidate(cause, Change(), ranks, evidence={} if device is None else {cores.DEVICE: device})


def test_ranks_that_their_devices_explain_are_told_by_these() -> None:
    devices = [(longer(1, device=3), 90), (longer(2, device=0), 80)]
    other = (longer(1, cause=INPUT), 50)
    assert cores.told_once([*devices, (longer(1, 2), 200), other]) == [*devices, other]


def test_no_device_is_told_beside_ranks_that_are_late_as_a_whole() -> None:
    """A device of one of two slow ranks was told beside both."""
    whole = (longer(1, 2), 200)
    assert cores.told_once([(longer(1, device=3), 90), whole]) == [whole]
