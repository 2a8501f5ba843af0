"""Fields of protobuf as bytes: of what is written by hand, since no library writes only a part of a message."""

from __future__ import annotations

_VARINT, _BYTES = 0, 2


def varint(value: int) -> bytes:
    """A number of any length; a negative one as of 64 bits."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def tag(place: int, kind: int) -> bytes:
    """What a field begins with."""
    return varint(place << 3 | kind)


def number(place: int, value: int) -> bytes:
    """A field that is a number."""
    return tag(place, _VARINT) + varint(value)


def text(place: int, content: bytes) -> bytes:
    """A field that is a text, or another message."""
    return tag(place, _BYTES) + varint(len(content)) + content
