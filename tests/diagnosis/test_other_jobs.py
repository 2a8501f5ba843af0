"""Causes of jobs of many kinds, from a simulation that shares nothing with the sample's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import other_jobs
import polars as pl
import pytest
from other_jobs import Other

import holotrace
from holotrace.diagnosis.rank import account
from quick import every


def first_cause(tmp_path: Path, job: Other) -> tuple[other_jobs.Truth, dict[str, Any]]:
    truth = other_jobs.write(tmp_path, job)
    return truth, holotrace.open(tmp_path).causes().row(0, named=True)


@pytest.mark.parametrize(
    "job",
    every(
        8,
        [
            Other("ddp", "pause", stacks=True),
            Other("ddp", "throttled", marks=False),
            Other("ddp", "turns", marks=False),
            Other("ddp", "lengths"),
            Other("ddp", "clocks"),
            Other("fsdp", "clocks", is_amd=True),
            Other("ddp", "evaluate"),
            Other("tensor", "wide"),
            Other("ddp", "slow-host", is_amd=True),
            Other("ddp", "collection", shapes=False),
            Other("fsdp", "loader", ranks=8),
            Other("fsdp", "exposed"),
            Other("tensor", "slow-host", ranks=8),
            Other("experts", "hot-expert", ranks=8),
            Other("experts", "slow-device"),
            Other("pipeline", "checkpoint"),
            Other("pipeline", "slow-device", is_amd=True),
            Other("pipeline", "slow-stage"),
            Other("fsdp", "slow-device"),
            Other("nodes", "slow-link", ranks=8),
            Other("serving", "tokenize", ranks=1, stacks=True),
            Other("serving", "slow-device"),
        ],
    ),
    ids=lambda job: f"{job.loop}-{job.fault}",
)
def test_the_first_cause_is_the_fault_that_was_planted(tmp_path: Path, job: Other) -> None:
    truth, first = first_cause(tmp_path, job)
    assert truth.fault is not None
    ranks = truth.fault.ranks if job.ranks > 1 else (0,)
    assert (first["cause"], tuple(first["ranks"])) == (truth.kind, ranks)
    assert abs(first["cost_ns"] - 1e3 * truth.cost_us) < 0.2e3 * truth.cost_us
    said = f"{first['message']} {first['responsible']}".lower()
    assert not truth.text or any(text.lower() in said for text in truth.text)


@pytest.mark.parametrize("loop", every(6, sorted(other_jobs.LOOPS)))
def test_nothing_is_said_of_a_clean_job(tmp_path: Path, loop: str) -> None:
    other_jobs.write(tmp_path, Other(loop))
    assert holotrace.open(tmp_path).causes().is_empty()


def test_turns_that_nobody_numbered_are_not_named_as_steps(tmp_path: Path) -> None:
    _, first = first_cause(tmp_path, Other("ddp", "throttled", marks=False))
    assert first["steps"] == []
    assert "step" not in first["message"]


def test_collectives_of_turns_that_nobody_marked_are_told_apart(tmp_path: Path) -> None:
    """One gather in each of several unmarked steps counted as several in a step, which could be prefetched."""
    other_jobs.write(tmp_path, Other("ddp", marks=False, steps=5))
    (rows, *_) = holotrace.open(tmp_path).map(account.account, account.READS)
    assert rows.filter(pl.col("row") == account.MEETING)["step"].n_unique() == 5


def test_gathers_in_a_row_are_matched_though_clocks_differ(tmp_path: Path) -> None:
    truth, first = first_cause(tmp_path, Other("fsdp", "loader"))
    assert truth.fault is not None
    assert tuple(first["ranks"]) == truth.fault.ranks


def test_ranks_of_which_one_is_missing_are_compared_with_whole_groups(tmp_path: Path) -> None:
    _, first = first_cause(tmp_path, Other("nodes", "slow-link", ranks=8, missing=7))
    assert first["cause"] == "slow-link"
