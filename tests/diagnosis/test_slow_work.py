"""Operators that take longer than they need to, as causes: with the launches that go away with them."""

from __future__ import annotations

import polars as pl

from holotrace.core.schema import filled
from holotrace.diagnosis.job import slow_work
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.meetings import Change, together
from holotrace.diagnosis.job.one_cause import without_launches_of_unfused
from holotrace.diagnosis.rank import account

OPTIMIZER = "Optimizer.step#AdamW.step"


def test_the_launches_of_an_optimizer_that_is_not_fused_go_away_with_it() -> None:
    """Beside a slow host it was worth only what devices compute longer: the waits for its launches were told apart."""
    slow = {"row": "slow-work", "cause": "unfused-optimizer", "name": OPTIMIZER, "time_ns": 10, "at_ns": 100}
    late = {"row": "gap", "cause": "launch-bound", "name": OPTIMIZER, "time_ns": 60, "at_ns": 200}
    other = {"row": "gap", "cause": "launch-bound", "name": "forward", "time_ns": 30, "at_ns": 300}
    # What is laid to a wait before, but would be gone if all were launched at once.
    laid = {"row": "chain", "cause": "synchronization", "name": OPTIMIZER, "time_ns": 40, "at_ns": 250}
    chain = laid | {"cause": "launch-bound", "time_ns": 60, "at_ns": 200}
    every_row = (slow, late, other, laid, chain)
    rows = [row | {"rank": rank, "step": 1, "count": 1} for rank in range(2) for row in every_row]
    table = pl.DataFrame(rows)
    every = filled(table.drop("rank"), account.COLUMNS).with_columns(table["rank"])
    (found,) = slow_work.causes(Job(every, pl.DataFrame(), (0, 1), 0))
    assert (found.cause, found.responsible, found.evidence["time_ns"]) == ("unfused-optimizer", OPTIMIZER, 140)
    # What the devices wait for is taken away once, with all that hosts launch too late as well.
    launching = Change({0: [(200, 60.0), (300, 30.0)]}, limits={0: {200: 60.0, 300: 30.0}})
    both = together([found.change, launching])
    assert sum(ns for _, ns in both.removed[0]) == 10 + 60 + 30
    assert found.change.later == {0: [(250, 40.0)], 1: [(250, 40.0)]}


def test_a_step_in_which_it_takes_longer_is_not_the_only_one_that_has_it() -> None:
    """An optimizer of each step took five times as long in the last one, and was told as if it ran in that alone."""
    rows = [
        {"row": "slow-work", "cause": "unfused-optimizer", "name": OPTIMIZER, "time_ns": 50 if step == 5 else 10}
        | {"at_ns": 100 * step, "step": step, "count": 1}
        for step in range(6)
    ]
    every = filled(pl.DataFrame(rows), account.COLUMNS).with_columns(rank=pl.lit(0))
    (found,) = slow_work.causes(Job(every, pl.DataFrame(), (0,), 0))
    assert found.steps == tuple(range(6))


def test_launching_what_should_be_fused_is_no_cause_of_its_own() -> None:
    unfused = Candidate("unfused-optimizer", Change(), responsible=OPTIMIZER)
    launches = Candidate("launch-bound", Change(), responsible=OPTIMIZER)
    others = Candidate("launch-bound", Change(), responsible="forward")
    kept = without_launches_of_unfused([(unfused, 3), (launches, 2), (others, 1)])
    assert [candidate for candidate, _ in kept] == [unfused, others]
