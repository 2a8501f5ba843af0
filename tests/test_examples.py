"""Every script in examples/ runs on a sample job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_on_a_sample_job(example: Path, tmp_path: Path) -> None:
    holotrace = Path(sys.executable).with_name("holotrace")
    subprocess.run([holotrace, "sample", "job", "--ranks", "2", "--steps", "2"], cwd=tmp_path, check=True)
    output = subprocess.run(
        [sys.executable, example, "job"], cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert output.strip()
