"""Traces that come through a pipe, and files that are none of those a disk holds."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from holotrace.errors import InputError
from holotrace.formats import heads, recognized
from holotrace.formats.foreign import what_it_is
from holotrace.stores import Held, Place

# Standard input, and what shells put in the place of <(COMMAND).
_STREAM = re.compile(r"-|/dev/stdin|/dev/fd/\d+|/proc/[^/]+/fd/\d+")
_LOOKED_AT_BYTES = 1 << 20
_MOST_BYTES = 1 << 32
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def is_stream(path: Place) -> bool:
    """Whether a path stands for what another program hands over."""
    return isinstance(path, Path) and _STREAM.fullmatch(str(path)) is not None


def odd_kind(path: Path) -> str:
    """What a path leads to where that is neither a file nor a folder; else empty."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) and path.resolve().is_relative_to("/proc"):
        # Its size says nothing, and reading it may wait for ever.
        return "a file of the system's kernel"
    return next((what for is_such, what in _KINDS if is_such(mode)), "")


def received(path: Path) -> Held:
    """All that comes through a pipe; refused as soon as it is seen to be no trace."""
    name = "stdin" if str(path) in ("-", "/dev/stdin") else str(path)
    try:
        # By its number, as standard input may be a file that this process may not open again.
        with os.fdopen(os.dup(0), "rb") if name == "stdin" else path.open("rb") as file:
            return Held(name, _content(file, name))
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}; give the path of a file") from error


def _content(file: BinaryIO, name: str) -> bytes:
    if file.isatty():
        raise InputError(f"{name} is a terminal; give the path of a trace, or pipe one in")
    begin = file.read(_LOOKED_AT_BYTES)
    if not begin:
        raise InputError(f"{name} is empty; pipe a trace in, or give the path of one")
    head = heads.head(Held(name, begin))
    if recognized(head, named=False) is None:
        what = what_it_is(head) or "no trace; pipe one in as the profiler wrote it, packed as .gz or .zst or not at all"
        raise InputError(f"{name} is {what}")
    content = begin + file.read(_MOST_BYTES - len(begin) + 1)
    if len(content) > _MOST_BYTES:
        raise InputError(f"{name} is more than {_MOST_BYTES >> 30} GiB, which are held in memory; give a file instead")
    return content
