"""Ranks are compared over the steps that all have; those that were cut off or share none are named and left out."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import holotrace
from drawing import trace
from holotrace import InputError, Job, JobResult
from holotrace.analyses import ALL
from holotrace.core.analysis import PerJob
from holotrace.core.problems import DIFFERENT_STEPS, LEFT_OUT
from holotrace.core.source import STEPS_ARE_NUMBERED
from holotrace.core.tables import MODULES, XLA_OPS
from holotrace.engine.comparable import Recorded, comparison
from holotrace.loading.of_steps import of_steps as only
from holotrace.present import report
from holotrace.sample import write

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation")
pytestmark = pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")


def sampled(folder: Path) -> Path:
    write(folder, ranks=4, steps=3)
    return folder


def cut(folder: Path, rank: int, at: float) -> None:
    """Leave out the end of a rank's file."""
    (path,) = folder.glob(f"rank-{rank}_*")
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text[: int(len(text) * at)]))


def without(folder: Path, rank: int, into: Path) -> Path:
    """The same job without one of its files."""
    into.mkdir()
    for path in folder.glob("rank-*"):
        if not path.name.startswith(f"rank-{rank}_"):
            (into / path.name).symlink_to(path)
    return into


def assert_judged_alike(found: JobResult, expected: JobResult, rank: int) -> None:
    """All that compares ranks, or finds something, is as if the rank were not there."""
    assert found.findings == expected.findings
    assert report.parts(found) == report.parts(expected)
    for analysis in ALL:
        table = found.tables[analysis.name]
        if isinstance(analysis, PerJob):
            assert_frame_equal(table, expected.tables[analysis.name])
        elif not expected.tables[analysis.name].is_empty():
            assert_frame_equal(table.filter(table["rank"] != rank), expected.tables[analysis.name])


@pytest.mark.parametrize(
    "at", [0.97, *(pytest.param(at, marks=pytest.mark.slow) for at in (0.02, 0.3, 0.6, 0.9, 0.999))]
)
@pytest.mark.slow
def test_a_rank_that_was_cut_off_is_not_averaged_and_makes_no_finding(tmp_path: Path, at: float) -> None:
    folder = sampled(tmp_path / "job")
    expected = holotrace.open(without(folder, 1, tmp_path / "others")).run()
    cut(folder, 1, at)
    found = holotrace.open(folder).run()
    assert_judged_alike(found, expected, 1)
    (row,) = found.problems.filter(problem=LEFT_OUT).rows(named=True)
    assert row["rank"] == 1
    assert row["example"].startswith("its file is cut off: ")
    assert "not compared with the others (1)" in report.verdict(found)[-1]


def record(folder: Path, rank: int, first: int, last: int) -> None:
    """Leave in a rank's file what its profiler had recorded of the steps from ``first`` to ``last`` only."""
    (path,) = folder.glob(f"rank-{rank}_*")
    text = json.loads(gzip.decompress(path.read_bytes()))
    events = text["traceEvents"]
    steps = {event["name"]: event for event in events if event.get("cat") == "user_annotation"}
    of_first, of_last = steps[f"ProfilerStep#{first}"], steps[f"ProfilerStep#{last}"]
    begin, end = of_first["ts"], of_last["ts"] + of_last["dur"]
    on_host = [e for e in events if e["ph"] in "Xis" and e.get("cat") not in ON_DEVICE and begin <= e["ts"] < end]
    launches = {e["args"].get("correlation") for e in on_host if e["ph"] == "X"}
    ranges = {e["args"]["External id"] for e in on_host if e.get("cat") == "user_annotation"}
    arrows = {(e["cat"], e["id"]) for e in on_host if e["ph"] == "s"}
    kept = {id(event) for event in on_host}

    def is_kept(event: dict[str, Any]) -> bool:
        if event["ph"] == "f":
            return (event["cat"], event["id"]) in arrows
        if event.get("cat") == "gpu_user_annotation":
            return event["args"]["External id"] in ranges
        if event.get("cat") in ON_DEVICE:
            return event["args"]["correlation"] in launches
        return event["ph"] == "M" or id(event) in kept

    text["traceEvents"] = [event for event in events if is_kept(event)]
    path.write_bytes(gzip.compress(json.dumps(text).encode()))


