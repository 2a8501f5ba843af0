"""Trace files of several ranks written as one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from holotrace import stores
from holotrace.core.native import native
from holotrace.errors import InputError
from holotrace.stores import Origin

# What ran on devices; all but Python functions; all.
Detail = Literal["device", "host", "python"]

_PROBLEMS = ("problem", "count", "first_offset", "example", "action")


@dataclass(frozen=True)
class Part:
    """One rank's file, and what becomes of it."""

    path: Origin
    detail: Detail
    # What the names of its processes begin with.
    name: str
    # Added to its times.
    shift_ns: int
    # Times of the file, from the first to before the second: only what lies in between at least partly is written.
    window_ns: tuple[int, int] | None


@dataclass(frozen=True)
class Written:
    """What was done with one rank's file."""

    event_count: int
    left_out_count: int
    # What a reader knows of the rows of the problems table.
    problems: pl.DataFrame


def write(parts: Iterable[Part], target: Path, *, head: Mapping[str, Any]) -> list[Written]:
    """Write one trace of many, packed as the suffix of ``target`` says; it is there once it is whole.

    Processes, threads and arrows of a part are never those of another one, and its names say which it is. Each file is
    read as far as it can be, and let go before the next; memory does not grow with them.

    Args:
        parts: One after the other, as they are taken.
        target: A file; replaced if it is there.
        head: Top-level keys that stand before the events.
    """
    try:
        done = native.write_timeline(str(target), head=json.dumps(head, indent=1), parts=_asked(parts))
    except OSError as error:
        where = error.filename or target
        raise InputError(
            f"{target} cannot be written ({where}: {error.strerror or error}); check both places"
        ) from error
    return [Written(written, left_out, _problems(trace)) for written, left_out, trace in done]


def _asked(parts: Iterable[Part]) -> Iterator[tuple[Any, str, int, tuple[int, int] | None, str]]:
    for part in parts:
        name = json.dumps(part.name, ensure_ascii=False)[1:-1]
        yield stores.source(part.path), name, part.shift_ns, part.window_ns, part.detail


def _problems(trace: native.Trace) -> pl.DataFrame:
    return pl.DataFrame(trace.table("problems", _PROBLEMS))
