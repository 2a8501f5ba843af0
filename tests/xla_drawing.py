"""XLA profiles drawn as text: devices, the calls and ranges of host threads, and what they are called.

``tpu |AA..B|`` is a device and its operations; each such line is one more device. ``call |KK.a|`` is a host thread:
``K`` is a span that is called as a line ``K = backend_compile`` says, and the first ``a`` launched the first ``A`` of
each device, in a call of a microsecond; ``deep |KK..|`` are calls inside those of the line above it. ``mark |FF..|``
are ranges that the program named, on the thread of the first ``call``, where the steps are too. ``A = dot.1 @
jit(f)/forward/dot in jit_f(1)`` says what an operation is called, its scope, and the program it is in; all but the
name may be left out. Each operation has a mebibyte for its result, and takes a kilobyte of its device's memory.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate

import polars as pl

from holotrace.core.schema import Table
from holotrace.core.tables import ANNOTATIONS, BUFFERS, DEVICES, HEAP, HOST_CALLS, MODULES, STEPS, XLA_OPS
from holotrace.derive.steps import launched_in

US = 1_000
LABELS = ("tpu", "call", "deep", "mark")
THREAD = "python"
# Far from those of other events, so that each id is one event's.
_FIRST_ID, _FIRST_STEP_ID = 10_000, 20_000
_COLLECTIVE = re.compile(r"all-|reduce-scatter|permute")


@dataclass(frozen=True)
class _Named:
    name: str
    scope: str | None = None
    module: str = "jit_f"
    program: int = 1


def tables(text: str, steps: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Tables of a drawing; ``steps`` as they were drawn, whose spans become calls."""
    lines = re.findall(r"^\s*([a-z]+)\d*\s*\|(.*)\|", text, flags=re.MULTILINE)
    names = _names(text)
    steps = steps.with_columns(pl.col("event_id") + _FIRST_STEP_ID)
    calls = _calls([line for line in lines if line[0] in ("call", "deep")], names)
    ranges = _spans([line for label, line in lines if label == "mark"], names, [THREAD] * 9, _FIRST_ID + 5_000)
    ops = _ops([line for label, line in lines if label == "tpu"], names, calls, steps)
    stepping = [{**step, "name": "train", "tid": THREAD} for step in steps.iter_rows(named=True)]
    return {
        XLA_OPS.name: frame(XLA_OPS, ops),
        HOST_CALLS.name: frame(HOST_CALLS, [*calls, *ranges, *stepping]),
        ANNOTATIONS.name: frame(ANNOTATIONS, [{**row, "category": "user", "on_device": False} for row in ranges]),
        STEPS.name: steps,
        MODULES.name: frame(MODULES, [{**op, "module_id": op["event_id"], "op_count": 1} for op in ops]),
        BUFFERS.name: frame(BUFFERS, _buffers(ops)),
        HEAP.name: frame(HEAP, _heap(ops)),
        DEVICES.name: frame(DEVICES, _devices(len([label for label, _ in lines if label == "tpu"]))),
    }


def frame(table: Table, rows: list[dict[str, object]]) -> pl.DataFrame:
    """A frame of ``table`` from rows that may lack some of its columns and have others."""
    given = pl.DataFrame(rows, infer_schema_length=None) if rows else table.empty()
    return given.select(
        (pl.col(column.name) if column.name in given.columns else pl.lit(None).alias(column.name)).cast(
            column.unit.dtype
        )
        for column in table.columns
    )


def _names(text: str) -> dict[str, _Named]:
    legend = re.findall(r"^\s*([A-Z]) = (.+?)(?: @ (\S+))?(?: in (\w+)\((\d+)\))?\s*$", text, flags=re.MULTILINE)
    return {
        letter: _Named(name, scope or None, module or "jit_f", int(program or 1))
        for letter, name, scope, module, program in legend
    }


def _spans(lines: list[str], names: dict[str, _Named], threads: list[str], first_id: int) -> list[dict[str, object]]:
    found = [
        (thread, match)
        for thread, line in zip(threads, lines, strict=False)
        for match in re.finditer(r"([A-Z])\1*", line)
    ]
    return [
        {
            "event_id": number,
            "name": names.get(match[1], _Named(match[1])).name,
            "pid": "1",
            "tid": thread,
            "start_ns": match.start() * US,
            "end_ns": match.end() * US,
        }
        for number, (thread, match) in enumerate(found, first_id)
    ]


