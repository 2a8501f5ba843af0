"""Profiles of XLA for tests: real captures, and profiles drawn event by event and written as protobuf."""

from __future__ import annotations

import lzma
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from harness.protobuf import number as varint_field
from harness.protobuf import text as bytes_field

DATA = Path(__file__).parent / "data" / "xplane"
FOUND = Path(os.environ.get("HOLOTRACE_REAL_TRACES", Path(__file__).parents[2] / "shared" / "data")) / "xla"

Stat = int | float | str | bytes


def capture(name: str, folder: Path) -> Path:
    """A log directory in ``folder`` with the committed capture of that name, one file per host."""
    run = folder / "plugins" / "profile" / "2026_11_21_03_00_00"
    run.mkdir(parents=True)
    for packed in sorted(DATA.glob(f"{name}.*xz")):
        host = packed.name.removeprefix(f"{name}.").removesuffix("xplane.pb.xz").rstrip(".") or "vm"
        (run / f"{host}.xplane.pb").write_bytes(lzma.decompress(packed.read_bytes()))
    return folder


def found(path: str) -> Path:
    """A capture that others published; skips the test where it is not there."""
    if not (FOUND / path).exists():
        pytest.skip(f"{path} is not there")
    return FOUND / path


@dataclass
class Event:
    """One event; times in ps from the line's own."""

    name: str
    start_ps: int
    duration_ps: int
    stats: Mapping[str, Stat] = field(default_factory=dict)
    display: str = ""


@dataclass
class Line:
    name: str
    events: Sequence[Event]
    id: int = 1
    timestamp_ns: int = 0


@dataclass
class Plane:
    name: str
    lines: Sequence[Line] = ()
    stats: Mapping[str, Stat] = field(default_factory=dict)
    # The compiled programs, by name and id: ``jit_f(7)``.
    programs: Mapping[str, bytes] = field(default_factory=dict)


def space(*planes: Plane, hosts: Sequence[str] = ("host",)) -> bytes:
    """An XSpace of these planes, as a profiler would write it."""
    return b"".join(bytes_field(1, _plane(plane)) for plane in planes) + b"".join(
        bytes_field(4, host.encode()) for host in hosts
    )


def started_at(start_ns: int, stop_ns: int) -> Plane:
    """The plane that says when the profile was recorded."""
    return Plane("Task Environment", stats={"profile_start_time": start_ns, "profile_stop_time": stop_ns})


def _plane(plane: Plane) -> bytes:
    keys: dict[str, int] = {}
    names: dict[tuple[str, str], int] = {}

    def stat(key: str, value: Stat) -> bytes:
        number = keys.setdefault(key, len(keys) + 1)
        if isinstance(value, float):
            written = bytes([2 << 3 | 1]) + struct.pack("<d", value)
        elif isinstance(value, int):
            written = varint_field(4, value)
        else:
            written = bytes_field(
                5 if isinstance(value, str) else 6, value.encode() if isinstance(value, str) else value
            )
        return varint_field(1, number) + written

    def event(it: Event) -> bytes:
        number = names.setdefault((it.name, it.display), len(names) + 1)
        head = varint_field(1, number) + varint_field(2, it.start_ps) + varint_field(3, it.duration_ps)
        return head + b"".join(bytes_field(4, stat(key, value)) for key, value in it.stats.items())

    def line(it: Line) -> bytes:
        head = varint_field(1, it.id) + bytes_field(2, it.name.encode()) + varint_field(3, it.timestamp_ns)
        return head + b"".join(bytes_field(4, event(one)) for one in it.events)

    lines = b"".join(bytes_field(3, line(one)) for one in plane.lines)
    stats = b"".join(bytes_field(6, stat(key, value)) for key, value in plane.stats.items())
    events = b"".join(
        bytes_field(
            4,
            varint_field(1, number) + bytes_field(2, bytes_field(2, name.encode()) + bytes_field(4, display.encode())),
        )
        for (name, display), number in names.items()
    )
    first = len(names) + 1
    events += b"".join(
        bytes_field(
            4,
            varint_field(1, number)
            + bytes_field(2, bytes_field(2, name.encode()) + bytes_field(5, stat("Hlo Proto", program))),
        )
        for number, (name, program) in enumerate(plane.programs.items(), first)
    )
    known = b"".join(
        bytes_field(5, varint_field(1, number) + bytes_field(2, varint_field(1, number) + bytes_field(2, key.encode())))
        for key, number in keys.items()
    )
    return bytes_field(2, plane.name.encode()) + lines + events + known + stats
