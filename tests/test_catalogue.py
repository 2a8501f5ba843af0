"""What holds for every analysis, also for those that are still to come."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import drawing
import xla_drawing
from holotrace.analyses import ALL
from holotrace.analyses.modules import modules
from holotrace.cli import main
from holotrace.cli.show import option
from holotrace.core.analysis import Analysis
from holotrace.core.schema import Unit
from holotrace.formats.kineto import KINETO
from holotrace.job import Job
from holotrace.loading.rank import narrowed

# Each is asked by all analyses, and none changes it.
draw, trace = cache(drawing.draw), cache(drawing.trace)

# The device of the XLA profile is idle for long enough to be asked why.
DRAWING = f"""
    step    |1111112222222.|
    range   |RRRRRRRRRRRRR.|
    range   |.SSS..SSS.....|
    op      |OO...PPPP.....|
    host    |A.....BD......|
    compute |.AAAA..BBB....|
    comm    |..CCCCCC...DDD|
    copy    |E...........E.|
    sync    |FFFFFFFFFFFFFF|
    counted |A......B......|
    tpu     |..AA..G..{"." * 100}H|
    call    |.KKa.......h..|
    mark    |.....MMM......|
    A = dot.1 @ jit(f)/forward/dot
    G = all-reduce.2
    K = backend_compile
