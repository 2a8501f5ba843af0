"""Which step devices worked for from one meeting of ranks to the next."""

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
