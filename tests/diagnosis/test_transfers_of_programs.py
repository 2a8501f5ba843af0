"""Transfers of programs of XLA, whose devices look for one only when they need what it brings."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest

from holotrace.diagnosis.job import transfers
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import EXPOSED, SLOW_LINK

# When each instruction begins in a step, and when it is awaited if it is over by then.
BEGUN = {"send.1": 0, "send.2": 2_000_000, "send.3": 4_000_000}
BODY_NS, STEP_NS = 6_000_000, 20_000_000


def causes(
    took_ns: Mapping[int, Mapping[str, int]], awaited_ns: Mapping[str, int], *, times: int = 1, marked: int = 0
) -> list[Candidate]:
    """What is told of two hosts that reduce in each step by these instructions, which take so long.

    They do so several ``times`` in a step, and before the first one that is ``marked`` there are no steps.
    """
    rows = [
        {
            "match": 10 * step + len(BEGUN) * time + place,
            "rank": rank,
            "arrival_ns": (begun := (body := STEP_NS * step + BODY_NS * time) + BEGUN[name]),
            "start_ns": begun,
            "left_ns": max(begun + ns, awaited := body + awaited_ns[name]),
            "exposed_ns": max(0, begun + ns - awaited),
            "group_ranks": "[[0,1]]",
            "group": f"jit_step/{name}",
            "collective": "allreduce",
            "element_count": 1 << 20,
            "element_type": "bf16",
            "step": step if step >= marked else None,
            "group_size": 2,
            "queue": None,
        }
        for step, of_step in took_ns.items()
        for time in range(times)
        for place, (name, ns) in enumerate(of_step.items())
        for rank in (0, 1)
    ]
    recorded = pl.DataFrame(
        {"row": [account.WINDOW, account.WORK], "name": "", "rank": 0, "count": 1, "detail": account.XLA, "device": 0}
    )
    return list(transfers.causes(Job(recorded, pl.DataFrame(rows), (0, 1), 0)))


def test_of_reductions_that_nothing_hides_the_last_of_a_step_could_not_be() -> None:
    """The last gradients of a healthy job, which nothing is left to hide, were told as exposed."""
    at_once = dict(BEGUN)
    (found,) = (each for each in causes({1: dict.fromkeys(BEGUN, 700_000)}, at_once) if each.cause == EXPOSED)
    assert found.change.transfer == {10: 0.0, 11: 0.0}
    is_late = dict.fromkeys(BEGUN, max(BEGUN.values()))
    assert not [each for each in causes({1: dict.fromkeys(BEGUN, 700_000)}, is_late) if each.cause == EXPOSED]


def test_the_last_is_that_of_the_last_time_round_a_loop_and_of_each_run_before_the_first_step() -> None:
    at_once = dict(BEGUN)
    took = {step: dict.fromkeys(BEGUN, 700_000) for step in range(3)}
    (looped,) = (each for each in causes(took, at_once, times=3) if each.cause == EXPOSED)
    assert sorted(looped.change.transfer) == [10 * step + place for step in range(3) for place in range(8)]
    (before,) = (each for each in causes(took, at_once, marked=2) if each.cause == EXPOSED)
    assert sorted(before.change.transfer) == [10 * step + place for step in range(3) for place in range(2)]


@pytest.mark.parametrize(("since", "times", "told"), [(3, 4, [(3, 4, 5)]), (3, 1, []), (0, 4, [])])
def test_a_link_that_becomes_slow_is_told_by_how_long_devices_stand_still_for_it(
    since: int, times: int, told: list[tuple[int, ...]]
) -> None:
    """Transfers that are hidden last until they are awaited, so that others seemed to take hardly longer."""
    at_the_next = {"send.1": 2_000_000, "send.2": 4_000_000, "send.3": 4_000_000}
    took = {step: dict.fromkeys(BEGUN, 600_000 * (times if step >= since else 1)) for step in range(6)}
    found = [each for each in causes(took, at_the_next) if each.cause == SLOW_LINK]
    assert [each.steps for each in found] == told
    if told:
        # Of what is hidden the rest of the steps tell that it took no longer than until it was awaited.
        assert found[0].change.transfer == {
            10 * step + place: pytest.approx(ratio)
            for step in told[0]
            for place, ratio in enumerate((2.0 / 2.4, 2.0 / 2.4, 1 / 4))
        }