"""


# The same without XLA, whose programs have no modules.
_LINES = [line for line in DRAWING.splitlines() if line.split("|")[0].strip() not in xla_drawing.LABELS]
WITHOUT_XLA = "\n".join(_LINES)


def drawing_of(analysis: Analysis[Any]) -> str:
    return WITHOUT_XLA if analysis is modules else DRAWING


def options_of(analysis: Analysis[Any]) -> Iterator[dict[str, Any]]:
    """The default options, and each option once with another value."""
    yield {}
    for parameter in analysis.parameters:
        yield {parameter.name: {bool: True, str: "a"}.get(parameter.annotation, 1)}


@pytest.fixture(params=ALL, ids=lambda analysis: analysis.name)
def analysis(request: pytest.FixtureRequest) -> Analysis[Any]:
    found: Analysis[Any] = request.param
    return found


def test_keeps_its_schema_whatever_there_is_to_see(analysis: Analysis[Any]) -> None:
    schema = {column.name: column.unit.dtype for column in analysis.columns}
    for job in (Job.from_ranks({}), draw("compute ||"), draw("sync |AA|"), draw(DRAWING, "compute |A|")):
        for options in options_of(analysis):
            assert analysis(job, **options).schema == schema


def test_says_nothing_of_a_rank_without_what_it_is_about(analysis: Analysis[Any]) -> None:
    in_traces = {table.name for table in KINETO.tables}
    if any(table.name not in in_traces for table in analysis.needs):
        assert analysis(draw(WITHOUT_XLA)).is_empty()


def test_leaves_its_input_alone(analysis: Analysis[Any]) -> None:
    rank = narrowed(drawing.trace(DRAWING), analysis.reads)
    before = {name: frame.clone() for name, frame in rank.tables.items()}
    for options in options_of(analysis):
        analysis.part(rank, options)
    for name, frame in rank.tables.items():
        assert_frame_equal(frame, before[name])


def test_needs_no_more_than_it_says_it_reads(analysis: Analysis[Any]) -> None:
    # Job.map hands out just these columns.
    assert not analysis.part(narrowed(trace(drawing_of(analysis)), analysis.reads), {}).is_empty()


def test_the_order_of_events_changes_nothing(analysis: Analysis[Any]) -> None:
    rank = narrowed(trace(drawing_of(analysis)), analysis.reads)
    shuffled = {name: frame.reverse() for name, frame in rank.tables.items()}
    backwards = type(rank)(rank.rank, shuffled)
    for options in options_of(analysis):
        assert_frame_equal(analysis.part(rank, options), analysis.part(backwards, options))


def test_the_order_of_ranks_changes_nothing(analysis: Analysis[Any]) -> None:
    ranks = {5: trace(drawing_of(analysis)), 2: trace("compute |AA.BB|"), 9: trace("comm |A|")}
    there, back = Job.from_ranks(ranks), Job.from_ranks(dict(reversed(ranks.items())))
    assert_frame_equal(analysis(there), analysis(back))
    shuffled = analysis(there).sample(fraction=1, shuffle=True, seed=1)
    assert analysis.findings(shuffled) == analysis.findings(analysis(there))


def test_what_ranks_contribute_may_come_in_any_order(analysis: Analysis[Any]) -> None:
    drawings = {5: drawing_of(analysis), 2: "compute |AA.BB|", 9: "comm |..CCCC.|"}
    parts = [analysis.part(narrowed(trace(text, rank), analysis.reads), {}) for rank, text in drawings.items()]
    there, back = (analysis.combine(order, {}).sort("rank", maintain_order=True) for order in (parts, parts[::-1]))
    assert_frame_equal(there, back)


def test_travels_to_a_worker_process(analysis: Analysis[Any]) -> None:
    assert pickle.loads(pickle.dumps(analysis)) is analysis


def test_says_what_it_answers(analysis: Analysis[Any]) -> None:
    assert re.fullmatch(r"[A-Z].*\.", analysis.summary)
    module = inspect.getdoc(inspect.getmodule(analysis.source))
    assert module
    arguments = (inspect.getdoc(analysis.source) or "").partition("\nArgs:\n")[2]
    for parameter in analysis.parameters:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert re.search(rf"^ {{4}}{parameter.name}: [A-Z].*\.", arguments, flags=re.MULTILINE)


def test_documents_its_columns(analysis: Analysis[Any]) -> None:
    names = [column.name for column in analysis.columns]
    assert names[0] == "rank"
    assert len(set(names)) == len(names)
    for column in analysis.columns:
        assert column.meaning.strip()
        assert not column.meaning.endswith(".")
        assert column.unit is not Unit.LABEL, "small tables hold plain text"


def test_its_chart_draws_declared_columns(analysis: Analysis[Any]) -> None:
    assert analysis.chart is not None
    assert analysis.chart.columns <= {column.name for column in analysis.columns}
    assert analysis.chart.title


def test_its_rules_say_what_why_and_what_to_do(analysis: Analysis[Any]) -> None:
    assert analysis.rules
    for rule in analysis.rules:
        what, why, what_to_do = re.split(r"\n\s*\n", inspect.getdoc(rule) or "")
        assert all(re.fullmatch(r"[A-Z].*\.", text, flags=re.DOTALL) for text in (what, why, what_to_do))
        assert "\n" not in what


def test_finds_nothing_where_there_is_nothing(analysis: Analysis[Any]) -> None:
    assert analysis.findings(analysis.nothing) == []


def test_its_findings_are_complete(analysis: Analysis[Any]) -> None:
    drawings = (DRAWING, "compute |A.........|\ncomm |.BBBBB....|\ncopy |......CC..|", "compute |A........A|")
    found = analysis.findings(analysis(draw(*drawings)))
    for finding in found:
        assert finding.severity in ("info", "warning", "critical")
        assert finding.analysis == analysis.name
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", finding.rule)
        assert finding.message == finding.message.strip() and not finding.message.endswith(".")
        assert finding.cost_ns is None or (isinstance(finding.cost_ns, int) and finding.cost_ns >= 0)
        assert all(isinstance(rank, int) for rank in finding.ranks)
        assert list(finding.ranks) == sorted(set(finding.ranks))
    assert len({(finding.rule, finding.message) for finding in found}) == len(found)


def test_nothing_to_see_is_no_finding(analysis: Analysis[Any]) -> None:
    for job in (Job.from_ranks({}), draw("compute ||"), draw("sync |AA|"), draw("compute |AAAA|")):
        assert analysis.findings(analysis(job)) == []


def test_is_a_command_with_its_options(analysis: Analysis[Any]) -> None:
    said = CliRunner().invoke(main, ["show", analysis.name.replace("_", "-"), "--help"])
    assert said.exit_code == 0
    for parameter in analysis.parameters:
        assert option(parameter, "").opts[0] in said.output


def test_is_a_method_of_a_job(analysis: Analysis[Any]) -> None:
    job = draw(DRAWING)
    method = getattr(job, analysis.name)
    assert_frame_equal(method(), analysis(job))
    assert method.__doc__.startswith(inspect.getdoc(analysis.source))
    for column in analysis.columns:
        assert f"    {column.name} ({column.unit.name.lower()}): {column.meaning}." in method.__doc__.splitlines()
    assert tuple(inspect.signature(method).parameters.values()) == analysis.parameters


def test_names_are_unique() -> None:
    names = [analysis.name for analysis in ALL]
    rules = [rule.__name__ for analysis in ALL for rule in analysis.rules]
    assert len(set(names)) == len(names)
    assert len(set(rules)) == len(rules)


def test_times_are_whole_numbers_in_every_result() -> None:
    for analysis in ALL:
        table = analysis(draw(DRAWING))
        assert all(table[c.name].dtype == pl.Int64 for c in analysis.columns if c.unit is Unit.NS)
