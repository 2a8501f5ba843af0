"""Is a profile of XLA read 10 times faster than with protobuf, 20 times faster than with JAX, in twice its size?"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from harness.bench import Bench
from harness.measure import Measurement
from harness.question import Row, Skipped, at_most, constant, memory_beyond, seconds, times_faster

# What is kept of each event besides line, name, start and duration.
STATS = {"hlo_op": "text", "program_id": "int", "run_id": "int", "step_num": "int", "_p": "int", "_c": "int"}
# Messages of xplane.proto, as far as they are needed: name, number, type, message or entry of a map.
_INT, _UINT, _DOUBLE, _STRING, _BYTES, _MESSAGE = 3, 4, 1, 9, 12, 11
_SCHEMA: dict[str, tuple[tuple[str, int, int, str], ...]] = {
    "XSpace": (("planes", 1, _MESSAGE, "XPlane"),),
    "XPlane": (
        ("name", 2, _STRING, ""),
        ("lines", 3, _MESSAGE, "XLine"),
        ("event_metadata", 4, _MESSAGE, "map XEventMetadata"),
        ("stat_metadata", 5, _MESSAGE, "map XStatMetadata"),
    ),
    "XLine": (
        ("id", 1, _INT, ""),
        ("name", 2, _STRING, ""),
        ("timestamp_ns", 3, _INT, ""),
        ("events", 4, _MESSAGE, "XEvent"),
    ),
    "XEvent": (
        ("metadata_id", 1, _INT, ""),
        ("offset_ps", 2, _INT, ""),
        ("duration_ps", 3, _INT, ""),
        ("stats", 4, _MESSAGE, "XStat"),
    ),
    "XStat": (
        ("metadata_id", 1, _INT, ""),
        ("double_value", 2, _DOUBLE, "one"),
        ("uint64_value", 3, _UINT, "one"),
        ("int64_value", 4, _INT, "one"),
        ("str_value", 5, _STRING, "one"),
        ("bytes_value", 6, _BYTES, "one"),
        ("ref_value", 7, _UINT, "one"),
    ),
    "XEventMetadata": (("id", 1, _INT, ""), ("name", 2, _STRING, "")),
    "XStatMetadata": (("id", 1, _INT, ""), ("name", 2, _STRING, "")),
}
_LISTS = ("planes", "lines", "events", "stats")


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    path = bench.inputs.profile
    ours = bench.ours("profile of XLA, columns of all events", "profile", path)
    for peer, least in (("protobuf", 10), ("jax", 20)):
        command = (*bench.theirs("questions.profiles", path), peer)
        yield Row(
            f"columns of a profile against {peer}",
            seconds(ours, "columns of all events"),
            seconds(Measurement(f"{peer}, profile of XLA", command, most_rounds=3), f"the same columns with {peer}"),
            times_faster(least),
        )
    for name, profile in (("a profile", path), ("a long profile", bench.inputs.long_profile)):
        analysed = bench.ours(f"load, {name} of XLA, columns of the analyses", "load", profile, "analyses")
        yield Row(
            f"peak memory of loading {name}",
            memory_beyond(analysed, bench.importing, "columns of the analyses"),
            constant(profile.stat().st_size / 1e6, "MB", "the profile"),
            at_most(2),
        )


class Columns:
    """What is kept of events."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.names: list[str] = []
        self.starts: list[float] = []
        self.durations: list[float] = []
        self.stats: dict[str, tuple[list[int], list[Any]]] = {key: ([], []) for key in STATS}

    def frame(self) -> Any:
        import polars as pl

        events = pl.DataFrame(
            {"line": self.lines, "name": self.names, "start": self.starts, "duration": self.durations}
        )
        return events, {key: pl.DataFrame({"event": r, "value": v}) for key, (r, v) in self.stats.items()}


def protobuf(path: str) -> Columns:
    """With protobuf's own parser (upb) and loops over its objects."""
    from pathlib import Path

    space = _message()()
    space.ParseFromString(Path(path).read_bytes())
    columns = Columns()
    number = 0
    for plane in space.planes:
        names = {key: value.name for key, value in plane.event_metadata.items()}
        keys = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            begun_ps = line.timestamp_ns * 1000
            for event in line.events:
                for stat in event.stats:
                    key = keys.get(stat.metadata_id)
                    if key in columns.stats:
                        kind = stat.WhichOneof("value")
                        value = keys.get(stat.ref_value) if kind == "ref_value" else getattr(stat, kind)
                        kept = columns.stats[key]
                        kept[0].append(len(columns.lines))
                        kept[1].append(value)
                columns.lines.append(number)
                columns.names.append(names.get(event.metadata_id, ""))
                columns.starts.append(begun_ps + event.offset_ps)
                columns.durations.append(event.duration_ps)
            number += 1
    return columns


def _message() -> Any:
    """The class of XSpace."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="x", syntax="proto3")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        if name == "XStat":
            message.oneof_decl.add(name="value")
        for field, number, kind, of in fields:
            is_map = of.startswith("map ")
            added = message.field.add(name=field, number=number, type=kind, label=3 if is_map or field in _LISTS else 1)
            if of == "one":
                added.oneof_index = 0
            elif is_map:
                entry = message.nested_type.add(name="".join(part.title() for part in field.split("_")) + "Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, type=_INT, label=1)
                entry.field.add(name="value", number=2, type=_MESSAGE, label=1, type_name=f".x.{of[4:]}")
                added.type_name = f".x.{name}.{entry.name}"
            elif of:
                added.type_name = f".x.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("x.XSpace"))


def jax(path: str) -> Columns:
    """With JAX's reader and loops over its objects."""
    from jax.profiler import ProfileData

    columns = Columns()
    number = 0
    for plane in ProfileData.from_file(path).planes:
        for line in plane.lines:
            for event in line.events:
                for key, value in event.stats:
                    if key in columns.stats:
                        kept = columns.stats[key]
                        kept[0].append(len(columns.lines))
                        kept[1].append(value)
                columns.lines.append(number)
                columns.names.append(event.name)
                columns.starts.append(event.start_ns)
                columns.durations.append(event.duration_ns)
            number += 1
    return columns


def measure(path: str, peer: str) -> dict[str, float]:
    """Seconds to have the columns in Polars; what is imported is imported before."""
    import polars  # noqa: F401  # imported before the clock starts

    read = {"protobuf": protobuf, "jax": jax}[peer]
    if peer == "jax":
        from jax.profiler import ProfileData  # noqa: F401  # imported before the clock starts
    else:
        _message()
    started = time.perf_counter()
    events, _ = read(path).frame()
    return {"seconds": time.perf_counter() - started, "rows": events.height}


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
