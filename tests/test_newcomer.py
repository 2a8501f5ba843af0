"""How many files one touches to add something: each addition is made to a copy of the package, and then used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

import holotrace
from trace_files import EVENTS

PACKAGE = Path(holotrace.__file__).parent
# A package that others change, by what they put into which files.
Changed = Callable[[dict[str, str]], Path]

pytestmark = pytest.mark.slow


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    """A copy of the package with other contents of some files; all others are links."""

    def make(files: dict[str, str]) -> Path:
        for path in PACKAGE.rglob("*"):
            own = path.relative_to(PACKAGE)
            if path.is_file() and "__pycache__" not in own.parts and own.as_posix() not in files:
                (copy := tmp_path / "edited" / "holotrace" / own).parent.mkdir(parents=True, exist_ok=True)
                copy.symlink_to(path)
        for name, content in files.items():
            (copy := tmp_path / "edited" / "holotrace" / name).parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(content)
        return tmp_path / "edited"

    return make


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (path := tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": EVENTS}))
    return path


def with_lines(name: str, *after: tuple[str, str]) -> str:
    """A file of the package with lines added after some that it has."""
    text = (PACKAGE / name).read_text()
    for line, added in after:
        assert text.count(line) == 1
        text = text.replace(line, line + added)
    return text


def run(package: Path, *args: object) -> str:
    """What the command says when it runs from ``package``."""
    done = subprocess.run(
        [sys.executable, "-m", "holotrace", *map(str, args)],
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(package: Path, *args: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run(package, "show", *args, "--format", "json"))["data"]["rows"]
    return found


def test_an_analysis_is_a_file_and_a_line(changed: Changed, trace: Path, tmp_path: Path) -> None:
    analysis = '''
        """Which device event ran longest?"""

        import polars as pl

        from holotrace.core.analysis import Finding, per_rank
        from holotrace.core.charts import Bar
        from holotrace.core.schema import Column, Unit
        from holotrace.core.tables import DEVICE_EVENTS

        @per_rank(
            columns=(Column("longest_ns", Unit.NS, "Time of the device event that ran longest"),),
            reads=(DEVICE_EVENTS.only("start_ns", "end_ns"),),
            chart=Bar(x="rank", y=("longest_ns",), title="The longest event"),
        )
        def longest(rank):
            """Which device event ran longest."""
            return rank[DEVICE_EVENTS].select(longest_ns=(pl.col("end_ns") - pl.col("start_ns")).max())

        @longest.rule
        def an_event(table):
            """There is an event.

            Each takes time.

            Launch none.
            """
            yield Finding("info", "there is an event")
    '''
    package = changed(
        {
            "analyses/longest.py": dedent(analysis),
            "analyses/__init__.py": with_lines(
                "analyses/__init__.py",
                (
                    "from holotrace.analyses.launch_stats import launch_stats\n",
                    "from holotrace.analyses.longest import longest\n",
                ),
                ("    overlap = overlap\n", "    longest = longest\n"),
            ),
        }
    )
    assert rows(package, "longest", trace) == [{"rank": 0, "longest_ns": 20_000}]
    assert "there is an event" in run(package, "show", "findings", trace)
    run(package, "report", trace, "-o", tmp_path / "report.html")
    assert 'data-table="longest"' in (tmp_path / "report.html").read_text()
    assert "20.0" in run(package, "query", "SELECT longest_ns FROM longest", trace)


def test_a_format_is_a_folder_and_a_line(changed: Changed, tmp_path: Path) -> None:
    declaration = '''
        """Text with a line for each kernel."""

        from pathlib import Path

        import polars as pl

        from holotrace.core.tables import DEVICE_EVENTS
        from holotrace.formats.declaration import Format
        from holotrace.formats.parsed import Parsed

        def read(source, tables):
            lines = [line.split() for line in Path(source.path).read_text().splitlines()[1:]]
            columns = {
                "event_id": pl.Series(range(len(lines)), dtype=pl.UInt32),
                "category": pl.Series(["kernel"] * len(lines), dtype=pl.Categorical),
                "name": pl.Series([name for name, _, _ in lines], dtype=pl.Categorical),
                "start_ns": [int(start) for _, start, _ in lines],
                "end_ns": [int(end) for _, _, end in lines],
            }
            frames = {t.name: pl.DataFrame({n: columns[n] for n in t.column_names if n in columns}) for t in tables}
            return Parsed(frames, {}, {"entries": len(lines)}, 0)

        LISTING = Format(
            name="listing",
            title="a listing of kernels",
            suffixes=(".kernels",),
            sniff=lambda head: head.text.startswith(b"# kernels"),
            read=read,
            tables=(DEVICE_EVENTS,),
            why_not_copied="is a listing; give traces in JSON",
        )
    '''
    text = (PACKAGE / "formats/__init__.py").read_text()
    (tmp_path / "a.kernels").write_text("# kernels\ngemm 0 1000\nncclDevKernel_AllReduce 500 2000\n")
    package = changed(
        {
            "formats/listing/__init__.py": dedent(declaration),
            "formats/__init__.py": text
            + "\nfrom holotrace.formats.listing import LISTING\nFORMATS['listing'] = LISTING\n",
        }
    )
    assert rows(package, "overlap", tmp_path / "a.kernels")[0]["exposed_ns"] == 1_000
    run(package, "convert", tmp_path / "a.kernels", tmp_path / "dataset")
    assert rows(package, "kernels", tmp_path / "dataset") == rows(package, "kernels", tmp_path / "a.kernels")


def test_a_vendor_is_one_declaration(changed: Changed, tmp_path: Path) -> None:
    declaration = """
        ACME = Vendor(
            name="Acme",
            launching=frozenset({"acmeLaunch"}),
            waiting=frozenset({"acmeFinish"}),
            recording=frozenset({"acmeRecord"}),
            allocating=("acmeAlloc",),
            version=Version("acme_version", "Acme", 1000, 10),
            collectives="ACL",
            kinds=(KindRule(COMMUNICATION, r"^acl", examples=("aclRing",)),),
        )
    """
    package = changed(
        {
            "derive/vendors.py": with_lines(
                "derive/vendors.py", ('"""Rules for names."""\n', dedent(declaration))
            ).replace("VENDORS = (", "VENDORS = (ACME, ")
        }
    )
    call = {"ph": "X", "cat": "acme_runtime", "pid": 1, "tid": 1}
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 40_000},
        call | {"name": "acmeLaunch", "ts": 10, "dur": 5, "args": {"correlation": 1}},
        kernel | {"name": "acme_gemm", "ts": 100, "dur": 4_900, "args": {"correlation": 1, "stream": 7, "device": 0}},
        call | {"name": "acmeFinish", "ts": 20, "dur": 4_985, "args": {"correlation": 2}},
        call | {"name": "acmeAllocAsync", "ts": 5_010, "dur": 20_000, "args": {"correlation": 3}},
        call | {"name": "acmeLaunch", "ts": 25_020, "dur": 5, "args": {"correlation": 4}},
        kernel | {"name": "aclRing", "ts": 25_100, "dur": 9_900, "args": {"correlation": 4, "stream": 7, "device": 0}},
    ]
    trace = tmp_path / "acme.json"
    trace.write_text(json.dumps({"traceEvents": events, "acme_version": 4020}))

    assert [row["kind"] for row in rows(package, "device-events", trace)] == ["compute", "communication"]
    assert rows(package, "work-categories", trace)[0]["communication_ns"] == 9_900_000
    assert "Acme 4.2" in run(package, "info", trace, "--format", "json")
    # The call that waits is none of the host's time, and what allocates is known by what it does.
    on_path = {row["name"]: row["bound_by"] for row in rows(package, "critical-path", trace)}
    assert on_path.get("acmeFinish") is None
    assert rows(package, "causes", trace)[0]["cause"] == "allocator"


def test_an_output_is_one_declaration(changed: Changed, trace: Path, tmp_path: Path) -> None:
    text = (PACKAGE / "present/writers.py").read_text()
    declaration = """
        TSV = Writer(
            "tsv",
            (".tsv",),
            write=lambda shown: shown.head.drop("ranks", strict=False).write_csv(separator="\\t"),
            write_report=lambda shown: "severity\\trule\\n"
            + "".join(f"{finding.severity}\\t{finding.rule}\\n" for finding in shown.report.findings),
        )
    """
    before = "WRITERS = (TABLE, "
    assert text.count(before) == 1
    package = changed({"present/writers.py": text.replace(before, f"{dedent(declaration)}WRITERS = (TABLE, TSV, ")})
    for asked in (
        ("show", "kernels", trace),
        ("info", trace),
        ("compare", trace, trace),
        ("query", "SELECT name FROM device_events", trace),
        ("what-if", trace, "--scale", "compute=0.5"),
        ("report", trace),
    ):
        run(package, *asked, "-o", tmp_path / f"{asked[0]}.tsv")
        assert (tmp_path / f"{asked[0]}.tsv").read_text()
    assert run(package, "show", "kernels", trace, "--format", "tsv") == (tmp_path / "show.tsv").read_text()
    assert run(package, "report", trace, "--format", "tsv") == (tmp_path / "report.tsv").read_text()


def test_a_verb_is_one_file(changed: Changed, trace: Path) -> None:
    verb = '''
        """holotrace count: how many ranks there are."""

        import click

        from holotrace.cli.job_command import job_command

        @job_command("Count the ranks of a job.")
        def count(*, job):
            """Count the ranks of a job."""
            click.echo(len(job.ranks))
    '''
    package = changed({"cli/count.py": dedent(verb)})
    assert run(package, "count", trace) == "1\n"
    assert "Count the ranks of a job." in run(package, "--help")
