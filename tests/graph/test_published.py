"""What published analyses of stragglers found, found again by our replay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trace_files import REAL_TRACES, needs_real_traces

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "published" / "straggler_what_if.py"


@needs_real_traces
@pytest.mark.parametrize("job", ["AR", "SE"])
def test_slowdowns_are_those_that_were_published(job: str) -> None:
    data = REAL_TRACES / "straggler-analysis" / "data"
    run = subprocess.run(
        [sys.executable, PROGRAM, data / f"trace-{job}.parquet"], capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout)
    published = {
        "S": json.loads((data / f"result-{job}.json").read_text())["blocking_slowdown"],
        "M_W": json.loads((data / f"mw-{job}.json").read_text())["Mw"],
        "M_S": json.loads((data / f"ms-{job}.json").read_text())["Ms"],
    }
    assert found == pytest.approx(published, rel=1e-5)
