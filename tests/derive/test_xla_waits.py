"""What a call that reads a result back waits for is told by the ends of programs and by copies to the host."""

from __future__ import annotations

from typing import Any

from drawing import US
from holotrace.core.tables import CPU_OPS, DEVICE_EVENTS, MODULES
from holotrace.core.trace import RankTrace
from holotrace.derive import xla_waits
from xla_drawing import frame

Span = tuple[str, int, int]
READ = "np.asarray(jax.Array)"


def rank(calls: list[Span], programs: list[list[Span]], copies: list[Span] | None = None) -> RankTrace:
    """A host thread, the operations of each run of a program on a device, and copies; times are in microseconds."""
    host = [
        {"event_id": at, "name": name, "pid": "1", "tid": "python", "start_ns": start * US, "end_ns": end * US}
        for at, (name, start, end) in enumerate(calls)
    ]
    works: list[tuple[Span, str, int]] = [(op, "compute", 3) for run in programs for op in run]
    works += [(copy, "memory", 4) for copy in copies or []]
    device = [
        {"event_id": 100 + at, "name": name, "kind": kind, "device": 0, "stream": stream}
        | {"start_ns": start * US, "end_ns": end * US, "launch_id": 7}
        for at, ((name, start, end), kind, stream) in enumerate(works)
    ]
    runs = [{"device": 0, "start_ns": run[0][1] * US, "end_ns": run[-1][2] * US} for run in programs]
    tables: list[tuple[Any, list[dict[str, Any]]]] = [(CPU_OPS, host), (DEVICE_EVENTS, device), (MODULES, runs)]
    return RankTrace(0, {table.name: frame(table, rows) for table, rows in tables})


def waits(of: RankTrace) -> list[tuple[int, int]]:
    return xla_waits.waits(of).select("held_id", "after_id").rows()


def test_a_read_back_waits_for_the_program_that_was_over_last_before_it_returned() -> None:
    assert waits(rank([(READ, 10, 500)], [[("a", 0, 100), ("b", 100, 300)], [("c", 400, 900)]])) == [(0, 101)]


def test_a_read_back_waits_for_the_program_before_the_copy_of_its_result() -> None:
    runs = [[("a", 0, 100)], [("b", 150, 300)]]
    assert waits(rank([(READ, 10, 500)], runs, [("MemcpyD2H", 200, 210)])) == [(0, 100)]
    assert waits(rank([(READ, 10, 500)], runs, [("MemcpyH2D", 200, 210)])) == [(0, 101)]


def test_what_was_over_when_a_read_back_began_was_not_waited_for() -> None:
    assert waits(rank([(READ, 101, 500)], [[("a", 0, 100)]])) == []


def test_short_calls_and_calls_inside_of_others_are_none_of_their_own() -> None:
    calls = [(READ, 10, 500), ("CommonPjRtBuffer::ToLiteral", 20, 400), (READ, 600, 610)]
    assert waits(rank(calls, [[("a", 0, 100)], [("b", 590, 605)]])) == [(0, 100)]


def test_other_calls_do_not_wait() -> None:
    assert waits(rank([("PjitFunction(step)", 10, 500)], [[("a", 0, 100)]])) == []


def test_without_programs_there_is_nothing() -> None:
    of = rank([(READ, 10, 500)], [])
    assert waits(of) == []
