"""Which files make up a job, and which rank each of them is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from holotrace.core.problems import problem
from holotrace.core.schema import legible
from holotrace.core.source import AnyPath, Paths, RankSource, called, several
from holotrace.core.trace import RankTrace, T
from holotrace.discovery.completeness import doubts
from holotrace.discovery.files import (
    Candidate,
    Found,
    LeftOut,
    file_at,
    found,
    may_be_folder,
    natural,
    nothing_in,
    whole_jobs,
)
from holotrace.discovery.ranks import ranks_from_names
from holotrace.errors import InputError, TraceFormatError, UsageError
from holotrace.formats import FORMATS, Format, heads, recognized
from holotrace.formats.declaration import Head, OpenedFolder
from holotrace.formats.foreign import what_it_is
from holotrace.stores import Held, Origin, Place, place

OnDuplicate = Literal["error", "first", "last"]

# Reading heads waits for disks and network file systems far more than it computes.
_READERS = 8


@dataclass(frozen=True)
class Survey:
    """The ranks of a job, in files or in memory, and what was noticed on the way (rows of the problems table)."""

    sources: tuple[RankSource | RankTrace, ...]
    problems: tuple[dict[str, Any], ...] = ()
    # What to call the job, and where it was looked for, in one line.
    title: str = ""
    origin: str = ""
    # Files that were there too and are no rank's, and why; those that look like traces are among the problems as well.
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class _File:
    """A candidate with what its ends tell."""

    path: Origin
    info: Mapping[str, Any] = field(default_factory=dict)
    rank: int | None = None
    rank_from: str = ""
    # Why it cannot be one of the traces.
    unfit: str = ""
    format: Format | None = None


def discover(paths: Paths, *, recursive: bool = False, on_duplicate: OnDuplicate = "error") -> tuple[RankSource, ...]:
    """The files of a job, one per rank, by rank."""
    found = survey(paths, recursive=recursive, on_duplicate=on_duplicate).sources
    return tuple(source for source in found if isinstance(source, RankSource))


def survey(paths: Paths, *, recursive: bool = False, on_duplicate: OnDuplicate = "error") -> Survey:
    """The files of a job, and what is doubtful about them.

    Args:
        paths: A file, a folder, a pattern, a list of them, or a dict of rank to file; a dataset; or the bytes of a
            profile of XLA.
        recursive: Look into subfolders too.
        on_duplicate: What to do where two files claim one rank: raise, or take the first or last by name.
    """
    if on_duplicate not in get_args(OnDuplicate):
        raise UsageError(f"on_duplicate is {on_duplicate!r}; it can be {', '.join(get_args(OnDuplicate))}")
    try:
        return _surveyed(paths, recursive, on_duplicate)
    except OSError as error:
        # A folder that may not be looked into, a name that no file can have.
        raise InputError(f"{error.filename} cannot be read: {error.strerror}; check the path") from error


def _surveyed(paths: Paths, recursive: bool, on_duplicate: OnDuplicate) -> Survey:
    if isinstance(paths, bytes):
        looked = _ranks_in(Candidate(Held("bytes", paths), named=True))
        return _survey_of(_ranked(looked), on_duplicate, *called(paths))
    if isinstance(paths, Mapping):
        return _survey_of(_given(paths), on_duplicate, *called(paths))
    named = [_resolved(place(path)) for path in several(paths)]
    if not named:
        raise InputError("no path was given; give a trace file, a folder of them or a pattern")
    if len(named) == 1 and may_be_folder(named[0]):
        for declared in whole_jobs(named[0]):
            if declared.open_folder:
                return _survey_of_folder(named[0], declared.open_folder(named[0]))
    seen = _expanded(named, recursive=recursive)
    looked = [file for files in _look(_ranks_in, seen.candidates) for file in files]
    survey = _survey_of(_ranked(looked), on_duplicate, *called(paths))
    left_out = (*survey.left_out, *sorted(seen.left_out, key=lambda one: natural(one.path)))
    return replace(survey, problems=(*seen.problems, *survey.problems), left_out=left_out)


def _resolved(path: Place) -> Place:
    """The folder that a format's short name stands for, where nothing is at the path itself."""
    if not isinstance(path, Path) or path.exists():
        return path
    found = (declared.resolve(path) for declared in FORMATS.values() if declared.resolve)
    return next((folder for folder in found if folder), path)


def _survey_of_folder(root: Place, opened: OpenedFolder) -> Survey:
    problems = (*map(dict, opened.problems), *doubts(opened.recorded))
    return Survey(opened.sources, problems, opened.title, legible(root))


def _expanded(paths: Sequence[Place], *, recursive: bool) -> Found:
    """The files of ``paths``: those of a layout that a format knows, and what else folders and patterns stand for."""
    others: list[Place] = []
    known = Found()
    expanding = [declared.expand for declared in FORMATS.values() if declared.expand]
    for path in paths:
        whole = [each for expand in expanding if (each := expand(path, recursive))] if may_be_folder(path) else []
        if whole:
            files = [Candidate(file, named=True) for file in whole[0].files]
            known += Found(files, problems=[*whole[0].problems])
        else:
            others.append(path)
    seen = found(others, recursive=recursive)
    once = {candidate.path: candidate for candidate in (*seen.candidates, *known.candidates)}
    seen.candidates = sorted(once.values(), key=lambda candidate: natural(candidate.path))
    seen.problems += known.problems
    return seen


def _given(paths: Mapping[int, AnyPath]) -> list[_File]:
    if not paths:
        raise InputError("no file was given; give a dict of rank to trace file")
    wrong = [rank for rank in paths if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is no rank; the keys of the dict are whole numbers from 0")
    by_rank = {rank: Candidate(file_at(place(path)), named=True) for rank, path in paths.items()}
    looked = _look(_look_at, list(by_rank.values()))
    return [replace(file, rank=rank, rank_from="caller") for rank, file in zip(by_rank, looked, strict=True)]


def _look(at: Callable[[Candidate], T], files: list[Candidate]) -> list[T]:
    if len(files) == 1:
        return [at(files[0])]
    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(at, files))


