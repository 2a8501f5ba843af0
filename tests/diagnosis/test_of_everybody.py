"""What every host does, of which only those devices wait that are last anyway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis.job import idle, meetings
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.rank import account

FUNCTION = "monitor.py(55): grad_histogram"


def of_slow_host(rows: Sequence[Mapping[str, object]]) -> list[Candidate]:
    """What is told of four ranks of which the last one's calls take three times as long."""
    calls = [
        {"row": "call", "rank": rank, "name": name, "time_ns": 9_000 if rank == 3 else 3_000, "count": 9}
        for rank in range(4)
        for name in ("aten::mm", "aten::add")
    ]
    table = pl.DataFrame([*rows, *calls], infer_schema_length=None)
    every = filled(table.drop("rank"), account.COLUMNS).with_columns(table["rank"])
    visits = pl.DataFrame({"rank": range(4), "clock_offset_ns": 0, "collective": "allreduce"})
    return list(idle.causes(Job(every, visits, tuple(range(4)), 200_000)))


@pytest.mark.parametrize(("of_others_ns", "ranks"), [(5_000_000, ()), (50_000, (2,))])
def test_a_function_of_all_hosts_is_of_all_though_only_the_last_rank_has_its_device_wait_for_it(
    of_others_ns: int, ranks: tuple[int, ...]
) -> None:
    """Beside a slow host, whose rank the others wait for, the function was taken for a part of the slow host."""
    function = {"name": FUNCTION, "count": 1, "event_id": 1}
    rows: list[dict[str, object]] = [
        {"row": "function", "rank": rank, "step": step, "time_ns": 5_000_000 if rank == 2 else of_others_ns} | function
        for rank in range(4)
        for step in range(4)
    ]
    rows += [
        {"row": "gap", "rank": 2, "step": step, "time_ns": 5_000_000, "cause": "python-function", "start_ns": at_ns}
        | {"at_ns": at_ns + 5_000_000}
        | function
        for step in range(4)
        for at_ns in [20_000_000 * step]
    ]
    # Before its device waited for it the function kept 3 ms from being hidden that come later.
    recovered = {"row": "recovered", "rank": 2, "step": 1, "time_ns": 3_000_000, "start_ns": 20_000_000}
    rows.append(recovered | {"cause": "python-function", "at_ns": 28_000_000} | function)
    table = pl.DataFrame(rows, infer_schema_length=None)
    every = filled(table.drop("rank"), account.COLUMNS).with_columns(table["rank"])
    visits = pl.DataFrame({"rank": range(4), "clock_offset_ns": 0, "collective": "allreduce"})
    (found,) = idle.causes(Job(every, visits, (0, 1, 2, 3), 100_000))
    assert (found.responsible, found.ranks) == (FUNCTION, ranks)
    assert sum(ns for _, ns in found.change.removed[2]) == 20_000_000
    assert found.change.later == {2: [(28_000_000, 3_000_000.0)]}


def test_what_takes_some_ranks_a_little_longer_by_chance_is_of_all_only() -> None:
    """Collecting garbage for 110 instead of 100 ms was told twice: of all ranks, and of those that it took longer."""
    function = {"name": FUNCTION, "count": 1, "event_id": 1}
    times = {rank: 110_000_000 if rank == 2 else 100_000_000 for rank in range(4)}
    rows: list[dict[str, object]] = [
        {"row": "function", "rank": rank, "step": 1, "time_ns": ns} | function for rank, ns in times.items()
    ]
    rows += [
        {"row": "gap", "rank": rank, "step": 1, "cause": "python-function", "start_ns": 0, "at_ns": ns, "time_ns": ns}
        | function
        for rank, ns in times.items()
    ]
    table = pl.DataFrame(rows, infer_schema_length=None)
    every = filled(table.drop("rank"), account.COLUMNS).with_columns(table["rank"])
    visits = pl.DataFrame({"rank": range(4), "clock_offset_ns": 0, "collective": "allreduce"})
    found = list(idle.causes(Job(every, visits, (0, 1, 2, 3), 2_000_000)))
    assert [each.ranks for each in found] == [()]


