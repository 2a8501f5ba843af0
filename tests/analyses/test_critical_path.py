"""What a step's critical path is made of."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from drawing import EARLY, LATE, US, draw, trace
from holotrace.analyses.critical_path import critical_path
from holotrace.core.tables import ANNOTATIONS, DEVICE_EVENTS, RUNTIME_CALLS
from holotrace.errors import UsageError
from holotrace.job import Job
from holotrace.present.wording import sentence

# The host waits for nothing; the device is busy until the end.
DEVICE_BOUND = """
    op      |OO.PP.............|
    host    |A..B..............|
    compute |.AAAAAABBBBBB.....|
"""
HOST_BOUND = """
    step    |1111111111222222|
    op      |OOOOOOOO........|
    host    |......A.........|
    compute |.......A........|
"""


def parts(job: Job, **options: object) -> dict[str, int]:
    """Microseconds by what they are bound by."""
    table = critical_path(job, **options)  # type: ignore[arg-type]  # whatever a test asks for
    sums = table.group_by("bound_by").agg(pl.col("duration_ns").sum()).drop_nulls().rows()
    return {bound_by: ns // 1000 for bound_by, ns in sums}


def test_a_busy_device_is_the_path_from_its_first_launch_on() -> None:
    assert parts(draw(DEVICE_BOUND)) == {"launch": 1, "compute": 12}


def test_a_busy_host_is_the_path() -> None:
    assert parts(draw(HOST_BOUND)) == {"host": 8}


def test_a_step_without_a_device_has_a_path_through_its_operators() -> None:
    job = draw("step |1111111222|\nop |OO.PPP.Q..|")
    path = critical_path(job, by_segment=True)
    assert path["kind"].to_list() == ["operator", "dependency", "operator"]
    assert path["name"].to_list() == ["O", None, "P"]
    assert parts(job) == {"host": 5}


def test_a_kernel_after_another_waits_for_that() -> None:
    job = draw("op |OO..........|\nhost |AB..........|\ncompute |.AAA..BBB...|")
    path = critical_path(job, by_segment=True)
    assert path["kind"].to_list() == ["operator", "launch_delay", "operator", "kernel_delay", "operator"]
    assert path["duration_ns"].to_list() == [0, 1000, 3000, 2000, 3000]
    assert path["name"].to_list() == ["O", None, "A", "A", "B"]
    assert path["stream"].to_list() == [None, None, 2, 2, 2]


# The host is done at once; B waits for C on the other queue, and C for A.
TWO_QUEUES = f"""
    op      |OOOO{" " * 80}|
    host    |ACB {" " * 80}|
    compute |...{"A" * 25}{" " * 26}{"B" * 10}|
    comm    |...{" " * 25}{"C" * 25}|
