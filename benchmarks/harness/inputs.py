"""The traces that are read: made by the sample generator, and the largest real one at hand."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from harness import tiled
from harness.measure import BENCHMARKS
from harness.peers import WORK

_ROOT = BENCHMARKS.parent
_GENERATOR = _ROOT / "python" / "holotrace" / "sample"
_REAL = Path(os.environ.get("HOLOTRACE_REAL_TRACES", _ROOT.parent / "shared" / "data"))
# PyTorch writes it first.
_MARK_OF_KINETO = b'"schemaVersion"'
_RANKS = 8
_MANY = 64
_EACH_OF_THOUSAND = 2_000


@dataclass(frozen=True)
class Size:
    """Entries of the files that are made, and how many ranks the largest job has."""

    one_rank: int
    each_of_eight: int
    each_of_many: int
    most_ranks: int
    profile_bytes: int
    long_profile_bytes: int
    xla_job_bytes: int


FULL = Size(
    one_rank=1_400_000,
    each_of_eight=350_000,
    each_of_many=50_000,
    most_ranks=1024,
    profile_bytes=94_500_000,
    long_profile_bytes=1_000_000_000,
    xla_job_bytes=393_000_000,
)
QUICK = Size(
    one_rank=140_000,
    each_of_eight=35_000,
    each_of_many=5_000,
    most_ranks=128,
    profile_bytes=9_450_000,
    long_profile_bytes=100_000_000,
    xla_job_bytes=39_300_000,
)


@dataclass(frozen=True)
class TraceFile:
    """One rank's trace, both ways."""

    name: str
    plain: Path
    gzip: Path

    @property
    def text_bytes(self) -> int:
        return self.plain.stat().st_size

    def __str__(self) -> str:
        return f"{self.name}: {self.text_bytes / 1e6:.0f} MB of JSON, {self.gzip.stat().st_size / 1e6:.1f} MB gzipped"


@dataclass(frozen=True)
class Inputs:
    traces: tuple[TraceFile, ...]
    eight_ranks: Path
    # The first of the eight, alone.
    one_rank: Path
    # Four of sixty-four, and these.
    four_of_many: Path
    many_ranks: Path
    thousand_ranks: Path
    # Of XLA: one capture many times, which is a profile too.
    profile: Path
    long_profile: Path
    # The same capture again and again, each time later: a recording of many steps.
    xla_job: Path


def prepare(size: Size, tell: Callable[[str], None]) -> Inputs:
    """Make what is not there yet."""
    # Another generator makes other traces.
    sources = b"".join(path.read_bytes() for path in sorted(_GENERATOR.glob("*.py")))
    made = WORK / "inputs" / hashlib.sha256(sources).hexdigest()[:12]
    plain = _sample(made / f"plain-{size.one_rank}", tell, events=size.one_rank, ranks=1, compress=False)
    packed = _sample(made / f"gzip-{size.one_rank}", tell, events=size.one_rank, ranks=1, compress=True)
    eight = _sample(made / f"eight-{size.each_of_eight}", tell, events=size.each_of_eight, ranks=_RANKS, compress=True)
    sample = TraceFile("sample", _traces(plain)[0], _traces(packed)[0])
    real = _real(WORK / "inputs" / "real", tell)
    many = _sample(made / f"many-{size.each_of_many}", tell, events=size.each_of_many, ranks=_MANY, compress=True)
    thousand = made / f"ranks-{size.most_ranks}"
    profile, long_profile = (
        _profile(WORK / "inputs" / f"profile-{count}.xplane.pb", count, tell)
        for count in (size.profile_bytes, size.long_profile_bytes)
    )
    return Inputs(
        (sample, real) if real else (sample,),
        eight,
        _first(made / f"one-{size.each_of_eight}", eight, 1),
        _first(made / f"four-{size.each_of_many}", many, 4),
        many,
        _sample(thousand, tell, events=_EACH_OF_THOUSAND, steps=2, ranks=size.most_ranks, compress=True),
        profile,
        long_profile,
        _xla_job(WORK / "inputs" / f"xla-job-{size.xla_job_bytes}.xplane.pb", size.xla_job_bytes, tell),
    )


