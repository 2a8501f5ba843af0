"""What a job would gain if some of its work were faster, even, hidden or gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import holotrace
from drawing import EARLY, LATE, described, draw, trace
from holotrace import Within, sample
from holotrace.cli import main
from holotrace.gains import COLUMNS, PATH_COLUMNS
from holotrace.job import Job
from trace_files import write_trace

US = 1_000
# 10 µs of computing launched at once, beside 6 µs of the host.
DRAWING = "step |111111......|\nop |OOOOOO......|\nhost |A...........|\ncompute |.AAAAAAAAAA.|"


def job_of(*texts: str) -> Job:
    return Job.from_ranks({rank: described(trace(text, rank), sequence=1) for rank, text in enumerate(texts)})


def test_time_is_saved_until_another_path_is_the_longest() -> None:
    job = draw(DRAWING)
    for factor, new_ns in ((1.0, 11_000), (0.8, 9_000), (0.1, 6_000), (0.0, 6_000)):
        of_job, of_rank = holotrace.what_if(job, {"compute": factor}).rows(named=True)
        assert (of_job["rank"], of_rank["rank"]) == (None, 0)
        assert (of_job["replayed_ns"], of_job["new_ns"]) == (11_000, new_ns)
        assert of_job["saved_ns"] == of_job["low_ns"] == of_job["high_ns"] == 11_000 - new_ns
    assert of_job["bound_by"] == "host"


def test_names_are_scaled_by_what_they_match() -> None:
    job = draw(DRAWING)
    assert holotrace.what_if(job, {"^A$": 0.5}, assume=["fast_host"])["saved_ns"][0] == 5_000
    assert holotrace.what_if(job, {"compute": 2})["saved_ns"][0] == -10_000


def test_the_new_path_is_told_part_by_part() -> None:
    path = holotrace.what_if(draw(DRAWING), {"compute": 0.9}, by_segment=True)
    assert path.columns == [column.name for column in PATH_COLUMNS]
    assert path["bound_by"].to_list() == ["launch", "compute"]
    assert path["duration_ns"].to_list() == [1000, 9000]


def test_launches_are_free() -> None:
    assert holotrace.what_if(draw(DRAWING), assume=["free_launches"])["saved_ns"][0] == 1000
    assert holotrace.what_if(draw(DRAWING), {"launch": 0})["saved_ns"][0] == 1000


def test_perfect_overlap_takes_at_least_as_long_as_communication() -> None:
    exposed = "step |111.......|\nhost |AC........|\ncompute |.AA.......|\ncomm |...CCCCCC.|"
    row = holotrace.what_if(draw(exposed), assume=["perfect_overlap"]).row(0, named=True)
    assert (row["replayed_ns"], row["new_ns"]) == (9 * US, 6 * US)


def test_ranks_compute_as_long_as_the_mean_one_when_balanced() -> None:
    one = "step |111...........|\nhost |A.............|\ncompute |.AAAA.........|"
    two = "step |111...........|\nhost |A.............|\ncompute |.AAAAAAAA.....|"
    table = holotrace.what_if(Job.from_ranks({0: trace(one), 1: trace(two, 1)}), assume=["balanced_compute"])
    assert table["new_ns"].to_list() == [7 * US] * 3


def test_hidden_kernels_get_faster_alone_so_the_gain_is_an_interval() -> None:
    # The same kernel takes 10 µs beside communication and 5 µs by itself.
    text = (
        "step |111................................|\nhost |ACAB...............................|\n"
        "compute |....AAAAAAAAAA..AAAAA.AAAAA.BBBB...|\ncomm |...CCCCCCCCCCCCC...................|"
    )
    row = holotrace.what_if(draw(text), bandwidth=2).row(0, named=True)
    assert (row["saved_ns"], row["low_ns"], row["high_ns"]) == (0, 0, 5 * US)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("job")
    sample.write(folder, ranks=4, steps=2)
    return holotrace.open(folder)


@pytest.mark.parametrize(
    ("within", "scale"),
    [
        (Within(ranks=(2,)), {"compute": 0.5}),
        (Within(categories=("gemm",)), {"compute": 0.5}),
        (Within(collectives=("all_reduce",)), {"communication": 0}),
        (Within(ranks=(0, 1), categories=("attention",)), {"compute": 0}),
    ],
)
def test_only_chosen_work_changes(made_up: Job, within: Within, scale: dict[str, float]) -> None:
    some = holotrace.what_if(made_up, scale, within=within)["new_ns"][0]
    every = holotrace.what_if(made_up, scale)
    assert every["new_ns"][0] <= some <= every["replayed_ns"][0]


def test_modules_are_chosen_by_their_paths(made_up: Job) -> None:
    paths = made_up.modules()["module"].drop_nulls().unique().sort()
    if paths.is_empty():
        with pytest.raises(holotrace.MissingDataError, match="of modules"):
            holotrace.what_if(made_up, {"compute": 0}, within=Within(modules=("x",)))
    else:
        table = holotrace.what_if(made_up, {"compute": 0}, within=Within(modules=(".",)))
        assert table["saved_ns"][0] > 0


def test_what_nothing_is_of_is_said(made_up: Job) -> None:
    with pytest.raises(holotrace.MissingDataError, match="no work is of ranks 9"):
        holotrace.what_if(made_up, {"compute": 0}, within=Within(ranks=(9,)))


def test_sum_of_the_job_is_that_of_its_longest_rank(made_up: Job) -> None:
    table = holotrace.what_if(made_up, {"host": 0.5})
    assert table.columns == [column.name for column in COLUMNS]
    assert table["new_ns"][0] == table["new_ns"][1:].max()
    assert table["rank"].to_list() == [None, 0, 1, 2, 3]


def test_without_ranks_there_are_no_rows() -> None:
    table = holotrace.what_if(draw(), {"host": 0})
    assert table.columns == [column.name for column in COLUMNS]
    assert table.is_empty()


@pytest.mark.parametrize(
    "options",
    [{"scale": {"host": -1.0}}, {"scale": {"host": float("nan")}}, {"scale": {"(": 0.5}}, {"assume": ["magic"]}],
)
def test_what_cannot_be_changed_is_said(options: dict[str, Any]) -> None:
    with pytest.raises(holotrace.UsageError, match="it can be"):
        holotrace.what_if(draw(DRAWING), **options)


def test_a_step_or_name_that_is_not_there_is_said() -> None:
    with pytest.raises(holotrace.MissingDataError, match="no rank has step 9"):
        holotrace.what_if(draw(DRAWING), {"host": 0}, step=9)
    with pytest.raises(holotrace.MissingDataError, match="has a name with 'C'"):
        holotrace.what_if(draw(DRAWING), {"C": 0})
    # What nothing is bound by is an answer.
    assert holotrace.what_if(draw(DRAWING), {"communication": 0})["saved_ns"].to_list() == [0, 0]


def test_it_is_a_command(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "rank-0.json", rank=0)
    said = CliRunner().invoke(main, ["what-if", str(path), "--scale", "compute=0", "--format", "json"])
    assert said.exit_code == 0
    assert '"saved_ns"' in said.output
    wrong = CliRunner().invoke(main, ["what-if", str(path), "--scale", "compute"])
    assert wrong.exit_code == 2
    assert "write WHAT=FACTOR" in wrong.output
    parts = CliRunner().invoke(
        main, ["what-if", str(path), "--assume", "fast_host", "--of-rank", "0", "--by-segment", "--format", "json"]
    )
    assert parts.exit_code == 0, parts.output


def test_asking_changes_nothing() -> None:
    job = draw(DRAWING)
    before = job.critical_path()
    holotrace.what_if(job, {"compute": 0})
    assert_frame_equal(job.critical_path(), before)


def test_parts_of_the_new_path_are_the_new_step() -> None:
    job = job_of(EARLY, LATE)
    parts = holotrace.what_if(job, {"compute": 0.5}, by_segment=True)
    assert parts["duration_ns"].sum() == holotrace.what_if(job, {"compute": 0.5})["new_ns"][0]
    assert parts.filter(pl.col("bound_by") == "compute")["rank"].to_list() == [1]
