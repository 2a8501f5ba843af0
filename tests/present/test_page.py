"""What the report says, and that no text of a trace can do more than be read."""

import dataclasses
import re
import time
from collections.abc import Sequence
from pathlib import Path

import made_up
import polars as pl
import pytest

from holotrace.core.analysis import Finding, by_cost
from holotrace.errors import UsageError
from holotrace.present import html, report
from holotrace.present.writers import ShownReport, save_report
from pages import Elements

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\"><img src=x onerror=alert(1)>'",
    "{{ 7 * 7 }} {% raw %}",
    "nul \x00 escape \x1b[31m",
    "漢字 ß 🚀 \u2028 \u202e",
]


def hostile() -> made_up.Result:
    """A result with every hostile text wherever a trace's own words go."""
    words = " ".join(HOSTILE)
    result = made_up.make(2, names=HOSTILE)
    told = Finding("warning", words, (0,), 1_000_000_000, "idle-device", "time_breakdown")
    info = result.info.with_columns(**{name: pl.lit(words) for name in ("device", "software", "file", "backend")})
    return dataclasses.replace(
        result, info=info, problems=made_up.problem(words), findings=(told,), title=words, source=words
    )


def test_the_page_tells_everything_that_is_there() -> None:
    page = Elements(html.page(made_up.make(8, missing=(5,)), made_up.ANALYSES)).text
    for words in (
        "llama-70b pretraining",
        "7 of 8; missing 5",
        "NVIDIA H100 80GB HBM3",
        "only 38% of communication is hidden",
        "Capture the step in a CUDA graph",
        "Where each rank's time goes",
        "Exposed communication",
        "Standard deviation of its runs; null for one run",
        "Everything was read as it was written.",
        "holotrace show time-breakdown traces/job8 --format json",
    ):
        assert words in page


def test_no_text_of_a_trace_becomes_an_element() -> None:
    told = Finding("warning", "words", (0,), 1_000_000_000, "idle-device", "time_breakdown")
    harmless = dataclasses.replace(made_up.make(2), problems=made_up.problem("cut off"), findings=(told,))
    tame, wild = (Elements(html.page(result, made_up.ANALYSES)) for result in (harmless, hostile()))
    for tag in ("script", "img", "b", "meta", "link", "section"):
        assert wild.count(tag) == tame.count(tag), tag
    assert not [name for _, attributes in wild.tags for name in attributes if name.startswith("on")]
    assert "</script><script>alert(1)</script>" in wild.text
    assert "{{ 7 * 7 }}" in wild.text


def test_the_page_has_no_control_characters() -> None:
    page = html.page(hostile(), made_up.ANALYSES)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", page)


