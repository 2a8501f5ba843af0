"""Models and peaks of the user's own, from opening a job to its tables."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

from click.testing import CliRunner

import holotrace
from holotrace.cli import main
from shaped import H100

ARGS = {"Input Dims": [[8, 8]], "Input type": ["float"], "Input Strides": [[8, 1]], "Concrete Inputs": [""]}
EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "mine::op", "pid": 1, "tid": 1, "ts": 100, "dur": 9, "args": ARGS},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 101, "dur": 2,
     "args": {"correlation": 7}},
    {"ph": "X", "cat": "kernel", "name": "mine_kernel", "pid": 0, "tid": 7, "ts": 110, "dur": 20,
     "args": {"correlation": 7, "stream": 7, "device": 0}},
]  # fmt: skip


def mine(given: holotrace.OperatorArguments) -> holotrace.OperatorFigures:
    return holotrace.OperatorFigures(1000 * given.tensor(0).count, given.tensor(0).bytes)


MODEL = holotrace.OperatorModel("mine", "gemm", "mine::op", mine, is_matrix=True)


def traced(folder: Path) -> Path:
    path = folder / "rank_0.json"
    path.write_text(json.dumps({"deviceProperties": [{**H100, "id": 0}], "traceEvents": EVENTS}))
    return path


def test_models_and_peaks_are_asked_before_the_built_in_ones(tmp_path: Path) -> None:
    peaks = tmp_path / "peaks.toml"
    peaks.write_text('[[device]]\nname = "mine"\nnames = ["NVIDIA H100 80GB HBM3"]\nfp32 = 50\nmemory_gbps = 1000\n')
    path = traced(tmp_path)
    with holotrace.open(path) as job:
        assert job.operator_efficiency()["flops"].to_list() == [None]
    with holotrace.open(path, models=[MODEL], peaks=peaks) as job:
        row = job.operator_efficiency().row(0, named=True)
    assert (row["flops"], row["peak_tflops"], row["peak_gbps"]) == (64_000, 50, 1000)


def test_command_takes_a_table_of_peaks(tmp_path: Path) -> None:
    (tmp_path / "peaks.toml").write_text('[[device]]\nname = "x"\nbf17 = 3\n')
    path = traced(tmp_path)
    said = CliRunner().invoke(main, ["show", "efficiency", str(path), "--peaks", str(tmp_path / "peaks.toml")])
    assert said.exit_code != 0
    assert "bf17" in said.output


def test_models_travel_to_workers() -> None:
    assert pickle.loads(pickle.dumps(MODEL)) == MODEL  # our own