def recorded(folder: Path, *of_ranks: tuple[int, int], faults: Sequence[str] = ()) -> Path:
    """A job of which rank 0, 1, … recorded these steps, from the first to the last."""
    write(folder, ranks=len(of_ranks), steps=4, missing_ranks=(), faults=faults)
    for rank, steps in enumerate(of_ranks):
        if steps != (10, 13):
            record(folder, rank, *steps)
    return folder


# What is wrong with the job, and which steps its ranks recorded: some began later, ended earlier, or both.
WHOLE = (10, 13)
DIFFERENT: dict[str, tuple[list[str], tuple[tuple[int, int], ...]]] = {
    "healthy": ([], (WHOLE, WHOLE, WHOLE, (11, 12))),
    "ends earlier": (["slow-device"], (WHOLE, WHOLE, (10, 12), WHOLE)),
    "begins later": (["slow-link"], (WHOLE, (11, 13), WHOLE, WHOLE)),
    "two ranks": (["input"], ((11, 13), WHOLE, (10, 12), WHOLE)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("faults", "of_ranks"), DIFFERENT.values(), ids=DIFFERENT)
def test_ranks_that_recorded_different_steps_are_compared_over_those_that_all_have(
    tmp_path: Path, faults: list[str], of_ranks: tuple[tuple[int, int], ...]
) -> None:
    same = max(first for first, _ in of_ranks), min(last for _, last in of_ranks)
    found = holotrace.open(recorded(tmp_path / "different", *of_ranks, faults=faults)).run()
    expected = holotrace.open(recorded(tmp_path / "same", *[same] * 4, faults=faults)).run()
    assert found.findings == expected.findings
    assert any(finding.severity != "info" for finding in found.findings) == bool(faults)
    assert report.parts(found) == report.parts(expected)
    assert report.verdict(found)[:-1] == report.verdict(expected)
    # Numbers of events are those of other files.
    but_ids = pl.exclude("^.*_id$")
    for analysis in ALL:
        table, of_same = found.tables[analysis.name], expected.tables[analysis.name]
        assert_frame_equal(table.select(but_ids), of_same.select(but_ids))


def test_which_ranks_recorded_which_steps_is_said(tmp_path: Path) -> None:
    job = holotrace.open(recorded(tmp_path / "job", WHOLE, (11, 13), WHOLE))
    result = job.run()
    said = "compared over steps 11-13; rank 1 recorded 11-13, the others 10-13"
    assert result.problems.select("problem", "example").rows() == [(DIFFERENT_STEPS, said)]
    assert report.verdict(result)[-1] == f"Keep in mind: ranks recorded different steps, and are {said}."
    assert result.info["step_count"].to_list() == [3, 3, 3]
    assert job.info()["step_count"].to_list() == [4, 3, 4]


@pytest.mark.slow
def test_every_question_is_of_the_same_steps_and_one_rank_is_shown_in_full(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "job", WHOLE, (11, 13))
    job, result = holotrace.open(folder), holotrace.open(folder).run()
    assert_frame_equal(job.overlap(), result.tables["overlap"])
    assert_frame_equal(job.stragglers(), result.tables["stragglers"])
    assert job.time_breakdown(by_step=True)["step"].unique().to_list() == [11, 12, 13]
    assert 10 in job.only(0).time_breakdown(by_step=True)["step"]
    assert job.what_if({"host": 1.0}).filter(rank=0)["recorded_ns"][0] < job.only(0).what_if()["recorded_ns"][0]


@pytest.mark.slow
def test_a_rank_that_shares_no_step_with_others_is_compared_with_none(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "job", (10, 12), (10, 12), (13, 13))
    expected = holotrace.open(without(folder, 2, tmp_path / "others")).run()
    found = holotrace.open(folder).run()
    assert_judged_alike(found, expected, 2)
    (row,) = found.problems.filter(problem=LEFT_OUT).rows(named=True)
    assert (row["rank"], row["example"]) == (2, "step 13 recorded, none of steps 10-12, which are compared")


@pytest.mark.slow
def test_one_question_leaves_it_out_as_a_report_does(tmp_path: Path) -> None:
    folder = sampled(tmp_path / "job")
    cut(folder, 1, 0.6)
    job = holotrace.open(folder)
    assert_frame_equal(job.stragglers(), holotrace.open(folder).run().tables["stragglers"])
    assert 1 not in job.communication()["rank"]
    assert LEFT_OUT in job.noticed()["problem"]
    assert job.overlap()["rank"].to_list() == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_job_of_files_cut_off_is_not_judged(tmp_path: Path) -> None:
    folder = sampled(tmp_path / "job")
    for rank in range(4):
        cut(folder, rank, 0.9)
    found = holotrace.open(folder).run()
    assert found.findings == ()
    assert (
        report.verdict(found)[0] == "Every file is cut off, so nothing is judged; the tables show what could be read."
    )


def test_a_rank_that_was_cut_off_is_no_change(tmp_path: Path) -> None:
    before, after = (sampled(tmp_path / name) for name in ("before", "after"))
    cut(after, 3, 0.5)
    changes = holotrace.compare(before, after)
    assert changes["difference_ns"].to_list() == [0] * changes.height
    assert changes["change"].unique().to_list() == ["same"]
    with pytest.raises(InputError, match="every file of after is cut off"):
        holotrace.compare(before, after, ranks=3)


def test_python_warns_once_of_what_is_missing(tmp_path: Path) -> None:
    folder = sampled(tmp_path / "job")
    cut(folder, 1, 0.6)
    job = holotrace.open(folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        job.overlap()
        job.overlap()
        job.kernels()
    (warning,) = caught
    assert issubclass(warning.category, holotrace.PartialDataWarning)
    assert "file cut off (rank 1)" in str(warning.message)
    assert warning.filename == __file__


# What a host and its device recorded of a job of XLA.
OF_STEPS_1_TO_3 = """
    step  |111111222222333333|
    call  |a.....a.....a.....|
    tpu   |..AABB..AABB..AABB|
    A = dot.1
    B = all-reduce.1
"""
OF_STEPS_2_AND_3 = """
    step  |......222222333333|
    call  |......a.....a.....|
    tpu   |........AABB..AABB|
    A = dot.1
    B = all-reduce.1
"""


def of_xla(*texts: str, are_numbered: bool = True, has_runs: bool = False) -> JobResult:
    """A job of XLA; where it ``has_runs``, a step is the same run of a program on all ranks."""
    ranks = {}
    for rank, text in enumerate(texts):
        drawn = trace(text, rank)
        run = pl.col("step") if has_runs else pl.lit(None, pl.Int64)
        tables = {**drawn.tables, MODULES.name: drawn[MODULES].with_columns(run=run)}
        ranks[rank] = replace(drawn, tables=tables, metadata={STEPS_ARE_NUMBERED: are_numbered})
    return Job.from_ranks(ranks, title="drawn").run()


def test_ranks_of_xla_with_other_steps_are_compared_over_those_that_all_have() -> None:
    found, expected = of_xla(OF_STEPS_1_TO_3, OF_STEPS_2_AND_3), of_xla(OF_STEPS_2_AND_3, OF_STEPS_2_AND_3)
    said = "compared over steps 2-3; rank 1 recorded 2-3, the others 1-3"
    assert found.problems.select("problem", "example").rows() == [(DIFFERENT_STEPS, said)]
    assert found.findings == expected.findings
    # How full a memory is depends on what came before.
    for name in expected.tables.keys() - {"device_memory"}:
        assert_frame_equal(found.tables[name], expected.tables[name])


def test_devices_of_xla_are_busy_with_what_was_launched_in_a_step_before() -> None:
    drawn = trace("""
        step  |11222222333333333|
        call  |a.....b.....c....|
        tpu   |..AAAABBBB..CCCC.|
        A = dot.1
        B = dot.2
        C = dot.3
    """)
    seen = only(drawn, 2, 3)
    for table in (XLA_OPS, MODULES):
        rows = seen[table.only("start_ns", "launch_ns", "step")].sort("start_ns")
        assert rows["step"].to_list() == [None, 2, 3], table.name
        assert rows["launch_ns"].is_null().to_list() == [True, False, False]


@pytest.mark.parametrize("has_runs", [True, False])
def test_steps_that_are_counted_are_the_same_where_their_runs_have_the_same_ids_or_end_at_the_same_time(
    has_runs: bool,
) -> None:
    found = of_xla(OF_STEPS_1_TO_3, OF_STEPS_2_AND_3, are_numbered=False, has_runs=has_runs)
    assert found.info["first_step"].to_list() == [None, None]
    said = "compared over steps 1-2; rank 1 recorded 1-2, the others 0-2"
    assert found.problems.filter(problem=DIFFERENT_STEPS)["example"].to_list() == [said]
    assert found.problems.filter(problem=LEFT_OUT).is_empty()
    expected = of_xla(OF_STEPS_2_AND_3, OF_STEPS_2_AND_3, are_numbered=False, has_runs=has_runs)
    assert found.findings == expected.findings
    for name in expected.tables.keys() - {"device_memory"}:
        table, of_same = found.tables[name], expected.tables[name]
        # They are counted from the step that the first rank began with, and not as they were drawn.
        are_counted = pl.col("^step$") - 1
        assert_frame_equal(table, of_same.with_columns(are_counted))


def of_steps(*steps: tuple[int, int] | None) -> list[Recorded]:
    """Ranks 0, 1, … that recorded these steps."""
    return [Recorded(rank, False, has[1] - has[0] + 1 if has else 0, has) for rank, has in enumerate(steps)]


@pytest.mark.parametrize(
    ("steps", "compared_over", "left_out"),
    [
        ([(1, 5), (1, 5)], None, []),
        ([(1, 5), (2, 5), (1, 4)], (2, 4), []),
        ([(1, 5), (6, 9)], None, [1]),
        ([(1, 3), (3, 5), (5, 7), (5, 7)], (5, 5), [0]),
        ([(1, 5), (1, 5), (7, 9), (2, 5)], (2, 5), [2]),
        ([(1, 5), None], None, []),
        ([(1, 5), (2, 5), None], (2, 5), [2]),
    ],
)
def test_most_ranks_say_which_steps_are_compared(
    steps: list[tuple[int, int] | None], compared_over: tuple[int, int] | None, left_out: list[int]
) -> None:
    found = comparison(of_steps(*steps))
    assert (found.steps, list(found.left_out)) == (compared_over, left_out)


def test_where_steps_have_no_numbers_most_ranks_say_how_many_are_usual() -> None:
    ranks = [Recorded(rank, False, count) for rank, count in enumerate([5, 5, 4, 6, None])]
    assert list(comparison(ranks).left_out) == [2, 3]
    # Of as many ranks with each number the longer recording counts.
    assert list(comparison(ranks[1:3]).left_out) == [2]


def counted(*begun: int, has_ids: bool = True, clocks: Sequence[int] = ()) -> list[Recorded]:
    """Ranks that recorded steps that they count themselves, up to the tenth, each since another one."""
    ranks = []
    for rank, (first, clock_ns) in enumerate(zip(begun, clocks or [0] * len(begun), strict=True)):
        steps = range(10 - first)
        runs = {step: 70 + first + step for step in steps} if has_ids else {}
        ends = {step: clock_ns + 1_000 * (first + step) + 10 * rank for step in steps}
        ranks.append(Recorded(rank, False, len(steps), runs=runs, ends=ends))
    return ranks


@pytest.mark.parametrize("has_ids", [True, False])
def test_ranks_that_count_their_steps_are_compared_over_those_that_all_have(has_ids: bool) -> None:
    found = comparison(counted(2, 0, 1, has_ids=has_ids))
    assert (found.steps, found.begun, found.left_out) == ((2, 9), {0: 2, 1: 0, 2: 1}, {})
    found = comparison(counted(2, 2, 2, has_ids=has_ids))
    assert (found.steps, found.left_out) == (None, {})


def test_ids_of_runs_need_no_clocks_that_agree() -> None:
    found = comparison(counted(2, 0, 1, clocks=[0, 1_000, 400]))
    assert (found.steps, list(found.left_out)) == ((2, 9), [])


@pytest.mark.parametrize("clock_ns", [400, 600, 50_000])
def test_clocks_that_are_far_apart_do_not_tell_which_steps_are_the_same(clock_ns: int) -> None:
    ranks = counted(0, 0, 1, has_ids=False, clocks=[0, 0, clock_ns])
    assert (comparison(ranks).steps, list(comparison(ranks).left_out)) == (None, [2])


def test_runs_that_disagree_tell_nothing() -> None:
    first, second, other = counted(0, 0, 1)
    disagreeing = replace(other, runs={**other.runs, 4: 70})
    assert list(comparison([first, second, disagreeing]).left_out) == [2]


def test_many_different_recordings_are_told_in_few_words() -> None:
    (row,) = comparison(of_steps(*((first, 20) for first in range(8)))).problems
    assert row["example"] == "compared over steps 7-20; some ranks have more of steps 0-20"
