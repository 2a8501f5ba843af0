"""Where the time goes: exact parts of a whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing import device_trace, draw
from holotrace.analyses import Analyses
from holotrace.analyses.time_breakdown import PARTS
from holotrace.job import Job


def parts(job: Job, **options: bool) -> list[tuple[Any, ...]]:
    table = job.time_breakdown(**options)
    return [tuple(value // 1_000 for value in row) for row in table.select("total_ns", *PARTS).iter_rows()]


def test_each_instant_belongs_to_the_first_of_compute_communication_memory() -> None:
    job = draw(
        """
        compute |.AAAA......F..|
        comm    |...BBBB.......|
        copy    |.....CCCC.....|
        sync    |DDDDDDDDDDDDDD|
        """
    )
    # From the first work to the last: the wait around it is no work.
    assert parts(job) == [(11, 5, 2, 2, 2)]
    assert job.time_breakdown()["idle_ratio"].to_list() == [2 / 11]


def test_a_rank_without_device_work_has_no_row() -> None:
    assert draw("sync |AAA|", "compute |A|").time_breakdown()["rank"].to_list() == [1]


def test_a_step_goes_on_until_its_own_work_ends() -> None:
    job = draw(
        """
        step    |111122223333.....|
        host    |A...B...C........|
        compute |..AAAAA.BBB...CCC|
        """
    )
    table = job.time_breakdown(by_step=True)
    assert table["step"].to_list() == [1, 2, 3]
    assert parts(job, by_step=True) == [(5, 5, 0, 0, 0), (4, 3, 0, 0, 1), (6, 3, 0, 0, 3)]


def test_work_counts_for_the_step_in_whose_window_it_runs() -> None:
    job = draw(
        """
        step    |11112222.|
        host    |A...B....|
        compute |.AAA.BBBB|
        copy    |CC..CC...|
        """
    )
    # The first copy begins before the first step's own work does.
    assert parts(job, by_step=True) == [(3, 3, 0, 0, 0), (5, 4, 0, 1, 0)]


def test_without_steps_there_is_nothing_by_step() -> None:
    assert draw("compute |AA|").time_breakdown(by_step=True).is_empty()


event = st.tuples(
    st.integers(0, 40), st.integers(0, 12), st.sampled_from(["compute", "communication", "memory", "sync", "other"])
)


@given(st.lists(event, max_size=12))
def test_parts_agree_with_counting_instants_and_sum_to_the_whole(events: list[tuple[int, int, str]]) -> None:
    rows: list[dict[str, object]] = [{"start_ns": t, "end_ns": t + n, "kind": kind} for t, n, kind in events]
    table = Job.from_ranks({0: device_trace(rows)}).time_breakdown()
    running = {
        kind: {t for start, n, k in events if k == kind for t in range(start, start + n)}
        for kind in ("compute", "communication", "memory")
    }
    compute, comm, memory = running.values()
    work = [(t, t + n) for t, n, kind in events if kind in running]
    if not work:
        assert table.is_empty()
        return
    total = max(end for _, end in work) - min(start for start, _ in work)
    busy = len(compute | comm | memory)
    expected = (total, len(compute), len(comm - compute), len(memory - comm - compute), total - busy)
    assert table.select("total_ns", *PARTS).rows() == [expected]
    assert sum(expected[1:]) == total


@given(st.lists(st.tuples(event, st.one_of(st.none(), st.integers(0, 3))), max_size=12))
def test_windows_of_steps_follow_each_other_without_gaps(events: list[tuple[tuple[int, int, str], int | None]]) -> None:
    rows: list[dict[str, object]] = [
        {"start_ns": t, "end_ns": t + n, "kind": kind, "step": step} for (t, n, kind), step in events
    ]
    table = Job.from_ranks({0: device_trace(rows)}).time_breakdown(by_step=True)
    stepped = [
        (step, t, t + n)
        for (t, n, kind), step in events
        if step is not None and kind in ("compute", "communication", "memory")
    ]
    assert table["step"].to_list() == sorted({step for step, _, _ in stepped})
    for row in table.select("total_ns", *PARTS).iter_rows():
        assert sum(row[1:]) == row[0]
        assert min(row) >= 0
    if stepped:
        first = min(stepped)[0]
        begin = min(start for step, start, _ in stepped if step == first)
        assert table["total_ns"].sum() == max(end for _, _, end in stepped) - begin


def findings(job: Job) -> dict[str, tuple[tuple[int, ...], int | None]]:
    found = Analyses.time_breakdown.findings(job.time_breakdown())
    return {finding.rule: (finding.ranks, finding.cost_ns) for finding in found}


def test_an_idle_device_names_the_ranks_and_what_the_average_one_loses() -> None:
    busy, idle, idler = (f"compute |{work}|" for work in ("A" * 30, "A" * 28 + ".A", "A" * 11 + "." * 18 + "A"))
    assert findings(draw(busy, busy)) == {}
    assert findings(draw(busy, idle, idler)) == {"idle-device": ((2,), 18_000)}
    assert findings(draw(idler, busy, idler)) == {"idle-device": ((0, 2), 18_000)}


@pytest.mark.parametrize(("idle", "severity"), [("AAAA.A", "warning"), ("A....A", "critical")])
def test_a_device_that_is_hardly_used_is_critical(idle: str, severity: str) -> None:
    (found,) = Analyses.time_breakdown.findings(draw(f"compute |{idle}|").time_breakdown())
    assert found.severity == severity


def test_exposed_copies_are_found() -> None:
    assert findings(draw("compute |AAAAAAAAA..|\ncopy |........CCC|")) == {"exposed-copies": ((0,), 2_000)}
    assert findings(draw("compute |AAAAAAAAAAA|\ncopy |........CCC|")) == {}


def test_a_slow_rank_is_found_by_the_others_waiting_for_it() -> None:
    fast, slow = "compute |AAAAAA....|\ncomm |......CCCC|", "compute |AAAAAAAAA.|\ncomm |.........C|"
    assert findings(draw(fast, slow, fast)) == {"uneven-ranks": ((1,), 3_000)}


def test_a_longer_recording_is_no_slow_rank() -> None:
    assert findings(draw("compute |AAA|", "compute |AAAAAA|", "compute |AAA|")) == {}


def test_findings_are_the_same_from_steps() -> None:
    job = draw("step |1122|\nhost |A.B.|\ncompute |A...BB.A|")
    whole, stepped = (Analyses.time_breakdown.findings(job.time_breakdown(by_step=by)) for by in (False, True))
    assert [finding.rule for finding in whole] == [finding.rule for finding in stepped] == ["idle-device"]
