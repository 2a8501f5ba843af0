"""What-if on made-up jobs says what simulating them with the change gives."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace import Within, sample
from holotrace.graph import JobGraph
from holotrace.sample import Fault

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "counterfactuals.py"


@pytest.mark.slow
def test_savings_are_those_of_the_simulation_with_the_change() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--pairs", "24", "--wrong"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_simulation_with_a_change_is_the_job_with_it() -> None:
    simulated = partial(sample.simulated_ns, ranks=2, steps=2, seed=3)
    assert simulated([Fault("slow-device", 0.5)]) < 0.6 * simulated()
    assert simulated([Fault("network", 1.5)]) > simulated()
    assert simulated(faults=["input"], without_faults=True) < simulated(faults=["input"])


def test_a_call_that_always_waited_takes_no_time_of_its_own_when_it_need_not(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=1, steps=2, faults=[])
    calls = JobGraph.of(holotrace.open(tmp_path)).activities.filter(pl.col("name") == "cudaStreamSynchronize")
    assert calls.filter(pl.col("end_ns") - pl.col("start_ns") < 10_000_000).is_empty()
    assert calls.filter(pl.col("own_ns") > 10_000).is_empty()


def test_a_thread_that_sleeps_is_not_taken_for_one_that_works(tmp_path: Path) -> None:
    """A late rank recorded more of its watchdog's naps than the others, which shifted their numbers."""
    truth = sample.write(tmp_path, ranks=4, steps=3, seed=6601, faults=["input"], compress=False)
    (fault,) = truth.costs_ns
    table = holotrace.what_if(holotrace.open(tmp_path), like="median", within=Within(ranks=fault.ranks))
    assert table["saved_ns"][0] == pytest.approx(truth.costs_ns[fault], rel=0.01)
