"""Which step of a rank is looked at, and what bounds the edges of its graph."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import holotrace
from drawing import trace
from holotrace.core.trace import RankTrace
from holotrace.derive import critical_steps
from holotrace.loading.rank import narrowed

STEPS = "step |111222333|\nop |OO.PP.QQ.|\nhost |A..B..C..|\ncompute |.A..BBBC.|\nrange |RR.SS.RR.|"


def rank(drawing: str = STEPS) -> RankTrace:
    return narrowed(trace(drawing), critical_steps.READS)


def test_the_last_complete_step_is_looked_at_by_default() -> None:
    found = critical_steps.of(rank())
    assert found is not None
    # The host began at 3 µs, and the last kernel that it launched ended at 7.
    assert (found.step, found.span_ns) == (2, 4_000)
    asked = critical_steps.of(rank(), 3)
    assert asked is not None and asked.step == 3
    assert critical_steps.of(rank(), 9) is None


def test_a_rank_without_steps_is_looked_at_as_a_whole() -> None:
    found = critical_steps.of(rank("op |OO.PP|\nhost |A..B.|\ncompute |.A..B|"))
    assert found is not None
    assert (found.step, found.span_ns) == (None, 5_000)


def test_a_range_is_chosen_by_name_and_number() -> None:
    second = critical_steps.of_range(rank(), "R", 1)
    assert second is not None
    assert (second.step, second.span_ns) == (None, 2_000)
    assert critical_steps.of_range(rank(), "R", 2) is None


def test_edges_say_what_bounds_them() -> None:
    found = critical_steps.of(rank())
    assert found is not None
    edges = found.edges(found.graph.longest_path())
    assert set(edges["bound_by"].drop_nulls()) <= {"host", "launch", "compute"}
    assert edges.filter(bound_by="compute")["name"].to_list() == ["B"]
    assert (edges["weight_ns"] >= 0).all()


def test_a_host_that_reads_a_loss_back_waits_for_its_device() -> None:
    profile = Path(__file__).parents[1] / "data" / "jax_gpu" / "read.xplane.pb.gz"
    path = holotrace.open(profile).critical_path()
    of_kinds = dict(path.group_by("bound_by").agg(pl.col("duration_ns").sum()).rows())
    # All of the step was the host's, while its device computed for nine tenths of it.
    assert of_kinds["compute"] > 10 * of_kinds["host"]
