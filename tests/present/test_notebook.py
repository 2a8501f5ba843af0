"""What notebooks show."""

import inspect
import pickle
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import holotrace
from drawing import draw
from holotrace import sample
from holotrace.core.analysis import Finding
from holotrace.present import notebook
from holotrace.present.notebook import Answer, Findings

HOSTILE = "<script>alert(1)</script>"
DRAWING = "step |1111222222|\nhost |A....B....|\ncompute |.AA...BBB.|\ncomm |...CC.....|"


def test_a_job_says_what_it_is_without_reading_anything() -> None:
    job = draw(DRAWING, DRAWING)
    assert repr(job) == "Job('drawn', ranks 0-1)"
    shown = job._repr_html_()
    assert "<h4>drawn</h4>" in shown and "Ranks 0-1" in shown


def test_a_result_shows_its_verdict_and_has_a_short_repr() -> None:
    result = draw(DRAWING).run()
    assert len(repr(result)) < 100 and "drawn" in repr(result)
    shown = result._repr_html_()
    assert "the rank ran" in shown and "<h4>drawn</h4>" in shown


def test_findings_are_a_tuple_that_is_shown_as_a_list() -> None:
    found = Findings((Finding("critical", HOSTILE, (1, 2), 5_000_000, what_to_do="Mend <it>."),))
    assert isinstance(found, tuple) and found[0].message == HOSTILE
    assert repr(found) == f"1 finding: {HOSTILE}"
    shown = found._repr_html_()
    assert HOSTILE not in shown and "&lt;script&gt;" in shown
    assert "1-2" in shown and "5.00 ms" in shown and "Mend &lt;it&gt;." in shown
    assert "No rule found" in Findings()._repr_html_()
    assert isinstance(draw(DRAWING).findings(), Findings)


def test_a_table_has_the_units_of_the_report_and_stays_a_frame() -> None:
    job = draw(DRAWING)
    table = job.overlap()
    assert isinstance(table, Answer)
    assert_frame_equal(table, job.ask(holotrace.Job.overlap, {}))
    shown = table._repr_html_()
    assert 'class="unit">µs</span>' in shown and "Time in which at least one communication kernel ran" in shown
    other = table.select("rank")
    assert isinstance(other, pl.DataFrame)
    assert "holotrace" not in (other._repr_html_())
    assert_frame_equal(pickle.loads(pickle.dumps(table)), table)


def test_an_answer_is_typed_and_draws_its_chart() -> None:
    job = draw(DRAWING)
    table: Answer = job.overlap()
    assert table.declared == holotrace.Job.overlap.columns
    assert table.figure() == job.figure("overlap")
    copied = pickle.loads(pickle.dumps(table))
    with pytest.raises(holotrace.UsageError, match="does not say which analysis it answers"):
        copied.figure()


def test_names_in_tables_stay_text() -> None:
    columns = holotrace.Job.kernels.columns
    table = draw(DRAWING).kernels().with_columns(name=pl.lit(HOSTILE))
    shown = notebook.table_html(table, columns)
    assert HOSTILE not in shown and "&lt;script&gt;" in shown


def test_help_of_a_method_tells_columns_and_units() -> None:
    said = draw(DRAWING).overlap.__doc__ or ""
    assert "    comm_ns (ns): Time in which at least one communication kernel ran." in said
    assert inspect.signature(draw(DRAWING).overlap).return_annotation is pl.DataFrame
    assert "    hidden_ratio (ratio): hidden_ns / comm_ns; null without communication." in said


def test_a_figure_is_asked_for_by_name() -> None:
    job = draw(DRAWING)
    assert job.figure("overlap") == job.figure(holotrace.Job.overlap) == job.run().figure("overlap")
    assert job.figure("time-breakdown", by_step=True) is not None
    with pytest.raises(holotrace.UsageError, match="no analysis 'nothing'; there are causes"):
        job.figure("nothing")


def test_a_report_is_a_line(tmp_path: Path) -> None:
    draw(DRAWING).report(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert 'id="timeline"' in text and "<h1>drawn</h1>" in text


def test_what_if_is_a_method_too() -> None:
    job = draw(DRAWING)
    assert_frame_equal(job.what_if({"host": 0.5}), holotrace.what_if(job, {"host": 0.5}))


def test_outside_of_notebooks_there_is_no_bar() -> None:
    assert notebook.progress("Reading") is None


def test_a_notebook_shows_a_bar_while_ranks_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(notebook, "progress", lambda _: lambda done, total: told.append((done, total)))
    draw(DRAWING, DRAWING).overlap()
    assert told[-1] == (2, 2)


@pytest.mark.slow
def test_a_live_kernel_shows_all_of_it(tmp_path: Path) -> None:
    import nbclient
    import nbformat

    sample.write(tmp_path / "job", ranks=3, steps=2, seed=1, missing_ranks=())
    cells = [
        "import holotrace\njob = holotrace.open('job')\njob",
        "job.run()",
        "job.findings()",
        "job.overlap()",
        "job.figure('overlap')",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])  # type: ignore[no-untyped-call]
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    told = [[output["data"] for output in cell.outputs if "data" in output] for cell in book.cells]
    html = ["".join(str(data.get("text/html", "")) for data in outputs) for outputs in told]
    assert all('class="holotrace"' in text for text in html[:4])
    assert any("application/vnd.plotly.v1+json" in data for data in told[4])
    # The bar goes when all ranks are read.
    assert "<progress" not in html[1]
