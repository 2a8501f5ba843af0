"""Of two ranks that are late to the same meetings only the later one costs anything, until it is mended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import holotrace
from holotrace import sample
from holotrace.diagnosis.job.candidates import Candidate
from holotrace.diagnosis.job.hidden import with_hidden
from holotrace.diagnosis.job.meetings import Change, Meetings
from holotrace.diagnosis.job.one_cause import at_once
from holotrace.present import verdict

LEAST_NS, RANKS = 10, 4


class OneMeeting(Meetings):
    """All ranks meet once, and the job ends when the last has come."""

    def __init__(self, late_ns: Mapping[int, float]) -> None:
        self.late_ns = late_ns

    def saved_ns(self, change: Change) -> int:
        left = {
            rank: late - sum(length for _, length in change.removed.get(rank, ()))
            for rank, late in self.late_ns.items()
        }
        return int(max(self.late_ns.values()) - max(left.values()))


def found(
    late_ns: Mapping[int, float], of_ranks: Mapping[int, tuple[int, ...]] | None = None, *, of_all: str = "input"
) -> list[tuple[int, ...]]:
    """Ranks of the causes that are told where each rank's own delay is one, ``of_all`` those of all ranks."""
    meetings = OneMeeting({**dict.fromkeys(range(RANKS), 0), **late_ns})
    causes = [
        Candidate("input" if ranks else of_all, Change({rank: [(0, late)]}), ranks)
        for rank, late in late_ns.items()
        for ranks in [(of_ranks or {}).get(rank, (rank,))]
    ]
    costs = [(cause, meetings.saved_ns(cause.change)) for cause in causes]
    kept = [(cause, cost) for cause, cost in costs if cost > LEAST_NS]
    return [cause.ranks for cause, _ in with_hidden(kept, costs, meetings, LEAST_NS, RANKS)]


@pytest.mark.parametrize(
    ("late_ns", "ranks"),
    [
        ({1: 100}, [(1,)]),
        ({1: 100, 2: 70}, [(1,), (2,)]),
        ({1: 100, 2: 95}, [(1,), (2,)]),
        ({1: 100, 2: 100}, [(1,), (2,)]),
        # Without either of the two the third still costs too little.
        ({1: 100, 2: 98, 3: 5}, [(1,), (2,)]),
        ({1: 100, 2: 8}, [(1,)]),
        ({1: 5, 2: 5}, []),
        ({0: 60, 1: 100, 2: 100}, [(1,), (2,), (0,)]),
    ],
)
def test_causes_that_others_hide_are_told_if_they_would_cost_enough(
    late_ns: dict[int, float], ranks: list[tuple[int, ...]]
) -> None:
    assert sorted(found(late_ns)) == sorted(ranks)


def test_what_all_ranks_have_is_hidden_by_nobody() -> None:
    assert found({1: 100, 2: 70}, {2: ()}) == [(1,)]


def test_needless_work_of_all_devices_is_hidden_while_their_hosts_do_something_else() -> None:
    """Beside a function in every step an optimizer that runs one operator after another was not told."""
    assert found({1: 100, 2: 70}, {2: ()}, of_all="unfused-optimizer") == [(1,), ()]


def test_a_rank_that_has_stood_still_is_not_launch_bound_as_well() -> None:
    """After a collection of garbage the rank was the last one to launch, and was told to be launch-bound, too."""
    meetings = OneMeeting({0: 0, 1: 100, 2: 90})
    kept = [(Candidate("garbage-collection", Change({1: [(0, 100)]}), (1,)), 10)]
    every = [*kept, *((Candidate("launch-bound", Change({rank: [(0, 90)]}), (rank,)), 0) for rank in (1, 2))]
    assert with_hidden(kept, every, meetings, LEAST_NS, RANKS) == kept


def test_a_hidden_fault_of_a_job_is_told_with_what_it_costs_then(tmp_path: Path) -> None:
    """The slower allocator hides the loader: alone it costs nothing, and without the allocator a sixth of the job."""
    made = sample.write(tmp_path, ranks=4, steps=6, seed=2, faults=("input", "allocator"), compress=False)
    of_loader = sample.write(tmp_path / "one", ranks=4, steps=6, seed=2, faults=("input",), compress=False)
    (then_ns,) = of_loader.costs_ns.values()
    result = holotrace.open(tmp_path).run()
    first, second = result.tables["causes"].to_dicts()
    assert (first["cause"], first["ranks"], second["cause"], second["ranks"]) == ("allocator", [2], "input", [1])
    assert (second["cost_ns"], second["severity"]) == (0, "warning")
    assert second["high_ns"] == pytest.approx(then_ns, rel=0.05)
    saved_ns = made.job_ns - (of_loader.job_ns - then_ns)
    assert first["joint_ns"] == second["joint_ns"] == pytest.approx(saved_ns, rel=0.05)
    told = verdict.of(result.tables, result.findings, 6).why
    assert told[1].startswith("Up to 4.9") and "a step once the others are gone: The device of rank 1" in told[1]
    assert [finding.analysis for finding in result.findings if finding.severity != "info"] == ["causes", "causes"]


@pytest.mark.parametrize(
    ("late_ns", "names", "told"),
    [
        ({0: 100, 3: 100}, "aa", [((0, 3), 100)]),
        # One thing and another, or more of it on one of the ranks: each is a cause.
        ({0: 100, 3: 100}, "ab", [((0,), 0), ((3,), 0)]),
        ({0: 100, 3: 70}, "aa", [((0,), 30), ((3,), 0)]),
    ],
)
def test_what_ranks_do_at_once_is_one_cause_if_nothing_is_won_without_it_on_one_of_them(
    late_ns: dict[int, float], names: str, told: list[tuple[tuple[int, ...], int]]
) -> None:
    """Two stages of a pipeline waited for input together, which was the largest cause, and was told to cost nothing."""
    meetings = OneMeeting({**dict.fromkeys(range(RANKS), 0), **late_ns})
    costs = []
    for (rank, late), name in zip(late_ns.items(), names, strict=True):
        removed = {rank: [(0, late)]}
        known = {"time_ns": int(late), "count": 1}
        change = Change(removed, of_hosts=removed)
        costs.append((Candidate("input", change, (rank,), (rank,), name, evidence=known), meetings.saved_ns(change)))
    found = at_once(costs, meetings, LEAST_NS)
    assert [(cause.ranks, cost) for cause, cost in found] == told


def test_links_of_one_node_that_are_slow_in_several_groups_are_one_cause() -> None:
    """All groups meet in the end, so that nothing was won by mending the link of one: it was told to cost nothing."""
    meetings = OneMeeting({**dict.fromkeys(range(RANKS), 0), 0: 100, 2: 100})
    costs = []
    # What is sent most over either differs.
    for ranks, name in (((0, 1), "all_gather"), ((2, 3), "reduce_scatter")):
        change = Change({ranks[0]: [(0, 100)]}, transfer={ranks[0]: 0.5})
        known = {"time_ratio": 2.0, "count": 8}
        costs.append((Candidate("slow-link", change, ranks, (), name, evidence=known), meetings.saved_ns(change)))
    ((found, cost),) = at_once(costs, meetings, LEAST_NS)
    assert (found.ranks, cost, found.change.transfer) == ((0, 1, 2, 3), 100, {0: 0.5, 2: 0.5})
    assert found.evidence == {"time_ratio": 2.0, "count": 16}
