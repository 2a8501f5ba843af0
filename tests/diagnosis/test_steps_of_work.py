"""What ranks contribute to the search for causes: the step of work, and what was launched just before it began."""

from __future__ import annotations

import polars as pl

from drawing import US, draw
from holotrace.diagnosis import account


def test_what_begins_early_on_another_queue_takes_no_work_of_the_step_before_with_it() -> None:
    """A copy for the next step's gather counted what was computed beside it for that step, on some ranks only."""
    job = draw(
        """
        step     |1112222......................|
        host     |ABRCD........................|
        compute  |...AAA......BBBBBB.....DDDD..|
        compute2 |...........C.................|
        comm     |..................RRRRR......|
        """
    )
    (rows,) = job.map(account.account, account.READS)
    computed = rows.filter(row=account.SEGMENT).group_by("step").agg(pl.col("time_ns").sum()).sort("step")
    # With C, which is nearly nothing, where B is.
    assert computed.rows() == [(1, (3 + 1 + 6) * US), (2, 4 * US)]


def test_the_work_that_was_launched_the_least_before_it_began_bounds_what_is_between_two_meetings() -> None:
    """Of A, R, B and C only C waited for its launch; B had been launched long before R was over."""
    job = draw(
        """
        step     |11111111111111111111111111111111|
        host     |ARB.................C...........|
        compute  |...AAA............BBB.CCC.......|
        comm     |......RRRRRRRRRRR...............|
        """
    )
    (rows,) = job.map(account.account, account.READS)
    late = rows.filter(row=account.LATE).select("at_ns", "end_ns").sort("at_ns")
    # Before the reduction A, and after it C.
    assert late.rows() == [(3 * US, 2 * US), (22 * US, 21 * US)]
