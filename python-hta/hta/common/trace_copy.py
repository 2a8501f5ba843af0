"""A copy of a trace with a few changes, which takes no memory unless somebody looks into it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import holotrace
from holotrace import Edit
from hta.common.trace_file import read_trace


class TraceCopy(Mapping[str, Any]):
    """The JSON of a trace with changes: what ``Trace.write_raw_trace`` is given for overlays.

    Args:
        source: The file of the trace.
        edits: What to put into which events.
        only: Categories; events of others that last are left out, unless they are edited. All are kept by default.
        append: New events behind all others, as JSON text.
    """

    def __init__(
        self, source: str, *, edits: Iterable[Edit] = (), only: Iterable[str] | None = None, append: Iterable[str] = ()
    ) -> None:
        self._source, self._edits, self._only, self._append = source, list(edits), only, list(append)

    def write(self, file: str) -> None:
        """Write the copy, packed as the name of the file says; the trace is streamed through."""
        holotrace.rewrite(self._source, file, edits=self._edits, only=self._only, append=self._append)

    @cached_property
    def _content(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "copy.json")
            self.write(file)
            return read_trace(file)

    def __getitem__(self, key: str) -> Any:
        return self._content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)
