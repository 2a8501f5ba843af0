"""Writing what a recorder holds as the file PyTorch's TensorBoard handler would write."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from holotrace.sample.model import Call
from holotrace.sample.process import STREAMS
from holotrace.sample.recorder import Recorder
from holotrace.sample.text import BASE_NS, START_NS, process_id

_COMPRESSION = 6  # of 1 to 9; 9 takes five times as long and saves a tenth
_BLOCK = 20_000  # entries written at once
_POLL = Call("cudaEventQuery", 138, 1_900)
_POLL_EVERY_NS = 5_000_000


def file_name(rank: int, *, compress: bool) -> str:
    """The file of a rank: host, process and time, as the handler puts them together."""
    return (
        f"rank-{rank}_{process_id(rank)}.{BASE_NS + START_NS + 1_000 * rank}.pt.trace.json{'.gz' if compress else ''}"
    )


def save(directory: Path, recorder: Recorder, end_ns: int, *, events: int | None, compress: bool) -> None:
    """Write one rank's file; the polls of NCCL's watchdog thread fill it up to ``events`` entries."""
    text = recorder.text
    python = recorder.python_entries()
    tail = [
        text.overhead((end_ns + 20_000, end_ns + 130_772)),
        *recorder.annotations,
        *text.labels(0, STREAMS),
        *text.closing((-60_000, end_ns + 400_000)),
    ]
    written = len(recorder.host) + len(recorder.on_device) + len(python) + len(tail)
    polls = _polls(recorder, end_ns, end_ns // _POLL_EVERY_NS if events is None else max(0, events - written))
    entries = chain(recorder.host, recorder.on_device, polls, python, tail)
    path = directory / file_name(text.rank, compress=compress)
    with _create(path) as file:
        file.write(text.header().encode())
        separator = ""
        while block := list(islice(entries, _BLOCK)):
            file.write((separator + ",\n".join(block)).encode())
            separator = ",\n"
        file.write(f'\n  ],\n  "traceName": "{path.name}"\n}}'.encode())


def _polls(recorder: Recorder, end_ns: int, count: int) -> Iterator[str]:
    text = recorder.text
    for poll in range(count):
        start_ns = end_ns * poll // count
        span = start_ns, start_ns + _POLL.duration_ns
        yield text.call(_POLL, text.watchdog_tid, span, None, recorder.correlation + 1 + poll)


@contextmanager
def _create(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    with path.open("wb") as raw:
        if path.suffix != ".gz":
            yield raw
            return
        # Neither name nor time go into the header: the same job is the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=_COMPRESSION, mtime=0) as file:
            yield file