def test_nothing_on_the_page_is_loaded_from_elsewhere() -> None:
    elements = Elements(html.page(made_up.make(8), made_up.ANALYSES))
    loads = [
        attributes[name] for _, attributes in elements.tags for name in ("src", "href", "action") if name in attributes
    ]
    assert loads and all(str(target).startswith(("#", "data:")) for target in loads)
    policy = next(a["content"] for tag, a in elements.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None and policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_an_empty_job_gives_a_page_that_says_so() -> None:
    page = Elements(html.page(made_up.empty(), made_up.ANALYSES)).text
    assert "No rank recorded any time, so there is nothing to judge." in page
    assert "Not shown, because the traces have no data for them: time breakdown, overlap, kernels." in page


def test_an_analysis_without_rows_is_left_out_but_named() -> None:
    result = made_up.make(2)
    without = dataclasses.replace(result, tables={**result.tables, "overlap": made_up.empty().tables["overlap"]})
    elements = Elements(html.page(without, made_up.ANALYSES))
    assert [a["id"] for tag, a in elements.tags if tag == "section" and a.get("id") in result.tables] == [
        "time_breakdown",
        "kernels",
    ]
    assert "Not shown, because the traces have no data for them: overlap." in elements.text
    assert "Left out" not in Elements(html.page(result, made_up.ANALYSES)).text


def test_the_page_of_a_thousand_ranks_stays_small_and_says_what_it_leaves_out() -> None:
    started = time.monotonic()
    page = html.page(made_up.make(1024, kernel_count=50), made_up.ANALYSES)
    assert time.monotonic() - started < 20
    assert "a row per name, means of 1,024 ranks; a row opens to its ranks, those with the most of it" in page
    assert "holotrace show kernels JOB --by-rank" in page
    assert len(page) < 2_000_000


def test_long_texts_of_many_rows_lose_their_middle_and_those_of_few_do_not() -> None:
    name = "void f<" + "x" * 3_000 + ">"
    assert f'"{name}"'.replace("<", "\\u003c").replace(">", "\\u003e") in html.page(
        made_up.make(1, names=[name], kernel_count=12), made_up.ANALYSES
    )
    many = html.page(made_up.make(1, names=[f"{i}{name}" for i in range(1_500)]), made_up.ANALYSES)
    assert len(many) < 1_000_000


def test_a_column_without_any_value_is_not_shown_but_explained() -> None:
    page = html.page(made_up.make(2), made_up.ANALYSES)
    assert 'data-column="step"' not in page
    assert "Training step; null for all of them (without a value in this job)" in page


def test_a_number_that_no_float_holds_is_shown_whole() -> None:
    result = made_up.make(1)
    breakdown = result.tables["time_breakdown"].with_columns(step=pl.lit(2**53 + 1))
    page = html.page(
        dataclasses.replace(result, tables={**result.tables, "time_breakdown": breakdown}), made_up.ANALYSES
    )
    assert ">9007199254740993</td>" in page
    assert '"9007199254740993"' in page


def test_the_verdict_says_where_the_time_goes_what_costs_most_and_what_to_do() -> None:
    spent, biggest, to_do, missing = report.verdict(made_up.make(8, missing=(5,)), made_up.ANALYSES)
    assert re.fullmatch(r"Each of the 7 ranks ran \d+ ms on average, \d+ ms a step: \d+% compute \(\d+ ms\), .*", spent)
    assert biggest == "The biggest finding: only 38% of communication is hidden (worth up to 163 ms)."
    assert to_do == (
        "What to do: Start the collective sooner (bucket size, e.g. 25 MB, or prefetch) or give it a stream of its own."
    )
    assert missing == "Keep in mind: 1 rank is missing (5)."


@pytest.mark.parametrize(
    ("count", "absent", "said"),
    [(8, range(1, 8), "7 ranks are missing (1-7){} them"), (2, [1], "1 rank is missing (1){} it")],
)
def test_where_most_ranks_are_missing_nothing_tells_what_communication_waits_for(
    count: int, absent: Sequence[int], said: str
) -> None:
    few = made_up.make(count, missing=tuple(absent))
    *_, missing = report.verdict(few, made_up.ANALYSES)
    unknown = ", so that nothing tells whether the exposed communication waits for"
    assert missing == f"Keep in mind: {said.format(unknown)}."


def test_the_verdict_of_a_job_without_device_work_says_that_hosts_recorded_something() -> None:
    result = made_up.make(1)
    on_hosts = dataclasses.replace(result, tables={name: table.clear() for name, table in result.tables.items()})
    spent, *_ = report.verdict(on_hosts, made_up.ANALYSES)
    assert spent == "No rank recorded work on a device, so only what hosts did is judged."


def test_the_verdict_prefers_what_is_wrong_to_what_is_only_worth_knowing() -> None:
    known = Finding("info", "a run was long", (), 9_000_000)
    wrong = Finding("warning", "a slow disk", (), 5_000_000)
    result = dataclasses.replace(made_up.make(2), findings=(known, wrong))
    assert "The biggest finding: a slow disk (worth up to 5.00 ms)." in report.verdict(result, made_up.ANALYSES)


def test_the_verdict_names_the_ranks_of_a_finding_that_not_all_share() -> None:
    result = dataclasses.replace(made_up.make(8), findings=(Finding("warning", "a slow disk.", (1, 2), 5_000_000),))
    assert report.verdict(result, made_up.ANALYSES)[1] == (
        "The biggest finding, on ranks 1-2: a slow disk (worth up to 5.00 ms)."
    )


def test_names_in_backticks_are_set_as_code_and_nothing_else_is() -> None:
    message = "avoid `.item()`, `<b>` and a ` alone"
    result = dataclasses.replace(made_up.make(2), findings=(Finding("info", message),))
    assert "avoid <code>.item()</code>, <code>&lt;b&gt;</code> and a ` alone" in html.page(result, made_up.ANALYSES)


def test_findings_are_sorted_by_what_they_cost() -> None:
    assert [f.cost_ns for f in by_cost(made_up.make(8).findings)] == [163_000_000, 97_000_000, None]


def test_advice_of_several_paragraphs_ends_with_what_to_do() -> None:
    finding = Finding("info", "x", rule="idle-device", analysis="time_breakdown")
    advice = report.advice(finding, made_up.ANALYSES)
    assert advice.what == "The device has nothing to do for more than a tenth of the time."
    assert advice.why.startswith("The host launches work slower")
    assert advice.what_to_do.startswith("Capture the step in a CUDA graph")


def test_a_finding_without_a_documented_rule_has_no_advice() -> None:
    assert report.advice(Finding("info", "x"), made_up.ANALYSES) == report.Advice("", "", "")


def test_the_report_is_written_with_the_folders_it_needs(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b" / "report.html"
    save_report(ShownReport(made_up.make(2), made_up.ANALYSES), out)
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_the_ending_of_its_name_tells_the_form_of_a_report(tmp_path: Path) -> None:
    shown = ShownReport(made_up.make(2), made_up.ANALYSES)
    for name, begins in (("r.md", "# "), ("r.json", "{"), ("r", "<!doctype html>")):
        save_report(shown, tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)
    with pytest.raises(UsageError, match=r"r\.csv ends in \.csv, which cannot be written here"):
        save_report(shown, tmp_path / "r.csv")


def test_the_same_job_gives_the_same_page(tmp_path: Path) -> None:
    one, other = (html.page(made_up.make(3), made_up.ANALYSES) for _ in range(2))
    assert one == other


def test_a_folder_is_not_replaced_by_a_report(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; name a file in it"):
        save_report(ShownReport(made_up.make(2), made_up.ANALYSES), tmp_path)


def test_a_place_below_a_file_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot be written"):
        save_report(ShownReport(made_up.make(2), made_up.ANALYSES), tmp_path / "file" / "report.html")


def test_an_older_report_survives_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.html"
    out.write_text("older")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UsageError, match="No space left"):
        save_report(ShownReport(made_up.make(2), made_up.ANALYSES), out)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.html", "older")]


def test_a_job_that_does_not_communicate_has_no_section_about_it() -> None:
    result = made_up.make(2)
    zeros = result.tables["overlap"].with_columns(
        pl.col("comm_ns", "hidden_ns", "exposed_ns") * 0, hidden_ratio=pl.lit(None, pl.Float64)
    )
    page = Elements(
        html.page(dataclasses.replace(result, tables={**result.tables, "overlap": zeros}), made_up.ANALYSES)
    )
    assert "overlap" not in [a.get("id") for tag, a in page.tags if tag == "section"]
    assert "no data for them: overlap." in page.text
