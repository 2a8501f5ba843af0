"""Profiles of XLA in a log directory: which run is meant, and which files are its hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from holotrace.core.native import native
from holotrace.core.problems import problem
from holotrace.errors import InputError
from holotrace.formats.declaration import Expansion, Head
from holotrace.stores import Origin, inside, unpacked

NAME = "xplane"
PROFILE = ".xplane.pb"
PROFILES = tuple(PROFILE + packing for packing in ("", ".gz", ".zst", ".xz", ".bz2"))
# What the profiler exports beside it, with less in it.
EXPORTED = (".trace.json.gz", "perfetto_trace.json.gz")
_RIEGELI = ".xplane.riegeli"
_UNREADABLE = (
    "a Riegeli file, as continuous profiling writes, which cannot be read; "
    "record a profile of fewer steps, which becomes one .xplane.pb"
)
# Only in the metadata of an exported trace.
_EXPORT_SIGN = b'"highres-ticks"'
# Where a log directory has its runs.
_RUNS = ("plugins", "profile")
# Listing waits for disks and stores far more than it computes.
_READERS = 8


def is_profile(head: Head) -> bool:
    """Whether a file is a profile of XLA, or was exported from one."""
    return head.plain_name.endswith((".pb", _RIEGELI)) or is_exported(head) or _begins_with_plane(head.text)


def _begins_with_plane(text: bytes) -> bool:
    """Whether bytes are an XSpace whose first field is a plane, as in what the profilers write."""
    if text[:1] != b"\x0a" or text.lstrip()[:1] in (b"{", b"["):
        return False
    length = next((number for number, byte in enumerate(text[1:11], 2) if byte < 0x80), 0)
    # Fields of a plane: its id, its name, lines, metadata, stats.
    return bool(length) and text[length : length + 1] in (b"\x08", b"\x12", b"\x1a", b"\x22", b"\x2a", b"\x32")


def is_exported(head: Head) -> bool:
    """Whether a trace-event file was exported from a profile of XLA."""
    return head.name == EXPORTED[1] or _EXPORT_SIGN in head.text


def refusal(head: Head) -> str:
    """Why a file cannot be read; empty where it can."""
    return _UNREADABLE if head.name.endswith(_RIEGELI) else ""


def expanded(folder: Origin, recursive: bool) -> Expansion | None:
    """The profiles of a log directory's newest run, and what there is to say of that; of every run if recursive."""
    runs = _runs(folder)
    if not runs:
        return None
    if recursive:
        return Expansion(tuple(file for run in runs for file in run.files))
    chosen, others = _newest(runs)
    return Expansion(tuple(file for run in chosen for file in run.files), tuple(_said(chosen, others)))


def named_run(path: Path) -> Path | None:
    """The folder of a run that is named right below its log directory: LOGDIR/RUN."""
    folder = path.parent.joinpath(*_RUNS, path.name)
    return folder if folder.is_dir() else None


def listed(folder: Origin) -> list[dict[str, Any]]:
    """The runs of a log directory, oldest first: name, hosts, when begun and for how long, size, whether it is read."""
    runs = _runs(folder)
    chosen = {str(run.folder) for run in _newest(runs)[0]} if runs else set[str]()
    return [_row(run, is_read=str(run.folder) in chosen) for run in runs]


def _row(run: _Run, *, is_read: bool) -> dict[str, Any]:
    times = _times(run)
    begun, ended = (
        min((begun for _, begun, _ in times), default=None),
        max((ended for *_, ended in times), default=None),
    )
    sizes = [path.stat().st_size for path in run.files if isinstance(path, Path)]
    return {
        "run": run.folder.name,
        "host_count": len(run.files),
        "begun": None
        if begun is None
        else f"{datetime.fromtimestamp(begun // 10**9, tz=timezone.utc):%Y-%m-%d %H:%M:%S}",
        "recorded_ns": ended - begun if begun is not None and ended is not None else None,
        "file_bytes": sum(sizes) if len(sizes) == len(run.files) else None,
        "is_read": is_read,
        "path": str(run.folder),
    }


