"""Ranks that take turns at computing longest."""

from __future__ import annotations

import random
from collections.abc import Mapping

import polars as pl
import pytest

from holotrace.diagnosis.job import segments, uneven
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.words.classes import EXPERTS, SLOW_DEVICE, UNEVEN_WORK

# What each rank computes in each step, in ns.
TURNS = {0: (120, 80, 120, 80), 1: (80, 120, 80, 120)}
LOOKUP = "fbgemm::split_embedding_codegen_forward_unweighted_cuda"
EVEN = {0: (100, 100, 100, 100), 1: (100, 100, 100, 100)}


def told(
    of_segments: Mapping[int, tuple[int, ...]],
    of_kernels: Mapping[int, tuple[int, ...]],
    beside: Mapping[int, tuple[int, ...]] | None = None,
    operator: str = "aten::mm",
) -> list[Candidate]:
    """The causes of a job whose ranks compute so long in each step, by meetings and by kernels.

    Args:
        of_segments: By meetings.
        of_kernels: By kernels.
        beside: The steps in which ranks communicate beside what they compute; none by default.
        operator: What computes; but for the default ranks send each other as much as they compute.
    """
    is_exchange = operator != "aten::mm"
    rows = [
        {"row": row, "rank": rank, "step": step, "start_ns": 1_000 * step, "at_ns": 1_000 * step + 200, "time_ns": ns}
        | {"name": "gemm", "operator": name, "detail": "[8, 1, 1]|[1, 1, 1]|[[8, 8]]", "count": 1, "event_id": 1}
        | {"beside_ns": ns if is_beside else 0, "beside_count": int(is_beside), "cause": None}
        for row, name, times in (
            ("segment", operator, of_segments),
            ("work", operator, of_kernels),
            *([("work", "aten::norm", dict.fromkeys(of_kernels, (50,) * 4))] if is_exchange else []),
        )
        for rank, of_steps in times.items()
        for step, ns in enumerate(of_steps)
        for is_beside in [step in (beside or {}).get(rank, ())]
    ]
    visits = pl.DataFrame(
        [
            {"match": step, "rank": rank, "arrival_ns": at, "left_ns": at, "clock_offset_ns": 0, "time_ns": 1}
            | {"collective": "all_to_allv" if is_exchange else "allreduce"}
            | {"element_count": of_segments[rank][step] if is_exchange else 8}
            for step in range(len(of_segments[0]))
            for rank in of_segments
            for at in [1_000 * step + 200]
        ]
    )
    frame = pl.DataFrame(rows, schema_overrides={"cause": pl.String})
    job = Job(frame, visits, tuple(of_segments), floor_ns=10)
    return list(uneven.causes(job))


@pytest.mark.parametrize(("of_kernels", "causes"), [(TURNS, [UNEVEN_WORK]), (EVEN, [])])
def test_ranks_take_turns_only_if_their_kernels_do(of_kernels: dict[int, tuple[int, ...]], causes: list[str]) -> None:
    """Two ranks that computed alike were told to take unequally long, as one lagged further behind its host."""
    assert [each.cause for each in told(TURNS, of_kernels)] == causes


@pytest.mark.parametrize(("operator", "cause"), [("aten::_grouped_mm", EXPERTS), (LOOKUP, UNEVEN_WORK)])
def test_what_is_looked_up_in_tables_of_other_ranks_in_turns_is_not_of_experts(operator: str, cause: str) -> None:
    """Ranks of a recommender that had more indices now and then were told to have experts with more tokens."""
    (turns,) = told(TURNS, TURNS, operator=operator)
    assert turns.cause == cause


@pytest.mark.parametrize("factor", [1.0, 1.2])
def test_a_rank_is_named_only_beyond_what_comes_about_by_chance(factor: float) -> None:
    """Beside a slow device others had more work that they had by chance, or all had uneven work instead of it."""
    chance = random.Random(3)
    times = {rank: tuple(round(chance.gauss(5_000, 250)) for _ in range(5)) for rank in range(8)}
    times[1] = tuple(round(factor * ns) for ns in times[1])
    found = [(each.cause, each.ranks) for each in told(times, times)]
    assert [each for each in found if each[1]] == ([(SLOW_DEVICE, (1,))] if factor > 1 else [])


