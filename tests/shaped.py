"""Drawn jobs whose operators have names, shapes and a device."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl

from drawing import trace
from holotrace.core.tables import CPU_OPS, DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.job import Job

H100 = {"name": "NVIDIA H100 80GB HBM3", "numSms": 132, "computeMajor": 9, "computeMinor": 0, "warpSize": 32}
BF16, FLOAT = "c10::BFloat16", "float"
# An operator, and what it was given: shapes, types and scalars; None where they were not recorded.
Given = tuple[str, Any, Any, Any]


def matrix_product(size: int, kind: str = BF16) -> Given:
    return ("aten::mm", [[size, size], [size, size]], [kind, kind], ["", ""])


def addition(count: int, kind: str = FLOAT) -> Given:
    return ("aten::add", [[count], [count], []], [kind, kind, "Scalar"], ["", "", "1"])


def shaped(
    text: str, ops: dict[str, Given], kernels: dict[str, str] | None = None, rank: int = 0, device: Any = H100
) -> RankTrace:
    """The drawing, whose operators are called and given what ``ops`` says, and its kernels as ``kernels`` says."""
    drawn = trace(text, rank)
    table = drawn.tables[CPU_OPS.name]
    letters = table["name"].cast(pl.String).to_list()
    given = [ops.get(letter, (letter, None, None, None)) for letter in letters]
    columns = {
        "name": [one[0] for one in given],
        "input_dims": [_json(one[1]) for one in given],
        "input_types": [_json(one[2]) for one in given],
        "input_strides": [_json(_dense(one[1])) for one in given],
        "concrete_inputs": [_json(one[3]) for one in given],
    }
    named = table.with_columns(pl.Series(name, values, dtype=pl.Categorical()) for name, values in columns.items())
    events = drawn.tables[DEVICE_EVENTS.name]
    names = [(kernels or {}).get(letter, letter) for letter in events["name"].cast(pl.String).to_list()]
    renamed = events.with_columns(pl.Series("name", names, dtype=pl.Categorical()))
    tables = {**drawn.tables, CPU_OPS.name: named, DEVICE_EVENTS.name: renamed}
    return replace(drawn, tables=tables, metadata={"deviceProperties": [device]} if device else {})


def job(*ranks: RankTrace) -> Job:
    return Job.from_ranks({rank.rank: rank for rank in ranks})


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def _dense(dims: Any) -> Any:
    if dims is None:
        return None
    strides = []
    for shape in dims:
        steps = [1]
        for size in reversed(shape[1:]):
            steps.append(steps[-1] * size)
        strides.append(steps[::-1] if shape else [])
    return strides
