"""What an input format declares of itself, once: how its files are told, read, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from holotrace.core.on_demand import Held
from holotrace.core.schema import Column, Table
from holotrace.core.source import RankSource
from holotrace.core.tables import ALL
from holotrace.formats.parsed import Columns, Parsed
from holotrace.stores import Origin, Place

# Tells this program from another; None where that is unknown.
Program = Callable[[], bytes | None]


@dataclass(frozen=True)
class Head:
    """What is known of a file before it is read."""

    path: Origin
    text: bytes
    """Its first bytes, inflated."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def plain_name(self) -> str:
        """Its name as it is when it is not packed."""
        return self.name.removesuffix(".gz").removesuffix(".zst")


@dataclass(frozen=True)
class Expansion:
    """The files that a folder of a known layout stands for."""

    files: tuple[Origin, ...]
    problems: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class OpenedFolder:
    """A folder that is a whole job of this format."""

    sources: tuple[RankSource, ...]
    problems: tuple[Mapping[str, Any], ...]
    title: str
    recorded: tuple[RankSource, ...]
    """The files that the ranks come from, by which missing and mixed ranks are told."""


class AnswerStore(Protocol):
    """Answers of one rank that are kept beside its tables."""

    @property
    def is_remote(self) -> bool:
        """Whether it is in an object store, which is only written to where that is asked for."""

    def read(self, columns: Mapping[str, tuple[Column, ...]]) -> dict[str, pl.DataFrame]:
        """Every answer that is there and still true, by name; ``columns`` says what each has."""

    def write(self, parts: Mapping[str, pl.DataFrame]) -> None:
        """Keep these in place of what was there, if the place can be written to."""


def _nothing(_: bytes) -> Mapping[str, Any]:
    return {}


def _welcome(_: Head) -> str:
    return ""


@dataclass(frozen=True)
class Format:
    """One input format; ``FORMATS`` lists those that are read."""

    name: str
    """What ``RankSource.format`` says."""
    title: str
    """What messages call a file of it, with an article."""
    sniff: Callable[[Head], bool]
    """Whether a file is of this format, by its name and first bytes."""
    read: Callable[[RankSource, Sequence[Table]], Parsed[Held]]
    """The wanted tables of one file, as far as it has them. Raises InputError where the file cannot be read."""
    suffixes: tuple[str, ...] = ()
    """Endings of names that make a file of a folder worth looking at; those of packed files need not be named."""
    rank_of: Callable[[bytes], Mapping[str, Any]] = _nothing
    """``rank``, ``world_size`` and more that the first or last bytes of a file tell of its rank and job."""
    ranks_in: Callable[[Origin], Mapping[int, Mapping[str, Any]]] | None = None
    """The ranks of a file that holds several, each with what it tells of it; ``read`` gives those of one."""
    tables: tuple[Table, ...] = ALL
    """The tables and columns that a file can have; no others are asked for, but columns of the caller's own."""
    read_closely: Callable[[RankSource, Sequence[Table]], Parsed[Held]] | None = None
    """As ``read``, looking also into what is not wanted, so that no problem of the file stays unseen."""
    scan: Callable[[RankSource, Sequence[Table]], Parsed[Columns]] | None = None
    """As ``read``, with tables that are made when they are taken, for who writes them on."""
    refuse: Callable[[Head], str] = _welcome
    """Why a file of this format is not the trace of one rank, after "is", and the way out behind a semicolon."""
    takes_unknown: bool = False
    """Whether it reads files that were named and that no format recognizes, and says what is wrong with them."""
    has_made_columns: bool = False
    """Whether its tables hold what is otherwise made of them: kinds, rank_info, whose problems they are."""
    can_be_copied: bool = False
    """Whether a file is trace-event JSON, which overlays and timelines copy."""
    launches_programs: bool = False
    """Whether hosts launch whole programs, not kernels one by one."""
    has_lines: bool = False
    """Whether its table of events has all that was recorded, so that a timeline can be made of it."""
    why_not_copied: str = "has no trace events to copy; give traces as PyTorch's profiler exports them, in JSON"
    """Said of the file where copies are asked for: why there is none, and the way out."""
    expand: Callable[[Origin, bool], Expansion | None] | None = None
    """What a folder (with its subfolders, or without) stands for; None where its layout is not this format's."""
    resolve: Callable[[Path], Path | None] | None = None
    """The folder that a path stands for at which nothing is; None where it is no short name of this format's."""
    marker: str = ""
    """Name of the file that makes a folder a whole job of this format."""
    open_folder: Callable[[Place], OpenedFolder] | None = None
    """The job in a folder that has the marker."""
    origin: Callable[[RankSource], Mapping[str, Any]] | None = None
    """What the file that a rank comes from is, where that is another than the source's."""
    answers: Callable[[RankSource, Program], AnswerStore | None] | None = None
    """Where answers on a rank are kept; None where nothing can be."""
