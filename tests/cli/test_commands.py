"""What the commands print, where they write, and how they fail."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import polars as pl
import pytest
from click.testing import CliRunner, Result

import holotrace
from holotrace import __version__, cli
from holotrace.analyses import ALL
from holotrace.cli import main
from holotrace.core import tables
from holotrace.core.analysis import Analysis
from holotrace.job import Job
from holotrace.sample import write
from quick import every
from trace_files import EVENTS, write_trace

TOPICS = [
    name.replace("_", "-")
    for name in (*(a.name for a in ALL), *(t.name for t in (*tables.ALL, tables.CALLS)), "findings", "info", "clocks")
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank in (0, 1):
        write_trace(tmp_path / "job" / f"rank{rank}.json.gz", rank=rank, world=3)
    return tmp_path / "job"


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    write(folder := tmp_path_factory.mktemp("sample"), ranks=2, steps=2)
    return folder


def run(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def rows(*args: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run("show", *args, "--format", "json").stdout)["data"]["rows"]
    return found


def test_version() -> None:
    assert run("--version").stdout == f"holotrace {__version__}\n"


def test_show_without_a_name_lists_all_there_is() -> None:
    listed = run("show")
    assert listed.exit_code == 0
    for name in TOPICS:
        assert f"\n  {name} " in listed.stdout
    for analysis in ALL:
        assert analysis.summary in " ".join(listed.stdout.split())


@pytest.mark.parametrize("name", every(8, TOPICS))
def test_everything_is_shown_in_every_format(folder: Path, tmp_path: Path, name: str) -> None:
    envelope = json.loads(run("show", name, folder, "--format", "json").stdout)
    columns = [column["name"] for column in envelope["columns"]]
    assert run("show", name, folder).exit_code == 0
    assert next(csv.reader(io.StringIO(run("show", name, folder, "--format", "csv").stdout))) == columns
    assert run("show", name, folder, "-o", tmp_path / "x.parquet").exit_code == 0
    saved = pl.read_parquet(tmp_path / "x.parquet")
    assert (saved.columns, saved.height) == (columns, envelope["data"]["count"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")  # of the three ranks, two are written
@pytest.mark.parametrize("analysis", ALL, ids=lambda analysis: analysis.name)
def test_a_command_shows_as_many_rows_as_its_method_has(sampled: Path, analysis: Analysis[Any]) -> None:
    """Rows without a rank, which are of the whole job, were left out."""
    table = getattr(holotrace.open(sampled), analysis.name)()
    shown = json.loads(run("show", analysis.name.replace("_", "-"), sampled, "--format", "json").stdout)
    assert shown["data"]["total"] == table.height


def test_json_is_one_envelope_with_rows_as_objects(folder: Path) -> None:
    envelope = json.loads(run("show", "overlap", folder, "--format", "json").stdout)
    assert {key: envelope[key] for key in ("schema", "name", "source", "holotrace")} == {
        "schema": "holotrace.table/1",
        "name": "overlap",
        "source": str(folder),
        "holotrace": __version__,
    }
    assert envelope["columns"][1] == {
        "name": "comm_ns",
        "unit": "ns",
        "meaning": "Time in which at least one communication kernel ran",
    }
    assert envelope["data"]["count"] == envelope["data"]["total"] == 2
    assert envelope["data"]["rows"][1] == {
        "rank": 1,
        "comm_ns": 20_000,
        "hidden_ns": 10_000,
        "exposed_ns": 10_000,
        "hidden_ratio": 0.5,
        "exposed_ratio": 1 / 3,
    }


def test_json_keeps_nulls_and_whole_numbers(folder: Path) -> None:
    first = rows("kernels", folder)[0]
    assert first["std_ns"] is None
    assert isinstance(first["sum_ns"], int)


def test_limit_cuts_rows_and_says_how_many_there_are(folder: Path) -> None:
    data = json.loads(run("show", "kernels", folder, "--limit", 3, "--format", "json").stdout)["data"]
    assert (data["count"], data["total"], len(data["rows"])) == (3, 4, 3)


def test_rank_and_step_choose_rows(folder: Path) -> None:
    assert [row["rank"] for row in rows("kernels", folder, "--rank", 1, "--top", 1)] == [1]
    assert {row["step"] for row in rows("device-events", folder, "--step", 3)} == {3}
    # Asking for a step asks for steps.
    assert [row["step"] for row in rows("time-breakdown", folder, "--step", 3)] == [3, 3]
    assert len(rows("time-breakdown", folder, "--step", 3, "--step", 4)) == 2
    assert [row["step"] for row in rows("time-breakdown", folder, "--by-step", "--rank", 0)] == [3]


def test_a_rank_that_is_chosen_is_still_compared_with_the_others(folder: Path) -> None:
    (row,) = rows("stragglers", folder, "--rank", 1)
    assert (row["rank"], row["collective_count"], row["late_ns"]) == (1, 1, 0)


def test_names_may_be_written_as_in_python(folder: Path) -> None:
    assert rows("time_breakdown", folder) == rows("time-breakdown", folder)


def test_several_files_are_one_job(folder: Path) -> None:
    assert [row["rank"] for row in rows("overlap", folder / "rank1.json.gz", folder / "rank0.json.gz")] == [0, 1]


def test_findings_have_ranks_and_costs(folder: Path) -> None:
    found = {row["rule"]: row for row in rows("findings", folder)}
    assert found["launch-bound"]["cost_ns"] == 20_000
    assert found["launch-bound"]["ranks"] == []
    assert "launch-bound" in run("show", "findings", folder).stdout


def test_info_says_ranks_and_what_is_missing(folder: Path) -> None:
    said = run("info", folder).stdout
    assert "2 of 3" in said
    assert "ranks missing" in said
    (row, _) = json.loads(run("info", folder, "--format", "json").stdout)["data"]["rows"]
    assert (row["rank"], row["world_count"], row["event_count"]) == (0, 3, 4)


def test_output_file_decides_the_format_and_stdout_stays_empty(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "kernels.csv"
    done = run("show", "kernels", folder, "-o", out)
    assert done.stdout == ""
    assert out.read_text().startswith("rank,name,kind,count,")


@pytest.mark.parametrize("limit", [0, 2**70])
def test_any_number_of_rows_may_be_asked_for(folder: Path, limit: int) -> None:
    for form in ("table", "json", "csv"):
        assert run("show", "kernels", folder, "--limit", limit, "--format", form).exit_code == 0


def test_what_is_shown_is_saved_in_a_folder_that_is_made(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "steps.csv"
    assert run("show", "steps", folder, "-o", out).exit_code == 0
    assert out.read_text(encoding="utf-8").startswith("rank,step,")


def test_report_writes_a_page_and_prints_the_verdict(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "report.html"
    done = run("report", folder, "-o", out)
    assert done.exit_code == 0, done.output
    assert out.read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert "communication" in done.stdout


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("show", "nonsense", "JOB"), 2, "No such command 'nonsense'"),
        (("show", "kernels", "JOB", "--top", "0"), 2, "it can be any whole number from 1"),
        (("show", "kernels", "JOB", "--format", "xml"), 2, "'xml' is not one of"),
        (("show", "kernels", "JOB", "--step", "1"), 2, "kernels has no steps; leave out --step"),
        (("show", "steps", "JOB", "--step", "999"), 3, "steps has no step 999; there are steps 3"),
        (("show", "kernels"), 2, "Missing argument 'PATH...'"),
        (("show", "kernels", "JOB", "-o", "JOB/rank0.json.gz/x.csv"), 2, "cannot be written"),
        (("sample", "JOB/rank0.json.gz/x", "--ranks", "1"), 2, "Not a directory; name a folder that can"),
        (("show", "kernels", "JOB", "--rank", "9"), 3, "rank 9 does not exist; the job has ranks 0-1"),
        (("info", "JOB/missing"), 3, "does not exist; give a trace file"),
        (("info", "EMPTY"), 3, "holds no trace"),
        (("report", "EMPTY/text.json"), 3, "not a trace"),
    ],
)
def test_failures_are_one_line_with_an_exit_code(
    folder: Path, tmp_path: Path, args: tuple[str, ...], code: int, said: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    if "EMPTY/text.json" in args:
        (empty / "text.json").write_text("hello")
    done = run(*(arg.replace("JOB", str(folder)).replace("EMPTY", str(empty)) for arg in args))
    assert done.exit_code == code
    assert said in done.stderr
    assert "Traceback" not in done.output
    assert [line.startswith("Error: ") for line in done.stderr.strip().split("\n")][-1]


def test_a_defect_is_one_line_unless_debugging(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Job, "run", broken)
    done = run("info", folder)
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "unexpected ZeroDivisionError: division by zero" in done.stderr
    assert "holotrace --debug" in done.stderr
    assert isinstance(run("--debug", "info", folder).exception, ZeroDivisionError)


def test_a_name_that_drives_the_terminal_is_printed_harmless(tmp_path: Path) -> None:
    said = run("info", tmp_path / "\x1b[31mred").stderr
    assert "\x1b" not in said


def test_no_option_of_an_analysis_hides_a_shared_one() -> None:
    for analysis in ALL:
        show = main.commands["show"]
        assert isinstance(show, click.Group)
        command = show.get_command(click.Context(show), analysis.name)
        assert command is not None
        names = [name for parameter in command.params for name in parameter.opts]
        assert len(set(names)) == len(names)


def test_a_broken_pipe_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m holotrace show device-events {folder} --format csv | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("rank,event_id")
    assert "Broken" not in done.stderr


def test_importing_brings_nothing_that_draws() -> None:
    code = (
        "import sys, holotrace, holotrace.cli; "
        "print([m for m in ('plotly', 'jinja2', 'rich', 'pandas', 'numpy', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_loads_no_more_than_reading_needs() -> None:
    loaded = printed("import sys, holotrace; holotrace.open; print(*sys.modules)")
    heavy = {"boto3", "click", "distributed", "jinja2", "networkx", "obstore", "pandas", "plotly", "pyarrow", "rich"}
    assert not heavy.intersection(loaded)


def test_importing_holotrace_waits_with_the_rest_until_a_name_is_asked_for() -> None:
    loaded = printed("import sys, holotrace; dir(holotrace); print(*sys.modules)")
    assert {module for module in loaded if module.startswith("holotrace")} == {"holotrace", "holotrace.allocator"}


def test_a_public_name_is_no_module_whatever_was_imported_before() -> None:
    names = "(name for name in holotrace.__all__ if inspect.ismodule(getattr(holotrace, name)))"
    assert printed(f"import holotrace.cli, inspect; print(*{names})") == []
    assert {*holotrace.__all__} <= {*dir(holotrace)}


def test_public_modules_are_there_without_an_import_of_their_own() -> None:
    assert printed("import holotrace; print(holotrace.capture.__name__, holotrace.core.schema.__name__)") == [
        "holotrace.capture",
        "holotrace.core.schema",
    ]
    assert printed("import holotrace; print(hasattr(holotrace, 'nothing'), hasattr(holotrace, '__wrapped__'))") == [
        "False",
        "False",
    ]


def printed(code: str) -> list[str]:
    """The words that a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_overlay_writes_a_copy_of_each_rank(tmp_path: Path) -> None:
    run("sample", tmp_path / "job", "--ranks", "2")
    written = run("overlay", tmp_path / "job", "--counters", "--rank", "1", "-o", tmp_path / "out")
    assert written.exit_code == 0
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["rank-1-with-counters.json.gz"]
    assert written.stderr == f"wrote {tmp_path / 'out' / 'rank-1-with-counters.json.gz'}\n"