def _sample(folder: Path, tell: Callable[[str], None], **options: object) -> Path:
    if not folder.exists():
        tell(f"making {folder.name}")
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        # In a process of its own: what is imported here would count as memory of all that is measured.
        code = f"import holotrace.sample as sample; sample.write({str(unfinished)!r}, **{options!r})"
        subprocess.run([sys.executable, "-c", code], check=True)
        unfinished.rename(folder)
    return folder


def _traces(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json*"))


def _first(folder: Path, job: Path, count: int) -> Path:
    """A job of some of another's ranks."""
    if not folder.exists():
        folder.mkdir()
        for trace in _traces(job)[:count]:
            (folder / trace.name).hardlink_to(trace)
    return folder


def _profile(path: Path, size: int, tell: Callable[[str], None]) -> Path:
    """A capture of PyTorch/XLA, as often as it takes to be of that size; one with little but events, if it is there."""
    if not path.exists():
        tell(f"making {path.name}")
        capture = _capture()
        unfinished = path.with_name(path.name + ".unfinished")
        with unfinished.open("wb") as file:
            for _ in range(-(-size // len(capture))):
                file.write(capture)
        unfinished.rename(path)
    return path


def _xla_job(path: Path, size: int, tell: Callable[[str], None]) -> Path:
    if not path.exists():
        tell(f"making {path.name}")
        unfinished = path.with_name(path.name + ".unfinished")
        tiled.write(_capture(), unfinished, size)
        unfinished.rename(path)
    return path


def _capture() -> bytes:
    captures = sorted((_REAL / "xla").glob("ours/torch_xla_cpu_spmd4/**/*.xplane.pb"))
    packed = _ROOT / "tests/data/xplane/torch_xla_cpu_gaps.xplane.pb.xz"
    return captures[0].read_bytes() if captures else lzma.decompress(packed.read_bytes())


def _real(folder: Path, tell: Callable[[str], None]) -> TraceFile | None:
    """The real trace with most text under $HOLOTRACE_REAL_TRACES, or under ../shared/data as in the tests."""
    found = sorted((path for path in _REAL.rglob("*.json*") if path.suffix in (".json", ".gz")), key=_text_bytes)
    largest = next((path for path in reversed(found) if _is_kineto(path)), None)
    if largest is None:
        tell(f"no real trace under {_REAL}; name another folder in HOLOTRACE_REAL_TRACES")
        return None
    trace = TraceFile("real", folder / "real.json", folder / "real.json.gz")
    origin = folder / "origin.txt"
    if not origin.exists() or origin.read_text() != str(largest):
        tell("copying the largest real trace")
        folder.mkdir(parents=True, exist_ok=True)
        is_packed = largest.suffix == ".gz"
        # In pieces: what this process once held would count as memory of all that is measured.
        with _unpacked(largest) as text, trace.plain.open("wb") as file:
            shutil.copyfileobj(text, file)
        with largest.open("rb") as raw, trace.gzip.open("wb") if is_packed else gzip.open(trace.gzip, "wb", 6) as file:
            shutil.copyfileobj(raw, file)
        origin.write_text(str(largest))
    return trace


def _text_bytes(path: Path) -> int:
    """Size of the text, which the end of a gzip file gives as long as it is below 4 GiB."""
    size = path.stat().st_size
    if path.suffix != ".gz" or size < 18:
        return size
    with path.open("rb") as file:
        file.seek(-4, os.SEEK_END)
        (text_bytes,) = struct.unpack("<I", file.read(4))
    return int(text_bytes)


def _is_kineto(path: Path) -> bool:
    try:
        with _unpacked(path) as text:
            return _MARK_OF_KINETO in text.read(1 << 16)
    except (OSError, EOFError):
        return False


def _unpacked(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
