"""The groups of devices that a collective has, by the text of its instruction where its program is not recorded."""

from __future__ import annotations

import json
import re
from itertools import product
from math import prod

import polars as pl

# As a list of groups, numbers that are laid out, transposed and cut: "[4,2]<=[2,4]T(1,0)", or axes of a mesh, or parts
# of these: "mesh['a'=2,'b'=8] {'a','b':(2)4}".
_WRITTEN = (
    r"replica_groups=(\{\{[\d,{}]*\}\}|\[\d+,\d+\]<=\[[\d,]+\](?:T\([\d,]+\))?"
    r"|mesh\[(?:'[^']*'=[1-9]\d{0,4},?){1,9}\] \{(?:'[^']*'(?::\([1-9]\d{0,4}\)[1-9]\d{0,4})?,?){1,9}\})"
)
# Devices that slices have alike exchange between them: "{1,2}x{0:3}" are two slices of four devices.
_SLICES = r'_xla_megascale_target="(\{\d[\d,]*\}x\{0(?::\d{1,6})?\})"'
# Who sends to whom in a permutation.
_PAIRS = r"source_target_pairs=(\{\{[\d,{}]*\}\})"
_SIZE, _AXIS = re.compile(r"'([^']*)'=(\d+)"), re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?(?:,|$)")
_LAID_OUT = re.compile(r"\[(\d+),(\d+)\]<=\[([\d,]{1,99})\](?:T\(([\d,]{1,99})\))?")
_MOST_DEVICES = 1 << 14
# No device has such a number.
_TOO_LARGE = re.compile(r"\d{10}")


def of_texts(text: pl.Series) -> pl.Series:
    """The groups of each instruction, JSON; null where its text tells none."""
    texts = text.cast(pl.String)
    written = pl.select(pl.coalesce(texts.str.extract(each) for each in (_WRITTEN, _SLICES, _PAIRS))).to_series()
    unique = written.drop_nulls().unique().to_list()
    told: pl.Series = written.replace_strict(unique, [_listed(each) for each in unique], return_dtype=pl.String)
    return told


def _listed(written: str) -> str | None:
    if _TOO_LARGE.search(written):
        return None
    if "x{" in written:
        groups = _of_slices(written)
    elif written.startswith("{"):
        groups = [[int(each) for each in group.split(",") if each] for group in re.findall(r"\{([\d,]*)\}", written)]
    elif written.startswith("mesh"):
        groups = _of_mesh(written)
    else:
        groups = _laid_out(written)
    return json.dumps(groups) if groups else None


def _of_slices(written: str) -> list[list[int]]:
    """The groups of devices in the same place of each slice."""
    slices, _, devices = written.partition("x")
    count, size = slices.count(",") + 1, int(devices.strip("{}").rpartition(":")[2]) + 1
    return _cut(size, count, [count, size], [1, 0])


def _of_mesh(written: str) -> list[list[int]]:
    """The groups of devices that differ in their places along some axes of a mesh only."""
    mesh, _, grouped = written.partition("] {")
    parts = [(name, int(before or 1), int(size or 0)) for name, before, size in _AXIS.findall(grouped.rstrip("}"))]
    dims: list[int] = []
    own: list[int] = []
    for name, length in ((name, int(length)) for name, length in _SIZE.findall(mesh)):
        at = 1
        for before, size in sorted((before, size or length) for part, before, size in parts if part == name):
            dims += [before // at, size]
            own.append(len(dims) - 1)
            at = before * size
        dims.append(length // at)
        if prod(dims) > _MOST_DEVICES:
            return []
    if not own or prod(dims) != prod(int(length) for _, length in _SIZE.findall(mesh)):
        return []
    order = [axis for axis in range(len(dims)) if axis not in own] + own
    size = prod(dims[axis] for axis in own)
    return _cut(prod(dims) // size, size, dims, order) if size else []


def _laid_out(written: str) -> list[list[int]]:
    """The groups that numbers from 0 on are cut into, laid out in some dimensions and read in another order of them."""
    found = _LAID_OUT.fullmatch(written)
    if found is None:
        return []
    dims = [int(each) for each in found[3].split(",") if each]
    order = [int(each) for each in found[4].split(",") if each] if found[4] else list(range(len(dims)))
    return _cut(int(found[1]), int(found[2]), dims, order)


def _cut(count: int, size: int, dims: list[int], order: list[int]) -> list[list[int]]:
    is_sound = sorted(order) == list(range(len(dims))) and 0 < prod(dims) <= _MOST_DEVICES
    if not is_sound or count * size != prod(dims):
        return []
    strides = [prod(dims[axis + 1 :]) for axis in range(len(dims))]
    devices = [
        sum(at * strides[axis] for at, axis in zip(place, order, strict=True))
        for place in product(*(range(dims[axis]) for axis in order))
    ]
    return [devices[first : first + size] for first in range(0, len(devices), size)]