def test_what_waits_for_others_beside_it_slows_down_is_no_slow_device() -> None:
    """Two ranks whose kernels shared their devices with an all-reduce that waited were told to have slow devices."""
    times = {rank: (100, 100, 112, 112) if rank < 2 else (100, 100, 100, 100) for rank in range(4)}
    (slow,) = told(times, times)
    assert (slow.cause, slow.ranks) == (SLOW_DEVICE, (0, 1))
    assert told(times, times, {0: (2, 3), 1: (2, 3)}) == []


def test_a_slow_device_is_one_too_if_it_waits_for_others_meanwhile() -> None:
    times = {0: (120, 120, 122, 122), 1: (100, 100, 100, 100), 2: (100, 100, 100, 100)}
    (slow,) = told(times, times, {0: (2, 3)})
    assert (slow.cause, slow.ranks) == (SLOW_DEVICE, (0,))


def test_parts_of_turns_that_recordings_begin_with_tell_nothing() -> None:
    """Of ranks that began to record in the middle of a turn those with most of it were told to take turns with slow
    devices, or the slow ones to have more work, as they had one turn more."""
    times = {0: (90, 100, 100, 100), 1: (120, 120, 120, 120), 2: (100, 100, 100, 100), 3: (60, 100, 100, 100)}
    rows = [
        {"row": row, "rank": rank, "step": step, "start_ns": 1_000 * place, "at_ns": 1_000 * place + 200, "time_ns": ns}
        | {"name": name, "operator": name, "detail": "[8, 1, 1]", "count": 1, "event_id": 1, "cause": None}
        | {"beside_ns": 0, "beside_count": 0}
        for rank, of_turns in times.items()
        for place, ns in enumerate(of_turns)
        for step in [place if rank in (1, 2) else None if place == 0 else place - 1]
        for row, name in (("segment", None), ("work", "aten::mm"))
    ]
    visits = [
        {"match": place, "rank": rank, "arrival_ns": at, "left_ns": at, "clock_offset_ns": 0, "time_ns": 1}
        | {"collective": "allreduce", "element_count": 8}
        for place in range(4)
        for rank in times
        for at in [1_000 * place + 200]
    ]
    frame = pl.DataFrame(rows, schema_overrides={"cause": pl.String}, infer_schema_length=None)
    (found,) = uneven.causes(Job(frame, pl.DataFrame(visits), tuple(times), floor_ns=10))
    assert (found.cause, found.ranks, found.evidence["time_ratio"]) == (SLOW_DEVICE, (1,), 1.2)


def test_what_a_rank_has_no_longer_the_others_get() -> None:
    """Evening was worth 13.6 ms where a rank with less to do was late anyway, and with its part of it later: 6.2 ms."""
    (turns,) = told(TURNS, TURNS)
    removed = {rank: [ns for _, ns in sorted(parts)] for rank, parts in turns.change.removed.items()}
    assert removed == {0: [20, -20, 20, -20], 1: [-20, 20, -20, 20]}


def test_the_last_steps_of_a_recording_that_lasts_longer_are_no_more_work() -> None:
    """A slow host is less far ahead, so that its device got to more of the steps that all hosts had launched."""
    longer = {
        0: (100, 100, 100, 0, 0),
        1: (100, 100, 100, 100, 100),
        2: (100, 100, 100, 0, 0),
    }
    assert told(longer, longer) == []


