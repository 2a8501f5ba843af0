"""What is recorded on every rank opens as one job with everything in it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import holotrace
from holotrace import MissingExtraError, UsageError, capture

TRAINING = """
import sys, torch, torch.distributed as dist
from holotrace import capture

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
with capture.torch(sys.argv[1], wait=1, warmup=1, active=2) as recorder:
    for _ in range(6):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        recorder.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_record_one_job(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "train.py"
    program.write_text(TRAINING)
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(program), str(tmp_path / "out")]
    subprocess.run(run, check=True, capture_output=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "rank-0.pt.trace.json.gz",
        "rank-1.pt.trace.json.gz",
    ]
    job = holotrace.open(tmp_path / "out")
    assert job.info().select("rank", "rank_from", "world_count", "backend", "step_count").rows() == [
        (0, "trace", 2, "gloo", 2),
        (1, "trace", 2, "gloo", 2),
    ]
    assert job.table("steps")["step"].to_list() == [2, 3, 2, 3]
    assert job.table("cpu_ops").filter(name="aten::addmm")["input_dims"].is_not_null().all()
    assert job.problems().is_empty()


def test_one_process_is_the_rank_its_launcher_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("RANK", "3")
    with capture.torch(tmp_path, wait=0, warmup=0, active=1, stacks=True, memory=True) as recorder:
        torch.ones(3).sum()
        recorder.step()
    assert [path.name for path in tmp_path.iterdir()] == ["rank-3.pt.trace.json.gz"]
    with capture.torch(tmp_path, wait=0, warmup=0, active=1, rank=5) as recorder:
        torch.ones(3).sum()
        recorder.step()
    assert holotrace.open(tmp_path).ranks == (3, 5)


def test_steps_before_the_recording_tell_how_long_a_step_takes_without_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with capture.torch(tmp_path, wait=4, warmup=1, active=1) as recorder:
        for step in range(6):
            # The first two, in which a job compiles and tunes, do not count.
            time.sleep(0.2 if step < 2 else 0.02)
            torch.ones(3).sum()
            recorder.step()
    (path,) = tmp_path.iterdir()
    metadata = json.loads(gzip.decompress(path.read_bytes()))
    assert 20_000_000 <= metadata[capture.UNPROFILED_STEP_NS] < 150_000_000


def test_a_recording_that_cannot_be_written_leaves_nothing_half(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with capture.torch(tmp_path, wait=0, warmup=0, active=1) as recorder:
        recorder.export_chrome_trace = lambda path: Path(path).write_text("half") and 1 / 0
        with pytest.raises(ZeroDivisionError):
            recorder.step()
    assert list(tmp_path.iterdir()) == []


def test_jax_is_recorded_with_its_steps(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    work = jax.jit(lambda x: (x @ x).sum())
    matrix = jax.numpy.ones((64, 64))
    with capture.jax(tmp_path, wait=2, active=3) as recorder:
        for _ in range(8):
            work(matrix)
            recorder.step()
    assert [path.name for path in tmp_path.iterdir()] == ["rank-0.xplane.pb"]
    job = holotrace.open(tmp_path)
    assert job.ranks == (0,)
    assert job.table("steps")["step"].to_list() == [2, 3, 4]


def test_jax_that_ends_early_is_recorded_as_far_as_it_came(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    with pytest.raises(ZeroDivisionError), capture.jax(tmp_path, wait=1, active=9, rank=7) as recorder:
        for _ in range(3):
            jax.numpy.ones(3).sum()
            recorder.step()
        raise ZeroDivisionError
    assert holotrace.open(tmp_path / "rank-7.xplane.pb").table("steps")["step"].to_list() == [1, 2, 3]
    with capture.jax(tmp_path / "none", wait=5):
        pass
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("record", [capture.torch, capture.jax])
def test_steps_that_cannot_be_are_refused(tmp_path: Path, record: type) -> None:
    with pytest.raises(UsageError, match="active=0 steps cannot be recorded"):
        record(tmp_path, active=0)
    with pytest.raises(UsageError, match="wait=-1 steps cannot be recorded"):
        record(tmp_path, wait=-1)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_without_the_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    for name in (library, f"{library}.profiler"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=library):
        getattr(capture, library)(tmp_path)
