"""The page on what changed between two jobs: its sentences, the way from one step to the other, its tables."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

import holotrace
import xplane_files
from holotrace.cli import main
from holotrace.comparing import COLUMNS
from holotrace.core.schema import conform
from holotrace.core.tables import PROBLEMS
from holotrace.present import change_chart, change_page
from pages import Elements
from trace_files import EVENTS, write_trace

MS = 1_000_000
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}"


def changes(*rows: tuple[str, str, float, float]) -> pl.DataFrame:
    """Rows of a comparison: name, category, and how long it was before and is after in a step, in ms."""
    columns = ["name", "category", "before_step_ns", "after_step_ns"]
    table = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        (pl.col(columns[2:]) * MS).round().cast(pl.Int64)
    )
    was, now = pl.col("before_step_ns"), pl.col("after_step_ns")
    change = pl.when(was == 0).then(pl.lit("added")).when(now == 0).then(pl.lit("removed"))
    return table.with_columns(
        change=change.when(now > was).then(pl.lit("more")).otherwise(pl.lit("fewer")),
        difference_step_ns=now - was,
        **dict.fromkeys(("before_count", "after_count", "difference_count"), pl.lit(6)),
        before_total_ns=was,
        after_total_ns=now,
        difference_ns=now - was,
    )


def comparison(table: pl.DataFrame, *, verdict: tuple[str, ...] = ("A step takes 12 ms.",), name: str = "a") -> str:
    told = conform(table, COLUMNS, "compare")
    return change_page.page(
        change_page.Comparison(
            name, "b", verdict, {"cause": told}, COLUMNS, PROBLEMS.empty(), is_alike=True, is_of_several=True
        )
    )


PARTS = (
    *(("computing", "step", 8.0, 8.0), ("idle time", "step", 2.0, 4.0)),
    *(("host", "factor", 1.0, 3.5), ("balance", "factor", 1.0, 0.5), ("computing", "factor", 8.0, 8.0)),
    *(("early read in item", "cause", 0.0, 2.4), ("input", "cause", 0.4, 0.0)),
)


def test_bars_lead_from_the_step_before_to_the_step_after() -> None:
    drawn = change_chart.waterfall(changes(*PARTS), is_of_several=True)
    assert drawn is not None
    assert [(row.name, row.value, row.share) for row in drawn.rows] == [
        ("Step before", "10.0 ms", ""),
        ("Devices wait for hosts or each other", "+2.50 ms", "+25%"),
        ("Unequal work of ranks", "\u2212500 µs", "\u22125.0%"),
        ("Step after", "12.0 ms", ""),
        ("New: early read in item", "+2.40 ms", "+24%"),
        ("Gone: input", "\u2212400 µs", "\u22124.0%"),
    ]
    (before,), (host,), (balance,), (after,), (new,), (gone,) = (row.pieces for row in drawn.rows)
    ends = [piece.left + piece.width for piece in (before, host, balance, after, new, gone)]
    assert host.left == pytest.approx(ends[0], abs=0.02) and balance.left == pytest.approx(ends[3], abs=0.02)
    # What came ends at the step after, what went at the step before.
    assert ends[2] == pytest.approx(ends[1], abs=0.02) and ends[4] == pytest.approx(ends[3], abs=0.02)
    assert ends[5] == pytest.approx(ends[0], abs=0.02) and max(ends) == pytest.approx(100, abs=0.02)
    assert host.color != balance.color


def test_a_small_change_is_drawn_large_and_the_page_says_so() -> None:
    drawn = change_chart.waterfall(
        changes(("computing", "step", 100, 100), ("idle time", "step", 0, 1)), is_of_several=False
    )
    assert drawn is not None and drawn.note.startswith("Bars begin at ")
    change = next(row for row in drawn.rows if row.name == "Idle time")
    assert change.pieces[0].width > 20 and change.share == "+1.0%"


def test_what_is_too_small_to_be_told_apart_is_told_together() -> None:
    parts = [("computing", "step", 96.0, 96.0), *((f"part {n}", "step", 1.0, 1.09) for n in range(4))]
    drawn = change_chart.waterfall(changes(*parts), is_of_several=False)
    assert drawn is not None
    assert [(row.name, row.value) for row in drawn.rows[1:-1]] == [("All else", "+360 µs")]


def test_without_factors_it_is_the_parts_of_a_step() -> None:
    drawn = change_chart.waterfall(changes(*PARTS[:2]), is_of_several=False)
    assert drawn is not None and [row.name for row in drawn.rows] == ["Step before", "Idle time", "Step after"]
    assert change_chart.waterfall(changes(("computing", "step", 0, 0)), is_of_several=False) is None


def test_rows_that_add_up_stand_together() -> None:
    page = comparison(changes(*PARTS[::-1]))
    categories = re.findall(r"<td[^>]*>(step|factor|cause)</td>", page)
    assert categories == ["step"] * 2 + ["factor"] * 3 + ["cause"] * 2


def test_no_text_of_a_job_becomes_an_element() -> None:
    rows = changes(*PARTS[:5], (HOSTILE, "cause", 0.0, 2.4))
    tame = Elements(comparison(changes(*PARTS[:6])))
    wild = Elements(comparison(rows, verdict=(HOSTILE, HOSTILE), name=HOSTILE))
    for tag in ("script", "img", "section"):
        assert wild.count(tag) == tame.count(tag), tag
    assert "{{ 7 * 7 }}" in wild.text and "alert(1)" in wild.text
    loads = [a[name] for _, a in wild.tags for name in ("src", "href", "action") if name in a]
    assert loads and all(str(target).startswith(("#", "data:")) for target in loads)


def test_a_page_of_two_profiles_of_xla_is_of_programs_and_scopes_too(tmp_path: Path) -> None:
    jobs = [str(xplane_files.capture("jax_cpu_gaps", tmp_path / side)) for side in ("before", "after")]
    out = tmp_path / "change.html"
    run = CliRunner().invoke(main, ["compare", *jobs, "-o", str(out)])
    assert run.exit_code == 0, run.output
    page = Elements(out.read_text(encoding="utf-8"))
    assert "as long as before" in page.text and "as long as before" in run.stdout
    sections = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert sections == ["verdict", "cause", "program", "operation", "scope", "name", "problems"]


def test_the_same_page_from_a_program(tmp_path: Path) -> None:
    first, second = (xplane_files.capture("jax_cpu_gaps", tmp_path / side) for side in ("before", "after"))
    by_command, by_function = tmp_path / "command.html", tmp_path / "function.html"
    assert CliRunner().invoke(main, ["compare", str(first), str(second), "-o", str(by_command)]).exit_code == 0
    holotrace.change_report(first, holotrace.open(second), by_function)
    assert by_function.read_bytes() == by_command.read_bytes()


def test_jobs_whose_steps_cannot_be_compared_still_have_their_operations(tmp_path: Path) -> None:
    on_host = [event for event in EVENTS if event.get("cat") == "cuda_runtime"]
    jobs = [str(write_trace(tmp_path / side / "rank-0.json", events=on_host)) for side in ("before", "after")]
    out = tmp_path / "change.html"
    run = CliRunner().invoke(main, ["compare", *jobs, "--format", "html", "-o", str(out)])
    assert run.exit_code == 0, run.output
    page = Elements(out.read_text(encoding="utf-8"))
    assert "Steps are not compared: the job before" in page.text
    assert [a["id"] for tag, a in page.tags if tag == "section"] == ["verdict", "name", "problems"]
    failed = CliRunner().invoke(main, ["compare", *jobs, "-o", str(out), "--fail-above", "1"])
    assert failed.exit_code == 3 and "no work on devices" in failed.stderr


@pytest.mark.parametrize("more", [("--by", "cause"), ("--limit", "3"), ("--step", "1"), ("--device",)])
def test_a_page_is_of_everything(tmp_path: Path, more: tuple[str, ...]) -> None:
    trace = str(write_trace(tmp_path / "rank-0.json"))
    run = CliRunner().invoke(main, ["compare", trace, trace, "-o", str(tmp_path / "c.html"), *more])
    assert run.exit_code == 2 and "a page shows everything" in run.stderr