def _ranks_in(candidate: Candidate) -> list[_File]:
    """What a file holds: one rank, as a rule."""
    file = _look_at(candidate)
    if file.unfit or file.format is None or file.format.ranks_in is None:
        return [file]
    try:
        ranks = file.format.ranks_in(file.path)
    except InputError as error:
        if candidate.named:
            raise
        return [_File(file.path, unfit=str(error))]
    return [_with_rank(replace(file, info=info), "trace") for info in ranks.values()]


def _look_at(candidate: Candidate) -> _File:
    path = candidate.path
    try:
        head = heads.head(path)
        if refusal := _unfit(head, candidate):
            return _File(path, unfit=refusal)
        declared = recognized(head, named=candidate.named)
        info = declared.rank_of(head.text) if declared else {}
        # The end of a plain file is one seek away.
        if declared and not info and not heads.is_packed(path):
            info = declared.rank_of(heads.tail(path))
    except OSError as error:
        if candidate.named:
            raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from error
        return _File(path, unfit=str(error.strerror or error))
    except InputError as error:
        # A remote file, whose errors say all.
        if candidate.named:
            raise
        return _File(path, unfit=str(error))
    if declared is None:
        return _File(path, unfit="not a trace" if head.text else nothing_in(path))
    if refusal := declared.refuse(head):
        if candidate.named:
            raise TraceFormatError(f"{path} is {refusal}")
        return _File(path, unfit=refusal.partition(";")[0])
    return _with_rank(_File(path, info, format=declared), "trace")


def _unfit(head: Head, candidate: Candidate) -> str:
    """Why a file of a known kind is no trace; of one that was named, that is an error."""
    what = what_it_is(head)
    if not what and candidate.named and not head.text and recognized(head, named=False) is None:
        what = f"{nothing_in(head.path)}; give a file that the profiler wrote to its end"
    if not what and isinstance(head.path, Held) and recognized(head, named=False) is None:
        what = "no trace of a known format; give the bytes that the profiler wrote, or the path of its file"
    if what and candidate.named:
        raise TraceFormatError(f"{candidate.path} is {what}")
    return what.partition(";")[0]


def _with_rank(file: _File, rank_from: str) -> _File:
    rank = file.info.get("rank")
    if isinstance(rank, int) and rank >= 0:
        return replace(file, rank=rank, rank_from=rank_from)
    return file


def _ranked(looked: list[_File]) -> list[_File]:
    """Give each file a rank: its own word, else its name, else a number."""
    fit = [file for file in looked if not file.unfit]
    unfit = [file for file in looked if file.unfit]
    if len(fit) == 1 and fit[0].rank is None:
        named = ranks_from_names([fit[0].path])
        rank, rank_from = (named[fit[0].path], "file name") if named else (0, "only file")
        return [replace(fit[0], rank=rank, rank_from=rank_from), *unfit]
    fit = _by_name(fit)
    fit = [file if file.rank is not None else _by_tail(file) for file in fit]
    following = max((file.rank for file in fit if file.rank is not None), default=-1) + 1
    for position, file in enumerate(fit):
        if file.rank is None:
            fit[position] = replace(file, rank=following, rank_from="number")
            following += 1
    return fit + unfit


def _by_name(files: list[_File]) -> list[_File]:
    named = ranks_from_names([file.path for file in files if file.rank is None])
    return [
        replace(file, rank=named[file.path], rank_from="file name") if file.path in named else file for file in files
    ]


def _by_tail(file: _File) -> _File:
    if not heads.is_packed(file.path) or file.format is None:
        return file
    try:
        return _with_rank(replace(file, info=file.format.rank_of(heads.tail(file.path))), "trace")
    except (OSError, InputError):
        # A damaged stream has no tail; what is whole before the damage is still read.
        return file


def _survey_of(files: list[_File], on_duplicate: OnDuplicate, title: str, origin: str) -> Survey:
    problems = [
        problem("file left out", example=file.unfit, file=file.path, action="left out; name the file itself to read it")
        for file in files
        if file.unfit
    ]
    by_rank: dict[int, list[_File]] = {}
    for file in sorted(files, key=lambda file: natural(file.path)):
        if file.rank is not None:
            by_rank.setdefault(file.rank, []).append(file)
    if not by_rank:
        first = next(file for file in files if file.unfit)
        raise InputError(
            f"none of {len(files)} files is a trace ({first.path}: {first.unfit}); give files the profiler wrote"
        )
    sources = []
    for rank in sorted(by_rank):
        claiming = by_rank[rank]
        if len(claiming) > 1 and on_duplicate == "error":
            raise InputError(
                f"{claiming[0].path} and {claiming[1].path} both claim rank {rank}; give one of them, "
                "or choose with on_duplicate='first' or 'last' (--on-duplicate)"
            )
        chosen = claiming[-1 if on_duplicate == "last" else 0]
        problems += [
            problem("rank claimed twice", rank=rank, file=file.path, action=f"{chosen.path.name} was read instead")
            for file in claiming
            if file is not chosen
        ]
        if chosen.format is None:
            raise InputError(f"{chosen.path} is of no format that is read; give files the profiler wrote")
        sources.append(RankSource(rank, chosen.path, chosen.rank_from, chosen.format.name, chosen.info))
    left_out = tuple(LeftOut(file.path, file.unfit) for file in files if file.unfit)
    return Survey(tuple(sources), (*problems, *doubts(sources)), title, origin, left_out)
