"""Frames of what the core hands over in Arrow memory."""

from __future__ import annotations

from io import BytesIO

import polars as pl

from holotrace.core.native import native

# To take smaller tables column by column would take longer than their memory is worth.
_MANY_ROWS = 10_000


def frame(table: native.ArrowTable | pl.DataFrame) -> pl.DataFrame:
    """The table as a frame whose columns can be let go one by one.

    Polars holds what it was handed at once until the last column of it is gone.
    """
    if isinstance(table, pl.DataFrame) or table.height < _MANY_ROWS:
        return pl.DataFrame(table)
    return pl.DataFrame([pl.DataFrame(column).to_series() for column in table.columns()])


def stream(frame: pl.DataFrame) -> bytes:
    """The rows as a compressed stream of Arrow.

    Polars locks a frame while it writes it into a file of Python's, for which it needs the interpreter: a thread that
    holds the interpreter and asks the same frame for anything would wait for ever. So another frame with the same
    columns is written.
    """
    target = BytesIO()
    frame.clone().write_ipc_stream(target, compression="zstd")
    return target.getvalue()


def read(piece: bytes) -> pl.DataFrame:
    """The rows of such a stream."""
    return pl.read_ipc_stream(BytesIO(piece))