def test_overlay_shows_the_critical_path_of_a_step(tmp_path: Path) -> None:
    run("sample", tmp_path / "job", "--ranks", "1")
    asked = (tmp_path / "job", "--critical-path", "-o", tmp_path / "out")
    written = run("overlay", *asked)
    assert written.stderr == f"wrote {tmp_path / 'out' / 'rank-0-with-critical-path.json.gz'}\n"
    other = run("overlay", *asked, "--step", "12345")
    assert (other.exit_code, "such a step" in other.stderr) == (3, True)
    lone = run("overlay", tmp_path / "job", "--counters", "--step", "1", "-o", tmp_path / "out")
    assert (lone.exit_code, "add --critical-path" in lone.stderr) == (2, True)


def test_overlay_says_what_can_be_added(folder: Path, tmp_path: Path) -> None:
    asked = run("overlay", folder, "-o", tmp_path / "out")
    assert (asked.exit_code, "--counters" in asked.stderr) == (2, True)


def test_timeline_says_which_ranks_were_moved(tmp_path: Path) -> None:
    run("sample", tmp_path / "job", "--ranks", "3")
    written = run("timeline", tmp_path / "job", "--rank", "0", "--rank", "1", "--step", "10", "-o", tmp_path / "a.json")
    assert written.exit_code == 0
    assert written.stderr.splitlines()[-1] == f"wrote {tmp_path / 'a.json'}"
    assert "Moved" in written.stdout
    assert "ends of the same collective" in written.stderr
    whole = run("timeline", tmp_path / "job", "--start", "0.5", "--end", "1.5", "-o", tmp_path / "b.json")
    assert (whole.exit_code, (tmp_path / "b.json").stat().st_size > 0) == (0, True)
    other = run("timeline", tmp_path / "job", "--step", "10", "--end", "3", "-o", tmp_path / "c.json")
    assert (other.exit_code, "leave out" in other.stderr) == (2, True)


