"""Names and numbers in findings."""

from __future__ import annotations

import pytest

from holotrace.derive.said import in_words, lasting, listed


@pytest.mark.parametrize(
    ("steps", "said"),
    [([3], "step 3"), ([3, 7], "steps 3 and 7"), ([3, 7, 11], "steps 3, 7 and 11"), (list(range(9)), "9 steps")],
)
def test_a_few_numbers_are_named_and_many_are_counted(steps: list[int], said: str) -> None:
    assert in_words("step", steps) == said


@pytest.mark.parametrize(
    ("names", "said"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c"), (list("abcde"), "a, b, c and 2 more")],
)
def test_the_first_names_are_listed(names: list[str], said: str) -> None:
    assert listed(names) == said


def test_a_time_is_said_in_the_unit_that_suits_it() -> None:
    assert [lasting(3_364_166_138), lasting(82_938_555), lasting(0)] == ["3.36 s", "82.9 ms", "0.0 ms"]
