"""PyTorch's memory timeline: which kinds of tensors held how much memory, and when."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import polars as pl

from holotrace.core.schema import Column, Unit, conform
from holotrace.errors import InputError, TraceFormatError

# In the order of PyTorch's numbers for them.
_CATEGORIES = ("parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd", "unknown")

_HELD = tuple(f"{category}_bytes" for category in _CATEGORIES)

COLUMNS = (
    Column("time_ns", Unit.NS, "When; exact, on the clock of the file"),
    *(Column(name, Unit.BYTES, f"Held from then on by tensors of category {n}") for n, name in enumerate(_HELD)),
)

_GZIP = b"\x1f\x8b"
_REASON = 100  # characters of why it is none: the rest is what stands in the file
_ENTRIES = pl.List(pl.List(pl.Int64))


def memory_timeline(path: str | Path) -> pl.DataFrame:
    """Bytes that each category of tensors held after each change, from what ``export_memory_timeline`` wrote.

    One row per time at which something changed. What was allocated before recording began is the first row, with the
    time of the first change.

    Args:
        path: The file: a list of ``[time, action, bytes, category]`` as JSON, plain or gzip (``….raw.json.gz``).
    """
    changes = _changes(Path(path))
    # PyTorch gives what was there before the time -1.
    first = pl.col("time_ns").filter(pl.col("time_ns") > 0).min().fill_null(0)
    sums = (pl.col("bytes").filter(category=number).sum().alias(name) for number, name in enumerate(_HELD))
    held = (
        changes.with_columns(
            turn=pl.col("time_ns").rle_id(), time_ns=pl.when(pl.col("time_ns") < 0).then(first).otherwise("time_ns")
        )
        .group_by("turn", maintain_order=True)
        .agg(pl.col("time_ns").first(), *sums)
        .select("time_ns", pl.col(_HELD).cum_sum())
    )
    return conform(held, COLUMNS, "memory_timeline")


def _changes(path: Path) -> pl.DataFrame:
    """Time, bytes and category of each of the file's entries."""
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if content.startswith(_GZIP) else content).decode()
        entries = pl.Series([text or "null"]).str.json_decode(_ENTRIES).explode(empty_as_null=False)
    # Cut off, no text, or other JSON.
    except (EOFError, UnicodeDecodeError, zlib.error, gzip.BadGzipFile, pl.exceptions.ComputeError) as error:
        raise _no_timeline(path, str(error).partition("\n")[0][:_REASON]) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from error
    fields = ("time_ns", "action", "bytes", "category")
    changes = pl.DataFrame({field: entries.list.get(place, null_on_oob=True) for place, field in enumerate(fields)})
    is_whole = pl.all_horizontal(pl.all().is_not_null()) & pl.col("category").is_between(0, len(_CATEGORIES) - 1)
    broken = changes.with_row_index("entry").filter(~is_whole)
    if not broken.is_empty():
        raise _no_timeline(path, f"entry {broken['entry'][0]} is no [time, action, bytes, category]")
    return changes


def _no_timeline(path: Path, reason: str) -> TraceFormatError:
    return TraceFormatError(f"{path} is not a memory timeline: {reason}; give what export_memory_timeline wrote as raw")
