"""Which files a path, a pattern or a list of them stands for."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from holotrace import stores
from holotrace.discovery.streams import is_stream, odd_kind, received
from holotrace.errors import InputError
from holotrace.formats import FORMATS, Format
from holotrace.formats.declaration import Head
from holotrace.formats.foreign import what_it_is
from holotrace.stores import Held, Member, Origin, Place, Remote, archives

# Endings of packed files; these include ``.json.gz`` and ``.json.zst``, which are packed traces as well.
_PACKED = (".gz", ".zst")
# What is a file and no folder in a store, which has no folders.
_OF_FILES = (*_PACKED, ".json", ".pb", ".riegeli")
_DIGITS = re.compile(r"(\d+)")
_BESIDE = "an archive beside other traces; name it by itself to read it"
_MOST_BELOW = 20_000  # files and folders that are looked through only to say where traces are
_NOT_CALLED_SO = "not called like a trace"


@dataclass(frozen=True)
class Candidate:
    """A file that may be a trace; a ``named`` one was asked for by itself and must be one."""

    path: Origin
    named: bool


@dataclass(frozen=True)
class LeftOut:
    """A file that is not looked at, or is no trace, and why."""

    path: Origin
    reason: str


@dataclass
class Found:
    """What paths stand for."""

    candidates: list[Candidate] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    # Rows of the problems table.
    problems: list[dict[str, object]] = field(default_factory=list)

    def __add__(self, other: Found) -> Found:
        return Found(self.candidates + other.candidates, self.left_out + other.left_out, self.problems + other.problems)


def suffixes() -> tuple[str, ...]:
    """Endings of names of files that may be traces."""
    plain = [suffix for declared in FORMATS.values() for suffix in declared.suffixes]
    return (*plain, *_PACKED, *(suffix + packing for suffix in plain for packing in archives.PACKED))


def whole_jobs(folder: Place) -> list[Format]:
    """The formats of which the folder is a whole job; at most one, but for folders somebody put together by hand."""
    marked = [declared for declared in FORMATS.values() if declared.marker]
    if isinstance(folder, Path):
        return [declared for declared in marked if (folder / declared.marker).is_file()]
    # Asking for a file that is not there is forbidden to those who may not list.
    files = stores.inside(folder)[1]
    return [declared for declared in marked if folder / declared.marker in files]


def found(paths: Iterable[Place], *, recursive: bool) -> Found:
    """The files that ``paths`` stand for, each once, in natural order of their names."""
    whole = Found()
    for path in paths:
        whole += _expand(path, recursive=recursive)
    once: dict[Origin, Candidate] = {}
    for candidate in whole.candidates:
        known = once.get(candidate.path)
        if known is None or candidate.named:
            once[candidate.path] = candidate
    whole.candidates = sorted(once.values(), key=lambda candidate: natural(candidate.path))
    return whole


def natural(path: Origin) -> tuple[tuple[int, int | str], ...]:
    """Sorts ``host_9`` before ``host_10``."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in _DIGITS.split(str(path)) if part)


def may_be_folder(path: Place) -> bool:
    """Whether a path is no pattern and, in a store, not called like a file."""
    if isinstance(path, Path):
        return path.is_dir()
    is_file = path.name.endswith((*_OF_FILES, *suffixes(), *archives.ARCHIVES))
    return not stores.is_pattern(path) and (path.url.endswith("/") or not is_file)


def _expand(path: Place, *, recursive: bool) -> Found:
    if isinstance(path, Remote):
        return _remote(path, recursive=recursive)
    return _named(received(path)) if is_stream(path) else _local(path, recursive=recursive)


def _named(*paths: Origin) -> Found:
    return Found([Candidate(path, named=True) for path in paths])


def _remote(path: Remote, *, recursive: bool) -> Found:
    if stores.is_pattern(path):
        matches = stores.matching(path)
        if not matches:
            raise InputError(f"{path} matches no file; check the pattern, or give the folder")
        return _named(*matches)
    if path.name.endswith((*archives.ARCHIVES, *archives.PACKED)):
        raise InputError(f"{path} is packed as is read from this machine's disks only; fetch it, and give the file")
    return _folder(path, recursive=recursive) if may_be_folder(path) else _named(path)


def _local(path: Path, *, recursive: bool) -> Found:
    if path.is_dir():
        return _folder(path, recursive=recursive)
    if path.exists():
        return _file(path)
    if glob.has_magic(str(path)):
        # Path.glob takes no absolute pattern.
        matches = [Path(match) for match in glob.glob(str(path), recursive=True)]  # noqa: PTH207
        if not matches:
            raise InputError(f"{path} matches no file; check the pattern, or give the folder")
        whole = Found()
        for match in sorted(matches):
            whole += _local(match, recursive=recursive)
        return whole
    raise InputError(f"{path} does not exist; give a trace file, a folder of them or a pattern")


def file_at(path: Place) -> Origin:
    """The one file at a path. Raises InputError where there is none, or several."""
    if isinstance(path, Path) and is_stream(path):
        return received(path)
    if not isinstance(path, Path):
        return path
    if not path.is_file():
        raise InputError(f"{path} is no file; the values of the dict are trace files")
    kind = archives.kind_of(path)
    if kind in ("zip", "tar"):
        raise InputError(f"{path} is an archive of files; unpack it to say which of them is which rank")
    return Member(path) if kind else path