def _calls(labelled: list[tuple[str, str]], names: dict[str, _Named]) -> list[dict[str, object]]:
    numbers = accumulate(label == "call" for label, _ in labelled)
    threads = [THREAD if number <= 1 else f"pool/{number}" for number in numbers]
    lines = [line for _, line in labelled]
    launches = [
        {"event_id": _FIRST_ID + 2_000 + 100 * row + place, "name": "Execute", "pid": "1", "tid": thread}
        | {"start_ns": place * US, "end_ns": (place + 1) * US, "launches": letter.upper()}
        for row, (thread, line) in enumerate(zip(threads, lines, strict=True))
        for place, letter in enumerate(line)
        if letter.islower()
    ]
    return [*_spans(lines, names, threads, _FIRST_ID), *launches]


def _ops(
    lines: list[str], names: dict[str, _Named], calls: list[dict[str, object]], steps: pl.DataFrame
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for device, line in enumerate(lines):
        launches = defaultdict(list)
        for call in sorted((call for call in calls if "launches" in call), key=lambda call: str(call["event_id"])):
            launches[call["launches"]].append(call)
        for match in re.finditer(r"([A-Z])\1*", line):
            named = names.get(match[1], _Named(match[1]))
            launch = launches[match[1]].pop(0) if launches[match[1]] else {}
            start_ns, end_ns = match.start() * US, match.end() * US
            is_collective = bool(_COLLECTIVE.match(named.name))
            rows.append(
                {
                    "event_id": _FIRST_ID + 7_000 + len(rows),
                    "name": named.name,
                    "opcode": named.name.split(".")[0],
                    "category": named.name.split(".")[0],
                    "kind": "communication" if is_collective else "compute",
                    "module": named.module,
                    "program": named.program,
                    "run": len(rows),
                    "device": device,
                    "plane": f"/device:TPU:{device}",
                    "stream": 3,
                    "line": "XLA Ops",
                    "scope": named.scope,
                    "start_ns": start_ns,
                    "end_ns": end_ns,
                    "duration_ps": 1_000 * (end_ns - start_ns),
                    "self_ns": end_ns - start_ns,
                    "is_wait": "-done" in named.name,
                    "is_collective": is_collective,
                    "is_async": False,
                    "is_container": False,
                    "launch_id": launch.get("event_id"),
                    "launch_ns": launch.get("start_ns"),
                }
            )
    began = [row["start_ns"] if row["launch_ns"] is None else row["launch_ns"] for row in rows]
    times = pl.Series(began, dtype=pl.Int64)
    return [{**row, "step": step} for row, step in zip(rows, launched_in(times, steps), strict=True)]


def _devices(count: int) -> list[dict[str, object]]:
    return [
        {"device": number, "plane": f"/device:TPU:{number}", "device_kind": "TPU", "model": "TPU v9"}
        | {"peak_flops": 1e12, "peak_bandwidth": 1e9}
        for number in range(count)
    ]


def _buffers(ops: list[dict[str, object]]) -> list[dict[str, object]]:
    """A mebibyte for the result of each operation."""
    kept = {(op["module"], op["program"], op["name"]): op for op in ops}
    size = dict.fromkeys(("allocation_bytes", "buffer_bytes", "data_bytes", "peak_bytes"), 1 << 20)
    flags = dict.fromkeys(("is_parameter", "is_output", "is_constant", "is_thread_local"), False)
    return [op | size | flags | {"memory": 0, "allocation": at} for at, op in enumerate(kept.values())]


def _heap(ops: list[dict[str, object]]) -> list[dict[str, object]]:
    """A kilobyte more on its device with each operation, of a megabyte."""
    return [
        {"event_id": op["event_id"], "time_ns": op["start_ns"], "allocator": str(op["device"]), "bytes": 1_000}
        | {"allocated_bytes": 1_000 * at, "reserved_bytes": 0, "free_bytes": 1_000_000 - 1_000 * at}
        for at, op in enumerate(ops, 1)
    ]
