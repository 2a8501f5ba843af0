"""What each rank was doing when."""

import pickle

import polars as pl
from polars.testing import assert_frame_equal

from drawing import described, draw, moved, trace
from holotrace.analyses.lanes.timeline import timeline
from holotrace.job import Job

DRAWING = """
    step    |111111111111222222222222|
    range   |RRRR....................|
    op      |....OO..................|
    host    |A..........B............|
    compute |.AAAA...........BBBB....|
    comm    |....CCCC................|
    copy    |..........D.............|
"""


def of_lane(table: pl.DataFrame, lane: str) -> pl.DataFrame:
    return table.filter(row="bin", lane=lane)


def test_each_lane_is_active_as_long_as_its_work() -> None:
    table = timeline(draw(DRAWING))
    busy = {lane: of_lane(table, lane)["busy_ns"].sum() for lane in ("compute", "communication", "copy", "host")}
    assert busy == {"compute": 8_000, "communication": 4_000, "copy": 1_000, "host": 6_000}


def test_the_idle_lane_says_why() -> None:
    table = of_lane(timeline(draw(DRAWING)), "idle")
    assert table.height
    assert table["name"].is_in(["queued", "host-pause"]).any() or table["name"].str.contains("launch|unrecorded").any()


def test_steps_are_told_exactly() -> None:
    steps = timeline(draw(DRAWING)).filter(row="step")
    assert steps.select("name", "start_ns", "end_ns").rows() == [("1", 0, 12_000), ("2", 12_000, 24_000)]


def test_a_clock_that_is_ahead_is_set_right() -> None:
    text = "compute |AAAA....BBBB|\ncomm |....CCCC....|"
    ranks = {n: described(trace(text, n), group="0", group_ranks="[0, 1]", sequence=[1]) for n in (0, 1)}
    ahead = timeline(Job.from_ranks({0: ranks[0], 1: moved(ranks[1], 5_000)}))
    first, second = (ahead.filter(row="bin", rank=n).drop("rank") for n in (0, 1))
    assert_frame_equal(first, second)
    assert ahead.filter(row="rank")["clock_offset_ns"].to_list() == [0, 5_000]


def test_ranks_that_nothing_compares_begin_together_if_their_times_have_nothing_in_common() -> None:
    year = 365 * 86_400 * 10**9
    apart = timeline(Job.from_ranks({0: trace("compute |AA|"), 1: moved(trace("compute |AA|", 1), year)}))
    recorded = apart.filter(row="rank")
    assert recorded["start_ns"].to_list() == [0, 0]
    assert recorded["uncertain_ns"].to_list() == [None, None]


def test_a_meeting_says_who_came_when() -> None:
    early, late = "comm |.CCCCCCC|", "comm |.....CCC|"
    ranks = {
        n: described(trace(text, n), group="0", group_ranks="[0, 1]", sequence=[1])
        for n, text in enumerate((early, late))
    }
    meeting = timeline(Job.from_ranks(ranks)).filter(row="meeting").sort("rank")
    assert meeting["start_ns"].diff()[1] == 4_000
    assert meeting["busy_ns"].to_list() == [4_000, 0]
    assert meeting["end_ns"].n_unique() == 1


def test_around_a_long_gap_every_event_is_told() -> None:
    table = timeline(draw(DRAWING))
    windows, events = table.filter(row="window"), table.filter(row="event")
    assert windows["count"].sum() == events.height > 0
    assert set(events.filter(lane="compute")["name"]) == {"A", "B"}


def test_order_and_number_of_ranks_change_nothing() -> None:
    ranks = {5: trace(DRAWING, 5), 2: trace("compute |AA.BB|", 2)}
    there, back = timeline(Job.from_ranks(ranks)), timeline(Job.from_ranks(dict(reversed(ranks.items()))))
    assert_frame_equal(there, back)


def test_a_job_without_work_has_no_timeline() -> None:
    for job in (Job.from_ranks({}), draw("compute ||")):
        assert timeline(job).is_empty()


def test_travels_to_a_worker_process() -> None:
    assert pickle.loads(pickle.dumps(timeline)) is timeline
