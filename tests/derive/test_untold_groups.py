"""Collectives of which no process group was recorded are matched between the ranks that meet in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

import polars as pl
import pytest

from holotrace.core.schema import empty
from holotrace.core.tables import RANK
from holotrace.derive.arrivals import Compared
from holotrace.derive.collectives import CALLS, by_member, matched

_STEP_NS = 90_000_000
_ALL_REDUCE, _REDUCE_SCATTER, _EXCHANGE = (
    f"ncclDevKernel_{name}" for name in ("AllReduce", "ReduceScatter", "SendRecv")
)

# Ranks that meet, with the queue of each.
Group = Mapping[int, int]


def _calls(groups: Sequence[tuple[str, Group, int]], recorded: Iterable[int], random: Random) -> pl.DataFrame:
    """Some calls in each of four steps of each group, which end when that is ready, which differs from step to step.

    ``step`` of a call is the number that the recording does not tell, ``group_size`` its group's.
    """
    ahead_ns = {rank: random.choice([0, 3_000_000]) for rank in recorded}
    rows: list[dict[str, object]] = []
    for number, (kernel, queues, count) in enumerate(groups):
        for step in range(4):
            begun_ns = 10**18 + step * _STEP_NS + random.randint(0, 9_000_000)
            for call in range(count):
                begun_ns += random.randint(280_000, 420_000)
                rows += [
                    {
                        "rank": rank,
                        "stream": queues[rank],
                        "kernel": kernel,
                        "step": step * count + call,
                        "group_size": number,
                        "end_ns": begun_ns + ahead_ns[rank] + abs(int(random.gauss(0, 6_000))),
                    }
                    for rank in queues.keys() & set(recorded)
                ]
    return _rows_as_calls(rows)


def _rows_as_calls(rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    frame = pl.DataFrame(list(rows), schema_overrides={"rank": pl.Int32(), "kernel": pl.Categorical()})
    told = frame.with_columns(
        start_ns=pl.col("end_ns") - 60_000,
        collective="kernel",
        operation="kernel",
        event_id=pl.int_range(pl.len(), dtype=pl.UInt32()),
    )
    return pl.concat([empty((RANK, *CALLS)), told], how="diagonal_relaxed")


def _met(calls: pl.DataFrame) -> pl.DataFrame:
    """A row for each meeting: the number of the group, that within the group, and how many ranks there are."""
    found = matched(by_member(calls)).group_by("match")
    return found.agg(pl.col("group_size", "step").unique(), ranks=pl.col("of_rank").n_unique())


@pytest.mark.parametrize("seed", range(12))
def test_ranks_that_meet_are_told_by_when_their_calls_end(seed: int) -> None:
    """All ranks were taken to meet, which told clocks some milliseconds apart that were not, and nothing else."""
    random = Random(seed)
    tensor, data = random.choice([(2, 2), (2, 4), (4, 2), (8, 2)])
    size = tensor * data
    # Another rank has its queues elsewhere.
    aside = random.randrange(size)
    queues = {rank: 7 * (rank == aside) for rank in range(size)}
    groups: list[tuple[str, Group, int]] = [
        (_ALL_REDUCE, {rank: 20 + queues[rank] for rank in range(first, first + tensor)}, 24)
        for first in range(0, size, tensor)
    ]
    groups += [
        (_REDUCE_SCATTER, {rank: 24 + queues[rank] for rank in range(first, size, tensor)}, 3)
        for first in range(tensor)
    ]
    # Each stage sends to the next on a queue of its own.
    groups += [(_EXCHANGE, {rank: 28, (rank + 1) % size: 29}, 5) for rank in range(0, size, 2)]
    found = _met(_calls(groups, range(size), random))
    assert found["group_size"].list.len().unique().to_list() == [1]
    assert found["step"].list.len().unique().to_list() == [1]
    told = (
        found.select(pl.col("group_size").list.first(), "ranks")
        .group_by("group_size")
        .agg(pl.len(), pl.col("ranks").unique())
    )
    expected = {(number, 4 * count, len(queues)) for number, (_, queues, count) in enumerate(groups)}
    assert {(number, count, ranks[0]) for number, count, ranks in told.iter_rows()} == expected


_CUSTOM = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)"


def test_replicas_whose_kernels_are_of_no_library_of_collectives_do_not_meet() -> None:
    """All ranks were taken to meet in them, by which two replicas had clocks that were far apart."""
    computing = 7
    groups: list[tuple[str, Group, int]] = [
        (kernel, dict.fromkeys(range(first, first + 4), computing), 24)
        for first in (0, 4)
        for kernel in (_CUSTOM, "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 4>(vllm::RankData*)")
    ]
    found = _met(_calls(groups, range(8), Random(0)))
    assert (found.height, found["ranks"].unique().to_list()) == (4 * 4 * 24, [4])
    assert found["group_size"].list.len().unique().to_list() == found["step"].list.len().unique().to_list() == [1]


def test_kernels_that_end_apart_on_ranks_that_meet_tell_no_groups() -> None:
    """Each has what it waits for at another time, so that some end together by chance and others with nobody."""
    random = Random(0)
    calls = _calls([(_CUSTOM, dict.fromkeys(range(8), 7), 24)], range(8), random)
    late = pl.Series([random.randint(0, 600_000) for _ in range(calls.height)])
    is_late = pl.col("rank") > 1
    found = _met(calls.with_columns(pl.when(is_late).then(pl.col("end_ns") + late).otherwise("end_ns")))
    assert found["ranks"].unique().to_list() == [8]


def _pipeline() -> pl.DataFrame:
    """Four stages, each of which sends to the next as long after the one before has as it computes."""
    random = Random(0)
    begun_ns, rows = 10**18, []
    for number in range(24):
        begun_ns += random.randint(900_000, 1_100_000) + 30_000_000 * (number % 6 == 0)
        for stage in range(3):
            ends_ns = begun_ns + 5_000_000 * stage
            rows += [(stage, 31, stage, number, ends_ns), (stage + 1, 30, stage, number, ends_ns)]
    calls = _rows_as_calls(
        {"rank": rank, "stream": stream, "kernel": _EXCHANGE, "step": step, "group_size": group, "end_ns": end_ns}
        for rank, stream, group, step, end_ns in rows
    )
    return calls.with_columns(pl.col("end_ns") + pl.Series(random.randint(0, 9_000) for _ in rows))


def test_stages_that_do_the_same_at_equal_distances_are_no_clocks() -> None:
    """What a stage sends was taken for what the one before had sent."""
    found = _met(_pipeline())
    assert (found.height, found["ranks"].unique().to_list()) == (72, [2])
    assert found["group_size"].list.len().unique().to_list() == found["step"].list.len().unique().to_list() == [1]


def test_the_stages_of_a_pipeline_are_no_stragglers() -> None:
    """They wait for each other as its schedule has it; what all ranks exchange is a collective."""
    unknown = pl.lit(None, pl.Int64()).alias("group_size")
    compared = Compared(_pipeline().with_columns(unknown))
    assert (compared.arrived.height, compared.messages.height) == (0, 144)
    groups = [(_EXCHANGE, dict.fromkeys(range(4), 20), 5), (_ALL_REDUCE, dict.fromkeys(range(2), 24), 3)]
    among_all = Compared(_calls(groups, range(4), Random(0)).with_columns(unknown))
    assert (among_all.arrived.height, among_all.messages.height) == (4 * 4 * 5 + 2 * 4 * 3, 0)


def test_ranks_whose_partners_were_not_recorded_meet_nobody() -> None:
    """They were matched with each other."""
    groups = [(_ALL_REDUCE, {rank: 20, rank + 1: 20}, 24) for rank in (0, 2)]
    assert _met(_calls(groups, (0, 2), Random(0))).is_empty()


def test_a_rank_that_lost_calls_still_meets_those_that_most_meet() -> None:
    """As one that fits no other it would meet nobody."""
    random = Random(1)
    groups: list[tuple[str, Group, int]] = [
        (_ALL_REDUCE, dict.fromkeys(range(4), 20), 40),
        (_REDUCE_SCATTER, {0: 24, 1: 24}, 3),
        (_REDUCE_SCATTER, {2: 24, 3: 24}, 3),
    ]
    calls = _calls(groups, range(4), random)
    place = pl.int_range(pl.len()).over("rank", "stream")
    is_lost = (pl.col("rank") == 3) & (pl.col("stream") == 20) & (place % 4 == 1)
    found = _met(calls.sort("end_ns").filter(~is_lost)).filter(pl.col("group_size").list.first() == 0)
    assert (found.height, found["ranks"].unique().to_list()) == (120, [4])
    assert found["step"].list.len().unique().to_list() == [1]


@pytest.mark.parametrize("seed", range(12))
def test_all_ranks_meet_however_few_calls_a_queue_has(seed: int) -> None:
    """Ends that differ by chance, and queues of other numbers, set ranks apart that meet the others in everything."""
    random = Random(seed)
    ranks, aside = random.choice([2, 4, 8]), random.choice([0, 3])
    queues = [{rank: stream + aside * (rank == ranks - 1) for rank in range(ranks)} for stream in (20, 24, 28)]
    groups = [(_EXCHANGE, queue, random.choice([1, 2, 3, 12])) for queue in queues]
    calls = _calls(groups, range(ranks), random)
    late = pl.Series([random.randint(0, 150_000) * (random.random() < 0.03) for _ in range(calls.height)])
    begun_ns = int(calls.select(pl.col("end_ns").min()).item()) + random.choice([0, 0, 700_000])
    is_recorded = (pl.col("rank") > 0) | (pl.col("end_ns") >= begun_ns)
    recorded = calls.with_columns(pl.col("end_ns") + late).filter(is_recorded)
    expected = recorded.group_by("group_size", "step").agg(pl.col("rank").n_unique()).filter(pl.col("rank") == ranks)
    found = _met(recorded)
    assert (found.height, found["ranks"].unique().to_list()) == (expected.height, [ranks])
    assert found["group_size"].list.len().unique().to_list() == found["step"].list.len().unique().to_list() == [1]
