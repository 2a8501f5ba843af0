"""What causes of XLA are worth by all that their hosts do of them, and which of some hosts their gaps do not tell."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import polars as pl
import pytest

from drawing import trace
from holotrace.core.tables import CALLS, HLO
from holotrace.diagnosis.job import xla_on_all, xla_spent
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.meetings import Change, Meetings
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.xla import hosts as xla_hosts
from holotrace.diagnosis.rank.xla.hosts import SPENT, WAITED
from holotrace.diagnosis.words.classes import (
    CHECKPOINT,
    COLLECTION,
    EVALUATION,
    FUNCTION,
    INPUT,
    LAUNCH,
    SLOW_HOST,
    SYNCHRONIZATION,
    UNRECORDED,
    UPLOAD,
)

RANKS = (0, 1, 2)


class Saving:
    """A job that ends earlier by all that its hosts spare."""

    def saved_ns(self, change: Change) -> int:
        return round(sum(ns for parts in change.spent.values() for _, ns in parts))


def job(*spent: tuple[int, str, str, int]) -> Job:
    """One whose hosts did this in step 1: rank, class, name, nanoseconds."""
    told = [
        {"row": SPENT, "rank": rank, "cause": cause, "name": name, "time_ns": ns} for rank, cause, name, ns in spent
    ]
    waited = {"row": WAITED, "rank": 0, "cause": INPUT, "name": "x", "time_ns": 0}
    rows = pl.DataFrame([*told, waited]).with_columns(step=pl.lit(1, pl.Int64), at_ns=pl.lit(9, pl.Int64))
    return Job(rows.cast({"rank": pl.Int32}), pl.DataFrame(), RANKS, 10)


@pytest.mark.parametrize(("ranks", "cost_ns"), [((), 300), ((2,), 5)])
def test_what_all_hosts_send_is_judged_by_all_of_it_and_not_what_a_slow_host_sends(
    ranks: tuple[int, ...], cost_ns: int
) -> None:
    """Where another host is late in each step, each device stands still for little of what all hosts take to send."""
    sent = job(*((rank, UPLOAD, "device_put", 100) for rank in RANKS))
    candidate = Candidate(UPLOAD, Change(), ranks, responsible="device_put")
    assert xla_spent.beside_gaps([(candidate, 5)], sent, cast("Meetings", Saving())) == [(candidate, cost_ns)]


class Hurrying:
    """A job that ends 100 ns earlier for each wait that its hosts do without."""

    def saved_ns(self, change: Change) -> int:
        return 100 * sum(len(ended) for ended in change.waits.values())


class Removing(Hurrying):
    """The same, which also ends earlier by all that devices do not stand still for."""

    def saved_ns(self, change: Change) -> int:
        return super().saved_ns(change) + round(sum(ns for parts in change.removed.values() for _, ns in parts))


def test_what_hosts_do_after_their_waits_takes_as_long_without_these() -> None:
    """Reading each loss was worth 1.5 of what the job gains beside a host that paused as long as a step takes.

    What ends in a late launch is what the host then does earlier, but takes as long for; the graph at 500 is not run.
    """
    done = job()
    told = {"rank": [0, 0], "at_ns": [100, 900], "cause": [SYNCHRONIZATION, None], "name": ["x", None]}
    waits = pl.DataFrame({"row": [WAITED, account.LATE], **told}).cast({"rank": pl.Int32})
    waited = replace(done, rows=pl.concat([done.rows, waits], how="diagonal"))
    change = Change(removed={0: [(900, 60.0), (500, 30.0)]}, launched={0: [(880, 60.0)]})
    costs = [(Candidate(SYNCHRONIZATION, change, (), responsible="x"), 999)]
    found = xla_spent.beside_gaps(costs, waited, cast("Meetings", Removing()))
    assert [cost for _, cost in found] == [100 + 30]


@pytest.mark.parametrize("cause", [EVALUATION, CHECKPOINT])
def test_evaluations_and_checkpoints_cost_what_waiting_for_them_exposes(cause: str) -> None:
    """That hosts would be ahead of the next launch without it counted for checkpoints only."""
    done = job((0, INPUT, "load", 1))
    waits = done.rows.filter(pl.col("row") == WAITED).with_columns(cause=pl.lit(cause))
    waited = replace(done, rows=pl.concat([done.rows, waits]))
    costs = [(Candidate(cause, Change(), (), responsible="x"), 5)]
    assert [ns for _, ns in xla_spent.beside_gaps(costs, waited, cast("Meetings", Hurrying()))] == [100]


def test_a_slow_host_takes_longer_for_all_that_others_do_and_no_longer_than_its_calls() -> None:
    """Beside late input of the same host it was worth 81 ms, of which the job gains 208 without it.

    It takes ten times as long for what others take 10 ns for. What is beyond that is a pause, and its input is told by
    itself.
    """
    spent = ((LAUNCH, "call", 100), (UNRECORDED, "", 900), (UPLOAD, "shard_args", 60), (INPUT, "load", 500))
    others = ((LAUNCH, "call", 10), (UNRECORDED, "", 10), (UPLOAD, "MemcpyH2D", 10), (INPUT, "load", 10))
    done = job(*((rank, *each) for rank in RANKS for each in (spent if rank == 2 else others)))
    slow = Candidate(SLOW_HOST, Change(), (2,), evidence={"host_ratio": 10.0})
    late = Candidate(INPUT, Change(), (2,), responsible="load")
    (found, _) = xla_spent.without([(slow, 5), (late, 5)], done, cast("Meetings", Saving()))
    assert found[1] == 90 + 90 + 50


def test_an_evaluation_costs_all_that_its_hosts_do_for_it() -> None:
    """One whose batches take longer to load than to evaluate was worth two thirds of what the job gains without it."""
    done = job(*((rank, EVALUATION, "evaluate", 100) for rank in RANKS))
    costs = [(Candidate(EVALUATION, Change(), (), responsible="evaluate"), 200)]
    assert [ns for _, ns in xla_spent.beside_gaps(costs, done, cast("Meetings", Saving()))] == [300]


@pytest.mark.parametrize(("returned_ns", "spared_ns"), [(500, 100), (100, 60)])
def test_a_cause_spares_hosts_what_gaps_are_laid_to_it_also_where_they_did_it_before_a_wait(
    returned_ns: int, spared_ns: int
) -> None:
    """Small programs were worth 41 ms, and beside a slow device 2: of what hosts spare 4 ms a step were missing.

    Of the 60 ns laid to it 40 were spent on the way to the launch at 900, or before the wait that this begins with.
    """
    done = job((0, LAUNCH, "jit", 20), (0, LAUNCH, "jit", 20))
    times = {"at_ns": pl.Series([400, 420, returned_ns], dtype=pl.Int64)}
    waited = replace(done, rows=done.rows.with_columns(**times), ranks=(0,))
    change = Change(removed={0: [(900, 60.0)]}, launched={0: [(900, 60.0)]})
    ((found, _),) = xla_spent.without([(Candidate(LAUNCH, change, (0,)), 5)], waited, cast("Meetings", Saving()))
    assert sum(ns for _, ns in found.change.spent[0]) == spared_ns


def test_what_one_host_has_beyond_others_is_not_counted_for_all_hosts_again() -> None:
    """Input that one host took 26 ms longer for was worth 26 ms on that, and 30 on all hosts instead of 4."""
    done = job((0, INPUT, "load", 300), (1, INPUT, "load", 100), (2, INPUT, "load", 100))
    costs = [(Candidate(INPUT, Change(), ranks, responsible="load"), 5) for ranks in ((0,), ())]
    found = xla_spent.beside_gaps(costs, done, cast("Meetings", Saving()))
    assert [cost for _, cost in found] == [200, 300]
    # Where nothing is told of the one host, it has all of it.
    (found_of_all,) = xla_spent.beside_gaps(costs[1:], done, cast("Meetings", Saving()))
    assert found_of_all[1] == 500


@pytest.mark.parametrize("cause", [UPLOAD, LAUNCH, UNRECORDED])
def test_what_all_hosts_do_is_judged_by_all_of_it_where_none_waits_for_its_devices(cause: str) -> None:
    """Nothing was said of small programs that took 15 % of each step, as each host was late in only some of them."""
    done = job(*((rank, cause, "x", 100) for rank in RANKS))
    never = replace(done, rows=done.rows.filter(pl.col("row") != WAITED))
    candidate = Candidate(cause, Change(), (), responsible="x")
    assert xla_spent.beside_gaps([(candidate, 5)], never, cast("Meetings", Saving())) == [(candidate, 300)]


@pytest.mark.parametrize(("cause", "cost"), [(UPLOAD, 100), (UNRECORDED, 100), (LAUNCH, 5)])
def test_what_the_only_host_does_is_judged_by_all_of_it_but_for_launching(cause: str, cost: int) -> None:
    """Of 53 ms a step that one host took to send its batch 3 were counted, beside what it compiled for as long.

    Launching norms whose values are read one by one was worth 4.5 ms beside the reading, which was worth all 16.
    """
    alone = replace(job((0, cause, "x", 100)), ranks=(0,))
    candidate = Candidate(cause, Change(), (0,), responsible="x")
    assert xla_spent.beside_gaps([(candidate, 5)], alone, cast("Meetings", Saving())) == [(candidate, cost)]


@pytest.mark.parametrize(("others_ns", "ranks"), [(95, ()), (40, (1,))])
@pytest.mark.parametrize("cause", [LAUNCH, UNRECORDED])
def test_what_has_no_name_of_its_own_is_everybodys_if_all_hosts_take_as_long_for_it(
    cause: str, others_ns: int, ranks: tuple[int, ...]
) -> None:
    """Hosts take turns at being the last to a meeting: a pause of both was told of one."""
    done = job((0, cause, "add", others_ns), (1, cause, "multiply", 100), (2, cause, "add", others_ns))
    (found,) = xla_on_all.told([Candidate(cause, Change(), (1,))], done)
    assert found.ranks == ranks


def test_what_all_hosts_do_is_told_though_one_does_something_else_for_longer() -> None:
    """Devices stand still for a function of one host: nothing was said of the input that all hosts read as well."""
    hosts = job(*((rank, INPUT, "load", 100) for rank in RANKS), (1, FUNCTION, "score_samples", 300))
    known = Candidate(FUNCTION, Change(), (1,), responsible="score_samples")
    # Its devices stand still in most steps.
    marked = [{"row": account.STEP, "rank": 1, "step": step} for step in (1, 2)]
    gap = {"row": account.GAP, "rank": 1, "step": 1, "time_ns": 100}
    schema = dict(hosts.rows.schema)
    rarely = replace(hosts, rows=pl.concat([hosts.rows, pl.DataFrame(marked, schema)]))
    hosts = replace(hosts, rows=pl.concat([rarely.rows, pl.DataFrame([gap], schema)]))
    assert xla_spent.of_all([known], rarely) == []
    assert xla_spent.of_all([known, Candidate(UPLOAD, Change())], hosts) == []
    (found,) = xla_spent.of_all([known], hosts)
    assert (found.cause, found.ranks, found.responsible) == (INPUT, (), "load")
    assert xla_spent.beside_gaps([(found, 0)], hosts, cast("Meetings", Saving())) == [(found, 300)]
    assert xla_spent.of_all([known, found], hosts) == []
    # Of what all do their gaps tell.
    assert xla_spent.of_all([replace(known, ranks=())], hosts) == []


@pytest.mark.parametrize("times_ns", [(100, 60, 100), (9, 9, 9)])
def test_what_hosts_do_for_unlike_times_or_hardly_at_all_is_not_what_all_do(times_ns: tuple[int, ...]) -> None:
    known = Candidate(FUNCTION, Change(), (1,), responsible="score_samples")
    done = job(*((rank, INPUT, "load", ns) for rank, ns in zip(RANKS, times_ns, strict=True)))
    assert xla_spent.of_all([known], done) == []


@pytest.mark.parametrize("name", ["score_samples", "$losses.py:88 score_samples"])
def test_code_that_takes_one_host_longer_to_launch_is_named_whether_it_is_a_range_or_a_function(name: str) -> None:
    launching = job(*((rank, LAUNCH, "StepMarker", 100) for rank in RANKS), (1, LAUNCH, name, 50))
    found = Candidate(LAUNCH, Change(), (1,), responsible="StepMarker")
    ((told, _),) = xla_spent.without([(found, 5)], launching, cast("Meetings", Saving()))
    assert (told.cause, told.responsible) == (FUNCTION, name)


def test_what_a_slow_host_does_for_longer_is_told_as_that_only() -> None:
    collected = job(*((rank, INPUT, "load", 100) for rank in RANKS), (1, COLLECTION, "collect", 50))
    (found,) = xla_spent.of_some([], collected)
    assert (found.cause, found.ranks, found.responsible) == (COLLECTION, (1,), "collect")
    assert xla_spent.of_some([Candidate(SLOW_HOST, Change(), (1,))], collected) == []


def test_what_one_host_does_a_little_longer_than_the_others_is_nothing_of_its_own() -> None:
    assert xla_spent.of_some([], job((0, INPUT, "load", 100), (1, INPUT, "load", 130), (2, INPUT, "load", 100))) == []


def spent_most(
    text: str, *, are_marked: bool, steps: tuple[int | None, ...] = (1, 2, 3)
) -> list[tuple[str, int | None]]:
    """The class and the step of what a host took longest for, which launches ``a`` to ``c`` of one program."""
    drawn = trace(f"""
        {f"step |{'1' * 1000}{'2' * 1900}{'3' * 1100}|" if are_marked else ""}
        tpu  |{"A" * 1000}{"." * 900}{"B" * 1000}{"." * 100}{"C" * 1000}|
        {text}
        A = dot.1 in jit_step(1)
        B = dot.2 in jit_step(1)
        C = dot.3 in jit_step(1)
    """)
    rank = replace(drawn, tables={**{table.name: table.empty() for table in (CALLS, HLO)}, **drawn.tables})
    if not are_marked:
        runs = drawn.tables["modules"].sort("start_ns").with_columns(step=pl.Series(steps, dtype=pl.Int64))
        begun = runs.select("start_ns", "end_ns", step=pl.int_range(1, 4, dtype=pl.Int64), event_id="module_id")
        rank = replace(rank, tables={**rank.tables, "modules": runs, "steps": begun})
    spent = xla_hosts.rows(rank, "late").filter(row="spent")
    return spent.filter(pl.col("time_ns") == pl.col("time_ns").max()).select("cause", "step").rows()


def test_what_a_host_does_before_a_launch_is_done_for_the_step_of_that() -> None:
    """What some hosts did in gaps was looked up in others' for the step before, or for the one that devices ran then.

    Hosts that all read for as long had nothing of it in the steps in which one was late, so that no cause was told.
    """
    before_the_next = f"call |a{'.' * 400}{'K' * 600}{'.' * 890}b{'.' * 1050}c|\n K = IteratorGetNext"
    assert spent_most(before_the_next, are_marked=False) == [(INPUT, 2)]
    nothing = f"call |a{'.' * 1890}b{'.' * 1050}c|\n mark |{'.' * 2900}{'F' * 20}|\n F = prepare"
    assert spent_most(nothing, are_marked=True) == [(UNRECORDED, 2)]


def test_what_a_host_does_for_programs_of_no_step_is_of_none() -> None:
    """A job of which no step was known of what its host launched could not be read for causes."""
    before_the_next = f"call |a{'.' * 400}{'K' * 600}{'.' * 890}b{'.' * 1050}c|\n K = IteratorGetNext"
    assert spent_most(before_the_next, are_marked=False, steps=(1, None, None)) == [(INPUT, None)]
