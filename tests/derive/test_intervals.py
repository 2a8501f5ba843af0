"""Interval algebra agrees with counting instants one by one."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from drawing import spans
from holotrace.derive import intervals

some_spans = st.lists(st.tuples(st.integers(-20, 20), st.integers(-2, 10)), max_size=8).map(
    lambda pairs: spans(*((start, start + length) for start, length in pairs))
)


def covered(frame: pl.DataFrame) -> set[int]:
    return {t for start, end in frame.select("start_ns", "end_ns").iter_rows() for t in range(start, end)}


@given(some_spans)
def test_union_covers_the_same_with_disjoint_sorted_spans(frame: pl.DataFrame) -> None:
    merged = intervals.union(frame)
    assert covered(merged) == covered(frame)
    assert merged["end_ns"].to_list() == sorted(merged["end_ns"])
    # Not even touching: otherwise two spans would be one.
    assert all(start > end for start, end in zip(merged["start_ns"][1:], merged["end_ns"], strict=False))


@given(some_spans, some_spans)
def test_unions_of_groups_are_those_of_each_group_alone(a: pl.DataFrame, b: pl.DataFrame) -> None:
    grouped = pl.concat([a.with_columns(of=pl.lit("a")), b.with_columns(of=pl.lit(None, pl.String))])
    found = intervals.unions_by(grouped, ["of"])
    assert found.filter(of="a").drop("of").equals(intervals.union(a))
    assert found.filter(pl.col("of").is_null()).drop("of").equals(intervals.union(b))


@given(some_spans, some_spans)
def test_intersection_is_what_both_cover(a: pl.DataFrame, b: pl.DataFrame) -> None:
    both = intervals.intersect(a, b)
    assert covered(both) == covered(a) & covered(b)
    assert intervals.union(both).equals(both)


@given(some_spans, some_spans)
def test_difference_is_what_only_the_first_covers(a: pl.DataFrame, b: pl.DataFrame) -> None:
    rest = intervals.subtract(a, b)
    assert covered(rest) == covered(a) - covered(b)
    assert intervals.union(rest).equals(rest)


@given(some_spans)
def test_total_is_how_many_instants_are_covered(frame: pl.DataFrame) -> None:
    assert intervals.total_ns(frame) == len(covered(frame))


@given(some_spans, st.lists(st.integers(-25, 35), max_size=5))
def test_covered_before_counts_instants_before_each_time(frame: pl.DataFrame, times: list[int]) -> None:
    found = intervals.covered_before_ns(frame, pl.Series(times, dtype=pl.Int64))
    assert found.to_list() == [sum(t < time for t in covered(frame)) for time in times]


@given(some_spans, some_spans)
def test_uncovered_are_the_instants_of_each_span_that_no_other_covers(a: pl.DataFrame, b: pl.DataFrame) -> None:
    lasting = a.filter(pl.col("start_ns") <= pl.col("end_ns"))
    left = [sum(t not in covered(b) for t in range(start, end)) for start, end in lasting.iter_rows()]
    assert intervals.uncovered_ns(lasting, b).to_list() == left


def test_touching_spans_become_one() -> None:
    assert intervals.union(spans((0, 5), (5, 9))).rows() == [(0, 9)]


def test_a_span_without_length_covers_nothing() -> None:
    assert intervals.union(spans((3, 3))).is_empty()
    assert intervals.intersect(spans((0, 9)), spans((3, 3))).is_empty()


def test_times_near_the_end_of_64_bits_do_not_overflow() -> None:
    late = 2**63 - 1
    assert intervals.total_ns(spans((late - 10, late), (late - 5, late))) == 10


def test_arguments_are_left_as_they_were() -> None:
    frame = spans((5, 9), (0, 6))
    before = frame.clone()
    intervals.union(frame), intervals.intersect(frame, frame), intervals.total_ns(frame)
    assert frame.equals(before)


@given(some_spans, st.lists(st.sampled_from(["compute", "memory", "sync"]), min_size=8, max_size=8))
def test_unions_are_those_of_the_spans_of_each_set_of_kinds(frame: pl.DataFrame, kinds: list[str]) -> None:
    kind = pl.Series("kind", kinds[: frame.height], dtype=pl.Categorical())
    sets = (["compute"], ["compute", "memory"], ["other"])
    found = intervals.unions(frame.with_columns(kind), sets)
    for names, union in zip(sets, found, strict=True):
        assert union.equals(intervals.union(frame.filter(kind.cast(pl.String).is_in(names))))


def test_time_is_covered_once_in_each_group() -> None:
    spans = pl.DataFrame({"device": [0, 1, 0, None], "start_ns": [0, 1, 4, 5], "end_ns": [6, 2, 9, 7]})
    assert intervals.covered_by_ns(spans, ["device"]).rows() == [(0, 9), (1, 1), (None, 2)]
