"""Analyses of one rank by several threads."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable

import pytest

from holotrace.core.spread import spread
from holotrace.core.trace import RankTrace


@pytest.mark.parametrize("workers", [1, 2, 9])
def test_results_have_the_order_of_what_was_asked(workers: int) -> None:
    assert spread(lambda number: number * 2, range(20), workers) == [number * 2 for number in range(20)]
    assert spread(str, [], workers) == []


def test_several_threads_work_at_once() -> None:
    together = threading.Barrier(2, timeout=30)
    assert sorted(spread(lambda _: together.wait(), range(2), 2)) == [0, 1]


def test_an_error_of_one_thread_is_raised_and_the_rest_is_left() -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        raise KeyError(number)

    with pytest.raises(KeyError):
        spread(work, range(100), 2)
    assert len(begun) <= 2


def test_what_two_analyses_share_is_made_once() -> None:
    rank, made = RankTrace(0, {}), list[int]()
    at_once = threading.Barrier(2, timeout=30)

    def shared(_: RankTrace) -> int:
        made.append(1)
        return len(made)

    def work(_: int) -> int:
        at_once.wait()
        return rank.cached(shared)

    assert spread(work, range(2), 2) == [1, 1]


def test_a_rank_can_be_sent_to_another_process_after_it_was_asked() -> None:
    rank = RankTrace(3, {})
    make: Callable[[RankTrace], int] = _number
    assert rank.cached(make) == 3
    assert pickle.loads(pickle.dumps(rank)).cached(make) == 3


def _number(rank: RankTrace) -> int:
    return rank.rank
