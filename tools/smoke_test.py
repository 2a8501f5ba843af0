"""Try a wheel as a user would: in an empty environment, away from the sources."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import venv
from pathlib import Path

HTA_SCRIPT = """
import hta
from hta.trace_analysis import TraceAnalysis
frame = TraceAnalysis(trace_dir="job").get_temporal_breakdown(visualize=False)
assert len(frame) == 2, frame
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("wheel", type=Path)
    wheel = arguments.parse_args().wheel.resolve()
    if "-abi3-" not in wheel.name:
        raise SystemExit(f"{wheel.name} is not an abi3 wheel; build it with `make wheel`.")
    with tempfile.TemporaryDirectory() as folder:
        try_wheel(wheel, Path(folder))
    print(f"{wheel.name} works.")


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install ``wheel`` in ``folder``, ask about a sample job; any failure raises CalledProcessError."""
    venv.create(folder / "env", with_pip=True)
    programs = folder / "env" / "bin"

    def run(program: str, *arguments: str) -> str:
        command = [str(programs / program), *arguments]
        return subprocess.check_output(command, cwd=folder, text=True)

    run("python", "-m", "pip", "install", "--quiet", str(wheel))
    run("holotrace", "sample", "job", "--ranks", "2", "--steps", "2")
    run("holotrace", "info", "job")
    rows = json.loads(run("holotrace", "show", "time-breakdown", "job", "--format", "json"))["data"]["rows"]
    assert [row["rank"] for row in rows] == [0, 1], rows
    run("holotrace", "report", "job", "--output", "report.html")
    assert (folder / "report.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")
    run("python", "-m", "pip", "install", "--quiet", f"{wheel}[hta]")
    run("python", "-c", HTA_SCRIPT)


if __name__ == "__main__":
    main()
