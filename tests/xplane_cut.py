"""Profiles of XLA of which only what began and ended in a part of their time is left, as of a recorder asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from harness.protobuf import text

_PLANE, _LINE, _EVENT, _STAT = 1, 3, 4, 4
_Field = tuple[int, int | bytes, bytes]


def cut(folder: Path, seed: int, share: float, *, skew: float = 0.04) -> None:
    """Leaves this share of the time of each profile; those of several hosts are asked for within ``skew`` of it."""
    random = Random(seed)
    at = random.uniform(0, 1 - share - skew)
    for path in sorted(folder.glob("**/*.xplane.pb")):
        space = path.read_bytes()
        begun, over = _times(space)
        since, until = (begun + (over - begun) * (edge + random.uniform(0, skew)) for edge in (at, at + share))
        path.write_bytes(_cut(space, since, until))


def _cut(space: bytes, since: float, until: float) -> bytes:
    kept = [
        (number, _plane(value, since, until, set()) if _is_recorded(number, value) else None, field)
        for number, value, field in _fields(space)
    ]
    # GPUs run what was launched before the recording, too, but that is not in it.
    calls = {flow for number, plane, _ in kept if plane and b"/host:CPU" in plane for flow in _flows(plane)}
    planes = (
        text(number, _plane(plane, since, until, calls) if b"/device:GPU" in plane else plane) if plane else field
        for number, plane, field in kept
    )
    return b"".join(planes)


def _is_recorded(number: int, value: int | bytes) -> bool:
    return number == _PLANE and isinstance(value, bytes) and any(n == _LINE for n, *_ in _fields(value))


def _plane(plane: int | bytes, since: float, until: float, calls: set[int]) -> bytes:
    """The plane with the events of this time, and of these with a correlation id only those of ``calls``, if any."""
    assert isinstance(plane, bytes)
    key = _correlation(plane)
    return b"".join(
        text(_LINE, _line(value, since, until, key, calls)) if number == _LINE and isinstance(value, bytes) else field
        for number, value, field in _fields(plane)
    )


def _line(line: bytes, since: float, until: float, key: int, calls: set[int]) -> bytes:
    return b"".join(
        field
        for number, value, field in _fields(line)
        if number != _EVENT or _is_left(_event(value, key), since, until, calls)
    )


def _is_left(event: tuple[int, int, int], since: float, until: float, calls: set[int]) -> bool:
    start, length, flow = event
    return start >= since and start + length <= until and (not calls or not flow or flow in calls)


def _event(value: int | bytes, key: int) -> tuple[int, int, int]:
    """When an event began, in ps, how long it took, and its correlation id, or 0."""
    assert isinstance(value, bytes)
    start = length = flow = 0
    for number, part, _ in _fields(value):
        start = part if number == 2 and isinstance(part, int) else start
        length = part if number == 3 and isinstance(part, int) else length
        if number == _STAT and isinstance(part, bytes):
            stat = {number: value for number, value, _ in _fields(part)}
            flow = int(stat.get(4) or flow) if stat.get(1) == key and isinstance(stat.get(4), int) else flow
    return start, length, flow


def _correlation(plane: bytes) -> int:
    """The number of the stat that says which call launched what; 0 where there is none."""
    for number, value, _ in _fields(plane):
        if number == 5 and isinstance(value, bytes) and b"correlation_id" in value:
            return next(place for number, place, _ in _fields(value) if number == 1 and isinstance(place, int))
    return 0


def _flows(plane: bytes) -> Iterator[int]:
    key = _correlation(plane)
    lines = (value for number, value, _ in _fields(plane) if number == _LINE and isinstance(value, bytes))
    events = (value for line in lines for number, value, _ in _fields(line) if number == _EVENT)
    return (flow for *_, flow in (_event(value, key) for value in events) if flow)


def _times(space: bytes) -> tuple[int, int]:
    planes = [value for number, value, _ in _fields(space) if number == _PLANE and isinstance(value, bytes)]
    lines = [value for plane in planes for n, value, _ in _fields(plane) if n == _LINE and isinstance(value, bytes)]
    events = [_event(value, 0) for line in lines for number, value, _ in _fields(line) if number == _EVENT]
    return min(start for start, *_ in events), max(start + length for start, length, _ in events)


def _fields(message: bytes) -> Iterator[_Field]:
    """The fields of a message: their numbers, what they hold, and their bytes."""
    at = 0
    while at < len(message):
        begun = at
        head, at = _varint(message, at)
        number, kind = head >> 3, head & 7
        value: int | bytes
        if kind == 0:
            value, at = _varint(message, at)
        else:
            length, at = (8, at) if kind == 1 else _varint(message, at)
            value, at = message[at : at + length], at + length
        yield number, value, message[begun:at]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value, shift, at = value | (message[at] & 127) << shift, shift + 7, at + 1
        if message[at - 1] < 128:
            return value, at