def test_what_the_last_rank_is_in_a_function_for_longer_than_others_is_its_own_and_the_rest_of_all() -> None:
    """Where all hosts are in a function and one twice as long, all of it was told to be of that one.

    The device had work for 1 ms of the 6: without the others' 3 it waits for 2, and without both not at all.
    """
    function = {"name": FUNCTION, "count": 1, "event_id": 1}
    rows: list[dict[str, object]] = [
        {"row": "function", "rank": rank, "step": step, "time_ns": 6_000_000 if rank == 2 else 3_000_000} | function
        for rank in range(4)
        for step in range(4)
    ]
    rows += [
        {"row": "gap", "rank": rank, "step": step, "cause": "python-function", "start_ns": at_ns}
        | {"at_ns": at_ns + 6_000_000, "time_ns": 5_000_000 if rank == 2 else 500_000}
        | function
        for rank in range(4)
        for step in range(4)
        for at_ns in [20_000_000 * step]
    ]
    table = pl.DataFrame(rows, infer_schema_length=None)
    every = filled(table.drop("rank"), account.COLUMNS).with_columns(table["rank"])
    visits = pl.DataFrame({"rank": range(4), "clock_offset_ns": 0, "collective": "allreduce"})
    own, of_all = idle.causes(Job(every, visits, (0, 1, 2, 3), 100_000))
    assert (own.ranks, of_all.ranks) == ((2,), ())
    both = meetings.together([own.change, of_all.change])
    removed = [round(sum(ns for _, ns in change.removed[2])) for change in (own.change, of_all.change, both)]
    assert removed == [12_000_000, 12_000_000, 20_000_000]


@pytest.mark.parametrize(("own_ns", "ranks"), [(19_100_000, ()), (30_000_000, (0, 3))])
def test_ranks_that_come_last_by_chance_are_not_launch_bound_by_themselves(own_ns: int, ranks: tuple[int, ...]) -> None:
    """In groups of which one member has its device wait for its host, the others' devices wait for that member."""
    gap = {"row": "gap", "cause": "launch-bound", "step": 1, "at_ns": 20_000_000, "start_ns": 0, "count": 100}
    rows: list[dict[str, object]] = [
        {"rank": rank, "time_ns": 8_000_000 if rank in (0, 3) else 2_000_000} | gap for rank in range(6)
    ]
    rows += [
        {"row": "host", "rank": rank, "time_ns": own_ns if rank in (0, 3) else 19_000_000, "count": 1}
        for rank in range(6)
    ]
    table = pl.DataFrame(rows, infer_schema_length=None)
    every = filled(table.drop("rank"), account.COLUMNS).with_columns(table["rank"])
    visits = pl.DataFrame({"rank": range(6), "clock_offset_ns": 0, "collective": "allreduce"})
    first, *others = idle.causes(Job(every, visits, tuple(range(6)), 200_000))
    assert (first.cause, first.ranks, len(others)) == ("launch-bound", ranks, bool(ranks))


def test_a_slow_host_does_not_make_the_others_too_slow_for_their_devices() -> None:
    """What a slow host launches too late was more than all that hosts waited for, which then was launching, too."""
    place = {"step": 1, "at_ns": 20_000_000, "start_ns": 0, "count": 100, "event_id": 7}
    rows: list[dict[str, object]] = [
        {"row": "gap", "rank": rank, "cause": "synchronization", "name": "aten::item", "time_ns": 3_000_000} | place
        for rank in range(4)
    ]
    rows += [{"row": "gap", "rank": 3, "cause": "launch-bound", "time_ns": 40_000_000} | place]
    found = of_slow_host(rows)
    assert {(each.cause, each.ranks) for each in found} == {("synchronization", ()), ("slow-host", (3,))}


@pytest.mark.parametrize(
    ("gap", "of_slow_host_ns", "of_all_ns"),
    [
        # Without the wait a slow host is ahead of its device, too, so that each of both mends it.
        ({"cause": "synchronization", "name": "aten::item"}, 6_000_000, 9_000_000),
        # It came later to what takes all equally long, 8 ms: without that its device waits for no longer than 1.
        ({"cause": "garbage-collection", "name": "gc.collect"}, 6_000_000, 8_000_000),
    ],
)
def test_what_a_slow_host_has_beyond_the_others_is_of_its_slowness(
    gap: dict[str, str], of_slow_host_ns: int, of_all_ns: int
) -> None:
    """A wait of all was told too cheap, and a slow host, as what all did seemed to be longer on it."""
    place = {"step": 1, "at_ns": 20_000_000, "start_ns": 0, "count": 100, "event_id": 7}
    rows: list[dict[str, object]] = [
        {"row": "gap", "rank": rank, "time_ns": 9_000_000 if rank == 3 else 3_000_000} | gap | place
        for rank in range(4)
    ]
    rows += [
        {"row": "function", "rank": rank, "step": 1, "name": "gc.collect", "time_ns": 8_000_000, "count": 1}
        for rank in range(4)
    ]
    found = {each.cause: each for each in of_slow_host(rows)}
    own, of_all = found["slow-host"].change, found[gap["cause"]].change
    assert sum(ns for _, ns in own.removed[3]) == of_slow_host_ns
    assert sum(ns for _, ns in [*of_all.removed[3], *of_all.later.get(3, ())]) == of_all_ns
    both = meetings.together([own, of_all])
    assert sum(ns for _, ns in both.removed[3]) == 9_000_000


