"""Causes that are told as one, and in the same way each time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from holotrace.diagnosis.job import one_cause
from holotrace.diagnosis.job.candidates import Candidate, beyond_others
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.words.classes import COPY, PAUSE, SYNCHRONIZATION

MEETINGS = cast("Any", SimpleNamespace(saved_ns=lambda change: 337))
COPIES = Candidate(COPY, Change(), (0,), responsible="Memcpy DtoH (Device -> Pageable)", steps=(3, 4))


@pytest.mark.parametrize(
    ("cause", "time_ns", "told"),
    [(SYNCHRONIZATION, 37, COPY), (SYNCHRONIZATION, 290, SYNCHRONIZATION), (PAUSE, 298, PAUSE)],
)
def test_waits_in_copies_that_last_are_told_as_copies(cause: str, time_ns: int, told: str) -> None:
    """Without the waits of an optimizer on the CPU 298 ms could be saved, as its copies of 262 ms delayed nobody."""
    part = replace(COPIES, cause=cause, responsible="aten::copy_", evidence={"time_ns": time_ns})
    for kept in ([(COPIES, 262), (part, 298)], [(part, 298), (COPIES, 262)]):
        ((found, cost),) = one_cause.with_copies(kept, MEETINGS)
        assert (found.cause, cost) == (told, 337)


@pytest.mark.parametrize(("code", "told"), [("images.py(70): encode", [COPY, PAUSE]), ("loop.py(9): step", [PAUSE])])
def test_a_loop_that_pauses_does_not_do_so_between_the_copies_of_what_it_has_made(code: str, told: list[str]) -> None:
    """What the scheduler of denoising steps took was told with, and as, the copy of the images, with twice its cost."""
    copy = replace(COPIES, evidence={"called_in": code})
    pause = replace(COPIES, cause=PAUSE, responsible="loop.py(9): step", detail="loop.py(9): step < main.py(1): main")
    found = one_cause.with_copies([(copy, 262), (pause, 298)], MEETINGS)
    assert [each.cause for each, _ in found] == told


def test_what_some_have_beyond_others_is_in_order() -> None:
    """Which of two causes that cost as much was told first, and which names the other, changed from run to run."""
    rows = [(cause, key, 0, step, 5) for cause in "abcdefgh" for key in "uvwxyz" for step in (1, 2, 3)]
    frame = pl.DataFrame(rows, schema=["cause", "key", "rank", "step", "time_ns"], orient="row")
    job = cast("Any", SimpleNamespace(ranks=(0,)))
    for seed in range(5):
        found = beyond_others(frame.sample(fraction=1, shuffle=True, seed=seed), job, ("cause", "key"))
        assert found.select("cause", "key", "step").rows() == [(cause, key, step) for cause, key, _, step, _ in rows]
