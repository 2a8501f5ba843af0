"""A long profile of XLA made of a short one: the same again and again, each time later.

Times, runs and steps count on, as in a recording that went on for longer; all else is as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.protobuf import tag, varint

# Fields of xplane.proto.
_PLANES, _LINES, _STAT_METADATA, _KEY, _VALUE, _NAME = 1, 3, 5, 1, 2, 2
_TIMESTAMP_NS, _EVENTS, _OFFSET_PS, _DURATION_PS, _STATS, _STAT_KEY = 3, 4, 2, 3, 4, 1
_WHOLE_VALUES = (3, 4)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# A number of 64 bits as a varint of this length, whatever its value: readers take it, and it can be changed in place.
_WIDTH = 10
_COUNTED = (b"run_id", b"step_num")


@dataclass
class _Template:
    """One copy, with places for the numbers that count on: offset, and the number of the first copy."""

    content: bytearray = field(default_factory=bytearray)
    times: list[tuple[int, int]] = field(default_factory=list)
    counts: list[tuple[int, int]] = field(default_factory=list)
    # The last end of an event after the first line's beginning.
    lasts_ns: int = 0


def write(capture: bytes, path: Path, size: int) -> None:
    """Write the profile ``capture`` as often as it takes to be of ``size`` bytes."""
    template = _template(capture)
    most = max((number for _, number in template.counts), default=0) + 1
    with path.open("wb") as file:
        for copy in range(-(-size // len(template.content))):
            content = bytearray(template.content)
            for at, number in template.times:
                content[at : at + _WIDTH] = _wide(number + copy * template.lasts_ns)
            for at, number in template.counts:
                content[at : at + _WIDTH] = _wide(number + copy * most)
            file.write(content)


def _template(capture: bytes) -> _Template:
    template = _Template()
    begins, ends = [], []
    for number, kind, value in _fields(capture):
        if number == _PLANES and kind == _BYTES:
            plane, times, counts, spans = _plane(value)
            _put(template, tag(number, kind) + varint(len(plane)), [], [])
            _put(template, plane, times, counts)
            begins += [begin for begin, _ in spans]
            ends += [end for _, end in spans]
        else:
            _put(template, _field(number, kind, value), [], [])
    template.lasts_ns = max(ends, default=0) - min(begins, default=0)
    return template


def _put(template: _Template, content: bytes, times: list[tuple[int, int]], counts: list[tuple[int, int]]) -> None:
    first = len(template.content)
    template.content += content
    template.times += [(first + at, number) for at, number in times]
    template.counts += [(first + at, number) for at, number in counts]


# Places of numbers in a message: offset and number.
_Places = list[tuple[int, int]]


def _plane(content: bytes) -> tuple[bytes, _Places, _Places, list[tuple[int, int]]]:
    counted = {key for key, name in _stat_names(content) if name in _COUNTED}
    made, times, counts, spans = bytearray(), _Places(), _Places(), []
    for number, kind, value in _fields(content):
        if number != _LINES or kind != _BYTES:
            made += _field(number, kind, value)
            continue
        line, time, found, span = _line(value, counted)
        made += tag(number, kind) + varint(len(line))
        if time is not None:
            times.append((len(made) + time[0], time[1]))
            spans.append(span)
        counts += [(len(made) + at, value) for at, value in found]
        made += line
    return bytes(made), times, counts, spans


def _stat_names(plane: bytes) -> Iterator[tuple[int, bytes]]:
    for number, _, value in _fields(plane):
        if number == _STAT_METADATA:
            entry = {key: held for key, _, held in _fields(value)}
            named = {key: held for key, _, held in _fields(entry.get(_VALUE, b""))}
            yield entry.get(_KEY, 0), named.get(_NAME, b"")


def _line(content: bytes, counted: set[int]) -> tuple[bytes, tuple[int, int] | None, _Places, tuple[int, int]]:
    made, time, counts, last_ps = bytearray(), None, _Places(), 0
    for number, kind, value in _fields(content):
        if number == _TIMESTAMP_NS and kind == _VARINT:
            made += tag(number, kind)
            time = (len(made), value)
            made += _wide(value)
        elif number == _EVENTS and kind == _BYTES:
            event, found, end_ps = _event(value, counted)
            made += tag(number, kind) + varint(len(event))
            counts += [(len(made) + at, value) for at, value in found]
            made += event
            last_ps = max(last_ps, end_ps)
        else:
            made += _field(number, kind, value)
    begun = time[1] if time else 0
    return bytes(made), time, counts, (begun, begun + last_ps // 1000)


def _event(content: bytes, counted: set[int]) -> tuple[bytes, _Places, int]:
    made, counts, end_ps = bytearray(), _Places(), 0
    for number, kind, value in _fields(content):
        if number in (_OFFSET_PS, _DURATION_PS) and kind == _VARINT:
            end_ps += value
        parts = list(_fields(value)) if number == _STATS and kind == _BYTES else []
        is_counted = any(key == _STAT_KEY and held in counted for key, _, held in parts)
        if not is_counted:
            made += _field(number, kind, value)
            continue
        stat, places = bytearray(), _Places()
        for key, form, held in parts:
            stat += tag(key, form)
            if key in _WHOLE_VALUES:
                places.append((len(stat), held))
                stat += _wide(held)
            else:
                stat += _payload(form, held)
        made += tag(number, kind) + varint(len(stat))
        counts += [(len(made) + at, held) for at, held in places]
        made += stat
    return bytes(made), counts, end_ps


def _fields(content: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and value of each field of a message."""
    at = 0
    while at < len(content):
        key, at = _read(content, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _read(content, at)
            yield key >> 3, kind, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if length is None:
            length, at = _read(content, at)
        yield key >> 3, kind, content[at : at + length]
        at += length


def _read(content: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _field(number: int, kind: int, value: int | bytes) -> bytes:
    return tag(number, kind) + _payload(kind, value)


def _payload(kind: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(value)
    return (varint(len(value)) if kind == _BYTES else b"") + value


def _wide(value: int) -> bytes:
    return bytes(value >> 7 * place & 127 | (128 if place < _WIDTH - 1 else 0) for place in range(_WIDTH))