def test_timeline_says_what_could_not_be_read_or_compared(folder: Path, tmp_path: Path) -> None:
    write_trace(folder / "rank7.json", rank=7, events=EVENTS[:1])
    written = run("timeline", folder, "-o", tmp_path / "a.json")
    assert written.exit_code == 0
    assert "clocks not compared (rank 7: no collective that other ranks recorded)" in written.stderr


def cut(path: Path, at: float) -> Path:
    """The same file without its end, as a disk that was full leaves it."""
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text[: int(len(text) * at)]))
    return path


ASKED = (
    "show overlap JOB",
    "show device-events JOB",
    "show findings JOB",
    "show info JOB",
    "show clocks JOB",
    "show problems JOB",
    "query SQL JOB",
    "compare JOB JOB",
    "what-if JOB --scale compute=0.5",
    "report JOB -o OUT/report.html",
    "report JOB --format json",
    "report JOB --format markdown",
    "timeline JOB -o OUT/all.json",
    "overlay JOB --counters -o OUT",
    "convert JOB OUT/dataset",
    "info JOB",
)


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    write(folder := tmp_path_factory.mktemp("cut-off"), ranks=2, steps=1)
    cut(next(folder.glob("rank-1*")), 0.6)
    return folder


@pytest.mark.parametrize("command", every(2, ASKED))
def test_no_command_answers_from_a_file_cut_off_without_a_word(cut_off: Path, tmp_path: Path, command: str) -> None:
    places = {"JOB": str(cut_off), "OUT": str(tmp_path / "out"), "SQL": "SELECT count(*) AS n FROM steps"}
    done = run(*(places.get(word) or word.replace("OUT", str(tmp_path)) for word in command.split()))
    assert done.exit_code == 0, done.output
    assert "file cut off" in (done.stdout if command.startswith("info") else done.stderr)


