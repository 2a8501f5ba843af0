"""Attention over pages: its work follows from the lengths that a serving step's range tells."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from holotrace.core.tables import ANNOTATIONS
from holotrace.core.trace import RankTrace
from shaped import BF16, Given, job, shaped

STEPS = """
    range   |RRRRRSSSSS.....|
    op      |.AAA..AAA..AAA.|
    host    |..K....L....M..|
    compute |...KK...LLL..MM|
"""
TOKENS, HEADS, KEYS, WIDTH = 40, 8, 2, 64
ATTENTION: Given = (
    "vllm::unified_attention_with_output",
    [[TOKENS, HEADS, WIDTH], [TOKENS, KEYS, WIDTH], [TOKENS, KEYS, WIDTH], [TOKENS, HEADS, WIDTH]],
    [BF16] * 4,
    [""] * 4,
)
# A request of 38 new tokens after 10 others, and two that generate a token each after 100 and 200.
MIXED = "execute_40_context_1(sq38sk48sqsq1444sqsk1824)_generation_2(sq2sk302sqsq2sqsk302)"
GENERATING = "execute_40_context_0(sq0sk0sqsq0sqsk0)_generation_40(sq40sk4000sqsq40sqsk4000)"


# The library's own operator, whose arguments do not tell the lengths either, within that of the engine.
NESTED = """
    range   |RRRRRRRRRRR....|
    op      |AAAAAAAAAA.....|
    op      |..CC.FFF.F.....|
    host    |.M.L..K........|
    compute |..MMLLKKKK.....|
"""
CACHE: Given = ("_C_cache_ops::reshape_and_cache_flash", None, None, None)
LIBRARY: Given = ("_vllm_fa3_C::fwd", [[TOKENS, HEADS, WIDTH], [99, 16, KEYS, WIDTH]], [BF16] * 2, [""] * 2)


def serving(first: str, second: str, given: Given = ATTENTION) -> RankTrace:
    return named(shaped(STEPS, {"A": given}), first, second)


def named(traced: RankTrace, first: str, second: str) -> RankTrace:
    names = traced.tables[ANNOTATIONS.name]["name"].cast(pl.String).replace({"R": first, "S": second})
    ranges = traced.tables[ANNOTATIONS.name].with_columns(names.cast(pl.Categorical()))
    return replace(traced, tables={**traced.tables, ANNOTATIONS.name: ranges})


def test_lengths_of_a_step_tell_the_work_of_its_attention() -> None:
    rows = job(serving(MIXED, GENERATING)).operator_efficiency().sort("flops", nulls_last=True).rows(named=True)
    mixed, generating, unknown = rows
    per_pair = 2 * HEADS * 2 * WIDTH
    assert generating["flops"] == per_pair * 4000
    assert mixed["flops"] == per_pair * (1824 - 1444 // 2 + 302)
    moved = [2 * 2 * TOKENS * HEADS * WIDTH + 2 * kept * KEYS * 2 * WIDTH for kept in (4000, 350)]
    assert [generating["moved_bytes"], mixed["moved_bytes"]] == moved
    assert {row["confidence"] for row in rows} == {"estimate"}
    assert (unknown["flops"], unknown["call_count"], generating["call_count"]) == (None, 1, 1)
    assert mixed["tflops"] == pytest.approx(mixed["flops"] / 2_000 / 1_000)


@pytest.mark.parametrize(
    "name",
    ["execute_context_1(888_788544)_generation_0(0)", MIXED.replace("1824", "9" * 18), MIXED.replace("sk48", "skx")],
)
def test_names_that_do_not_tell_lengths_leave_the_work_unknown(name: str) -> None:
    assert job(serving(name, name)).operator_efficiency()["flops"].null_count() >= 1
    assert job(serving("R", "S")).operator_efficiency()["flops"].to_list() == [None]


def test_dims_without_heads_leave_the_work_unknown() -> None:
    flat: Given = (ATTENTION[0], [[TOKENS, 512], [TOKENS, 128], [TOKENS, 128]], [BF16] * 3, [""] * 3)
    assert job(serving(MIXED, MIXED, flat)).operator_efficiency()["flops"].to_list() == [None]


def test_lengths_tell_the_work_of_the_library_within_the_engine() -> None:
    traced = named(shaped(NESTED.replace(".F.", "..."), {"A": ATTENTION, "C": CACHE, "F": LIBRARY}), MIXED, "S")
    rows = {row["name"]: row for row in job(traced).operator_efficiency().rows(named=True)}
    flops = 2 * HEADS * 2 * WIDTH * (1824 - 1444 // 2 + 302)
    assert {name: row["flops"] for name, row in rows.items()} == {ATTENTION[0]: None, CACHE[0]: None, LIBRARY[0]: flops}
    assert rows[LIBRARY[0]]["tflops"] == pytest.approx(flops / 4_000 / 1_000)


def test_lengths_do_not_tell_which_of_two_calls_did_what() -> None:
    text = NESTED.replace("host    |.M.L..K........|", "host    |.M.L..K..N.....|").replace("KKKK.....", "KKKKNN...")
    traced = named(shaped(text, {"A": ATTENTION, "C": CACHE, "F": LIBRARY}), MIXED, "S")
    assert job(traced).operator_efficiency()["flops"].null_count() == 3
