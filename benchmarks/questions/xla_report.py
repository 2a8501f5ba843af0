"""Is the report of a long profile of XLA there in 15 s and 1.5 times its size, and XProf 5 times slower and larger?"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness.bench import Bench
from harness.measure import Measurement
from harness.question import (
    Row,
    Skipped,
    at_most,
    constant,
    memory_beyond,
    seconds,
    times_faster,
    times_smaller,
)

# What XProf's pages show of a run, as far as it can tell it of every device.
TOOLS = ("overview_page", "input_pipeline_analyzer", "op_profile", "hlo_stats", "framework_op_stats", "memory_profile")
_REPORT_S, _HLO_OPS_S, _REPORT_SIZES = 15, 5, 1.5


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    path = bench.inputs.xla_job
    # A tenth of the profile has a tenth of the time.
    part = path.stat().st_size / 393e6
    report = bench.ours("report of a long profile of XLA", "report", path)
    operations = bench.ours("hlo-ops of a long profile of XLA", "ask", path, "hlo_ops")
    yield Row(
        "report of a profile of XLA",
        seconds(report, "report"),
        constant(_REPORT_S * part, "s", "what a reader waits for"),
        at_most(1),
    )
    yield Row(
        "hlo-ops of a profile of XLA",
        seconds(operations, "hlo-ops"),
        constant(_HLO_OPS_S * part, "s", "what a reader waits for"),
        at_most(1),
    )
    yield Row(
        "peak memory of the report of a profile of XLA",
        memory_beyond(report, bench.importing, "report"),
        constant(path.stat().st_size / 1e6, "MB", "the profile"),
        at_most(_REPORT_SIZES),
    )
    if "xprof" in bench.peers.missing:
        yield Skipped("report of a profile of XLA against XProf", bench.peers.missing["xprof"])
        return
    xprof = Measurement("xprof, profile of XLA", bench.theirs("questions.xla_report", path), most_rounds=1)
    yield Row(
        "report of a profile of XLA against XProf",
        seconds(report, "report"),
        seconds(xprof, f"{len(TOOLS)} of its tools"),
        times_faster(5),
    )
    yield Row(
        "peak memory of the report of a profile of XLA against XProf",
        memory_beyond(report, bench.importing, "report"),
        memory_beyond(xprof, bench.importing, f"{len(TOOLS)} of its tools"),
        times_smaller(5),
    )


def measure(path: str) -> dict[str, float]:
    """Seconds until XProf has told what its pages show, in a new folder: it keeps what it found beside the profile."""
    from xprof.convert.raw_to_tool_data import xspace_to_tool_data

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "plugins", "profile", "run")
        run.mkdir(parents=True)
        profile = run / "host.xplane.pb"
        try:
            profile.hardlink_to(path)
        except OSError:
            shutil.copy(path, profile)
        started = time.perf_counter()
        for tool in TOOLS:
            xspace_to_tool_data([str(profile)], tool, {})
        return {"seconds": time.perf_counter() - started}


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
