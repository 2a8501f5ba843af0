"""How fast hosts of XLA are that are further and further ahead of their devices."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis.job import xla_pace
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.xla.hosts import SPENT, WAITED


def ratios(
    every_ns: int, *, waits_ns: int = 0, count: int = 12, kind: str | None = account.XLA, compiles_ns: int = 0
) -> dict[int, float]:
    """Of a host that launches a program so often, each of which its device takes 100 ns for, and waits before each."""
    window = {"row": account.WINDOW, "detail": kind, "time_ns": 100 * count, "count": 1}
    launches = [
        {"row": account.LATE, "at_ns": 50 + 100 * place, "end_ns": every_ns * place, "start_ns": every_ns * place}
        for place in range(count)
    ]
    waits = [
        {"row": WAITED, "start_ns": every_ns * place - waits_ns, "at_ns": every_ns * place}
        for place in range(count)
        if waits_ns
    ]
    compiled = [{"row": SPENT, "cause": "compilation", "at_ns": 50, "time_ns": compiles_ns}] if compiles_ns else []
    rows = pl.DataFrame([window, *launches, *waits, *compiled], infer_schema_length=None)
    return xla_pace.own_ratios(filled(rows, account.COLUMNS).with_columns(pl.lit(3, pl.Int32).alias("rank")))


def test_devices_are_no_faster_than_hosts_that_were_ahead_of_them_as_the_recording_began() -> None:
    """Copies of a program were worth 199 of 1039 ms, as if its host, which gained 130 ms on it, launched at once."""
    assert ratios(75) == {3: pytest.approx(0.75)}


def test_what_a_host_waits_for_its_device_is_no_pace_of_its_own() -> None:
    assert ratios(90, waits_ns=20) == {3: pytest.approx(0.7, abs=0.01)}


@pytest.mark.parametrize("every_ns", [98, 100, 120])
def test_nothing_is_known_of_hosts_that_are_not_further_and_further_ahead(every_ns: int) -> None:
    """Something that is not recorded may hold them back."""
    assert ratios(every_ns) == {}


def test_what_hosts_compile_now_and_then_is_no_pace_of_theirs() -> None:
    """A slow device was worth 11 of 24 ms, as its host had compiled in half of the steps before."""
    assert ratios(75, compiles_ns=40) == {3: pytest.approx(0.75)}
    assert ratios(75, compiles_ns=200) == {}


def test_few_launches_and_other_profiles_tell_no_pace() -> None:
    assert ratios(75, count=5) == {}
    assert ratios(75, kind=None) == {}
