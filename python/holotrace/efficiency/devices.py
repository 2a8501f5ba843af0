"""What a device could do at best: its peaks, by its name, or from what a trace says of its make."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from holotrace.core import toml
from holotrace.errors import InputError

_TERA = 1e12
_GIGA = 1e9
_GIB = 2**30
# Types of matrix units, and what a device without units for one of them computes it with.
TYPES = ("fp64", "fp64_matrix", "fp32", "fp32_matrix", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
_FIELDS = frozenset(
    {*TYPES, "name", "names", "multiprocessors", "memory_gbps", "link_gbps", "source", "note", "by_memory_gib"}
)
# A slice of compute may be divided again.
_MIG = re.compile(r"(?P<name>.*?) MIG ((?P<part>\d+)c\.)?(?P<compute>\d+)g\.(?P<memory>\d+)gb.*", re.IGNORECASE)
_COMPUTE_SLICES = 7
_MEMORY_SLICES = 8
# Slices of memory beside as many of compute, but for profiles with more memory.
_USUAL_MEMORY = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
# By vendor and capability: operations of a multiprocessor in a cycle, in bf16 (fp16 before 8.0) and in fp32, and the
# clock that vendors state, in Hz.
_NVIDIA = {
    (7, 0): (1024, 128, 1.53e9),
    (7, 5): (1024, 128, 1.59e9),
    (8, 0): (2048, 128, 1.41e9),
    (8, 6): (512, 256, 1.7e9),
    (8, 9): (1024, 256, 2.5e9),
    (9, 0): (4096, 256, 1.83e9),
    (10, 0): (8192, 256, 1.85e9),
    (10, 3): (8192, 256, 1.85e9),
    (12, 0): (512, 256, 2.4e9),
}
# Where sums are in float, cards for games do half as much as others; whole numbers are summed at full speed. By
# capability: rows above are those of cards for games, but for others that are named so; or the other way round.
_OTHERS = {(8, 6): re.compile(r"\ba\d"), (12, 0): re.compile(r"\brtx pro\b")}
_FOR_GAMES = {(7, 5): re.compile(r"\bgeforce\b"), (8, 9): re.compile(r"\bgeforce\b")}
_AMD = {(9, 0): (1024, 128, 1.7e9), (9, 4): (2048, 256, 2.1e9), (9, 5): (4096, 256, 2.4e9)}
_AMD_WARP = 64
# How many times as fast as bf16 other types are, where the capability has units for them.
_TIMES = {
    "tf32": (0.5, (8, 0)),
    "fp16": (1.0, (7, 0)),
    "bf16": (1.0, (8, 0)),
    "fp8": (2.0, (8, 9)),
    "int8": (2.0, (8, 0)),
}
# By vendor, that of AMD first: types whose units a capability has not, or so few that how few is not known.
_WITHOUT: Mapping[tuple[bool, tuple[Any, Any]], str] = {(True, (9, 5)): "tf32", (False, (10, 3)): "int8"}


@dataclass(frozen=True)
class Device:
    """Peaks of a device: operations per second by type, bytes per second of its memory and of its links.

    ``assumed`` says what they rest on where it is not the vendor's table for this very device.
    """

    name: str
    operations: Mapping[str, float] = field(default_factory=dict)
    memory: float | None = None
    link: float | None = None
    source: str = ""
    assumed: str | None = None

    def peak(self, kind: str | None, *, is_matrix: bool) -> float | None:
        """Operations per second at most in a type, on matrix or on vector units; None if unknown."""
        if kind is None:
            return None
        if is_matrix:
            units = f"{kind}_matrix"
            return self.operations.get(units) or self.operations.get(kind)
        # Vector units compute narrow types at least as fast as fp32; how much faster differs.
        return self.operations.get("fp64" if kind == "fp64" else "fp32")


def known(file: str | Path | None = None) -> tuple[dict[str, Any], ...]:
    """The table of devices: one's own first, then that of holotrace."""
    own = () if file is None else _read(Path(file))
    return (*own, *_ours())


@lru_cache(maxsize=1)
def _ours() -> tuple[dict[str, Any], ...]:
    return _read(Path(__file__).with_name("devices.toml"))


