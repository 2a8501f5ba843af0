"""Recordings that begin and end anywhere, at other times on each rank, as those that are asked for while a job runs."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import holotrace
from holotrace import sample
from holotrace.diagnosis.words.classes import COSTLESS, SLOW_DEVICE
from quick import every


def cut(folder: Path, seed: int, *, marked: bool) -> None:
    """Leave of each trace what a recorder has that was asked for it: events that begin and end within, marks or not.

    Ranks are asked within a fifth of a step of each other.
    """
    random = Random(seed)
    begin, length = random.uniform(0.05, 0.5), random.uniform(0.25, 0.45)
    for path in sorted(folder.glob("rank-*")):
        trace = json.loads(path.read_text(encoding="utf-8"))
        times = [event["ts"] for event in trace["traceEvents"] if event.get("ph") == "X"]
        whole = max(times) - min(times)
        since, until = (min(times) + whole * (at + random.uniform(0, 0.02)) for at in (begin, begin + length))
        trace["traceEvents"] = [
            event
            for event in trace["traceEvents"]
            if _is_within(event, since, until) and _is_left(event, marked=marked)
        ]
        path.write_text(json.dumps(trace), encoding="utf-8")


def _is_within(event: dict[str, Any], since: float, until: float) -> bool:
    return "ts" not in event or (since <= event["ts"] and event["ts"] + event.get("dur", 0) <= until)


def _is_left(event: dict[str, Any], *, marked: bool) -> bool:
    return marked or not str(event.get("name")).startswith("ProfilerStep")


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("seed", every(4, [4, 1, 2, 3, 9, 5, 6, 7, 8, 10, 11, 12]))
def test_of_a_healthy_job_nothing_is_told(tmp_path: Path, seed: int, *, marked: bool) -> None:
    """Some ranks had more work, by what others had not recorded; or hosts launched late what was not recorded."""
    sample.write(tmp_path, ranks=4, steps=8, seed=seed, faults=[], compress=False)
    cut(tmp_path, seed, marked=marked)
    told = holotrace.open(tmp_path).causes().to_dicts()
    assert [row["message"] for row in told if row["cause"] not in COSTLESS] == []


@pytest.mark.parametrize("seed", every(3, [4, 1, 2, 3, 5, 6]))
def test_a_slow_device_is_told_or_nothing_is(tmp_path: Path, seed: int) -> None:
    sample.write(tmp_path, ranks=4, steps=8, seed=seed, faults=[SLOW_DEVICE], compress=False)
    cut(tmp_path, seed, marked=False)
    told = holotrace.open(tmp_path).causes().to_dicts()
    assert {row["cause"] for row in told} <= {SLOW_DEVICE, *COSTLESS}
