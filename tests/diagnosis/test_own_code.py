"""Which code of the program's own is named below functions that only say what they are for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.core.trace import RankTrace
from holotrace.diagnosis.job.candidates import when
from holotrace.diagnosis.rank import account, own_code
from holotrace.diagnosis.words.classes import LAUNCH
from trace_files import write_trace

STEP_US, WAIT_US = 8_000, 7_000
LOADER = "transformers/trainer.py(2289): get_batch_samples"


def event(cat: str, name: str, ts: int, dur: int, **args: Any) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


def steps_that(nested: tuple[str, ...]) -> list[dict[str, Any]]:
    """Four steps that begin with 7 ms in nested functions, then launch a kernel of 4 ms."""
    events = []
    for step in range(4):
        at = step * STEP_US
        events.append(event("user_annotation", f"ProfilerStep#{step}", at, STEP_US - 10))
        for level, name in enumerate(nested):
            events.append(event("python_function", name, at + 10 + level, WAIT_US - 2 * level))
        launched = at + WAIT_US + 50
        known = {"correlation": step + 1, "stream": 7, "device": 0, "grid": [8, 1, 1], "block": [64, 1, 1]}
        events.append(event("cuda_runtime", "cudaLaunchKernel", launched, 5, correlation=step + 1))
        events.append(event("kernel", "gemm", launched + 10, 4_000, **known))
    return events


@pytest.mark.parametrize(
    ("below", "told"),
    [
        (("train.py(25): pad", "train.py(28): <genexpr>", "<built-in function ord>"), " (train.py(25): pad)"),
        (("torch/utils/data/_utils/fetch.py(3): fetch", "<built-in function ord>"), ""),
    ],
)
def test_the_programs_own_code_is_named_where_a_library_waits_for_input(
    tmp_path: Path, below: tuple[str, ...], told: str
) -> None:
    """The function of a library was named alone, which waits for input in whatever job."""
    write_trace(tmp_path / "rank-0.json", events=steps_that(("train.py(3): main", LOADER, *below)))
    cause = holotrace.open(tmp_path).causes().row(0, named=True)
    assert (cause["cause"], cause["responsible"]) == ("input", LOADER)
    assert cause["message"].endswith(f" waits for input in {LOADER}{told}")


def test_what_comprehensions_take_is_of_the_function_that_they_are_written_in(tmp_path: Path) -> None:
    """They were a cause beside it."""
    write_trace(tmp_path / "rank-0.json", events=steps_that(("train.py(37): collect", "train.py(39): <listcomp>")))
    (cause,) = holotrace.open(tmp_path).causes().to_dicts()
    assert (cause["cause"], cause["responsible"]) == ("python-function", "train.py(37): collect")


def test_code_is_not_told_to_launch_too_late_where_no_launch_is_known(tmp_path: Path) -> None:
    """Which part of all launches is within it was divided by none."""
    events = [one | {"args": {}} if one["cat"] == "kernel" else one for one in steps_that(("train.py(37): collect",))]
    write_trace(tmp_path / "rank-0.json", events=events)

    def named(rank: RankTrace) -> pl.DataFrame:
        known = {"cause": LAUNCH, "responsible": None, "event_id": 1, "share_ns": STEP_US * 1_000}
        parts = pl.DataFrame(
            [known], {"cause": pl.String, "responsible": pl.String, "event_id": pl.UInt32, "share_ns": pl.Int64}
        )
        return own_code.launching(parts, rank)

    (parts,) = holotrace.open(tmp_path).map(named, account.READS)
    assert parts["responsible"].to_list() == [None]


@pytest.mark.parametrize(
    ("times", "steps"),
    [
        ([0, 416, 0, 0, 0, 99, 0, 0, 0, 91], (1, 5, 9)),  # the first of them lasts longer
        ([0, 416, 30, 0, 30, 99, 30, 0, 0, 91], (1,)),  # others are not much less
        ([0, 416, 0, 0, 99, 0, 0, 0, 0, 91], (1,)),
        ([0, 40, 41, 42, 0, 0], (1, 2, 3)),
    ],
)
def test_what_recurs_is_told_of_all_its_steps(times: list[int], steps: tuple[int, ...]) -> None:
    table = pl.DataFrame({"step": range(len(times)), "part_ns": times})
    assert when(table, "part_ns") == steps
