"""Hosts that launch programs of XLA and read their results back wait for them, on recorded profiles."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import holotrace

DATA = Path(__file__).parents[1] / "data"
READ = "np.asarray(jax.Array)"


def test_time_in_which_a_host_reads_a_loss_back_is_that_of_the_program() -> None:
    job = holotrace.open(DATA / "jax_gpu" / "read.xplane.pb.gz")
    steps = job.replay()
    assert steps["error_ratio"].abs().mean() < 0.02
    assert steps["explained_ratio"].min() > 0.95
    path = job.job_path()
    of_kinds = dict(path.group_by("bound_by").agg(pl.col("duration_ns").sum()).rows())
    # The device computes for 59 ms of 73, and a tenth passes until its results are with the host.
    assert of_kinds["compute"] > 10 * of_kinds["host"]
    assert path.filter(name=READ, bound_by="host").is_empty()


def test_a_read_back_is_no_host_time_on_the_critical_path_of_a_step() -> None:
    path = holotrace.open(DATA / "jax_gpu" / "read.xplane.pb.gz").critical_path()
    of_kinds = dict(path.group_by("bound_by").agg(pl.col("duration_ns").sum()).rows())
    assert of_kinds["compute"] > 10 * of_kinds["host"]


@pytest.mark.parametrize(
    ("name", "error", "explained"),
    [("torch_xla_cpu_gaps.xplane.pb.xz", 0.1, 0.9), ("jax_cpu_gaps.xplane.pb.xz", 0.25, 0.6)],
)
def test_replays_of_programs_explain_most_of_a_step(name: str, error: float, explained: float) -> None:
    steps = holotrace.open(DATA / "xplane" / name).replay()
    assert steps["error_ratio"].abs().mean() < error
    assert steps["explained_ratio"].mean() > explained
