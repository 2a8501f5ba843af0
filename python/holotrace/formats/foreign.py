"""Files that are no traces of one rank but may well be given as such: what they are, and the way out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holotrace.formats.declaration import Head

_RECORD = "give traces as PyTorch's profiler exports them, or profiles of XLA"
_PICKLE = (
    "a pickle, which is never loaded, as that would run what is in it; "
    "give the trace that export_chrome_trace wrote, not a memory snapshot or a checkpoint"
)


@dataclass(frozen=True)
class Foreign:
    """A kind of file that is not read."""

    is_: str
    """What it is, with an article, and the way out behind a semicolon."""
    begins: tuple[bytes, ...] = ()
    suffixes: tuple[str, ...] = ()
    holds: tuple[bytes, ...] = ()
    """All of these stand in its first bytes."""
    lacks: tuple[bytes, ...] = ()
    """None of these does."""

    def fits(self, head: Head) -> bool:
        """Whether a file is one: by its first bytes, or by its name where they say nothing."""
        text = head.text.lstrip(b"\xef\xbb\xbf \t\r\n").lower() if self._is_text else head.text
        if self.begins and not text.startswith(self.begins):
            return False
        if self.holds and not all(word in head.text for word in self.holds):
            return False
        if any(word in head.text for word in self.lacks):
            return False
        return bool(self.begins or self.holds) or head.name.lower().endswith(self.suffixes)

    @property
    def _is_text(self) -> bool:
        return any(begin.startswith((b"<", b"{", b"[")) for begin in self.begins)


_SQLITE = (b"SQLite format 3\x00",)
_EVENTS = (b'"traceEvents"', b'"ph"')

# The first that fits says what a file is.
FOREIGN = (
    Foreign(
        "a database that Nsight Systems exported, which is not read; record with PyTorch's profiler, whose traces are",
        begins=_SQLITE,
        holds=(b"StringIds",),
    ),
    Foreign(
        "a database that Nsight Systems exported, which is not read; record with PyTorch's profiler, whose traces are",
        begins=_SQLITE,
        holds=(b"CUPTI_",),
    ),
    Foreign(
        "a rocpd database of ROCm's profiler, which is not read; "
        "record with PyTorch's profiler, or export a Perfetto trace and look at it there",
        begins=_SQLITE,
        holds=(b"rocpd_",),
    ),
    Foreign(f"an SQLite database, which is not read; {_RECORD}", begins=_SQLITE),
    Foreign(f"a report of Nsight Systems, which is not read; {_RECORD}", suffixes=(".nsys-rep", ".qdrep", ".qdstrm")),
    Foreign(f"a report of Nsight Compute, which is not read; {_RECORD}", suffixes=(".ncu-rep",)),
    Foreign(
        "a trace in Perfetto's protobuf, which is not read; convert it to JSON with Perfetto's traceconv, "
        "or give the JSON that it was made of",
        suffixes=(".pftrace", ".perfetto-trace", ".perfetto"),
    ),
    Foreign(_PICKLE, begins=tuple(b"\x80" + bytes([version]) for version in range(2, 6))),
    Foreign(_PICKLE, suffixes=(".pickle", ".pkl")),
    Foreign(
        "a checkpoint of PyTorch, which is no trace; give the trace that export_chrome_trace wrote",
        suffixes=(".pt", ".pth"),
    ),
    Foreign(
        "a page in HTML, e.g. a report or a memory timeline; give the traces that it was made of",
        begins=(b"<!doctype html", b"<html"),
    ),
    Foreign(f"XML, which is not read; {_RECORD}", begins=(b"<?xml", b"<svg")),
    Foreign(
        "an execution trace of PyTorch, which has no times; read it with holotrace.execution_trace, "
        "and give the trace that the profiler recorded beside it",
        begins=(b"{",),
        holds=(b'"nodes"', b'"schema"'),
        lacks=_EVENTS,
    ),
    Foreign(
        "a profile of Python code (speedscope), which says nothing of devices; record with PyTorch's profiler",
        begins=(b"{",),
        holds=(b"speedscope",),
        lacks=_EVENTS,
    ),
    Foreign("a Parquet file; if it is of a dataset, give the dataset's folder", begins=(b"PAR1",)),
    Foreign(f"an Arrow file, which is not read; {_RECORD}", begins=(b"ARROW1",)),
    Foreign("an archive that is not read; unpack it, and give the folder", begins=(b"7z\xbc\xaf\x27\x1c", b"Rar!")),
    Foreign(
        "a recording of perf, which says nothing of devices; record with PyTorch's profiler", begins=(b"PERFILE2",)
    ),
    Foreign(f"a program or library, which is no trace; {_RECORD}", begins=(b"\x7fELF", b"MZ")),
    Foreign(f"a PDF document, which is no trace; {_RECORD}", begins=(b"%PDF",)),
    Foreign(f"an image, which is no trace; {_RECORD}", begins=(b"\x89PNG", b"\xff\xd8\xff", b"GIF8")),
    Foreign(
        "an event file of TensorBoard, which holds no trace; give its folder, or the .pt.trace.json files in it",
        holds=(b"brain.Event",),
    ),
)
# A memory timeline: a list of lists that begin with a time and three numbers.
_TIMELINE = re.compile(rb"\s*\[\s*\[\s*-?\d+\s*,\s*\d+\s*,\s*-?\d+\s*,\s*\d+\s*\]")
_TAR_MAGIC_AT = 257


def what_it_is(head: Head) -> str:
    """What a file is that is known not to be a trace, and the way out behind a semicolon; empty where nobody knows."""
    if head.text[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return "a tar archive that is packed as cannot be read here; unpack it, and give the folder"
    if _TIMELINE.match(head.text):
        return "a memory timeline of PyTorch, which has no events; read it with holotrace.memory_timeline"
    return next((foreign.is_ for foreign in FOREIGN if foreign.fits(head)), "")