def _clock(time_ns: int) -> str:
    return f"{datetime.fromtimestamp(time_ns // 10**9, tz=timezone.utc):%Y-%m-%d %H:%M:%S}"


@dataclass(frozen=True)
class _Run:
    """One capture's folder."""

    folder: Origin
    files: tuple[Origin, ...]

    @property
    def is_exported(self) -> bool:
        return not self.files[0].name.endswith(PROFILES)


def _runs(folder: Origin) -> list[_Run]:
    """The runs in a folder: itself, or those of the log directory it is or holds; the newest last."""
    try:
        folders, files = inside(folder)
        with ThreadPoolExecutor(_READERS) as readers:
            named = [run for runs in readers.map(_captured, (folder, *folders)) for run in runs]
            named += folders if folder.name == "profile" else []
            runs = [_run(folder, files)]
            runs += [_run(run, files) for run, (_, files) in zip(named, readers.map(inside, named), strict=True)]
    except OSError as error:
        raise InputError(f"{folder} cannot be listed: {error.strerror}; check its permissions") from error
    # A run is named by the time at which it was recorded.
    return sorted((run for run in runs if run), key=lambda run: (run.folder.name, str(run.folder)))


def _captured(folder: Origin) -> list[Origin]:
    """The folders of a log directory's runs; none where it is no log directory."""
    try:
        return inside(folder / _RUNS[0] / _RUNS[1])[0]
    except PermissionError:
        # Of a folder beside the traces, which nobody asked for.
        return []


def _run(folder: Origin, files: Sequence[Origin]) -> _Run | None:
    """The profiles in a folder; files that viewers leave beside them are none."""
    files = [path for path in files if not path.name.startswith(".")]
    profiles = [unpacked(path) for path in files if path.name.endswith(PROFILES)]
    if profiles:
        return _Run(folder, tuple(profiles))
    for path in files:
        if path.name.endswith(_RIEGELI):
            raise InputError(f"{path} is {_UNREADABLE}")
    if folder.parent.name != "profile":
        return None
    exported = [path for path in files if path.name.endswith(EXPORTED[0])]
    exported = [path for path in exported if path.name != EXPORTED[1]] or exported
    exported = exported or [path for path in files if path.name == EXPORTED[1]]
    return _Run(folder, tuple(exported)) if exported else None


def _newest(runs: list[_Run]) -> tuple[list[_Run], list[_Run]]:
    """The newest run, with runs beside it that are other hosts of the same capture, and all other runs."""
    newest = runs[-1]
    together = [newest]
    others: list[_Run] = []
    times = _times(newest) if len(runs) > 1 else []
    for run in reversed(runs[:-1]):
        is_same = not run.is_exported and any(_overlap(a, b) for a in _times(run) for b in times)
        (together if is_same else others).append(run)
    return together[::-1], others[::-1]


def _times(run: _Run) -> list[tuple[str, int, int]]:
    """Host, begin and end of each of the run's profiles that says when it was recorded."""
    # Looking for them needs the whole file, which is too much to fetch from a store for each run that is not read.
    if run.is_exported or not isinstance(run.folder, Path):
        return []
    try:
        found = [native.profile_times(str(file)) for file in run.files if file.name.endswith(PROFILE)]
    except (InputError, OSError):
        # Reading it will say what is wrong with it.
        return []
    return [(host, begun, ended) for host, begun, ended in found if begun and ended]


def _overlap(one: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    return one[0] != other[0] and one[1] < other[2] and other[1] < one[2]


def _said(chosen: Iterable[_Run], others: Sequence[_Run]) -> list[dict[str, Any]]:
    rows = []
    names = [run.folder.name for run in chosen]
    if others:
        listed = ", ".join(run.folder.name for run in others)
        rows.append(
            problem(
                "several runs", count=len(others), example=listed, action=f"the newest was read: {', '.join(names)}"
            )
        )
    if len(names) > 1:
        rows.append(
            problem("hosts in several runs", count=len(names), example=", ".join(names), action="read as one capture")
        )
    return rows
