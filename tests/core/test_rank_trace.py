"""A rank's tables, and what is computed of them once."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import CPU_OPS, DEVICE_EVENTS, STEPS
from holotrace.core.trace import RankTrace

_OPS, _KERNELS, _STEPS = CPU_OPS.only("event_id", "start_ns"), DEVICE_EVENTS.only("event_id"), STEPS.only("step")


def _rank() -> RankTrace:
    tables = {
        "cpu_ops": pl.DataFrame({"event_id": [1, 2], "start_ns": [10, 20]}),
        "device_events": pl.DataFrame({"event_id": [3]}),
        "steps": pl.DataFrame({"step": [0]}),
    }
    return RankTrace(0, tables)


def test_what_nobody_will_ask_for_is_let_go() -> None:
    rank = _rank()
    rank.keep([[CPU_OPS.only("start_ns"), _STEPS]])
    assert {name: frame.columns for name, frame in rank.tables.items()} == {"cpu_ops": ["start_ns"], "steps": ["step"]}
    assert rank[_OPS]["start_ns"].to_list() == [10, 20]


def test_what_was_computed_goes_with_the_tables_that_it_was_computed_of() -> None:
    rank, made = _rank(), list[str]()

    def of_kernels(rank: RankTrace) -> int:
        made.append("of_kernels")
        return rank[_KERNELS].height

    def of_ops(rank: RankTrace) -> int:
        made.append("of_ops")
        return rank[_OPS].height

    def of_both(rank: RankTrace) -> int:
        made.append("of_both")
        return rank.cached(of_kernels) + rank.cached(of_ops)

    def of_steps(rank: RankTrace) -> int:
        # What was computed before is part of it, too.
        return rank.cached(of_ops) + rank[_STEPS].height

    assert (rank.cached(of_both), rank.cached(of_steps)) == (3, 3)
    rank.keep([[_OPS, _STEPS]])
    assert (rank.cached(of_ops), rank.cached(of_steps)) == (2, 3)
    assert made == ["of_both", "of_kernels", "of_ops"]


def test_what_was_computed_of_several_tables_stays_only_for_who_reads_them_all() -> None:
    rank, made = _rank(), list[str]()

    def of_both(rank: RankTrace) -> int:
        made.append("of_both")
        return rank[_KERNELS].height + rank[_OPS].height

    assert rank.cached(of_both) == 3
    rank.keep([[_OPS, _KERNELS], [_STEPS]])
    assert (rank.cached(of_both), made) == (3, ["of_both"])
    rank.keep([[_OPS], [_KERNELS]])
    assert (rank.cached(of_both), made) == (3, ["of_both", "of_both"])
