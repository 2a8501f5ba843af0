"""Functions that a host stands still in by chance pause, and are not told to be what must be moved out of the step."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.diagnosis.rank.interrupted import by_chance

STEPS, US = 4, 1_000
GETTER = "fastcore/basics.py(649): __getattr__"


def drawn(
    name: str, counts: tuple[int, int], *, category: str = "python_function"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Parts of gaps that are the long calls of a function, 8 ms each, and all of its calls, the others 2 us each."""
    short, long = counts
    lasted = [2 * US] * short + [8_000 * US] * long
    calls = pl.DataFrame({"event_id": range(short + long), "end_ns": lasted}, schema_overrides={"event_id": pl.UInt32})
    calls = calls.with_columns(
        pl.lit(name).cast(pl.Categorical()).alias("name"),
        pl.lit(category).alias("category"),
        start_ns=pl.lit(0, pl.Int64),
    )
    shares = calls.tail(long).select(inner_id="event_id", share_ns="end_ns", cause=pl.lit("python-function"))
    return shares, calls


@pytest.mark.parametrize(
    ("name", "counts", "is_chance"),
    [
        (GETTER, (500, 1), True),
        ("<built-in function getattr>", (500, 2), True),
        ("<built-in method append of list object at 0x7f00>", (500, 1), True),
        # Now and then it does what takes long, or in each step.
        ("train.py(7): maybe_save", (12, 1), False),
        (GETTER, (500, STEPS), False),
        (GETTER, (100, 4), False),
        # What it does is not to be seen.
        ("<built-in function sleep>", (500, 1), False),
        ("<built-in method write of _io.BufferedWriter object>", (500, 1), False),
    ],
)
def test_a_function_that_hardly_ever_lasts_is_interrupted_where_it_does(
    name: str, counts: tuple[int, int], is_chance: bool
) -> None:
    """Of a healthy job of fastai a getter of attributes was told to be what holds the host, worth 5 % of it."""
    shares, calls = drawn(name, counts)
    assert by_chance(shares, calls, STEPS).to_list() == [is_chance] * counts[1]


def test_other_causes_are_no_interruptions() -> None:
    shares, calls = drawn(GETTER, (500, 1))
    assert not by_chance(shares.with_columns(cause=pl.lit("input")), calls, STEPS).any()
    assert not by_chance(shares.with_columns(share_ns=pl.lit(100 * US)), calls, STEPS).any()
