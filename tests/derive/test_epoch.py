"""When the clock of a file began."""

from __future__ import annotations

import pytest

from holotrace.derive.epoch import base_ns


def test_a_file_may_say_when_its_clock_began() -> None:
    assert base_ns({"baseTimeNanoseconds": 1_759_276_800_000_000_000}) == 1_759_276_800_000_000_000


@pytest.mark.parametrize("said", [None, -1, 1 << 62, "1759276800000000000", 1.5, True])
def test_what_is_no_time_counts_from_0(said: object) -> None:
    assert base_ns({"baseTimeNanoseconds": said}) == 0
    assert base_ns({}) == 0