def test_a_device_is_slow_where_its_meetings_say_so_if_nothing_marks_steps() -> None:
    """One that became slow while it served was worth half of its cost, as if it had been slow from the beginning."""
    visits = [
        {"match": number, "rank": rank, "arrival_ns": at, "left_ns": at, "clock_offset_ns": 0, "time_ns": 1}
        | {"collective": "allreduce", "element_count": 8, "next_ns": at}
        for number in range(8)
        for rank in range(4)
        for at in [1_000 * number + 900]
    ]
    rows = [
        {"row": "segment", "rank": rank, "start_ns": 1_000 * number, "at_ns": 1_000 * number + 800, "time_ns": ns}
        | {"name": None, "operator": None, "detail": None, "count": 1, "event_id": 1}
        for rank in range(4)
        for number in range(8)
        for ns in [750 if rank == 2 and number >= 4 else 600]
    ]
    rows += [
        {"row": "work", "rank": rank, "start_ns": 1_000 * number, "at_ns": None, "time_ns": 225 if rank == 2 else 200}
        | {"name": name, "operator": name, "detail": "[8, 1, 1]|[1, 1, 1]|", "count": 1, "event_id": 1}
        | {"beside_ns": 0, "beside_count": 0}
        for rank in range(4)
        for number in range(8)
        for name in ("gemm", "attention", "norm")
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(
        step=pl.lit(None, pl.Int64), cause=pl.lit(None, pl.String)
    )
    (found,) = uneven.causes(Job(frame, pl.DataFrame(visits), (0, 1, 2, 3), floor_ns=10))
    assert (found.cause, found.ranks) == (SLOW_DEVICE, (2,))
    removed = {at: ns for at, ns in found.change.removed[2] if ns > 0}
    assert min(removed) > 4_000
    assert sum(removed.values()) == pytest.approx(600)


def test_steps_of_which_a_rank_of_two_lost_work_are_not_compared() -> None:
    """The other one was told to have more work, where its device is slow."""
    work = [
        {"row": row, "rank": rank, "step": step, "start_ns": 1_000 * step, "at_ns": 1_000 * step + 200, "name": name}
        | {"time_ns": count * ns, "count": count, "operator": name, "detail": "[8, 1, 1]", "event_id": 1, "cause": None}
        | {"beside_ns": 0, "beside_count": 0, "end_ns": 1_000 * step + 200}
        for rank, ns in ((0, 60), (1, 50))
        for step in range(4)
        for count in [1 if (rank, step) == (1, 2) else 2]
        for row, name in (("segment", None), ("work", "aten::mm"))
    ]
    visits = [
        {"match": step, "rank": rank, "arrival_ns": at, "left_ns": at, "clock_offset_ns": 0, "time_ns": 1}
        | {"collective": "allreduce", "element_count": 8}
        for step in range(4)
        for rank in (0, 1)
        for at in [1_000 * step + 200]
    ]
    rows = [*work, {"row": "lost", "rank": 1, "step": 2, "count": 1}]
    frame = pl.DataFrame(rows, schema_overrides={"cause": pl.String}, infer_schema_length=None)
    (found,) = uneven.causes(Job(frame, pl.DataFrame(visits), (0, 1), floor_ns=10))
    assert (found.cause, found.ranks, found.steps) == (SLOW_DEVICE, (0,), (0, 1, 3))


def test_what_a_rank_gets_that_another_has_too_much_comes_where_it_took_less_than_that_one() -> None:
    """Of two ranks that with less got its part all over the step: uneven work was worth 32 of 40 ms."""
    took = {0: (100, 100), 1: (100, 200)}
    rows = pl.DataFrame(
        [
            {"rank": rank, "step": 1, "match": match, "is_beside": False, "at_ns": 1_000 * match, "time_ns": ns}
            for rank, times in took.items()
            for match, ns in enumerate(times)
        ]
    )
    lacking = pl.DataFrame({"rank": [0, 1], "step": [1, 1], "beyond_ns": [50.0, 0.0], "time_ns": [200, 300]})
    placed = segments.placed(rows, lacking, less=True, usual_ns=segments.MEAN).filter(pl.col("part_ns") > 0)
    assert placed.select("rank", "at_ns", "part_ns").rows() == [(0, 1_000, 50.0)]