def test_the_envelope_holds_what_may_be_missing(tmp_path: Path) -> None:
    cut(write_trace(tmp_path / "rank0.json.gz", rank=0, world=2), 0.7)
    write_trace(tmp_path / "rank1.json.gz", rank=1, world=2)
    for asked in (
        ("show", "kernels"),
        ("query", "SELECT name FROM cpu_ops"),
        ("what-if", "--scale", "host=0"),
        ("info",),
    ):
        envelope = json.loads(run(*asked, tmp_path, "--format", "json").stdout)
        assert (0, "file cut off") in [(row["rank"], row["problem"]) for row in envelope["problems"]]


def test_what_if_of_files_that_are_all_cut_off_says_so(tmp_path: Path) -> None:
    cut(write_trace(tmp_path / "rank0.json.gz", rank=0, world=1), 0.7)
    asked = run("what-if", "--scale", "host=0", tmp_path)
    assert (asked.exit_code, asked.stdout) == (3, "")
    assert "every file is cut off" in asked.stderr


def test_a_file_that_is_whole_needs_no_word(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json.gz", rank=0, world=1)
    assert run("show", "kernels", tmp_path).stderr == ""
    assert json.loads(run("show", "kernels", tmp_path, "--format", "json").stdout)["problems"] == []


def test_info_findings_report_and_problems_tell_the_same(tmp_path: Path) -> None:
    event = {**EVENTS[2], "args": {"correlation": 7, "queued": "a lot"}}
    write_trace(tmp_path / "rank0.json", rank=0, world=1, events=[*EVENTS, event, {"name": "no event"}])
    told = [
        json.loads(run(*asked, tmp_path, "--format", "json").stdout)["problems"]
        for asked in (("info",), ("show", "problems"), ("show", "findings"), ("report",))
    ]
    assert [[row["problem"] for row in rows] for rows in told] == [["entry is no event", "argument is no number"]] * 4


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("show", "kernels", "JOB", "-o", "x.html"), "its name can end in .txt, .json, .csv, .parquet, .md"),
        (("show", "kernels", "JOB", "-o", "x.xlsx"), "x.xlsx ends in .xlsx, which cannot be written here"),
        (("show", "kernels", "JOB", "-o", "x.json", "--format", "csv"), "x.json ends as json does, and csv was asked"),
        (("report", "JOB", "-o", "x.csv"), "its name can end in .json, .md, .html, .htm"),
        (("query", "SELECT 1", "JOB", "-o", "x.json.gz"), "x.json.gz ends in .gz"),
    ],
)
def test_an_output_whose_name_ends_as_another_format_does_is_refused(
    folder: Path, tmp_path: Path, args: tuple[str, ...], said: str
) -> None:
    done = run(*(arg.replace("JOB", str(folder)).replace("x.", f"{tmp_path}/x.") for arg in args))
    assert done.exit_code == 2
    assert said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


