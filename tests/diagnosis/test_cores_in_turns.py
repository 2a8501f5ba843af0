"""Devices of which now this and now that has the most to do."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from drawing import trace
from holotrace.core.schema import filled
from holotrace.core.tables import DEVICE_EVENTS
from holotrace.diagnosis.job import cores_in_turns
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.rank import account, kernels
from holotrace.diagnosis.words.classes import UNEVEN_WORK
from xla_drawing import frame

MS = 1_000_000
STEP_NS = 100 * MS


def found(
    last: list[tuple[int, int]],
    late_ms: int,
    longer_ms: int,
    computing: tuple[int | None, ...] = (0, 1),
    often: int = 5,
    *,
    has_steps: bool = True,
    names: tuple[str, ...] = ("experts",),
) -> list[Candidate]:
    """Causes of two ranks with two devices each, of which in each step this one of this rank comes late.

    In so many steps together kernels take so much longer than those of others, on each of these devices of the first
    rank.
    """
    marked = [{"row": account.STEP, "rank": 0, "step": step} for step in range(len(last)) if has_steps]
    longer = [
        {"row": account.CORES_BEYOND, "rank": 0, "device": device, "name": name, "count": often}
        | {"time_ns": longer_ms * MS // len(computing) // len(names)}
        for device in computing
        for name in names
    ]
    come = [
        {"rank": rank, "match": step, "step": step, "device": device, "event_id": step, "clock_offset_ns": 7}
        | {"arrival_ns": at * MS + step * STEP_NS, "left_ns": (step + 1) * STEP_NS, "time_ns": 0}
        | {"come_ns": (50 + late_ms) * MS + step * STEP_NS, "exposed_ns": STEP_NS - at * MS}
        for step, one in enumerate(last)
        for rank in (0, 1)
        for device in (0, 1)
        for at in [50 + late_ms * (one == (rank, device))]
    ]
    types = {"rank": pl.Int32()}
    rows = pl.DataFrame([*marked, *longer], infer_schema_length=None, schema_overrides=types)
    job = Job(rows.select("rank").hstack(filled(rows.drop("rank"), account.COLUMNS)), pl.DataFrame(), (0, 1), MS)
    visits = pl.DataFrame(come, schema_overrides=types).with_columns(queue=pl.lit(None, pl.Int64))
    return list(cores_in_turns.causes(job, visits))


TURNS = [(0, 1), (1, 0), (0, 0), (1, 1), (0, 1)]


def test_devices_that_have_the_most_work_in_turns_have_uneven_work() -> None:
    """Only ranks were compared, each by what its devices compute together: of one rank nothing was told, and of several
    a half or less.
    """
    (cause,) = found(TURNS, late_ms=20, longer_ms=100)
    assert (cause.cause, cause.ranks, cause.responsible) == (UNEVEN_WORK, (), "experts")
    assert (cause.evidence["devices"], cause.evidence["time_ns"]) == (4, 100 * MS)
    ends = {step: step * STEP_NS + 70 * MS + 7 for step in range(5)}
    assert {rank: sorted(parts) for rank, parts in cause.change.removed.items()} == {
        0: [(ends[step], 20.0 * MS) for step in (0, 2, 4)],
        1: [(ends[step], 20.0 * MS) for step in (1, 3)],
    }


def test_what_devices_are_late_beyond_what_their_kernels_take_longer_is_not_laid_to_these() -> None:
    (cause,) = found(TURNS, late_ms=20, longer_ms=60)
    assert sum(ns for parts in cause.change.removed.values() for _, ns in parts) == pytest.approx(60 * MS)
    assert found(TURNS, late_ms=20, longer_ms=20) == []


def test_a_device_that_is_mostly_the_last_takes_no_turns() -> None:
    assert found([(0, 1), (0, 1), (0, 1), (1, 1)], late_ms=20, longer_ms=80) == []


@pytest.mark.parametrize("computing", [(1,), (1, 1, 0)])
def test_devices_that_come_late_since_they_waited_for_one_take_no_turns(computing: tuple[int, ...]) -> None:
    """Devices of several groups wait for one that is slow, and those of another group for each of them: beside the slow
    one uneven work of all was told.
    """
    assert found(TURNS, late_ms=20, longer_ms=100, computing=computing) == []


def test_kernels_that_take_longer_now_and_then_do_so_by_chance() -> None:
    """Of a hundred runs one took a third longer, on any of eight devices: that was uneven work, with 2 % of the job."""
    assert found(TURNS, late_ms=20, longer_ms=100, often=1) == []


def test_where_no_steps_are_known_no_kernel_alone_tells_whether_it_takes_longer_on_one_device() -> None:
    assert found(TURNS, late_ms=20, longer_ms=100, computing=(1,), often=1, has_steps=False)


def test_where_no_steps_are_known_most_kernels_tell_that_they_take_longer_on_one_device() -> None:
    """A slow device of a recording of two steps was told, and beside it uneven work of all devices."""
    names = ("experts", "dense", "norm")
    assert found(TURNS, late_ms=20, longer_ms=99, computing=(1,), often=1, has_steps=False, names=names) == []
    assert found(TURNS, late_ms=20, longer_ms=96, computing=(0, 1), often=1, has_steps=False, names=names)


def test_kernels_beside_the_steps_take_longer_by_chance_too() -> None:
    """A server's programs for prompts are in none of its steps: chance was told as uneven work, with 2 % of the job."""
    assert found(TURNS, late_ms=20, longer_ms=100, computing=(None,), often=1) == []


def test_the_kernels_of_one_device_that_take_longer_than_those_of_the_others_are_counted_by_step() -> None:
    """What differs as equal work does is not counted; what another device takes as long for in another step is its."""
    rank = trace("step |1111111111|\ntpu |AAAAA.....|\nA = f in jit_f(1)")
    took = {("experts", 1): (50, 90, 50), ("experts", 2): (80, 50, 50), ("dense", 1): (100, 105, 100)}
    rows = [
        {"name": name, "step": step, "device": device, "kind": "compute", "start_ns": 0, "end_ns": ns}
        for (name, step), of_step in took.items()
        for device, ns in enumerate(of_step)
    ]
    rank = replace(rank, tables={**rank.tables, "device_events": frame(DEVICE_EVENTS, rows)})
    assert sorted(kernels.beyond_others(rank).collect().rows()) == [("experts", 0, 30, 1), ("experts", 1, 40, 1)]