@pytest.mark.parametrize(("own_ns", "causes"), [(9_000_000, {"slow-host"}), (30_000_000, {"python-function"})])
def test_a_function_that_takes_as_much_longer_as_all_calls_of_a_slow_host_is_of_its_slowness(
    own_ns: int, causes: set[str]
) -> None:
    """Others are done with it before their devices wait, so that it was told beside the slow host."""
    function = {"step": 1, "name": FUNCTION, "count": 1, "event_id": 1}
    rows: list[dict[str, object]] = [
        {"row": "function", "rank": rank, "time_ns": own_ns if rank == 3 else 3_000_000} | function for rank in range(4)
    ]
    gap = {"row": "gap", "rank": 3, "cause": "python-function", "start_ns": 0, "at_ns": 20_000_000}
    rows.append(gap | {"time_ns": 6_000_000} | function)
    found = of_slow_host(rows)
    assert {each.cause for each in found} == causes
    assert all(each.ranks == (3,) for each in found)


@pytest.mark.parametrize(("own_ns", "causes"), [(9_000_000, {"slow-host"}), (30_000_000, {"upload"})])
def test_what_a_slow_host_of_xla_sends_takes_it_longer_whatever_the_name_of_most_of_it_is(
    own_ns: int, causes: set[str]
) -> None:
    """Copying to pinned memory took the slow host longest, and others the copy of the GPU: it was told beside it."""
    sent: dict[str, object] = {"step": 1, "cause": "upload", "start_ns": 0, "at_ns": 20_000_000, "count": 1}
    slow = sent | {"rank": 3, "name": "H2D Dispatch"}
    rows: list[dict[str, object]] = [
        {"row": "spent", "rank": rank, "name": "MemcpyH2D", "time_ns": 3_000_000} | sent for rank in range(3)
    ]
    rows += [{"row": "spent", "time_ns": own_ns} | slow, {"row": "gap", "time_ns": 6_000_000} | slow]
    assert {each.cause for each in of_slow_host(rows)} == causes


def test_input_that_is_waited_for_in_many_parts_is_as_long_as_its_host_is_in_it() -> None:
    """A device waited for its loader in parts, each as short as one of any loader: all of it was of a slow host."""
    place = {"step": 1, "at_ns": 40_000_000, "start_ns": 0, "name": "DataLoader.__next__", "event_id": 7}
    rows: list[dict[str, object]] = [
        {"row": "gap", "rank": 3, "cause": "input", "time_ns": 30_000_000, "count": 400} | place,
        {"row": "function", "rank": 3, "time_ns": 32_000_000, "count": 4} | place,
    ]
    (found,) = of_slow_host(rows)
    assert (found.cause, found.ranks) == ("input", (3,))


@pytest.mark.parametrize("waits_ns", [0, 2_000_000])
def test_a_slow_host_is_less_far_ahead_of_what_it_stands_still_for(waits_ns: int) -> None:
    """Beside a pause on the same rank half of what a slow host cost was told, and where that hid it all, nothing."""
    place = {"step": 1, "at_ns": 20_000_000, "start_ns": 0, "count": 1}
    collected = {"cause": "garbage-collection", "name": "gc.collect", "event_id": 7}
    rows: list[dict[str, object]] = [
        {"row": "gap", "rank": 3, "time_ns": 9_000_000} | collected | place,
        # It called operators for 6 ms before that, which take others 2.
        {"row": "recovered", "rank": 3, "time_ns": 6_000_000, "cause": "slow-host"} | place,
    ]
    if waits_ns:
        rows.append({"row": "gap", "rank": 3, "time_ns": waits_ns, "cause": "launch-bound", "event_id": 8} | place)
    found = {each.cause: each for each in of_slow_host(rows)}
    own = found["slow-host"].change
    assert found["garbage-collection"].ranks == found["slow-host"].ranks == (3,)
    assert sum(ns for _, ns in own.removed.get(3, ())) == waits_ns
    assert sum(ns for _, ns in own.later[3]) == pytest.approx(4_000_000 - waits_ns)
