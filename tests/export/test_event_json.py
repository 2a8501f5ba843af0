"""New trace events: exact times, and places and names whatever they hold."""

from __future__ import annotations

import json
from decimal import Decimal

import polars as pl

import holotrace


def test_arrows_say_where_they_begin_and_end_to_the_nanosecond() -> None:
    ends = pl.DataFrame(
        {
            "from_pid": ["1", None],
            "from_tid": ["7", 'a "b"'],
            "from_ns": [1765622428262125001, -5],
            "to_pid": ["1", "1"],
            "to_tid": ["007", "-3"],
            "to_ns": [1765622428262125002, 0],
            "why": ['"', "é"],
        }
    )
    texts = holotrace.arrows(ends, name='waits "for"')
    found = json.loads(f"[{','.join(texts)}]", parse_float=Decimal)
    assert [(end["ph"], end["id"], end["pid"], end["tid"], end["ts"], end["args"]["why"]) for end in found] == [
        ("s", 0, 1, 7, Decimal("1765622428262125.001"), '"'),
        ("f", 0, 1, "007", Decimal("1765622428262125.002"), '"'),
        ("s", 1, "", 'a "b"', Decimal("-0.005"), "é"),
        ("f", 1, 1, -3, Decimal("0.000"), "é"),
    ]
    assert {(end["name"], end["cat"]) for end in found} == {('waits "for"', 'waits "for"')}


def test_arrows_need_no_args() -> None:
    ends = pl.DataFrame({"from_pid": [1], "from_tid": [1], "from_ns": [1], "to_pid": [1], "to_tid": [1], "to_ns": [2]})
    assert json.loads(f"[{holotrace.arrows(ends, name='a')[0]}]")[1]["args"] == {}
    assert holotrace.arrows(ends.clear(), name="a") == []
