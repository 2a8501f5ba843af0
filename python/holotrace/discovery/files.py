"""Which files a path, a pattern or a list of them stands for."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holotrace.core.source import AnyPath
from holotrace.errors import InputError
from holotrace.formats import FORMATS, Format
from holotrace.stores import object_store as stores
from holotrace.stores.object_store import Place, Remote, place

# These include ``.json.gz`` and ``.json.zst``.
_PACKED = (".gz", ".zst")
# What is a file and no folder in a store, which has no folders.
_OF_FILES = (*_PACKED, ".json", ".pb", ".riegeli")
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Candidate:
    """A file that may be a trace; a ``named`` one was asked for by itself and must be one."""

    path: Place
    named: bool


def suffixes() -> tuple[str, ...]:
    """Endings of names of files that may be traces."""
    return (*(suffix for declared in FORMATS.values() for suffix in declared.suffixes), *_PACKED)


def whole_jobs(folder: Place) -> list[Format]:
    """The formats of which the folder is a whole job; at most one, but for folders somebody put together by hand."""
    marked = [declared for declared in FORMATS.values() if declared.marker]
    if isinstance(folder, Path):
        return [declared for declared in marked if (folder / declared.marker).is_file()]
    # Asking for a file that is not there is forbidden to those who may not list.
    files = stores.inside(folder)[1]
    return [declared for declared in marked if folder / declared.marker in files]


def candidates(paths: Iterable[AnyPath], *, recursive: bool) -> list[Candidate]:
    """The files that ``paths`` stand for, each once, in natural order of their names."""
    found: dict[Place, Candidate] = {}
    for path in paths:
        for candidate in _expand(place(path), recursive=recursive):
            known = found.get(candidate.path)
            if known is None or candidate.named:
                found[candidate.path] = candidate
    return sorted(found.values(), key=lambda candidate: natural(candidate.path))


def natural(path: Place) -> tuple[tuple[int, int | str], ...]:
    """Sorts ``host_9`` before ``host_10``."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in _DIGITS.split(str(path)) if part)


def may_be_folder(path: Place) -> bool:
    """Whether a path is no pattern and, in a store, not called like a file."""
    if isinstance(path, Path):
        return path.is_dir()
    return not stores.is_pattern(path) and (path.url.endswith("/") or not path.name.endswith((*_OF_FILES, *suffixes())))


def _expand(path: Place, *, recursive: bool) -> Sequence[Candidate]:
    return _remote(path, recursive=recursive) if isinstance(path, Remote) else _local(path, recursive=recursive)


def _remote(path: Remote, *, recursive: bool) -> Sequence[Candidate]:
    if stores.is_pattern(path):
        matches = stores.matching(path)
        if not matches:
            raise InputError(f"{path} matches no file; check the pattern, or give the folder")
        return [Candidate(match, named=True) for match in matches]
    return _folder(path, recursive=recursive) if may_be_folder(path) else [Candidate(path, named=True)]


def _local(path: Path, *, recursive: bool) -> Sequence[Candidate]:
    if path.is_dir():
        return _folder(path, recursive=recursive)
    if path.exists():
        return [Candidate(path, named=True)]
    if glob.has_magic(str(path)):
        # Path.glob takes no absolute pattern.
        matches = [Path(match) for match in glob.glob(str(path), recursive=True)]  # noqa: PTH207
        if not matches:
            raise InputError(f"{path} matches no file; check the pattern, or give the folder")
        return [inner for match in sorted(matches) for inner in _local(match, recursive=recursive)]
    raise InputError(f"{path} does not exist; give a trace file, a folder of them or a pattern")


def _folder(folder: Place, *, recursive: bool) -> list[Candidate]:
    try:
        files = list(_files(folder, recursive=recursive))
        for declared in FORMATS.values():
            if declared.marker and folder / declared.marker in files:
                raise InputError(
                    f"{folder} is {declared.title}, which is opened alone; convert the other traces into it"
                )
        here = _traces(files)
        if here:
            return here
        below = [] if recursive else _traces(_files(folder, recursive=True))
    except OSError as error:
        raise InputError(f"{folder} cannot be listed: {error.strerror}; check its permissions") from error
    if below:
        where = below[0].path.parent
        raise InputError(
            f"{folder} holds no trace itself, but its subfolders hold {len(below)}; "
            f"give one of them, e.g. {where}, or ask for all (recursive=True, --recursive)"
        )
    raise InputError(f"{folder} holds no trace ({', '.join('*' + s for s in suffixes())}); give the folder that does")


def _files(folder: Place, *, recursive: bool) -> Iterable[Place]:
    if isinstance(folder, Remote):
        return stores.listed(folder, recursive=recursive)
    return folder.rglob("*") if recursive else folder.iterdir()


def _traces(paths: Iterable[Place]) -> list[Candidate]:
    endings = suffixes()
    return [
        Candidate(path, named=False)
        for path in paths
        if path.name.endswith(endings)
        and not path.name.startswith(".")
        and (isinstance(path, Remote) or path.is_file())
    ]
