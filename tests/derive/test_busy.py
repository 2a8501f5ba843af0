"""The time in which devices were at work, by kind."""

from __future__ import annotations

from drawing import US, trace
from holotrace.derive import busy, intervals


def test_time_is_a_union_by_kind_and_waiting_is_no_work() -> None:
    found = busy.of(
        trace("compute |AAAA......|\ncompute |..BB......|\ncomm |...CCC....|\ncopy |.......D..|\nsync |SSSSSSSSSS|")
    )
    assert intervals.total_ns(found.computing) == 4 * US
    assert intervals.total_ns(found.communicating) == 3 * US
    assert intervals.total_ns(found.computing_or_communicating) == 6 * US
    assert found.working.rows() == [(0, 6 * US), (7 * US, 8 * US)]
    assert (found.start_ns, found.end_ns) == (0, 8 * US)


def test_a_rank_without_work_has_no_time() -> None:
    found = busy.of(trace("sync |SS|"))
    assert found.working.is_empty()
    assert (found.start_ns, found.end_ns) == (None, None)