def _file(path: Path) -> Found:
    """A file that was named: itself, or what is in it."""
    if odd := odd_kind(path):
        raise InputError(
            f"{path} is {odd}, which is not read; write what comes through it into a file, or pipe it to -"
        )
    try:
        kind = archives.kind_of(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from error
    if kind in ("zip", "tar"):
        return _archive(path)
    return _named(Member(path) if kind else path)


def _archive(path: Path) -> Found:
    """The traces in an archive, whatever folders they are in."""
    members = archives.members(path)
    if path.name.endswith((".pt", ".pth")) or any(member.name == "data.pkl" for member in members):
        raise InputError(f"{path} is {what_it_is(Head(Path('a.pt'), b''))}")
    for declared in FORMATS.values():
        if declared.marker and any(member.name == declared.marker for member in members):
            raise InputError(f"{path} holds {declared.title}, which is read from a folder only; unpack it")
        if declared.expand and (known := declared.expand(Member(path), False)):
            return _named(*known.files) + Found(problems=[*known.problems])
    traces = [member for member in members if _is_called_like_a_trace(member)]
    if not traces:
        raise InputError(
            f"{path} is an archive of {len(members)} files, none of which is called like a trace "
            f"({_endings()}); give the file or folder that holds traces"
        )
    left_out = [LeftOut(member, _why_left_out(member)) for member in members if member not in set(traces)]
    return Found([Candidate(member, named=False) for member in traces], left_out)


def _folder(folder: Place, *, recursive: bool) -> Found:
    try:
        files = list(_files(folder, recursive=recursive))
        _check_no_whole_job(folder, files)
        seen = _traces(files)
        if seen.candidates:
            return seen
        if packed := [path for path in files if isinstance(path, Path) and _is_archive(path)]:
            whole = Found()
            for path in packed:
                whole += _file(path)
            return whole + Found(left_out=[one for one in seen.left_out if one.path not in packed])
        looked_through = [] if recursive else list(islice(_files(folder, recursive=True), _MOST_BELOW))
        below = _traces(looked_through).candidates
    except OSError as error:
        raise InputError(f"{folder} cannot be listed: {error.strerror}; check its permissions") from error
    if below:
        where, or_more = below[0].path.parent, " or more" if len(looked_through) == _MOST_BELOW else ""
        raise InputError(
            f"{folder} holds no trace itself, but its subfolders hold {len(below)}{or_more}; "
            f"give one of them, e.g. {where}, or ask for all (recursive=True, --recursive)"
        )
    raise InputError(f"{folder} holds no trace ({_endings()}); give the folder that does")


def _check_no_whole_job(folder: Place, files: Sequence[Place]) -> None:
    for declared in FORMATS.values():
        if declared.marker and folder / declared.marker in files:
            raise InputError(f"{folder} is {declared.title}, which is opened alone; convert the other traces into it")


def _endings() -> str:
    plain = [suffix for declared in FORMATS.values() for suffix in declared.suffixes]
    return ", ".join(f"*{suffix}" for suffix in dict.fromkeys((*plain, *_PACKED)))


def _files(folder: Place, *, recursive: bool) -> Iterable[Place]:
    if isinstance(folder, Remote):
        return stores.listed(folder, recursive=recursive)
    return folder.rglob("*") if recursive else folder.iterdir()


def _traces(paths: Iterable[Place]) -> Found:
    """Files called like traces, and the others."""
    whole = Found()
    for path in paths:
        if path.name.startswith(".") or (isinstance(path, Path) and path.is_dir()):
            continue
        if isinstance(path, Path) and not path.is_file():
            whole.left_out.append(LeftOut(path, _why_no_file(path)))
        elif _is_called_like_a_trace(path):
            whole.candidates.append(Candidate(stores.unpacked(path), named=False))
        else:
            whole.left_out.append(LeftOut(path, _why_left_out(path)))
    return whole


def _is_called_like_a_trace(path: Origin) -> bool:
    is_hidden = path.name.startswith(".") or (isinstance(path, Member) and "__MACOSX" in path.inside)
    return path.name.endswith(suffixes()) and not is_hidden and not _is_archive(path)


def _is_archive(path: Origin) -> bool:
    return path.name.endswith(archives.ARCHIVES)


def _why_no_file(path: Path) -> str:
    try:
        return odd_kind(path) or "no file"
    except OSError as error:
        # A link to nowhere, or to itself.
        return str(error.strerror or error)


def _why_left_out(path: Origin) -> str:
    if _is_archive(path):
        return "an archive in an archive; unpack it" if isinstance(path, Member) else _BESIDE
    return what_it_is(Head(path, b"")).partition(";")[0] or _NOT_CALLED_SO


def nothing_in(path: Origin) -> str:
    """Why a file has no first byte: there is none, or it cannot be inflated from the beginning."""
    begin = path.content[:1] if isinstance(path, Held) else stores.first(path, 1)
    return "damaged from its beginning on, so that nothing can be inflated" if begin else "empty"
