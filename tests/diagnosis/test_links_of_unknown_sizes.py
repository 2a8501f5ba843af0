"""A link is slow if equal messages take longer on it: of messages of unknown size nobody knows."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.diagnosis import transfers


@pytest.mark.parametrize(("elements", "found"), [(1_000, [(2, 3)]), (None, [])])
def test_messages_of_unknown_size_are_no_witness_of_a_slow_link(elements: int | None, found: list[tuple[int]]) -> None:
    times_ns = {(0, 1): 100, (1, 2): 100, (2, 3): 500}
    meetings = pl.DataFrame(
        [
            {
                "match": 10 * first + count,
                "collective": "send/recv",
                "element_count": elements,
                "element_type": None,
                "size": 2,
                "member_ranks": [first, last],
                "absent": 0,
                "transfer_ns": time_ns,
                "step": count,
            }
            for (first, last), time_ns in times_ns.items()
            for count in range(4)
        ],
        schema_overrides={"element_count": pl.Int64, "element_type": pl.String},
    )
    assert [candidate.ranks for candidate in transfers._links(meetings)] == found