def test_a_cell_of_csv_is_no_formula_and_drives_no_terminal(tmp_path: Path) -> None:
    names = ["=HYPERLINK(1)", "+1+1", "-2+3", "@SUM(A1)", "-1.5e3", "\x1b[2Jgone", "plain"]
    events = [{**EVENTS[2], "name": name, "ts": 100 * number} for number, name in enumerate(names)]
    write_trace(tmp_path / "rank0.json", rank=0, world=1, events=events)
    rows = csv.DictReader(io.StringIO(run("show", "device-events", tmp_path, "--format", "csv").stdout))
    safe = ["'=HYPERLINK(1)", "'+1+1", "'-2+3", "'@SUM(A1)", "-1.5e3", "\ufffd[2Jgone", "plain"]
    assert [row["name"] for row in rows] == safe


@pytest.mark.parametrize("severity", every(3, ["warning", "info", "critical"]))
def test_a_report_gates_on_how_severe_its_findings_are(tmp_path: Path, severity: str) -> None:
    order = ["info", "warning", "critical"]
    for name, events in (("exposed", EVENTS), ("calm", EVENTS[:1])):
        write_trace(tmp_path / name / "rank0.json", rank=0, world=1, events=events)
        done = run("report", tmp_path / name, "--format", "json", "--fail-on", severity)
        found = {row["severity"] for row in json.loads(done.stdout)["findings"]}
        assert ("critical" in found) == (name == "exposed")
        assert done.exit_code == (4 if found & set(order[order.index(severity) :]) else 0)


def test_a_report_in_markdown_holds_findings_and_problems(folder: Path) -> None:
    text = run("report", folder, "--format", "markdown").stdout
    assert "| critical |" in text
    assert "## Problems" in text
    assert "ranks missing" in text


def test_a_command_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "greet.py").write_text('import click\n\n\n@click.command\ndef greet():\n    click.echo("hello")\n')
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path)])
    assert {command.name for command in cli.commands()} - set(main.commands) == {"greet"}