"""


def test_work_on_another_queue_that_was_waited_for_is_on_the_path() -> None:
    assert parts(draw(TWO_QUEUES)) == {"launch": 3, "compute": 35, "communication": 25}


def test_where_waits_between_queues_are_recorded_none_is_guessed() -> None:
    rank = trace(TWO_QUEUES)
    events = rank[DEVICE_EVENTS]
    wait = events.head(1).with_columns(
        kind=pl.lit("sync", pl.Categorical),
        name=pl.lit("Stream Wait Event", pl.Categorical),
        event_id=pl.lit(99, pl.UInt32),
        launch_id=None,
    )
    with_wait = replace(rank, tables={**rank.tables, DEVICE_EVENTS.name: pl.concat([events, wait])})
    assert parts(Job.from_ranks({0: with_wait})) == {"launch": 3, "compute": 35, "kernel_delay": 26}


def test_a_copy_that_holds_up_the_host_is_on_the_path() -> None:
    rank = trace(
        f"""
        op      |O{"P" * 46}QQQQQ|
        host    |AM{" " * 50}|
        compute |..{"A" * 30}{" " * 20}|
        copy    |{" " * 32}{"M" * 13}.......|
        """
    )
    is_copy = pl.col("start_ns") == US
    calls = rank[RUNTIME_CALLS].with_columns(
        name=pl.when(is_copy).then(pl.lit("cudaMemcpyAsync", pl.Categorical)).otherwise("name"),
        end_ns=pl.when(is_copy).then(46 * US).otherwise("end_ns"),
    )
    waiting = replace(rank, tables={**rank.tables, RUNTIME_CALLS.name: calls})
    assert parts(Job.from_ranks({0: waiting})) == {"launch": 2, "compute": 30, "memory": 13, "host": 6}


def test_the_step_before_the_last_is_looked_at_unless_another_is_asked_for() -> None:
    job = draw("step |1122....|\nop |O.PP....|\nhost |A.......|\ncompute |.......A|")
    assert critical_path(job)["step"].unique().to_list() == [1]
    assert parts(job) == {"launch": 7, "compute": 1}
    assert parts(job, of_step=2) == {"host": 2}
    assert critical_path(job, of_step=7).is_empty()


def test_shares_are_of_the_path_and_of_the_step() -> None:
    table = critical_path(draw(HOST_BOUND))
    assert table["path_ratio"].sum() == pytest.approx(1)
    assert table["step_ratio"].sum() == pytest.approx(0.8)


def test_segments_sum_to_the_same_as_names() -> None:
    job = draw(DEVICE_BOUND)
    assert critical_path(job)["duration_ns"].sum() == critical_path(job, by_segment=True)["duration_ns"].sum()


def test_a_range_of_a_data_loader_is_waiting_for_data() -> None:
    drawn = trace("range |RRRRRRRR..|\nop |........OO|\nhost |........A.|\ncompute |.........A|")
    ranges = drawn[ANNOTATIONS].with_columns(
        name=pl.lit("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", pl.Categorical)
    )
    job = Job.from_ranks({0: replace(drawn, tables={**drawn.tables, ANNOTATIONS.name: ranges})})
    assert parts(job) == {"data_loading": 8, "host": 2}
    (finding,) = (found for found in critical_path.findings(critical_path(job)) if "loading" in found.rule)
    assert sentence(finding) == "Waiting for the next batch takes 80% of the critical path of a step"
    assert (finding.cost_ns, finding.step_cost_ns, finding.within) == (8000, None, ("idle_ns",))


def test_a_host_that_takes_most_of_the_path_is_found() -> None:
    (finding,) = critical_path.findings(critical_path(draw(HOST_BOUND)))
    # For 1 of its 8 µs the device works.
    assert (finding.rule, finding.step_cost_ns) == ("host-on-critical-path", 7000)


def test_a_host_that_devices_do_not_wait_for_is_not_found() -> None:
    hidden = draw(f"op |{'O' * 20}|\nhost |A{'.' * 19}|\ncompute |.{'A' * 18}.|")
    assert parts(hidden) == {"host": 20}
    assert critical_path.findings(critical_path(hidden)) == []


def test_a_host_without_a_device_has_nothing_to_keep_busy() -> None:
    job = draw("step |1111111222|\nop |OO.PPP.Q..|")
    assert critical_path(job)["idle_ns"].to_list() == [None, None]
    assert critical_path.findings(critical_path(job)) == []


def test_communication_on_the_path_is_found() -> None:
    job = draw("op |O.........|\nhost |A.........|\ncomm |.AAAAAAAAA|")
    (finding,) = critical_path.findings(critical_path(job))
    assert (finding.rule, finding.ranks, finding.cost_ns) == ("communication-on-critical-path", (), 9000)


def test_a_rank_that_waits_for_a_late_one_has_no_communication_on_its_path_to_be_warned_of() -> None:
    found = critical_path.findings(draw(EARLY, LATE).critical_path())
    assert "communication-on-critical-path" not in {finding.rule for finding in found}


def test_slow_starts_of_kernels_are_found() -> None:
    job = draw("op |O.........|\nhost |A.........|\ncompute |....AAAAA.|")
    (finding,) = critical_path.findings(critical_path(job))
    assert (finding.rule, finding.cost_ns) == ("launches-on-critical-path", 4000)


RANGES = """
    range   |FFFF..FFFFFFFF..|
    op      |OO....PPPP......|
    host    |A......B........|
    compute |.AAA....BBBBBB..|
"""


def test_a_named_range_is_looked_at_as_a_step_is() -> None:
    job = draw(RANGES)
    assert parts(job, of_range="F") == parts(job, of_range="F", instance=0) == {"launch": 1, "compute": 3}
    second = critical_path(job, of_range="F", instance=1)
    assert (second["name"].to_list(), second["step"].to_list()) == (["B", "P", None], [None] * 3)
    assert second["step_ratio"].to_list() == [6 / 8, 1 / 8, 1 / 8]
    # Without a name all ranges count.
    assert critical_path(job, instance=1).equals(second)


def test_a_range_that_is_not_there_has_no_path() -> None:
    job = draw(RANGES)
    assert critical_path(job, of_range="F", instance=2).is_empty()
    assert critical_path(job, of_range="no such range").is_empty()
    with pytest.raises(UsageError, match="two parts of the rank; give one of them"):
        critical_path(job, of_range="F", of_step=1)
    with pytest.raises(UsageError, match="instance is -1; it can be any whole number from 0"):
        critical_path(job, of_range="F", instance=-1)
