"""Standard output that is closed, full, or cannot show every character."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quick import every
from trace_files import EVENTS, write_trace

SHOWN = ("show kernels JOB", "show kernels JOB --format csv", "report JOB -o JOB/x.html", "--help", "show")
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_trace(tmp_path / "rank0.json", rank=0, events=[{**event, "name": f"µ-{event['name']}"} for event in EVENTS])
    return tmp_path


def run(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = f"{sys.executable} -m holotrace {command.replace('JOB', str(folder))}"
    return subprocess.run(command, shell=True, capture_output=True, check=False, env=os.environ | environment)


@needs_full
@pytest.mark.parametrize("command", every(3, SHOWN))
def test_a_full_disk_is_one_sentence(folder: Path, command: str) -> None:
    done = run(f"{command} > /dev/full", folder)
    *wrote, error = done.stderr.decode().splitlines()
    assert error == "Error: the output cannot be used: No space left on device; name another place"
    assert all(line.startswith("wrote ") for line in wrote)
    assert done.returncode == 2


@pytest.mark.parametrize("command", every(3, SHOWN))
def test_a_closed_output_takes_nothing_and_is_no_error(folder: Path, command: str) -> None:
    done = run(f"{command} >&-", folder)
    assert done.returncode == 0
    assert b"Error" not in done.stderr


@pytest.mark.parametrize("encoding", every(2, ["ascii", "cp1252"]))
def test_a_terminal_shows_what_it_can_and_data_is_whole(folder: Path, encoding: str) -> None:
    shown = run("show kernels JOB", folder, PYTHONIOENCODING=encoding)
    assert (shown.returncode, b"-ampere_gemm" in shown.stdout) == (0, True)
    data = run("show kernels JOB --format json", folder, PYTHONIOENCODING=encoding)
    assert [row["name"][:2] for row in json.loads(data.stdout)["data"]["rows"]] == ["µ-", "µ-"]
