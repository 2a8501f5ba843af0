"""The groups of devices that a collective has, by the text of its instruction where its program is not recorded."""

from __future__ import annotations

import json
import re
from itertools import product
from math import prod

import polars as pl

# As a list of groups, or numbers that are laid out, transposed and cut: "[4,2]<=[2,4]T(1,0)".
_WRITTEN = r"replica_groups=(\{\{[\d,{}]*\}\}|\[\d+,\d+\]<=\[[\d,]+\](?:T\([\d,]+\))?)"
_LAID_OUT = re.compile(r"\[(\d+),(\d+)\]<=\[([\d,]{1,99})\](?:T\(([\d,]{1,99})\))?")
_MOST_DEVICES = 1 << 14
# No device has such a number.
_TOO_LARGE = re.compile(r"\d{10}")


def of_texts(text: pl.Series) -> pl.Series:
    """The groups of each instruction, JSON; null where its text tells none."""
    written = text.cast(pl.String).str.extract(_WRITTEN)
    unique = written.drop_nulls().unique().to_list()
    told: pl.Series = written.replace_strict(unique, [_listed(each) for each in unique], return_dtype=pl.String)
    return told


def _listed(written: str) -> str | None:
    if _TOO_LARGE.search(written):
        return None
    if written.startswith("{"):
        groups = [[int(each) for each in group.split(",") if each] for group in re.findall(r"\{([\d,]*)\}", written)]
    else:
        groups = _laid_out(written)
    return json.dumps(groups) if groups else None


def _laid_out(written: str) -> list[list[int]]:
    """The groups that numbers from 0 on are cut into, laid out in some dimensions and read in another order of them."""
    found = _LAID_OUT.fullmatch(written)
    if found is None:
        return []
    count, size, dims = int(found[1]), int(found[2]), [int(each) for each in found[3].split(",") if each]
    order = [int(each) for each in found[4].split(",") if each] if found[4] else list(range(len(dims)))
    is_sound = sorted(order) == list(range(len(dims))) and 0 < prod(dims) <= _MOST_DEVICES
    if not is_sound or count * size != prod(dims):
        return []
    strides = [prod(dims[axis + 1 :]) for axis in range(len(dims))]
    devices = [
        sum(at * strides[axis] for at, axis in zip(place, order, strict=True))
        for place in product(*(range(dims[axis]) for axis in order))
    ]
    return [devices[first : first + size] for first in range(0, len(devices), size)]
