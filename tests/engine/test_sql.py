"""SQL is answered alike from traces and datasets, and what cannot be answered is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import holotrace
from drawing import draw
from holotrace import InputError, UsageError
from holotrace.analyses import ALL
from holotrace.analyses.modules import modules
from holotrace.cli import main
from holotrace.core import tables
from holotrace.discovery import survey
from holotrace.engine.session import Session
from holotrace.engine.sql_tables import name_of
from holotrace.job import Job
from holotrace.loading.rank import load
from quick import every
from trace_files import write_trace

BUSY = "SELECT rank, kind, sum(end_ns - start_ns) AS busy_ns FROM device_events GROUP BY rank, kind ORDER BY rank, kind"


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql") / "job"
    for rank in (0, 1):
        write_trace(folder / f"rank{rank}.json.gz", rank=rank, world=3)
    return folder


@pytest.fixture(scope="module")
def dataset(traces: Path) -> Path:
    holotrace.convert(traces, traces.parent / "dataset")
    return traces.parent / "dataset"


@pytest.fixture(params=["traces", "dataset"])
def job(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def test_times_are_summed_by_rank_and_kind(job: Path) -> None:
    found = holotrace.query(BUSY, job).cast({"kind": pl.String()})
    assert found.rows() == [(r, kind, 20_000) for r in (0, 1) for kind in ("communication", "compute")]


def test_tables_are_joined(job: Path) -> None:
    sql = """
        WITH launched AS (SELECT rank, device_event_id AS event_id, launch_name FROM launches)
        SELECT d.rank, d.name, l.launch_name
        FROM device_events d JOIN launched l ON d.rank = l.rank AND d.event_id = l.event_id
        WHERE d.rank = 1
    """
    assert holotrace.query(sql, job).rows() == [(1, "ampere_gemm", "cudaLaunchKernel")]


def test_rows_are_counted_without_a_column(job: Path) -> None:
    assert holotrace.query("SELECT count(*) FROM device_events", job).item() == 4
    assert holotrace.query("SELECT count(*) FROM counters", job).item() == 0


@pytest.mark.parametrize("job", every(2, ["traces", "dataset"]), indirect=True)
def test_every_table_is_there_with_its_rank(job: Path) -> None:
    opened = holotrace.open(job)
    for table in (*tables.ALL, *tables.MADE):
        found = opened.query(f"SELECT * FROM {name_of(table)}")
        assert_frame_equal(found, opened.table(table).cast({pl.Categorical: pl.String}))


def test_labels_are_text(job: Path) -> None:
    found = holotrace.query(
        "SELECT DISTINCT upper(name) AS name FROM device_events WHERE name LIKE '%gemm' AND starts_with(kind, 'comp')",
        job,
    )
    assert found.rows() == [("AMPERE_GEMM",)]
    assert holotrace.query("SELECT DISTINCT coalesce(sync_kind, 'none') FROM device_events", job).item() == "none"


def test_nothing_but_the_job_is_asked(job: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    for function in ("read_csv", "READ_CSV ", '"read_csv"', "read_csv/**/"):
        with pytest.raises(UsageError, match="only what the job holds can be asked for"):
            holotrace.query(f"SELECT * FROM {function}('{tmp_path}/secret.csv')", job)
        with pytest.raises(UsageError, match="only what the job holds can be asked for"):
            holotrace.query(f"""SELECT a AS "'", b AS `'` FROM {function}('{tmp_path}/secret.csv')""", job)
    assert holotrace.query("SELECT name FROM steps, events WHERE name = 'pd.read_csv(x)'", job).is_empty()


def test_problems_of_the_whole_job_are_among_them(job: Path) -> None:
    assert holotrace.query("SELECT problem FROM problems WHERE rank IS NULL", job).rows() == [("ranks missing",)]


def test_only_columns_that_are_named_are_read(traces: Path) -> None:
    asked: list[Any] = []

    def noted(source: Any, reads: Any, **_: Any) -> Any:
        asked.extend((table.name, table.column_names) for table in reads)
        return load(source, reads)

    Job(Session(survey(traces), load=noted)).only(0).query("SELECT max(end_ns) FROM steps WHERE step = 3")
    assert asked == [("steps", ("step", "end_ns")), ("problems", tables.PROBLEMS.column_names)]


def test_a_drawn_job_is_asked_too() -> None:
    assert draw("compute |AA.B|").query("SELECT count(*) FROM device_events WHERE name = 'B'").item() == 1


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT foo FROM steps", r'unable to find column "foo"; steps has the columns rank, step, event_id'),
        ("SELECT * FROM nothing", "relation 'nothing' was not found; there are the tables events, device_events"),
        ("SELECT * FROM kernel", r"relation 'kernel' was not found; did you mean kernels\?$"),
        ('SELECT * FROM "Operator-Kernels"', r"did you mean operator_kernels"),
        (
            "SELECT stop_ns FROM steps",
            r'unable to find column "stop_ns"; did you mean start_ns\? steps has the columns',
        ),
        (
            "SELECT s.begin_ns FROM steps s JOIN causes c ON s.rank = c.rank",
            "no column named 'begin_ns'.*causes has the",
        ),
        ("SELECT FROM WHERE", "the query cannot be run: "),
        ("SELECT name + 1 FROM device_events", "device_events has the columns rank, event_id"),
        ("SELECT * FROM steps WHERE start_ns = 'a'", "steps has the columns"),
        ("DROP TABLE steps", "does not begin with SELECT"),
        ("", "does not begin with SELECT"),
    ],
)
def test_a_wrong_query_is_one_sentence_with_what_there_is(traces: Path, sql: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        holotrace.query(sql, traces)
    assert "\n" not in str(error.value)
    shown = CliRunner().invoke(main, ["query", sql, str(traces)])
    assert (shown.exit_code, shown.stderr.count("\n")) == (2, 1)


def test_what_cannot_be_read_is_said_as_ever(tmp_path: Path) -> None:
    (tmp_path / "et.json").write_text('{"schema": "1.0", "nodes": []}')
    with pytest.raises(InputError, match=r"et\.json"):
        holotrace.query(BUSY, tmp_path / "et.json")


def test_the_command_writes_every_format(job: Path, tmp_path: Path) -> None:
    def shown(*args: object) -> str:
        return CliRunner().invoke(main, ["query", BUSY, str(job), *map(str, args)]).stdout

    assert "communication" in shown()
    assert shown("--format", "csv").splitlines()[1] == "0,communication,20000"
    envelope = json.loads(shown("--format", "json", "--rank", 1))
    assert [column["unit"] for column in envelope["columns"]] == ["number", "text", "ns"]
    assert envelope["data"]["rows"][1] == {"rank": 1, "kind": "compute", "busy_ns": 20_000}
    shown("-o", tmp_path / "x.parquet")
    assert pl.read_parquet(tmp_path / "x.parquet").height == 4


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (f"SELECT {'1+' * 20_000}1 FROM events", "more than 1000 operators"),
        (" UNION ALL ".join(["SELECT 1 FROM steps"] * 2_000), "more than 1000 operators"),
        ("SELECT '\ud800' FROM steps", "cannot be run"),
    ],
    ids=["sum", "union", "half a character"],
)
def test_a_query_that_polars_would_not_survive_is_refused(job: Path, sql: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        holotrace.query(sql, job)


@pytest.mark.parametrize("job", every(2, ["traces", "dataset"]), indirect=True)
@pytest.mark.slow
def test_every_analysis_is_a_table_with_its_declared_columns(job: Path) -> None:
    opened = holotrace.open(job)
    for analysis in ALL:
        found = opened.query(f"SELECT * FROM {analysis.name}")
        assert_frame_equal(found, opened.run((analysis,)).tables[analysis.name].cast({pl.Categorical: pl.String}))


def test_an_answer_is_filtered_ordered_and_joined_to_a_table(job: Path) -> None:
    sql = """
        SELECT k.rank, k.name, count(*) AS events, max(k.sum_ns) AS sum_ns FROM kernels k
        JOIN device_events d ON k.rank = d.rank AND k.name = d.name
        WHERE k.rank = 1 GROUP BY k.rank, k.name ORDER BY k.name
    """
    opened = holotrace.open(job)
    mine = opened.kernels().filter(pl.col("rank") == 1).sort("name")
    assert opened.query(sql).rows() == mine.select("rank", "name", pl.col("count"), "sum_ns").rows()


@pytest.mark.parametrize("job", every(2, ["traces", "dataset"]), indirect=True)
def test_findings_are_a_table(job: Path) -> None:
    opened = holotrace.open(job)
    assert opened.query("SELECT rule FROM findings")["rule"].to_list() == [found.rule for found in opened.findings()]


def test_an_analysis_has_the_name_that_a_table_has_too(job: Path) -> None:
    opened = holotrace.open(job)
    assert opened.query("SELECT * FROM modules").columns == [column.name for column in modules.columns]
    assert opened.query("SELECT * FROM modules_table").columns == ["rank", *tables.MODULES.column_names]


def test_only_analyses_that_are_named_are_computed_and_from_one_reading(traces: Path) -> None:
    read: list[int] = []

    def noted(source: Any, reads: Any, **_: Any) -> Any:
        read.append(source.rank)
        return load(source, reads)

    session = Session(survey(traces), load=noted)
    assert (
        Job(session)
        .query("SELECT o.rank FROM overlap o, kernels k WHERE o.rank = k.rank AND 'causes' = 'causes'")
        .height
    )
    assert sorted(read) == [0, 1]
    assert set(session.known) == {"overlap", "kernels"}


def test_damage_behind_an_answer_is_told(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json.gz", rank=0, world=2)
    (tmp_path / "rank1.json").write_text('{"distributedInfo": {"rank": 1}, "traceEvents": [{"ph": "X", "ts": }')
    shown = CliRunner().invoke(main, ["query", "SELECT count(*) AS rows FROM overlap", str(tmp_path)])
    assert shown.exit_code == 0
    assert "not everything could be read as it was recorded" in shown.stderr


def test_the_path_may_come_first(job: Path) -> None:
    first, last = (
        CliRunner().invoke(main, ["query", *words, "--format", "csv"]).stdout
        for words in ((str(job), BUSY), (BUSY, str(job)))
    )
    assert first == last != ""


def test_a_query_may_name_as_many_values_as_it_likes(job: Path) -> None:
    known = holotrace.query("SELECT event_id FROM events", job)
    named = ", ".join(map(str, range(5_000)))
    assert holotrace.query(f"SELECT event_id FROM events WHERE event_id IN ({named})", job).height == known.height
