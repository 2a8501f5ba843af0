"""How many steps the devices of a job ran, to which what causes cost is divided."""

from __future__ import annotations

import polars as pl
import pytest

from drawing import trace
from holotrace.diagnosis.job import xla_steps
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.xla import steps as xla_steps_run


@pytest.mark.parametrize(("ran", "count"), [((8, 8, 7), 8), ((2,), 2), ((), 4)])
def test_steps_are_those_that_devices_ran(ran: tuple[int, ...], count: int) -> None:
    """A slow link was worth half as much again in each step as it cost, where hosts were four of twelve ahead."""
    marked = [{"row": account.STEP, "step": step} for step in (5, 6, 7, 8)]
    known = [{"row": xla_steps_run.RAN, "count": steps} for steps in ran]
    rows = pl.DataFrame([*marked, *known], {"row": pl.String, "step": pl.Int64, "count": pl.Int64})
    steps = xla_steps.of_changes(rows)
    assert (steps(Change(of_hosts={0: [(5, 1.0)]})), steps(Change(transfer={0: 0.5}))) == (4, count)


def test_a_device_that_meets_no_other_ran_as_many_steps_as_it_ran_their_program() -> None:
    """Where nothing is exchanged steps were those of the host: copies were worth a third too much in each."""
    rank = trace("""
        step |......111222333444......|
        call |......a..a..a..a........|
        tpu  |AAA.BAAA.BAAA.BAAA.BAAAB|
        B = add.1 @ jit(g)/add in jit_g(2)
    """)
    assert xla_steps_run.rows(rank)["count"].to_list() == [5]


def test_what_marked_no_steps_ran_none() -> None:
    assert xla_steps_run.rows(trace("tpu |AAA.BAAA.BAAA.|")).is_empty()
