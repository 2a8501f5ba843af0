"""Faults planted in a recording of eight H200 that serve a model: class, rank and worth, by re-timing it."""

from __future__ import annotations

from pathlib import Path

import pytest

import holotrace
import retimed
from trace_files import REAL_TRACES, needs_real_traces

SERVER = REAL_TRACES / "lightllm/test/model/logs"
ANNOTATION, CALL = "user_annotation", "cuda_runtime"


def launched(ranks: list[retimed.Rank], number: int) -> float:
    """When the host of a rank launches the graph of the model."""
    return float(next(event["ts"] for event in ranks[number].host if event["name"] == "cudaGraphLaunch"))


@needs_real_traces
@pytest.mark.parametrize(
    ("cause", "rank", "category", "name"),
    [
        ("logging", 2, ANNOTATION, "log_metrics"),
        pytest.param(
            "input",
            0,
            ANNOTATION,
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
            marks=pytest.mark.slow,
        ),
        pytest.param("allocator", 7, CALL, "cudaMalloc", marks=pytest.mark.slow),
        pytest.param("host-pause", 5, "", "", marks=pytest.mark.slow),
    ],
)
def test_a_host_that_stands_still_is_worth_what_it_costs(
    tmp_path: Path, cause: str, rank: int, category: str, name: str
) -> None:
    ranks = retimed.read(sorted(SERVER.rglob("*.gz")))
    stall = retimed.Stall(rank, launched(ranks, rank) - 5, 20_000, category, name)
    longer_us = retimed.write(ranks, tmp_path, [stall])
    assert longer_us > 15_000
    rows = holotrace.open(tmp_path).causes().filter(cause=cause).to_dicts()
    assert [row["ranks"] for row in rows] == [[rank]]
    assert rows[0]["cost_ns"] == pytest.approx(1_000 * longer_us, rel=0.05)


@pytest.mark.slow
@needs_real_traces
def test_a_slow_device_is_worth_what_it_costs(tmp_path: Path) -> None:
    ranks = retimed.read(sorted(SERVER.rglob("*.gz")))
    longer_us = retimed.write(ranks, tmp_path, slower={3: 1.3})
    (row,) = holotrace.open(tmp_path).causes().filter(cause="slow-device").to_dicts()
    assert row["ranks"] == [3]
    assert row["cost_ns"] == pytest.approx(1_000 * longer_us, rel=0.2)


@pytest.mark.slow
@needs_real_traces
def test_a_job_that_nothing_is_planted_in_is_as_it_was_recorded(tmp_path: Path) -> None:
    ranks = retimed.read(sorted(SERVER.rglob("*.gz")))
    assert retimed.write(ranks, tmp_path) == pytest.approx(0, abs=10)
    found, recorded = (holotrace.open(path, recursive=True).causes() for path in (tmp_path, SERVER))
    assert found["cause"].to_list() == recorded["cause"].to_list()
    assert found["cost_ns"].to_list() == pytest.approx(recorded["cost_ns"].to_list(), rel=0.01)
