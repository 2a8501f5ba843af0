"""Comparing jobs by cause: which causes came, went and grew, and which parts of a step they made longer."""

from __future__ import annotations

from pathlib import Path

import other_jobs
import pytest
from other_jobs import Other

import holotrace


def written(folder: Path, job: Other) -> Path:
    folder.mkdir()
    other_jobs.write(folder, job)
    return folder


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("jobs") / "clean", Other("tensor", ranks=2, steps=4))


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("jobs") / "slow", Other("tensor", "loader-of-all", ranks=2, steps=4))


def test_a_cause_that_came_is_added_and_one_that_went_is_removed(clean: Path, slow: Path) -> None:
    came = holotrace.compare(clean, slow, by="cause").filter(category="cause")
    went = holotrace.compare(slow, clean, by="cause").filter(category="cause")
    assert came.select("change").to_series().to_list() == ["added"]
    assert came["name"][0].startswith("input in ")
    assert went["change"].to_list() == ["removed"]
    assert came["difference_ns"][0] == -went["difference_ns"][0] > 5_000_000


def test_parts_add_up_to_the_change_of_the_step(clean: Path, slow: Path) -> None:
    parts = holotrace.compare(clean, slow, by="cause").filter(category="step")
    assert parts.height == 4
    steps = [
        holotrace.open(job).time_breakdown(by_step=True).drop_nulls("step")["total_ns"].mean() for job in (clean, slow)
    ]
    assert parts["before_total_ns"].sum() == pytest.approx(steps[0], abs=4)
    assert parts["after_total_ns"].sum() == pytest.approx(steps[1], abs=4)


def test_steps_cannot_be_chosen_for_causes(clean: Path) -> None:
    with pytest.raises(holotrace.UsageError, match="whole steps"):
        holotrace.compare(clean, clean, by="cause", steps=3)