def _read(path: Path) -> tuple[dict[str, Any], ...]:
    try:
        rows = toml.read(path).get("device", [])
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the table of peaks cannot be read: {error}") from None
    for row in rows:
        _check(row, path)
    if not rows:
        raise InputError(f"{path}: there is no [[device]] in it; see devices.toml in the documentation")
    return tuple(rows)


def _check(row: Any, path: Path) -> None:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise InputError(f"{path}: a device has no name")
    if unknown := set(row) - _FIELDS:
        raise InputError(
            f"{path}: {row['name']} has {', '.join(sorted(unknown))}; there are {', '.join(sorted(_FIELDS))}"
        )
    numbers = [row.get(key, 1) for key in (*TYPES, "memory_gbps", "link_gbps", "multiprocessors")]
    if any(isinstance(value, bool) or not isinstance(value, int | float) or value <= 0 for value in numbers):
        raise InputError(f"{path}: a peak of {row['name']} is no number above zero")


# What a host is called that computes itself.
HOST = "CPU"


def device(
    name: str,
    properties: Mapping[str, Any] | None = None,
    table: Sequence[Mapping[str, Any]] | None = None,
) -> Device | None:
    """The peaks of a device, by the name and properties that a trace has; None if neither tells.

    Args:
        name: Its name, e.g. ``NVIDIA H100 80GB HBM3``.
        properties: ``numSms``, ``computeMajor``, ``computeMinor``, ``totalGlobalMem``, ``warpSize``; and what a
            profile declares, ``peakFlops`` and ``peakBandwidth``, per second.
        table: Devices that are known; by default those of holotrace.
    """
    rows = _ours() if table is None else table
    about = properties or {}
    if declared := _declared(name, rows, about):
        return declared
    if match := _MIG.fullmatch(name):
        whole = _by_name(match["name"], rows, {})
        return None if whole is None else _slice(whole, match, name, about)
    found = _by_name(name, rows, about)
    return found if found is not None else _by_make(name, about)


