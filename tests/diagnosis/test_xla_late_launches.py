"""What hosts of XLA were on their way with, before their devices had nothing to do."""

from __future__ import annotations

import polars as pl
import pytest

from drawing import draw
from holotrace.diagnosis.rank.xla import late_launches as xla_late_launches
from holotrace.diagnosis.words.classes import LAUNCH

MS = 1_000_000
WAITS = pl.DataFrame(schema={"began_ns": pl.Int64, "returned_ns": pl.Int64})
NEVER = pl.Series([], dtype=pl.Int64)


def test_ways_over_many_short_programs_do_not_grow_with_their_number() -> None:
    """Each of thousands of short programs after the last that lasted had all functions since that on its way."""
    count = 2_000
    numbers = pl.Series(range(1, count + 1))
    gaps = pl.DataFrame({"window": numbers, "start_ns": numbers * MS, "end_ns": numbers * MS + 500_000})
    gaps = gaps.with_columns(launch_ns=pl.col("end_ns") - 1)
    own = pl.DataFrame({"name": "f", "start_ns": numbers * MS - 900_000, "end_ns": numbers * MS - 200_000})
    ways = xla_late_launches.begun(gaps, pl.Series([0]), own, WAITS.clear(), NEVER)
    assert (ways.height, ways["start_ns"][0], ways["end_ns"][-1]) == (count, 0, count * MS)
    assert xla_late_launches.cut(ways, own).height < 150 * count


def test_spans_are_cut_where_what_the_host_did_begins_and_ends() -> None:
    spans = pl.DataFrame({"window": [0, 1], "start_ns": [0, 50], "end_ns": [30, 60]})
    own = pl.DataFrame({"start_ns": [10, 55], "end_ns": [20, 80]})
    assert xla_late_launches.cut(spans, own).rows() == [(0, 0, 10), (0, 10, 20), (0, 20, 30), (1, 50, 55), (1, 55, 60)]


@pytest.mark.parametrize(("began_ns", "ways"), [(2 * MS, []), (5 * MS - 50_000, [(0, 5 * MS)])])
def test_a_host_that_waits_as_its_device_runs_dry_is_not_on_its_way_unless_it_only_reads_what_is_there(
    began_ns: int, ways: list[tuple[int, int]]
) -> None:
    """A function that a program calls back was told a second time, in the gap after that program."""
    gaps = pl.DataFrame({"window": [0], "start_ns": [5 * MS], "end_ns": [7 * MS], "launch_ns": [7 * MS - 1]})
    own = pl.DataFrame({"name": ["f"], "start_ns": [1 * MS], "end_ns": [2 * MS]})
    waits = pl.DataFrame({"began_ns": [began_ns], "returned_ns": [5 * MS + 400_000]})
    found = xla_late_launches.begun(gaps, pl.Series([0]), own, waits, NEVER)
    assert found.select("start_ns", "end_ns").rows() == ways


@pytest.mark.parametrize(("over_ns", "ways"), [(3 * MS - 50_000, []), (1 * MS, [(3 * MS, 5 * MS)])])
def test_what_ends_as_its_device_runs_dry_only_once_does_not_wait_for_it(
    over_ns: int, ways: list[tuple[int, int]]
) -> None:
    """A function of 14.8 ms ended 58 µs after its device had: what the host did next was told, of which it was late."""
    gaps = pl.DataFrame({"window": [0], "start_ns": [5 * MS], "end_ns": [7 * MS], "launch_ns": [7 * MS - 1]})
    own = pl.DataFrame({"name": ["f", "f"], "start_ns": [2 * MS, 4 * MS], "end_ns": [3 * MS, 5 * MS + 58_000]})
    found = xla_late_launches.begun(gaps, pl.Series([3 * MS]), own, WAITS, pl.Series([over_ns]))
    assert found.select("start_ns", "end_ns").rows() == ways


def test_what_takes_longest_on_the_way_to_a_launch_is_named() -> None:
    """A range of 76.8 ms in each step of PyTorch/XLA, which collects graphs, was told as what takes 0.4 ms after it."""
    gap = {"window": 0, "end_ns": 9 * MS, "cause": LAUNCH}
    shares = pl.DataFrame([{**gap, "responsible": "StepMarker", "share_ns": 2 * MS}])
    before = pl.DataFrame([{**gap, "responsible": "compute_statistics", "share_ns": 5 * MS}])
    told = xla_late_launches.laid_to_longest(shares, before).select("cause", "responsible", "share_ns")
    assert told.rows() == [(LAUNCH, "compute_statistics", 2 * MS)]


def test_a_device_does_what_it_began_before_the_recording_until_the_next_operation_of_that_program() -> None:
    """A collective that was under way as recording began is not in it: its host was said to read and to prepare
    nothing, with 59 of 834 ms.
    """
    job = draw(f"""
        step |{"1" * 4000}{"2" * 4000}{"3" * 4000}|
        tpu  |{"." * 3000}{"A" * 1990}{"." * 10}{"B" * 3490}{"." * 10}{"C" * 3500}|
        call |{"b" * 1}{"R" * 3999}{"c" * 1}{"R" * 3999}{"." * 4000}|
        R = np.asarray(jax.Array)
    """)
    assert job.causes().is_empty()
