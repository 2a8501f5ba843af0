"""Bandwidth of copies and fills."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import device_trace, draw
from holotrace.analyses import Analyses
from holotrace.job import Job

UP, PAGEABLE = "Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"
MS = 1_000_000
GBPS = ["mean_gbps", "min_gbps", "p50_gbps", "p95_gbps", "max_gbps"]


def copy(start_ns: int, end_ns: int, gbps: float | None = None, *, name: str = UP, **more: Any) -> dict[str, Any]:
    event = {"category": "gpu_memcpy", "kind": "memory", "name": name, "device": 0, "bandwidth_gbps": gbps}
    return event | {"start_ns": start_ns, "end_ns": end_ns} | more


def kernel(start_ns: int, end_ns: int) -> dict[str, Any]:
    return copy(start_ns, end_ns, name="gemm", category="kernel", kind="compute")


def job(*events: dict[str, Any]) -> Job:
    return Job.from_ranks({0: device_trace([{"event_id": n, **event} for n, event in enumerate(events)])})


def test_bandwidth_of_copies_at_the_same_time_adds_up() -> None:
    table = job(copy(0, 30, 10.0, bytes=300), copy(10, 20, 5.0, bytes=50)).memory_bandwidth()
    assert table.select("copy", "count", "moved_bytes", "busy_ns").row(0) == (UP, 2, 350, 30)
    # 10 GB/s for 20 ns and 15 GB/s for 10 ns.
    assert table.select(GBPS).row(0) == (pytest.approx(35 / 3), 10, 10, 15, 15)


def test_a_copy_that_follows_another_does_not_add_to_it() -> None:
    assert job(copy(0, 10, 8.0), copy(10, 20, 4.0)).memory_bandwidth()["max_gbps"].to_list() == [8]


def test_pauses_between_copies_are_not_averaged() -> None:
    table = job(copy(0, 10, 8.0), copy(90, 100, 4.0)).memory_bandwidth()
    assert table.select("busy_ns", "mean_gbps", "min_gbps").row(0) == (20, 6, 4)


def test_each_kind_of_copy_is_looked_at_by_itself() -> None:
    table = job(copy(0, 10, 8.0), copy(0, 10, 900.0, name="Memset (Device)")).memory_bandwidth()
    assert table.select("copy", "mean_gbps").rows() == [(UP, 8), ("Memset (Device)", 900)]


def test_bandwidth_that_was_not_recorded_is_bytes_by_time() -> None:
    for recorded in (None, float("inf")):
        assert job(copy(0, 50, recorded, bytes=100)).memory_bandwidth()["mean_gbps"].to_list() == [2]


def test_what_is_not_known_is_null() -> None:
    asked = job(copy(0, 50))
    assert asked.memory_bandwidth().select("count", "busy_ns", "moved_bytes", *GBPS).row(0) == (1, 50, *[None] * 6)
    assert asked.memory_bandwidth(over_time=True)["max_gbps"].to_list() == [None, 0]


def test_time_of_a_copy_is_exposed_where_no_kernel_runs() -> None:
    table = job(copy(0, 100, 8.0), kernel(60, 90), kernel(80, 200)).memory_bandwidth()
    assert table.select("busy_ns", "exposed_ns", "exposed_ratio").row(0) == (100, 60, 0.3)


def test_over_time_every_start_and_end_is_a_row_until_the_next() -> None:
    table = job(copy(0, 30, 10.0), copy(10, 20, 5.0)).memory_bandwidth(over_time=True)
    rows = [(0, 10, 0, 1, 10), (10, 20, 1, 2, 15), (20, 30, 1, 1, 10), (30, 30, 0, 0, 0)]
    assert table.select("start_ns", "end_ns", "event_id", "count", "max_gbps").rows() == rows


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.floats(0, 3000)), min_size=1, max_size=12))
def test_bandwidth_is_exactly_0_when_nothing_is_copied(copies: list[tuple[int, int, float]]) -> None:
    asked = job(*(copy(start, start + lasted, gbps) for start, lasted, gbps in copies))
    series = asked.memory_bandwidth(over_time=True)
    assert set(series.filter(count=0)["max_gbps"]) == {0}
    running = [[g for s, d, g in copies if s <= now < s + d] for now in range(80)]
    busy = [sum(bandwidths) for bandwidths in running if bandwidths]
    table = asked.memory_bandwidth()
    assert table["busy_ns"].item() == len(busy)
    assert table["mean_gbps"].item() == pytest.approx(sum(busy) / len(busy), abs=1e-6)
    assert table["max_gbps"].item() == pytest.approx(max(busy), abs=1e-6)


def found(*events: dict[str, Any]) -> list[tuple[str, int | None]]:
    table = job(*events).memory_bandwidth()
    return [(finding.rule, finding.cost_ns) for finding in Analyses.memory_bandwidth.findings(table)]


def test_pageable_copies_cost_what_a_page_locked_copy_would_not_take() -> None:
    # 24 MB at 3 GB/s take 8 ms, at 12 GB/s 2 ms.
    slow = copy(0, 8 * MS, 3.0, name=PAGEABLE, bytes=24_000_000)
    assert found(slow, kernel(8 * MS, 100 * MS)) == [("pageable-copies", 6 * MS)]


def test_copies_cost_no_more_than_what_no_kernel_hides() -> None:
    slow = copy(0, 8 * MS, 3.0, name=PAGEABLE, bytes=24_000_000)
    assert found(slow, kernel(2 * MS, 100 * MS)) == [("pageable-copies", 2 * MS)]
    assert found(slow, kernel(0, 100 * MS)) == []


def test_page_locked_copies_below_the_slowest_link_are_a_finding() -> None:
    rest = kernel(8 * MS, 100 * MS)
    assert found(copy(0, 8 * MS, 3.0, bytes=24_000_000), rest) == [("slow-link", 6 * MS)]
    assert found(copy(0, 8 * MS, 25.0, bytes=200_000_000), rest) == []


def test_many_copies_of_a_few_bytes_are_a_finding() -> None:
    down = [
        copy(100 * n, 100 * n + 20, name="Memcpy DtoH (Device -> Pageable)", bytes=12, bandwidth_gbps=0.6)
        for n in range(50)
    ]
    # Each needs 1 of its 20 ns for its bytes.
    assert found(*down) == [("small-copies", 50 * 19)]


def test_copies_within_the_device_are_no_finding() -> None:
    assert found(copy(0, 8 * MS, 0.1, name="Memcpy DtoD (Device -> Device)", bytes=800), kernel(0, 9 * MS)) == []


def test_a_series_has_no_findings() -> None:
    slow = job(copy(0, 8 * MS, 3.0, name=PAGEABLE, bytes=24_000_000))
    assert Analyses.memory_bandwidth.findings(slow.memory_bandwidth(over_time=True)) == []


def test_copies_without_a_duration_are_left_out() -> None:
    assert draw("compute |A|").memory_bandwidth().is_empty()
    assert job(copy(5, 5, 3.0)).memory_bandwidth().is_empty()
