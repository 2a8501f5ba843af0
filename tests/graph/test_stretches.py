"""The graph of a large job, which is looked at in stretches of steps, tells what that of all its steps does."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import holotrace
from drawing import described, draw, trace
from holotrace import sample
from holotrace.analyses import named
from holotrace.graph import rank as of_rank
from holotrace.graph.job import READS, STEP, numbered_part
from holotrace.graph.stretches import Stretches
from holotrace.job import Job

# In each stretch one step is told of.
ONE = 1
EVERY = 10**9
# The device is behind its host by more than a step, so that work in one waits for what was launched two before.
AHEAD = """
    step    |111122223333....................................|
    host    |AC..BC..AC......................................|
    compute |..AAAAAAAAAA....BBBBBBBBBB....AAAAAAAAAA........|
    comm    |............CCCC..........CCCC..........CCCC....|
"""
SLOWER = """
    step    |111122223333....................................|
    host    |AC..BC..AC......................................|
    compute |..AA............BBBBBB........AA................|
    comm    |....CCCCCCCCCCCC......CCCCCCCC..CCCCCCCCCCCC....|
"""


def parts_of(job: Job) -> pl.DataFrame:
    return pl.concat(job.compared(numbered_part, READS))


def count_of(parts: pl.DataFrame) -> int:
    return int(parts.filter(pl.col("row") == of_rank.ACTIVITY)["count"].sum())


def answers(parts: pl.DataFrame, name: str) -> Callable[[int], pl.DataFrame]:
    """The answer of an analysis where a graph has at most so many activities."""
    analysis = named(name)
    return lambda most: analysis.answer(Stretches(parts, most), {})


@pytest.fixture(scope="module", params=[(), ("input",), ("slow-device", "slow-host")])
def parts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    folder = tmp_path_factory.mktemp("sample")
    sample.write(folder, ranks=4, steps=7, missing_ranks=(), faults=request.param or None)
    return parts_of(holotrace.open(folder))


@pytest.mark.parametrize("name", ["replay", "job_path", "waits", "factors"])
def test_stretches_tell_what_the_whole_graph_tells(parts: pl.DataFrame, name: str) -> None:
    answer = answers(parts, name)
    for most in (ONE, count_of(parts) // 2):
        assert_frame_equal(answer(most), answer(EVERY), check_row_order=False)


def test_ideal_times_are_those_of_a_stretch(parts: pl.DataFrame) -> None:
    """The mean of fewer steps is another one, though not by much where steps are alike."""
    whole, cut = (answers(parts, "slowdown")(most) for most in (EVERY, count_of(parts) // 2))
    assert cut.select("rank", "of", "kind").equals(whole.select("rank", "of", "kind"))
    assert cut["slowdown_ratio"][0] == pytest.approx(whole["slowdown_ratio"][0], rel=0.1)


def test_each_step_is_told_of_once_and_no_graph_is_larger_than_it_may_be(parts: pl.DataFrame) -> None:
    most = count_of(parts) // 2
    graphs = list(Stretches(parts, most))
    sizes = [graph.activities.filter(pl.col("kind") != STEP).height for graph in graphs]
    assert len(sizes) > 1
    assert max(sizes) <= most
    told = pl.concat([graph.told.select("rank", "step") for graph in graphs]).sort("rank", "step")
    assert_frame_equal(told, next(iter(Stretches(parts))).steps.select("rank", "step").sort("rank", "step"))


def test_what_waits_for_a_step_before_those_looked_at_begins_when_it_did() -> None:
    ranks = {rank: described(trace(text, rank), sequence=1) for rank, text in enumerate((AHEAD, SLOWER))}
    of_job = parts_of(Job.from_ranks(ranks))
    assert len(list(Stretches(of_job, ONE))) == 3
    for name in ("replay", "job_path", "waits", "factors"):
        assert_frame_equal(answers(of_job, name)(ONE), answers(of_job, name)(EVERY), check_row_order=False)


def test_what_has_no_steps_is_not_cut() -> None:
    of_job = parts_of(draw("compute |..AAAA..BB|"))
    (graph,) = Stretches(of_job, ONE)
    assert graph.activities.filter("is_device").height == 2
