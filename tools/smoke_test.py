"""Try the two distributions as a user would: in an empty environment, away from the sources."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import venv
from pathlib import Path

# The sample leaves a rank out on purpose, which is told; all other warnings are errors.
HTA_SCRIPT = """
import warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", message=".*ranks missing")
import hta
from hta.trace_analysis import TraceAnalysis
frame = TraceAnalysis(trace_dir="job").get_temporal_breakdown(visualize=False)
assert len(frame) == 2, frame
"""
# What holotrace alone must leave to others.
NO_HTA_SCRIPT = """
import importlib.util
assert importlib.util.find_spec("hta") is None
"""
# A distribution of HTA's that was there before.
HTA_METADATA = "Metadata-Version: 2.1\nName: traceinsight\nVersion: 0.6.1\n"
WARNED_SCRIPT = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import hta
assert [warning for warning in caught if "traceinsight" in str(warning.message)], caught
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("holotrace", type=Path, help="wheel or source distribution of holotrace")
    arguments.add_argument("hta", type=Path, help="wheel or source distribution of holotrace-hta")
    given = arguments.parse_args()
    core, hta = given.holotrace.resolve(), given.hta.resolve()
    if core.suffix == ".whl" and "-abi3-" not in core.name:
        raise SystemExit(f"{core.name} is not an abi3 wheel; build it with `make wheel`.")
    with tempfile.TemporaryDirectory() as folder:
        try_both(core, hta, Path(folder))
    print(f"{core.name} and {hta.name} work.")


def try_both(core: Path, hta: Path, folder: Path) -> None:
    """Install both in ``folder``, one after the other, and ask about a job; any failure raises CalledProcessError."""
    venv.create(folder / "env", with_pip=True)
    programs = folder / "env" / ("Scripts" if os.name == "nt" else "bin")

    def run(program: str, *arguments: str) -> str:
        command = [str(programs / program), *arguments]
        return subprocess.check_output(command, cwd=folder, text=True, encoding="utf-8")

    run("python", "-m", "pip", "install", "--quiet", str(core))
    run("python", "-c", NO_HTA_SCRIPT)
    run("holotrace", "sample", "job", "--ranks", "2", "--steps", "2")
    run("holotrace", "info", "job")
    rows = json.loads(run("holotrace", "show", "time-breakdown", "job", "--format", "json"))["data"]["rows"]
    assert [row["rank"] for row in rows] == [0, 1], rows
    run("holotrace", "report", "job", "--output", "report.html")
    assert (folder / "report.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")
    # The extra finds holotrace-hta where it was built.
    run("python", "-m", "pip", "install", "--quiet", "--find-links", str(hta.parent), f"{core}[hta]")
    run("python", "-c", HTA_SCRIPT)
    try_with_htas_own(Path(run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()))
    run("python", "-c", WARNED_SCRIPT)


def try_with_htas_own(packages: Path) -> None:
    """Put the traces of an installed HTA beside the package ``hta``."""
    folder = packages / "traceinsight-0.6.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(HTA_METADATA)
    (folder / "RECORD").write_text("hta/__init__.py,,\n")


if __name__ == "__main__":
    main()
