"""What follows from names is decided once for each."""

from __future__ import annotations

import polars as pl

from holotrace.derive.names import are_in, decided


def test_each_name_is_decided_once_and_nothing_stays_nothing() -> None:
    asked: list[str] = []

    def decide(name: str) -> str | None:
        asked.append(name)
        return name.upper() if name != "b" else None

    names = pl.Series(["a", "b", None, "a"], dtype=pl.Categorical())
    assert decided(names, decide).to_list() == ["A", None, None, "A"]
    assert sorted(asked) == ["a", "b"]
    assert decided(names.clear(), decide).to_list() == []


def test_values_are_looked_for_among_others_and_nothing_stays_nothing() -> None:
    names = pl.Series("name", ["a", "b", None], dtype=pl.Categorical())
    found = are_in(names, names.head(1))
    assert (found.name, found.to_list()) == ("name", [True, False, None])
    assert are_in(names, names.clear()).to_list() == [False, False, None]
