"""What all ranks have of a function, and what some have beyond that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from holotrace.diagnosis.job import floors, idle, of_functions
from holotrace.diagnosis.job.candidates import Candidate, Job, Where
from holotrace.diagnosis.job.meetings import Change

LOADER = "enumerate(DataLoader)"
Times = Mapping[int, Sequence[int]]


def levels(waiting: Times, host: Times, ranks: int = 4) -> list[tuple[Where, dict[int, int]]]:
    """The levels: where each is, and how much of each rank's waiting.

    Args:
        waiting: How long devices wait in each step, by rank.
        host: How long hosts are in the loader in each step, by rank.
        ranks: How many ranks there are.
    """

    def table(of: Times, **others: str) -> pl.DataFrame:
        rows = [
            {"rank": rank, "step": step, "time_ns": ns, "count": 1}
            for rank, every in of.items()
            for step, ns in enumerate(every)
        ]
        return pl.DataFrame(rows).with_columns(**{name: pl.lit(value) for name, value in others.items()})

    job = Job(pl.DataFrame(), pl.DataFrame(), tuple(range(ranks)), 10)
    found = of_functions.levels("input", LOADER, table(waiting), table(host, name=LOADER), job)
    return [
        (level.where, dict(level.table.group_by("rank").agg(pl.col("part_ns").sum()).sort("rank").iter_rows()))
        for level in found or ()
    ]


def test_a_slow_loader_of_all_ranks_beside_a_stall_of_one_is_two_causes() -> None:
    """They were told as one, of all ranks; each alone saves no more than the device waits for it."""
    host = {rank: [100, 100, 250 if rank == 2 else 100] for rank in range(4)}
    # The others wait for rank 2 meanwhile, which had work for 20 of it.
    waiting = {rank: [100, 100, 230 if rank == 2 else 0] for rank in range(4)}
    own, common = levels(waiting, host)
    assert own == (Where((2,), (2,)), {0: 0, 1: 0, 2: 150, 3: 0})
    assert common == (Where((), (0, 1, 2)), {0: 200, 1: 200, 2: 300, 3: 200})


def test_where_no_steps_are_known_only_calls_that_devices_wait_for_are_of_all_ranks() -> None:
    """Two pauses of one rank in the loop of a server were told to be the loop of all, which costs nothing."""
    host = pl.DataFrame({"rank": [0, 1, 2, 3], "name": LOADER, "time_ns": [100, 100, 250, 100], "count": 50})
    waiting = pl.DataFrame({"rank": [0, 1, 2, 3], "time_ns": [0, 0, 160, 0]})
    rows = pl.DataFrame({"rank": 2, "name": LOADER, "event_id": [1, 2, 2]})
    waiting, host = (of.with_columns(step=pl.lit(None, pl.Int64)) for of in (waiting, host))
    job = Job(pl.DataFrame(), pl.DataFrame(), (0, 1, 2, 3), 10)
    assert (ratio := of_functions.awaited_ratio(LOADER, rows, host)) == 2 / 50
    assert of_functions.levels("input", LOADER, waiting, host, job)
    assert not of_functions.levels("input", LOADER, waiting, host, job, awaited_ratio=ratio)


def everybodys(waiting: Times, host: Sequence[tuple[int, int | None, int]], cause: str, rows: pl.DataFrame) -> float:
    """The part that is of all, by how long devices wait in each step, and hosts are in it: rank, step and time."""
    excess = [
        {"rank": rank, "step": step, "beyond_ns": ns}
        for rank, every in waiting.items()
        for step, ns in enumerate(every)
    ]
    functions = pl.DataFrame(host, ["rank", "step", "time_ns"], orient="row").with_columns(
        name=pl.lit(LOADER), count=pl.when(pl.col("time_ns") < 200).then(1).otherwise(2)
    )
    job = Job(rows, pl.DataFrame(), tuple(waiting), 10)
    return of_functions.everybodys_ratio(cause, LOADER, pl.DataFrame(excess), functions, job)


def test_where_no_steps_are_marked_all_calls_of_a_function_are_compared() -> None:
    """A turn of a rank has the call that the same turn of others has not: half of all ranks were told to be slow."""
    waiting = {0: [100, 0], 1: [0, 40], 2: [0, 0], 3: [0, 0]}
    host = [
        (0, 0, 200),
        (0, None, 100),
        (1, 0, 100),
        (1, 1, 200),
        (2, 0, 100),
        (2, None, 200),
        (3, 1, 100),
        (3, None, 200),
    ]
    unmarked = pl.DataFrame(schema={"row": pl.String, "cause": pl.String})
    assert everybodys(waiting, host, "input", unmarked) == 1
    assert everybodys(waiting, host, "input", pl.DataFrame({"row": ["step"], "cause": None})) < 0.5


def test_hosts_that_pause_as_long_while_their_devices_wait_for_others_pause_alike() -> None:
    """Without stacks nothing names what all hosts do, and the ranks that came last were told to pause."""
    waiting = {0: [100, 0], 1: [0, 90], 2: [0, 0], 3: [0, 0]}
    rows = pl.DataFrame({"row": "step"} | dict.fromkeys(("cause", "rank", "step", "time_ns")))
    paused = [(rank, step, 100 - rank) for rank in range(4) for step in range(2)]
    table = pl.DataFrame(paused, ["rank", "step", "time_ns"], orient="row").with_columns(
        row=pl.lit("function"), count=1
    )
    alike = pl.concat([table.with_columns(cause=pl.lit("host-pause")), rows], how="diagonal_relaxed")
    assert everybodys(waiting, [], "host-pause", alike) > 0.9
    # One that pauses once more does so by itself, however long all do anyway.
    more = alike.with_columns(time_ns=pl.col("time_ns") + 1_000 + 90 * (pl.col("rank") == 1).cast(pl.Int64))
    assert everybodys({0: [0, 0], 1: [0, 90], 2: [0, 0], 3: [0, 0]}, [], "host-pause", more) < 0.5
    of_two = alike.filter(pl.col("rank").is_null() | (pl.col("rank") < 2))
    assert everybodys(waiting, [], "host-pause", of_two) == 0


def test_what_differs_by_chance_from_step_to_step_is_of_all_ranks() -> None:
    """Two of four ranks were told to be in what all are in for as long, since in each step the last of them waits."""
    waiting = {0: [30, 20, 53, 27], 1: [0] * 4, 2: [8, 0, 0, 0], 3: [13, 31, 16, 0]}
    times = {0: [89, 92, 112, 86], 1: [56, 88, 66, 70], 2: [96, 63, 73, 100], 3: [104, 93, 68, 69]}
    steps = pl.DataFrame({"row": ["step"], "cause": None})
    host = [(rank, step, ns) for rank, every in times.items() for step, ns in enumerate(every)]
    assert everybodys(waiting, host, "python-function", steps) == 1
    # What is longer in each step is not.
    longer = [(rank, step, ns + 60 * (rank == 0)) for rank, step, ns in host]
    assert everybodys({**waiting, 0: [60] * 4}, longer, "python-function", steps) < 0.5


def test_a_host_that_pauses_once_more_is_not_those_that_wait_for_it_for_as_long() -> None:
    """In a recording of torchrec rank 2 sleeps for 20 ms in each step, and others wait for it where nothing shows."""
    waiting = {0: [0, 0, 0], 1: [0, 0, 0], 2: [20, 20, 20], 3: [0, 0, 0]}
    paused = [(rank, step, 62 - rank + step, 2 if rank == 2 else 1) for rank in range(4) for step in range(3)]
    table = pl.DataFrame(paused, ["rank", "step", "time_ns", "count"], orient="row").with_columns(
        row=pl.lit("function")
    )
    rows = pl.DataFrame({"row": "step"} | dict.fromkeys(("cause", "rank", "step", "time_ns", "count")))
    rows = pl.concat([table.with_columns(cause=pl.lit("host-pause")), rows], how="diagonal_relaxed")
    assert everybodys(waiting, [], "host-pause", rows) == 0
    assert everybodys(waiting, [], "host-pause", rows.with_columns(count=1)) == 1


def test_only_ranks_that_read_input_are_compared() -> None:
    """In a pipeline only the first and the last stage read any, of which all was told as theirs."""
    host = {0: [100, 100], 3: [100, 250]}
    own, common = levels({0: [100, 100], 1: [0, 0], 2: [0, 0], 3: [100, 250]}, host)
    assert own == (Where((3,), (1,)), {0: 0, 3: 150})
    assert common == (Where((0, 3), (0, 1)), {0: 200, 3: 200})


@pytest.mark.parametrize(
    "host",
    [
        {rank: [100, 110 if rank % 2 else 100] for rank in range(4)},  # of half of the ranks by chance
        {rank: [2, 250 if rank == 1 else 2] for rank in range(4)},  # of one rank alone
        {rank: [100, 100] for rank in range(4)},  # of all alike
        {rank: [100 + 60 * (rank == step) for step in range(4)] for rank in range(4)},  # each in another step
        {1: [100, 250]},  # the only one that has it
        {rank: [ms, ms] for rank, ms in enumerate((90, 96, 104, 112))},  # of all, which differ by chance
    ],
)
def test_what_is_one_thing_is_not_told_as_two(host: Times) -> None:
    assert not levels(host, host)


@pytest.mark.parametrize(
    ("beyond", "ranks"),
    [
        # Rank 2 in each step, and rank 1 once.
        ({1: [0, 80, 0], 2: [100, 100, 100]}, [(2,), (1,)]),
        ({1: [70, 80, 70], 2: [100, 100, 100]}, [(1, 2)]),
        # Each once, as long as the other.
        ({1: [0, 95, 0], 2: [0, 0, 100]}, [(1, 2)]),
    ],
)
def test_pauses_of_ranks_in_other_steps_are_different_causes(beyond: Times, ranks: list[tuple[int, ...]]) -> None:
    """A rank that stood still in each step and one that paused once were told as one cause."""
    rows = [{"rank": rank, "step": step, "beyond_ns": ns} for rank, of in beyond.items() for step, ns in enumerate(of)]
    found = idle._by_steps(pl.DataFrame(rows), Job(pl.DataFrame(), pl.DataFrame(), (0, 1, 2, 3), 10))
    assert [where.ranks for where, _ in found] == ranks


@pytest.mark.parametrize(
    ("host", "ranks", "spent"),
    [
        # All of it, where it is of all ranks.
        ({rank: [100, 150] for rank in range(4)}, (), {rank: [(9, 100.0), (19, 150.0)] for rank in range(4)}),
        # Of what others have, too, the rest; of what no other has all.
        ({0: [100, 100], 1: [100, 100], 2: [100, 250], 3: [100, 100]}, (2,), {2: [(19, 150.0)]}),
        ({2: [100, 250]}, (2,), {2: [(9, 100.0), (19, 250.0)]}),
    ],
)
def test_hosts_are_in_a_function_also_while_their_devices_work(
    host: Times, ranks: tuple[int, ...], spent: dict[int, list[tuple[int, float]]]
) -> None:
    rows = [
        {"rank": rank, "step": step, "time_ns": ns, "at_ns": 10 * step + 9, "name": LOADER, "count": 1}
        for rank, of in host.items()
        for step, ns in enumerate(of)
    ]
    job = Job(pl.DataFrame(), pl.DataFrame(), (0, 1, 2, 3), 10)
    found = of_functions.with_spent(
        Candidate("input", Change(), ranks, responsible=LOADER), "input", LOADER, pl.DataFrame(rows), job
    )
    assert found.change.spent == spent


@pytest.mark.parametrize(("call_ns", "ratio"), [(150_000, 0.05), (3_000_000, 0.01)])
def test_a_loader_takes_as_long_as_its_host_is_in_it(call_ns: int, ratio: float) -> None:
    """One that took 3 ms seemed to hand over batches that were ready, as devices waited for it in many short parts."""
    # That of one rank has a fault of its own.
    rows = [
        {"rank": rank, "step": 1, "time_ns": call_ns if rank else 90_000_000, "at_ns": 9, "name": LOADER, "count": 1}
        for rank in range(4)
    ]
    job = Job(pl.DataFrame(), pl.DataFrame(), (0, 1, 2, 3), 10)
    waiting = Candidate("input", Change(), responsible=LOADER, evidence={"time_ns": 5_000_000, "count": 175})
    found = of_functions.with_spent(waiting, "input", LOADER, pl.DataFrame(rows), job)
    assert floors.least_ratio(found, 4, shares_cores=False) == ratio
