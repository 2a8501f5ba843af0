"""Waits of ranks for others that were not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace import sample
from holotrace.diagnosis.job import transfers
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.words.classes import UNRECORDED_RANK
from quick import every
from trace_files import REAL_TRACES

US, MS = 1_000, 1_000_000
NANOGPT = "modded-nanogpt/records/track_1_short/2025-12-11_NorMuonOptimsAndFixes/profiler-example-traces"


def found(
    calls: Sequence[tuple[str, int | None, int, int]], *, size: int = 4, steps: list[int] | None = None
) -> list[Candidate]:
    """What is told of the only recorded rank of ``size``, by what it called: name, elements, when and how long."""
    rows = [
        {
            "match": place,
            "rank": 0,
            "arrival_ns": at,
            "start_ns": at,
            "left_ns": at + lasted,
            "exposed_ns": lasted,
            "time_ns": lasted,
            "group": "0",
            "group_ranks": str(list(range(size))),
            "collective": name,
            "element_count": count,
            "element_type": "BFloat16",
            "step": steps[place] if steps else place,
            "group_size": size,
        }
        for place, (name, count, at, lasted) in enumerate(calls)
    ]
    return list(transfers.causes(Job(pl.DataFrame(), pl.DataFrame(rows), (0,), 0)))


def waits(
    calls: Sequence[tuple[str, int | None, int, int]], *, size: int = 4, steps: list[int] | None = None
) -> list[Candidate]:
    return [one for one in found(calls, size=size, steps=steps) if one.cause == UNRECORDED_RANK]


def test_a_collective_that_takes_longer_than_others_of_its_size_waits_for_a_rank_that_was_not_recorded() -> None:
    calls = [("allreduce", 1_000_000, 20 * MS * place, 9 * MS if place == 2 else MS) for place in range(5)]
    (wait,) = waits(calls)
    assert (wait.ranks, wait.steps, wait.responsible) == ((0,), (2,), "allreduce")
    assert wait.change.transfer == {2: pytest.approx(1 / 9)}
    assert (wait.evidence["longest_ns"], wait.evidence["needed_ns"]) == (9 * MS, MS)
    assert wait.evidence["absent_count"] == 3


@pytest.mark.parametrize(
    ("calls", "needed_ns"),
    [
        pytest.param([("allreduce", 500, 2 * MS), ("allreduce", 1_000, MS)], [MS], id="more data took less"),
        pytest.param([("allreduce", 500, MS), ("allreduce", 1_000, 9 * MS)], [2 * MS], id="as long for each byte"),
        pytest.param([("allreduce", 500, MS), ("_allgather_base", 1_000, 9 * MS)], [MS], id="in the same way"),
        pytest.param([("allreduce", 500, MS), ("all_to_allv", 500, 9 * MS)], [], id="in another way"),
        pytest.param([("allreduce", 500, MS), ("allreduce", 500, MS + 400 * US)], [], id="nearly as long"),
        pytest.param([("allreduce", 500, 50 * US), ("allreduce", 500, 140 * US)], [], id="soon over"),
        pytest.param([("send/recv", 500, MS), ("send/recv", 500, 9 * MS)], [], id="messages wait by design"),
    ],
)
def test_no_transfer_needs_longer_than_one_of_more_data_nor_longer_for_a_byte_than_one_of_less(
    calls: list[tuple[str, int, int]], needed_ns: list[int]
) -> None:
    told = waits([(name, count, 20 * MS * place, ns) for place, (name, count, ns) in enumerate(calls)])
    assert [wait.evidence["needed_ns"] for wait in told] == needed_ns


def test_what_two_queues_move_at_once_shares_the_link() -> None:
    alone = [("allreduce", 500, 20 * MS * place, MS) for place in range(2)]
    assert waits([*alone, ("allreduce", 500, 60 * MS, 2 * MS)])
    assert not waits([*alone, ("allreduce", 500, 60 * MS, 2 * MS), ("allreduce", 500, 61 * MS, 2 * MS)])


def test_a_transfer_that_ends_as_the_last_recorded_rank_comes_does_not_tell_that_none_is_needed() -> None:
    """By clocks that are some microseconds off."""
    calls = [("allreduce", 500, 0, MS), ("allreduce", 1_000, 20 * MS, 0), ("allreduce", 500, 40 * MS, 9 * MS)]
    (wait,) = waits(calls)
    assert (wait.evidence["needed_ns"], wait.evidence["count"]) == (MS, 1)
    assert not waits([("allreduce", 500, 20 * MS * place, ns) for place, ns in enumerate((0, 9 * MS, 0))])


@pytest.mark.parametrize(
    ("steps", "is_told"),
    [pytest.param([0, 0, 1, 1], True, id="in each step"), pytest.param([0, 1, 1, 1], False, id="more in one")],
)
def test_where_no_size_is_known_the_same_call_of_another_step_tells_how_long_it_needs(
    steps: list[int], *, is_told: bool
) -> None:
    lasted = (MS, 3 * MS, MS, 9 * MS)
    calls = [("allreduce", None, 20 * MS * place, ns) for place, ns in enumerate(lasted)]
    told = waits(calls, steps=steps)
    assert [wait.change.transfer for wait in told] == ([{3: pytest.approx(1 / 3)}] if is_told else [])


def test_messages_of_which_one_end_was_recorded_are_no_cause() -> None:
    """A healthy stage of a pipeline that was recorded alone had an exposed transfer of a third of its time."""
    calls = [(20 * MS * place, ns) for place, ns in enumerate((MS, 9 * MS, 5 * MS))]
    assert [one.cause for one in found([("allreduce", 500, at, ns) for at, ns in calls])] != []
    for name in ("send/recv", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"):
        assert found([(name, 500, at, ns) for at, ns in calls]) == []


def test_nothing_is_unrecorded_where_all_ranks_are() -> None:
    assert not waits([("allreduce", 500, 0, MS), ("allreduce", 500, 20 * MS, 9 * MS)], size=1)


@pytest.mark.parametrize("kind", every(2, ["checkpoint", "compilation", "host-pause", "input", "more-work"]))
def test_one_rank_of_a_job_tells_what_the_fault_of_another_costs(tmp_path: Path, kind: str) -> None:
    """Nothing was said of a rank of four that waits for half of its time."""
    truth = sample.write(tmp_path, ranks=4, steps=6, seed=3, faults=[kind], compress=False)
    ((fault, cost_ns),) = truth.costs_ns.items()
    assert fault.ranks != (0,)
    (path,) = tmp_path.glob("rank-0_*")
    (told,) = holotrace.open(path).causes().to_dicts()
    assert (told["cause"], told["ranks"], told["confidence"]) == (UNRECORDED_RANK, [0], "inferred")
    assert told["cost_ns"] == pytest.approx(cost_ns, rel=0.05)
    assert "for one of 3 ranks that were not recorded in these steps" in told["message"]


@pytest.mark.parametrize("rank", [0, 2])
def test_processes_that_share_cores_tell_nothing_of_others_by_how_long_they_take(rank: int) -> None:
    """All wait for the input of rank 2, which took as long for its own exchanges."""
    path = REAL_TRACES / "ours/cpu_gloo_ddp4" / f"rank-{rank}.pt.trace.json.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    assert UNRECORDED_RANK not in holotrace.open(path).causes()["cause"]


def test_one_rank_of_a_real_job_waits_as_long_as_the_recordings_of_all_say() -> None:
    """Rank 1 of eight is late: the others wait for 28 to 37 ms of 207, and it tells of no other rank."""
    if not (REAL_TRACES / NANOGPT).is_dir():
        pytest.skip(f"{REAL_TRACES / NANOGPT} is not there")
    paths = [next((REAL_TRACES / NANOGPT).glob(f"*-rank{rank}-*")) for rank in (1, 4)]
    late, waiting = (holotrace.open(path).causes().to_dicts() for path in paths)
    assert UNRECORDED_RANK not in [cause["cause"] for cause in late]
    assert [cause["cause"] for cause in waiting] == [UNRECORDED_RANK]
    assert 35 * MS < waiting[0]["cost_ns"] < 39 * MS
