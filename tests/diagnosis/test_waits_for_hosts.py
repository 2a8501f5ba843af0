"""What hosts lose that wait for another rank's host."""

from __future__ import annotations

import polars as pl

from holotrace.core.schema import filled
from holotrace.diagnosis.job import idle
from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.rank import account

WAIT = "vllm/distributed/device_communicators/shm_broadcast.py(452): acquire_read"


def gap(rank: int, step: int, name: str, time_ns: int, cause: str = "python-function") -> dict[str, object]:
    """What a host did in a gap that ends 10 ms after the step began."""
    at_ns = 100_000_000 * step + 10_000_000
    known = {"row": account.GAP, "rank": rank, "cause": cause, "name": name, "count": 1, "event_id": step}
    return known | {"start_ns": at_ns - time_ns, "at_ns": at_ns + 20_000 * rank, "time_ns": time_ns}


def causes(*, scheduling: str) -> dict[str, dict[int, int]]:
    """How much each rank would not spend, by cause, where rank 0 schedules and two others wait for it."""
    rows = [
        row
        for step in range(5)
        for row in (
            gap(0, step, "scheduler.py(44): sort_waiting", 8_000_000, scheduling),
            gap(0, step, "scheduler.py(90): update", 1_000_000, "launch-bound"),
            gap(1, step, WAIT, 9_000_000),
            gap(2, step, WAIT, 9_000_000),
        )
    ]
    table = pl.DataFrame(rows)
    every = filled(table.drop("rank"), account.COLUMNS).with_columns(table["rank"])
    visits = pl.DataFrame({"rank": [0, 1, 2], "clock_offset_ns": 0, "collective": "allreduce"})
    found = idle.causes(Job(every, visits, (0, 1, 2), 100_000))
    return {
        str(one.responsible): {
            rank: round(sum(ns for _, ns in parts)) for rank, parts in sorted(one.change.removed.items())
        }
        for one in found
    }


def test_what_the_scheduler_does_costs_those_who_wait_for_it_as_much() -> None:
    """A server lost half of its time in its scheduler and nothing was told, as without that its workers wait on."""
    found = causes(scheduling="python-function")["scheduler.py(44): sort_waiting"]
    assert found == dict.fromkeys(range(3), 40_000_000)


def test_hosts_that_wait_for_one_that_launches_wait_for_nothing_else() -> None:
    assert causes(scheduling="launch-bound")[WAIT] == {1: 45_000_000, 2: 45_000_000}
