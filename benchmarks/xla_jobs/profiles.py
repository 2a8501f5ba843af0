"""Writes profiles as the profiler of XLA does (``XSpace``): planes of devices and of the host, lines, events, stats."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.protobuf import number, text

Stat = int | float | str | bytes
Stats = Mapping[str, Stat]
NOTHING: Stats = {}


@dataclass(frozen=True)
class Event:
    """One event; its times in microseconds."""

    name: str
    start: float
    end: float
    stats: Stats = field(default_factory=dict)
    display: str = ""
    # What all events of this name share.
    shared: Stats = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    number: int
    name: str
    events: Sequence[Event]


@dataclass(frozen=True)
class Plane:
    name: str
    lines: Sequence[Line] = ()
    stats: Stats = field(default_factory=dict)
    # Compiled programs (``HloProto``), by name and id: ``jit_f(7)``.
    programs: Mapping[str, bytes] = field(default_factory=dict)
    number: int = 0


def space(planes: Sequence[Plane], host: str) -> bytes:
    """The profile of one host."""
    return b"".join(text(1, _plane(plane)) for plane in planes) + text(4, host.encode())


class _Names:
    """Numbers of the names that a plane's events and stats have."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.events: dict[tuple[str, str], tuple[int, Stats]] = {}

    def stat(self, key: str, value: Stat) -> bytes:
        head = number(1, self.keys.setdefault(key, len(self.keys) + 1))
        if isinstance(value, float):
            return head + bytes([2 << 3 | 1]) + struct.pack("<d", value)
        if isinstance(value, int):
            return head + number(4, value)
        return head + (text(5, value.encode()) if isinstance(value, str) else text(6, value))

    def event(self, it: Event) -> bytes:
        told = self.events.setdefault((it.name, it.display), (len(self.events) + 1, it.shared))
        start, end = round(it.start * 1e6), round(it.end * 1e6)
        head = number(1, told[0]) + number(2, start) + number(3, end - start)
        return head + b"".join(text(4, self.stat(key, value)) for key, value in it.stats.items())

    def metadata(self, programs: Mapping[str, bytes]) -> bytes:
        found = b""
        for (name, display), (place, shared) in self.events.items():
            stats = b"".join(text(5, self.stat(key, value)) for key, value in shared.items())
            shown = number(1, place) + text(2, name.encode()) + text(4, display.encode()) + stats
            found += text(4, number(1, place) + text(2, shown))
        for place, (name, program) in enumerate(programs.items(), len(self.events) + 1):
            shown = number(1, place) + text(2, name.encode()) + text(5, self.stat("Hlo Proto", program))
            found += text(4, number(1, place) + text(2, shown))
        return found


def _plane(it: Plane) -> bytes:
    names = _Names()
    lines = b"".join(text(3, _line(line, names)) for line in it.lines)
    stats = b"".join(text(6, names.stat(key, value)) for key, value in it.stats.items())
    metadata = names.metadata(it.programs)
    known = b"".join(
        text(5, number(1, place) + text(2, number(1, place) + text(2, key.encode())))
        for key, place in names.keys.items()
    )
    return number(1, it.number) + text(2, it.name.encode()) + lines + metadata + known + stats


def _line(it: Line, names: _Names) -> bytes:
    head = number(1, it.number) + text(2, it.name.encode())
    return head + b"".join(text(4, names.event(event)) for event in it.events)
