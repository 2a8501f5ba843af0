"""A trace file written anew, byte for byte but for some events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from holotrace import stores
from holotrace.core.native import native
from holotrace.errors import InputError, UsageError
from holotrace.stores import Origin


@dataclass(frozen=True)
class Edit:
    """What to put into some events: in the place of what they have under these keys, or behind the rest."""

    # A Series is taken as well.
    event_ids: Iterable[int]
    args: Mapping[str, Any] = field(default_factory=dict)
    # Members of the event itself, e.g. its name; ``{"args": {}}`` takes all of its args away.
    fields: Mapping[str, Any] = field(default_factory=dict)


def rewrite(
    source: str | Origin,
    target: Path | str,
    *,
    edits: Iterable[Edit] = (),
    drop: Iterable[int] = (),
    only: Iterable[str] | None = None,
    append: Iterable[str] = (),
) -> None:
    """Write a copy of the trace at ``source`` in which only these events differ.

    All else stays byte for byte, in its order; memory does not grow with the file. The file is there once it is whole.

    Args:
        source: A trace-event file, plain or packed.
        target: Where to write, packed as the suffix says: ``.gz``, ``.zst``, else plain. Replaced if it is there.
        edits: What to put into events; of several edits of an event the last one of a key holds.
        drop: Numbers (``event_id``) of events to leave out; one that was written as a begin takes its end with it.
        only: Categories, or one; events of others that last are left out, unless they are edited. By default none is.
        append: New events behind all others, as JSON text; a text may hold several, with commas between them.
    """
    source = stores.place(source) if isinstance(source, str) else source
    target = Path(target).expanduser()
    if isinstance(only, str):
        only = [only]
    if isinstance(source, Path) and source.exists() and target.exists() and target.samefile(source):
        raise UsageError(f"{target} is the trace that is read; name another file to write")
    try:
        native.rewrite_trace_event(
            stores.source(source),
            str(target),
            edits=[(_ids(edit.event_ids), _members(edit.fields), _members(edit.args)) for edit in edits],
            drop=_ids(drop),
            only=None if only is None else list(only),
            append=list(append),
        )
    except (KeyError, OverflowError) as error:
        raise UsageError(
            f"{source} has not all of these events ({error.args[0]}); give event_ids of this file"
        ) from None
    except OSError as error:
        where = error.filename or source
        raise InputError(
            f"{target} cannot be written from {where}: {error.strerror or error}; check both places"
        ) from error


def _ids(event_ids: Iterable[int]) -> pl.DataFrame:
    values = event_ids if isinstance(event_ids, pl.Series) else list(event_ids)
    try:
        ids = pl.Series("event_id", values, dtype=pl.UInt32)
    except (TypeError, pl.exceptions.PolarsError):
        ids = None
    if ids is None or ids.has_nulls():
        raise UsageError("event_ids are whole numbers from 0; give those of this file")
    return ids.to_frame()


def _members(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    # Keys are compared with those of the file as they are written.
    return [(json.dumps(key, ensure_ascii=False)[1:-1], json.dumps(value)) for key, value in values.items()]
