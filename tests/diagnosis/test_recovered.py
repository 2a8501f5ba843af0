"""What would be hidden later if a host had not stood still before."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.diagnosis.job.meetings import Change, Meetings, together
from holotrace.diagnosis.rank import recovered

ITEM, LOADER = "aten::item", "DataLoader.__next__"
# A host waits for its device for 100 of the time in which that works, and then for input for 60.
STOPS = [
    {"cause": "synchronization", "responsible": ITEM, "returned_ns": 100, "won_ns": 100},
    {"cause": "input", "responsible": LOADER, "returned_ns": 200, "won_ns": 0},
]
LATER = [{"cause": "input", "responsible": LOADER, "start_ns": 140, "end_ns": 200, "share_ns": 60}]


def hidden(stops: list[dict[str, object]], later: list[dict[str, object]], cause: str, name: str) -> dict[int, int]:
    """How much of each gap is hidden, by its end."""
    rows = [{"asked_by": None, "lost_ns": 0, **stop} for stop in stops]
    known = pl.DataFrame(rows, schema_overrides={"asked_by": pl.String})
    is_wait = pl.col("cause") == "synchronization"
    known = known.with_columns(event_id=pl.lit(1, pl.UInt32), is_wait=is_wait)
    found = recovered._of(cause, name, known, pl.DataFrame(later))
    return dict(found.select("end_ns", "share_ns").iter_rows())


@pytest.mark.parametrize(
    ("stops", "later", "found"),
    [
        (STOPS, LATER, {200: 60}),
        # No more than the host would have been ahead.
        (STOPS, [*LATER, {**LATER[0], "start_ns": 250, "end_ns": 350, "share_ns": 100}], {200: 60, 350: 40}),
        # Another wait for the device, after which the host is as far ahead as it was.
        ([*STOPS, {**STOPS[0], "responsible": "aten::nonzero", "returned_ns": 120}], LATER, {}),
        # The same, but asked for by something else: the loss is read, too.
        ([*STOPS, {**STOPS[0], "asked_by": "loss", "returned_ns": 120, "won_ns": 0}], LATER, {}),
        # It is told of what costs most, and not of what waits longest while the device works.
        ([{**STOPS[0], "lost_ns": 9}, {**STOPS[0], "asked_by": "loss", "returned_ns": 120, "won_ns": 900}], LATER, {}),
        # What is waited for before is none of it.
        ([{**STOPS[0], "returned_ns": 300}, STOPS[1]], LATER, {}),
    ],
)
def test_what_a_wait_kept_from_being_hidden_is_a_part_of_what_it_costs(
    stops: list[dict[str, object]], later: list[dict[str, object]], found: dict[int, int]
) -> None:
    """Reading a norm per tensor beside a slow loader was worth 43 of 418 ms: without it the loader was hidden."""
    assert hidden(stops, later, "synchronization", ITEM) == found


def test_a_wait_at_the_end_of_a_gap_comes_after_it() -> None:
    """Memory that was freed before garbage was collected was worth nothing where the loss is read after that."""
    us = 1_000
    reading = {**STOPS[0], "returned_ns": 998 * us, "won_ns": 0}
    freeing = {"cause": "allocator", "responsible": "cudaFree", "returned_ns": 100 * us, "won_ns": 70 * us}
    gap = {"cause": "garbage-collection", "responsible": "gc", "start_ns": 500 * us, "end_ns": 1_000 * us}
    later: list[dict[str, object]] = [{**gap, "share_ns": 500 * us}]
    assert hidden([freeing, reading], later, "allocator", "cudaFree") == {1_000 * us: 70 * us}
    # Before that gap it had waited.
    assert hidden([freeing, {**reading, "returned_ns": 500 * us}], later, "allocator", "cudaFree") == {}


def test_who_frees_memory_has_waited_for_its_device() -> None:
    """A loader was worth what freeing memory later costs, which waits, and was told before that."""
    loading = {"cause": "input", "responsible": LOADER, "returned_ns": 100, "won_ns": 100}
    known = pl.DataFrame([loading]).with_columns(
        event_id=pl.lit(1, pl.UInt32), is_wait=pl.lit(value=False), asked_by=pl.lit(None, pl.String)
    )
    gap = {"cause": "allocator", "responsible": "cudaFree", "start_ns": 140, "end_ns": 200, "share_ns": 60}
    alone = recovered._of("input", LOADER, known, pl.DataFrame([gap]))
    assert alone["share_ns"].to_list() == [60]
    assert recovered._of("input", LOADER, known, pl.DataFrame([gap]), pl.Series([140])).is_empty()


def test_what_a_host_does_after_it_waited_in_the_same_gap_is_not_hidden() -> None:
    """A function before memory is freed was worth what getting more of it costs, too: 32 ms of a job, and not 25."""
    us = 1_000
    known = pl.DataFrame({"cause": "python-function", "responsible": "log", "returned_ns": 500 * us, "won_ns": 90 * us})
    known = known.with_columns(event_id=pl.lit(1, pl.UInt32), is_wait=False, asked_by=pl.lit(None, pl.String))
    gap = {"cause": "allocator", "start_ns": 100 * us, "end_ns": 1_000 * us, "share_ns": 300 * us}
    freed = pl.Series([600 * us])

    def hidden_ns(begun_us: int) -> int:
        later = pl.DataFrame([{**gap, "responsible": "cudaMalloc", "begun_ns": begun_us * us}])
        return int(recovered._of("python-function", "log", known, later, freed)["share_ns"].sum())

    assert [hidden_ns(begun_us) for begun_us in (590, 601)] == [90 * us, 0]


def test_a_thing_hides_nothing_of_itself() -> None:
    assert hidden(STOPS, LATER, "input", LOADER) == {}


def test_what_others_have_a_part_in_is_of_a_cause_alone() -> None:
    schema = dict.fromkeys(
        ("match", "rank", "arrival_ns", "left_ns", "time_ns", "needed_ns", "ready_ns", "clock_offset_ns"), pl.Int64
    )
    nobody = pl.DataFrame(schema=schema | dict.fromkeys(("collective", "group", "group_ranks"), pl.String))
    meetings = Meetings(nobody, {0: 300}, {})
    waiting = Change({0: [(100, 10.0)]}, later={0: [(200, 60.0)]})
    loading = Change({0: [(200, 60.0)]})
    assert [meetings.saved_ns(each) for each in (waiting, loading)] == [70, 60]
    # Without both the loader's wait is gone once.
    assert meetings.saved_ns(together([waiting, loading])) == 70
