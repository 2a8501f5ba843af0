"""All bytes of a file that may be packed, for readers that need them at once."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from io import BytesIO

from holotrace import stores
from holotrace.core.native import native
from holotrace.errors import InputError
from holotrace.stores import Origin

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BLOCK_BYTES = 1 << 20
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)

# A field of a protobuf message that goes on beyond its end: it says that something came behind it.
_CUT_OFF = b"\x0a\x7f"


@dataclass(frozen=True)
class Inflated:
    """The bytes of a file, and whether its packing is damaged: then some may be missing at the end, or be wrong."""

    content: bytes
    is_damaged: bool = False


def inflated(where: Origin, *, most_bytes: int) -> Inflated:
    """All of a profile's file, inflated where it is packed; of one that is cut off what there is, and that it is.

    Raises InputError where nothing of it can be read, or it is larger than that.
    """
    is_damaged = False
    begin = stores.first(where, 32)
    source = stores.source(where)
    if begin.startswith(_ZSTD):
        content = native.read_ends(source, head_bytes=most_bytes + 1, tail_bytes=0)[0]
        if not content:
            raise InputError(f"{where} cannot be read: it is cut off or damaged; give the whole file")
        if len(content) < _zstd_bytes(begin):
            # The core gives what came before damage, which by itself may look whole.
            content += _CUT_OFF
    elif begin.startswith(_GZIP):
        try:
            packed = open(source, "rb") if isinstance(source, str) else BytesIO(b"".join(source.pieces))  # noqa: PTH123, SIM115
            with packed, gzip.open(packed) as file:
                content, is_damaged = _whole_blocks(file, most_bytes + 1)
        except _DAMAGE as error:
            raise InputError(f"{where} cannot be read: {error}; give the whole file") from error
    else:
        content = native.read_ends(source, head_bytes=most_bytes + 1, tail_bytes=0)[0]
    if len(content) > most_bytes:
        raise InputError(f"{where} holds more than {most_bytes >> 30} GiB; unpack it, and give the file")
    return Inflated(content, is_damaged)


def _whole_blocks(file: gzip.GzipFile, most_bytes: int) -> tuple[bytes, bool]:
    """So many bytes at most, and where the file ends too early or is damaged those before that; whether it is."""
    blocks: list[bytes] = []
    left, is_damaged = most_bytes, False
    try:
        while left > 0 and (block := file.read1(min(left, _BLOCK_BYTES))):
            blocks.append(block)
            left -= len(block)
    except _DAMAGE as error:
        if not blocks:
            raise
        is_damaged = not isinstance(error, EOFError)
        if not is_damaged:
            blocks.append(_CUT_OFF)
    return b"".join(blocks), is_damaged


def _zstd_bytes(begin: bytes) -> int:
    """How many bytes the first frame says to hold; 0 where it does not say."""
    flags = begin[4] if len(begin) > 4 else 0
    is_single, size_flag = flags >> 5 & 1, flags >> 6
    at = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    width = (is_single, 2, 4, 8)[size_flag]
    return int.from_bytes(begin[at : at + width], "little") + (256 if size_flag == 1 else 0)
