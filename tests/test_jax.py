"""From a training in JAX to its findings: recorded here and now, by the version that is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

import holotrace
import symptoms
from holotrace import Job
from holotrace.present.wording import sentence

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("jax") is None, reason="JAX records the profile; pip install jax"),
]
TRAIN = Path(__file__).parent / "data" / "jax" / "train.py"
STEPS, LONG_STEP, SLOW_STEP, DEVICES = 8, 5, 3, 2


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a training on two devices that are threads of this machine."""
    folder = tmp_path_factory.mktemp("jax")
    flags = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"}
    subprocess.run([sys.executable, str(TRAIN), str(folder)], check=True, env={**os.environ, **flags}, timeout=300)
    return folder


@pytest.fixture(scope="module")
def job(logs: Path) -> Job:
    return holotrace.open(logs)


def test_all_steps_are_there(job: Job) -> None:
    assert job.host_steps()["step"].to_list() == list(range(STEPS))


def test_all_operations_of_the_program_ran_on_all_devices_in_all_steps(job: Job, logs: Path) -> None:
    ops = job.table("xla_ops").filter(pl.col("module").cast(pl.String()) == "jit_train_step")
    counts = ops.group_by("device", "step").agg(count=pl.len())
    assert counts.height == DEVICES * STEPS
    assert counts.group_by("step").agg(pl.col("count").n_unique())["count"].to_list() == [1] * STEPS
    program = json.loads((logs / "program.json").read_text())
    named = set(re.findall(r"^\s*(?:ROOT )?%?([\w.-]+) = ", program, flags=re.MULTILINE))
    usual = ops.filter(pl.col("step") != LONG_STEP)
    assert set(usual["name"].cast(pl.String())) <= named
    assert (usual.filter("is_collective").group_by("device", "step").len()["len"] >= 1).all()


def test_phases_are_told(job: Job) -> None:
    shares = job.phases().group_by("phase").agg(pl.col("work_ns").sum()).sort("work_ns")
    assert {"forward", "backward", "update"} <= set(shares["phase"])
    assert shares.filter(phase="backward")["work_ns"].item() > 0


def test_the_step_with_longer_sequences_was_compiled_again(job: Job) -> None:
    compiled = job.compilations().filter(module="jit_train_step")
    assert compiled.select("step", "cause").rows() == [(LONG_STEP, "new_shapes")]
    assert re.search(r"64.* became .*96", compiled["change"].item())


def test_the_slow_load_is_an_input_stall(job: Job) -> None:
    stall = symptoms.of(job)["input-stall"]
    # Where others use this machine too, another step may be slow as well.
    assert re.search(rf"\b{SLOW_STEP}\b.* \(data_load\)$", sentence(stall))
    assert (stall.cost_ns or 0) > 150_000_000


def test_devices_stand_still_for_what_the_host_does(job: Job) -> None:
    causes = dict(job.gaps().group_by("cause").agg(pl.col("idle_ns").sum()).rows())
    assert causes["input"] > 150_000_000
    assert causes["compilation"] > 10_000_000
