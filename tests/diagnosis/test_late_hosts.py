"""Hosts that launch too late while a collective runs, and what launching was for."""

from __future__ import annotations

from drawing import draw
from holotrace.job import Job


def launching(job: Job) -> list[tuple[int, str | None]]:
    """What launching too late costs, in microseconds, and in what range."""
    found = job.causes().filter(cause="launch-bound")
    return [(cost // 1_000, name) for cost, name in found.select("cost_ns", "responsible").iter_rows()]


def test_a_device_that_only_communicates_waits_for_its_host_if_the_next_kernel_begins_when_it_is_launched() -> None:
    job = draw("""
        host    |AC.............B....|
        compute |..AAA............BBB|
        comm    |....CCCCCCCCCCCCCCCC|
        op      |OOOOOOOOOOOOOOOOOO..|
    """)
    assert launching(job) == [(12, None)]


def test_a_kernel_that_was_launched_before_the_collective_ended_waited_for_that() -> None:
    job = draw("""
        host    |ACB......................|
        compute |..AAA.................BBB|
        comm    |....CCCCCCCCCCCCCCCCCC...|
        op      |OOOO.....................|
    """)
    assert launching(job) == []


def test_launching_is_told_by_the_range_that_it_is_for() -> None:
    job = draw("""
        range   |RRRRRRRRRRRRRRRRRRRR|
        host    |A.........B.........|
        compute |.AA........BB.......|
        op      |OOOOOOOOOOOO........|
    """)
    assert launching(job) == [(8, "R")]
