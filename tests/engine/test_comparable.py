"""Ranks that recorded less than the others are compared with none, make no findings, and are named."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import holotrace
from holotrace import InputError, JobResult
from holotrace.analyses import ALL
from holotrace.core.analysis import PerJob
from holotrace.core.problems import LEFT_OUT
from holotrace.engine.comparable import Recorded, left_out
from holotrace.present import report
from holotrace.sample import write

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


@pytest.mark.parametrize("at", [0.02, 0.3, 0.6, 0.9, 0.97, 0.999])
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


def test_a_rank_that_recorded_fewer_steps_is_compared_with_none(tmp_path: Path) -> None:
    folder = sampled(tmp_path / "job")
    expected = holotrace.open(without(folder, 2, tmp_path / "others")).run()
    write(tmp_path / "short", ranks=4, steps=2)
    for path in (*folder.glob("rank-2_*"), *(tmp_path / "short").glob("rank-2_*")):
        path.replace(folder / path.name)
    job = holotrace.open(folder)
    found = job.run()
    assert_judged_alike(found, expected, 2)
    (row,) = found.problems.filter(problem=LEFT_OUT).rows(named=True)
    assert (row["rank"], row["example"]) == (2, "2 steps recorded, where most ranks have 3")


def test_one_question_leaves_it_out_as_a_report_does(tmp_path: Path) -> None:
    folder = sampled(tmp_path / "job")
    cut(folder, 1, 0.6)
    job = holotrace.open(folder)
    assert_frame_equal(job.stragglers(), holotrace.open(folder).run().tables["stragglers"])
    assert 1 not in job.communication()["rank"]
    assert LEFT_OUT in job.noticed()["problem"]
    assert job.overlap()["rank"].to_list() == [0, 1, 2, 3]


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


def test_most_ranks_say_how_many_steps_are_usual() -> None:
    steps = {0: 5, 1: 5, 2: 4, 3: 6, 4: None}
    ranks = [Recorded(rank, False, count) for rank, count in steps.items()]
    assert list(left_out(ranks)) == [2, 3]
    # Of as many ranks with each number the longer recording counts.
    assert list(left_out(ranks[1:3])) == [2]
    assert left_out([Recorded(0, True, 5), Recorded(1, False, 5)]) == {0: "its file is cut off"}