def _declared(name: str, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> Device | None:
    """What a profile says of its device itself, unless the user says something else."""
    flops, memory = (_positive(about.get(key)) for key in ("peakFlops", "peakBandwidth"))
    own = [row for row in rows if row not in _ours()]
    if (flops is None and memory is None) or (own and _by_name(name, own, about)):
        return None
    operations = {} if flops is None else {"bf16": flops}
    return Device(name, operations, memory, source="the profile", assumed="peaks as the profile declares them")


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _by_name(name: str, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> Device | None:
    wanted = _plain(name)
    row = next((row for row in rows if wanted and wanted in map(_plain, (row["name"], *row.get("names", ())))), None)
    if row is None:
        return None
    operations = {kind: float(row[kind]) * _TERA for kind in TYPES if kind in row}
    memory = row.get("memory_gbps") or _by_memory(row, about)
    link = row.get("link_gbps")
    known_device = Device(
        row["name"],
        operations,
        memory and memory * _GIGA,
        link and link * _GIGA,
        row.get("source", ""),
    )
    return _part(known_device, row.get("multiprocessors"), about)


def _by_memory(row: Mapping[str, Any], about: Mapping[str, Any]) -> float | None:
    size = about.get("totalGlobalMem")
    if not isinstance(size, int):
        return None
    return next((gbps for gib, gbps in row.get("by_memory_gib", ()) if size <= gib * _GIB), None)


def _part(whole: Device, multiprocessors: int | None, about: Mapping[str, Any]) -> Device:
    """Fewer multiprocessors than the device has at most can do only as much less."""
    count = about.get("numSms")
    if not multiprocessors or not isinstance(count, int) or not 0 < count < multiprocessors:
        return whole
    part = count / multiprocessors
    said = f"{count} of {multiprocessors} multiprocessors have as much of its peaks"
    return replace(whole, operations={kind: peak * part for kind, peak in whole.operations.items()}, assumed=said)


def _slice(whole: Device, match: re.Match[str], name: str, about: Mapping[str, Any]) -> Device:
    compute = int(match["part"] or match["compute"]) / _COMPUTE_SLICES
    size = re.search(r"(\d+) ?GB", match["name"], re.IGNORECASE)
    gigabytes = float(size[1]) if size else None
    slices = (
        round(_MEMORY_SLICES * int(match["memory"]) / gigabytes)
        if gigabytes
        else _USUAL_MEMORY.get(int(match["compute"]), 1)
    )
    memory = min(max(slices, 1), _MEMORY_SLICES) / _MEMORY_SLICES
    return replace(
        whole,
        name=name,
        operations={kind: peak * min(compute, 1) for kind, peak in whole.operations.items()},
        memory=whole.memory and whole.memory * memory,
        link=None,
        assumed="a slice has as much of the peaks as it has of the multiprocessors and of the memory",
    )


def _by_make(name: str, about: Mapping[str, Any]) -> Device | None:
    """From the number of multiprocessors and the capability, at the clock that is usual for it."""
    count, capability = about.get("numSms"), (about.get("computeMajor"), about.get("computeMinor"))
    is_amd = about.get("warpSize") == _AMD_WARP
    make = (_AMD if is_amd else _NVIDIA).get(capability)  # type: ignore[arg-type]  # others are not there
    if make is None or not isinstance(count, int) or count < 1:
        return None
    matrix, vector, clock = make
    bf16 = count * matrix * clock * _rate(name.lower(), capability)
    times = {kind: bf16 * factor for kind, (factor, since) in _TIMES.items() if is_amd or capability >= since}
    if "int8" in times:
        times["int8"] = 2 * count * matrix * clock * (2 if not is_amd and capability in _OTHERS else 1)
    times.pop(_WITHOUT.get((is_amd, capability), ""), None)
    if is_amd and capability < (9, 4):
        times = dict.fromkeys(("fp16", "bf16", "int8"), bf16)
    said = f"{count} multiprocessors of capability {capability[0]}.{capability[1]} at {clock / _GIGA:g} GHz"
    return Device(name or "a device without a name", {**times, "fp32": count * vector * clock}, assumed=said)


def _rate(name: str, capability: tuple[Any, Any]) -> float:
    """How much of what its row says a card of this name does, where sums are in float."""
    others, for_games = _OTHERS.get(capability), _FOR_GAMES.get(capability)
    if others is not None and others.search(name):
        return 2
    return 0.5 if for_games is not None and for_games.search(name) else 1


def _plain(name: str) -> str:
    """For comparing: without the vendor, and without what follows of virtual functions and of modules."""
    plain = re.sub(r"[\s_-]+", " ", re.sub(r"^(nvidia|amd|google|tesla)\s+", "", name.strip().lower()))
    return plain.removesuffix(" vf").removesuffix(" oam")


_TF32 = re.compile(r"tf32|xf32|s1688(?!\w*(?:fp?16|bf16))|_tensorop_s(?:1688|884)gemm", re.IGNORECASE)
# Kernels of cuBLAS for matrix units only, which have nothing wider than TF32 for floats.
_ON_MATRIX_UNITS = re.compile(r"(^| )nvjet_")
_BY_KERNEL = (
    ("fp4", re.compile(r"e2m1|nvfp4|mxfp4|_fp4|f4f4|nvjet_(sm\d+_)?oo", re.IGNORECASE)),
    ("fp8", re.compile(r"e4m3|e5m2|_fp8|f8f8|float8|_qqt|nvjet_(sm\d+_)?qq", re.IGNORECASE)),
    ("int8", re.compile(r"i8816|i16832|_s8_|int8|_i8i|imma", re.IGNORECASE)),
    ("tf32", _TF32),
    ("bf16", re.compile(r"bf16|bfloat16|_bb[sb]_|nvjet_(sm\d+_)?t", re.IGNORECASE)),
    ("fp16", re.compile(r"fp?16|half|hgemm|_hh[sh]_|nvjet_(sm\d+_)?h", re.IGNORECASE)),
    ("fp64", re.compile(r"dgemm|d884|f64", re.IGNORECASE)),
    ("fp32", re.compile(r"sgemm|ffma|f32|_sb_", re.IGNORECASE)),
)


def computed_in(kind: str | None, kernel: str | None) -> str | None:
    """The type that matrix units compute in: that of the operands, but fp32 may be TF32, as names of kernels say."""
    if kind == "fp32":
        is_narrow = kernel is not None and (_TF32.search(kernel) or _ON_MATRIX_UNITS.search(kernel))
        return "tf32" if is_narrow else "fp32"
    if kind is not None or kernel is None:
        return kind
    return next((told for told, pattern in _BY_KERNEL if pattern.search(kernel)), None)
