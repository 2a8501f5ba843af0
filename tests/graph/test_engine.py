"""When everything happens, if it begins as soon as what it waits for is over."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from holotrace.graph.engine import (
    BEFORE,
    EDGE,
    OWN,
    OWN_TIME,
    REMOVED,
    UNEXPLAINED,
    Changes,
    Replay,
    end_of,
    start_of,
)

Row = tuple[int, int, int, int | None]


def activities(*rows: Row) -> pl.DataFrame:
    """Own time, start, end and crossing of each."""
    schema = {"own_ns": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "crossing": pl.UInt32}
    return pl.DataFrame(rows, schema=schema, orient="row")


def edges(*rows: tuple[int, int, int]) -> pl.DataFrame:
    """The activity whose end another's start waits for, and the lag."""
    schema = {"before": pl.UInt32, "after": pl.UInt32, "lag_ns": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.select(from_point=end_of(pl.col("before")), to_point=start_of(pl.col("after")), lag_ns="lag_ns")


def own(activity: int, own_ns: int) -> Changes:
    return Changes(own=pl.DataFrame({"activity": [activity], "own_ns": [own_ns]}))


def end(activity: int, since_ns: int = -(10**9)) -> pl.DataFrame:
    return pl.DataFrame({"point": [2 * activity + 1], "since_ns": [since_ns]})


def ends(replay: Replay, changes: Changes | None = None, *, has_delays: bool = False) -> list[int]:
    return replay.times(changes or Changes(), has_delays=has_delays)["end_ns"].to_list()


def test_what_waits_starts_when_what_it_waits_for_has_ended() -> None:
    replay = Replay(activities((10, 0, 10, None), (5, 13, 18, None)), edges((0, 1, 2)))
    assert ends(replay) == [10, 17]
    assert replay.delays()["start_delay_ns"].to_list() == [0, 1]
    assert ends(replay, has_delays=True) == [10, 18]


def test_all_of_a_crossing_go_on_when_the_last_has_come() -> None:
    replay = Replay(activities((4, 0, 14, 7), (4, 10, 14, 7), (3, 0, 3, None)), edges())
    assert ends(replay) == [14, 14, 3]
    assert ends(replay, own(0, 9)) == [19, 14, 3]


def test_crossing_begins_earlier_when_the_late_one_is_faster() -> None:
    replay = Replay(activities((20, 0, 20, None), (4, 0, 24, 0), (4, 20, 24, 0)), edges((0, 2, 0)))
    assert ends(replay, own(0, 5)) == [5, 9, 9]


def test_an_edge_that_is_taken_away_is_no_longer_waited_for() -> None:
    replay = Replay(activities((10, 0, 10, None), (5, 10, 15, None)), edges((0, 1, 0)))
    gone = Changes(lags=pl.DataFrame({"edge": [0], "lag_ns": [REMOVED]}))
    assert ends(replay, gone) == [10, 5]


def test_cases_side_by_side_are_as_one_by_one() -> None:
    replay = Replay(activities((10, 0, 10, None), (5, 10, 15, None), (1, 0, 1, None)), edges((0, 1, 0)))
    cases = [own(number % 3, number) for number in range(21)]
    points = pl.Series([1, 3, 5])
    together = replay.cases(cases, points)
    assert together["time_ns"].to_list() == [time for case in cases for time in ends(replay, case)]
    assert together["case"].to_list() == [case for case in range(21) for _ in range(3)]


def test_cases_of_one_of_two_times_are_as_their_changes() -> None:
    replay = Replay(activities(*((10, 10 * at, 10 * at + 10, None) for at in range(4))), edges((0, 1, 0), (2, 3, 0)))
    other, label, second = [1, 2, 3, 4], [0, 0, 1, None], [2, 3, 2, None]
    mixed = pl.DataFrame({"usual_ns": [10] * 4, "other_ns": other, "label": label, "second_label": second})
    cases = [[], [0], [1], [2], [3], [0, 1], [2, 3], [1, 3], [0, 1, 2, 3]]
    points = pl.Series([2 * at + 1 for at in range(4)])
    for some in (cases, cases[:1], cases[1:3], cases[3:7]):
        taken = [[at for at in range(4) if {label[at], second[at]} & set(labels)] for labels in some]
        changes = [
            Changes(own=pl.DataFrame({"activity": rows, "own_ns": [other[at] for at in rows]}, schema=OWN))
            for rows in taken
        ]
        assert_frame_equal(replay.mixed(mixed, some, points), replay.cases(changes, points))


def test_circle_is_cut_where_it_was_recorded_first_and_counted() -> None:
    replay = Replay(activities((10, 0, 10, None), (5, 10, 15, None)), edges((0, 1, 0), (1, 0, 0)))
    assert replay.circular_count == 1
    assert ends(replay) == [10, 15]


def test_edge_to_itself_is_a_circle() -> None:
    replay = Replay(activities((10, 3, 13, None)), edges((0, 0, 0)))
    assert replay.circular_count == 1
    assert ends(replay) == [13]


def test_negative_lag_counts_and_lets_work_start_before_the_end() -> None:
    replay = Replay(activities((10, 0, 10, None), (5, 8, 13, None)), edges((0, 1, -2)))
    assert replay.negative_count == 1
    assert ends(replay) == [10, 13]


def test_what_was_recorded_too_early_contradicts_and_is_reproduced_with_delays() -> None:
    replay = Replay(activities((10, 0, 10, None), (5, 8, 13, None)), edges((0, 1, 0)))
    assert replay.contradicted_count == 1
    assert ends(replay) == [10, 15]
    assert ends(replay, has_delays=True) == [10, 13]


def test_path_leads_through_the_last_of_a_crossing() -> None:
    replay = Replay(activities((20, 0, 20, None), (4, 0, 24, 0), (4, 22, 26, 0)), edges((0, 2, 0)))
    path = replay.parts_to(end(1), has_delays=True)
    assert path.select("activity", "from_activity", "spent", "start_ns", "end_ns").rows() == [
        (0, None, BEFORE, -(10**9), 0),
        (0, 0, OWN_TIME, 0, 20),
        (2, 0, UNEXPLAINED, 20, 22),
        (1, None, OWN_TIME, 22, 24),
    ]


def test_time_until_work_starts_is_that_of_the_edge_as_far_as_its_lag_explains_it() -> None:
    replay = Replay(activities((10, 0, 10, None), (5, 14, 19, None)), edges((0, 1, 3)))
    path = replay.parts_to(end(1, since_ns=2), has_delays=True)
    assert path.select("activity", "from_activity", "spent", "start_ns", "end_ns").rows() == [
        (0, 0, OWN_TIME, 2, 10),
        (1, 0, EDGE, 10, 13),
        (1, 0, UNEXPLAINED, 13, 14),
        (1, 1, OWN_TIME, 14, 19),
    ]


def test_nothing_replays_to_nothing() -> None:
    replay = Replay(activities(), edges())
    assert ends(replay) == []
    assert replay.cases([Changes()], pl.Series([], dtype=pl.UInt32)).is_empty()


times = st.integers(-(10**6), 10**6)
rows = st.tuples(times, times, times, st.none() | st.integers(0, 3))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[pl.DataFrame, pl.DataFrame]:
    found = draw(st.lists(rows, min_size=1, max_size=12))
    # Whatever was recorded ends after its start; own times are as they come.
    shaped = [(own_ns, min(one, other), max(one, other), crossing) for own_ns, one, other, crossing in found]
    number = st.integers(0, 2 * len(found) - 1)
    lines = draw(st.lists(st.tuples(number, number, st.integers(-1000, 1000)), max_size=30))
    schema = {"from_point": pl.UInt32, "to_point": pl.UInt32, "lag_ns": pl.Int64}
    return activities(*shaped), pl.DataFrame(lines, schema=schema, orient="row")


@given(graphs())
def test_with_delays_everything_is_as_recorded_to_the_nanosecond(graph: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    recorded, lines = graph
    replay = Replay(recorded, lines)
    assert_frame_equal(replay.times(has_delays=True), recorded.select("start_ns", "end_ns"))


@given(graphs(), st.integers(0, 11), st.integers(0, 10**6), st.booleans())
def test_the_time_before_a_point_is_told_once(
    graph: tuple[pl.DataFrame, pl.DataFrame], number: int, span: int, has_delays: bool
) -> None:
    recorded, lines = graph
    replay = Replay(recorded, lines)
    activity = number % recorded.height
    over = replay.times(has_delays=has_delays)["end_ns"][activity]
    parts = replay.parts_to(end(activity, over - span), has_delays=has_delays)
    moments = [over - span, *parts["end_ns"]]
    assert parts["start_ns"].to_list() == moments[:-1]
    assert moments[-1] == over
    assert (parts["end_ns"] > parts["start_ns"]).all()
