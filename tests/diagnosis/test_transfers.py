"""Transfers that take longer in one group than in others."""

from __future__ import annotations

import polars as pl

from holotrace.diagnosis import transfers
from holotrace.diagnosis.candidates import Job
from holotrace.diagnosis.classes import SLOW_LINK

SLOW, SIZES = (2, 3), (1_000, 50_000)


def visits() -> pl.DataFrame:
    """Two pairs of ranks that reduce two sizes; in one pair both take three times as long."""
    rows = [
        {
            "match": 2 * place + pair[0] // 2,
            "rank": rank,
            "arrival_ns": 1_000_000 * place,
            "start_ns": 1_000_000 * place,
            "left_ns": 1_000_000 * place + size * (3 if pair == SLOW else 1),
            "exposed_ns": 0,
            "group_ranks": str(list(pair)),
            "collective": "allreduce",
            "element_count": size,
            "element_type": "Float",
            "step": 1,
            "group_size": 2,
        }
        for place, size in enumerate(SIZES)
        for pair in ((0, 1), SLOW)
        for rank in pair
    ]
    return pl.DataFrame(rows)


def test_a_link_that_is_slow_for_all_sizes_is_one_cause() -> None:
    job = Job(pl.DataFrame(), visits(), (0, 1, 2, 3), 0)
    (link,) = (found for found in transfers.causes(job) if found.cause == SLOW_LINK)
    assert link.ranks == SLOW
    assert link.change.transfer == {1: 1 / 3, 3: 1 / 3}
