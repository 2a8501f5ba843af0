"""What follows from names is decided once for each."""

from __future__ import annotations

import polars as pl

from holotrace.derive.names import decided


def test_each_name_is_decided_once_and_nothing_stays_nothing() -> None:
    asked: list[str] = []

    def decide(name: str) -> str | None:
        asked.append(name)
        return name.upper() if name != "b" else None

    names = pl.Series(["a", "b", None, "a"], dtype=pl.Categorical())
    assert decided(names, decide).to_list() == ["A", None, None, "A"]
    assert sorted(asked) == ["a", "b"]
    assert decided(names.clear(), decide).to_list() == []
