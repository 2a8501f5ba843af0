"""What a step would gain if some of its work were faster."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import holotrace
from drawing import draw
from holotrace.cli import main
from holotrace.what_if import COLUMNS, PATH_COLUMNS
from trace_files import write_trace

# 10 µs of computing launched at once, beside 6 µs of the host.
DRAWING = "op |OOOOOO......|\nhost |A...........|\ncompute |.AAAAAAAAAA.|"


def test_time_on_the_path_is_saved_until_another_path_is_the_longest() -> None:
    job = draw(DRAWING)
    for factor, new_ns in ((1.0, 11_000), (0.8, 9_000), (0.1, 6_000), (0.0, 6_000)):
        (row,) = holotrace.what_if(job, {"compute": factor}).rows(named=True)
        assert (row["path_ns"], row["new_path_ns"]) == (11_000, new_ns)
        assert row["saved_ns"] == 11_000 - new_ns
        assert row["changed_ns"] == round(10_000 * (1 - factor))
    assert row["bound_by"] == "host"


def test_names_are_scaled_by_what_they_match() -> None:
    job = draw(DRAWING)
    assert holotrace.what_if(job, {"^A$": 0.5})["saved_ns"].to_list() == [5_000]
    assert holotrace.what_if(job, {"^A$": 2})["saved_ns"].to_list() == [-10_000]


def test_the_new_path_is_told_edge_by_edge() -> None:
    path = holotrace.what_if(draw(DRAWING), {"compute": 0.9}, by_segment=True)
    assert path.columns == [column.name for column in PATH_COLUMNS]
    assert path["kind"].to_list() == ["operator", "launch_delay", "operator"]
    assert path["recorded_ns"].to_list() == [0, 1000, 10_000]
    assert path["duration_ns"].to_list() == [0, 1000, 9000]


def test_every_rank_is_asked() -> None:
    table = holotrace.what_if(draw(DRAWING, DRAWING), {"launch": 0})
    assert table["rank"].to_list() == [0, 1]
    assert table["saved_ns"].to_list() == [1000, 1000]


def test_without_ranks_there_are_no_rows() -> None:
    table = holotrace.what_if(draw(), {"host": 0})
    assert table.columns == [column.name for column in COLUMNS]
    assert table.is_empty()


@pytest.mark.parametrize("scale", [{"host": -1.0}, {"host": float("nan")}, {"(": 0.5}])
def test_what_cannot_be_scaled_is_said(scale: dict[str, float]) -> None:
    with pytest.raises(holotrace.UsageError, match="it can be"):
        holotrace.what_if(draw(DRAWING), scale)


def test_a_step_that_is_not_there_is_said() -> None:
    with pytest.raises(holotrace.MissingDataError, match="no rank has step 9"):
        holotrace.what_if(draw(DRAWING), {"host": 0}, step=9)


def test_a_name_that_nothing_has_is_said() -> None:
    job = draw(DRAWING, DRAWING.replace("A", "B"))
    assert holotrace.what_if(job, {"^B$": 0})["saved_ns"].to_list() == [0, 5_000]
    with pytest.raises(holotrace.MissingDataError, match="has a name with 'C'"):
        holotrace.what_if(job, {"^B$": 0, "C": 0})
    # What nothing is bound by is an answer.
    assert holotrace.what_if(job, {"communication": 0})["saved_ns"].to_list() == [0, 0]


def test_it_is_a_command(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "rank-0.json", rank=0)
    said = CliRunner().invoke(main, ["what-if", str(trace), "--scale", "compute=0", "--format", "json"])
    assert said.exit_code == 0
    assert '"saved_ns"' in said.output
    wrong = CliRunner().invoke(main, ["what-if", str(trace), "--scale", "compute"])
    assert wrong.exit_code == 2
    assert "write WHAT=FACTOR" in wrong.output


def test_asking_changes_nothing() -> None:
    job = draw(DRAWING)
    before = job.critical_path()
    holotrace.what_if(job, {"compute": 0})
    assert_frame_equal(job.critical_path(), before)
