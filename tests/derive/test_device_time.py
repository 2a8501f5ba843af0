"""When devices of an XLA profile were busy, waited, or had nothing to do."""

from __future__ import annotations

import polars as pl

from holotrace.derive import device_time

ROWS = [
    # device, line, start, end, is_wait, is_async, is_container
    (0, "XLA Ops", 0, 10, False, False, True),
    (0, "XLA Ops", 2, 4, False, False, False),
    (0, "XLA Ops", 5, 9, True, False, False),
    (0, "Async XLA Ops", 0, 30, False, True, False),
    (0, "XLA TraceMe", 12, 14, True, False, False),
    (0, "XLA Ops", 20, 22, False, False, False),
]
OPS = pl.DataFrame(
    [(number, *row, "/device:TPU:0", None, None, None) for number, row in enumerate(ROWS)],
    schema={
        "event_id": pl.UInt32,
        "device": pl.Int64,
        "line": pl.String,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "is_wait": pl.Boolean,
        "is_async": pl.Boolean,
        "is_container": pl.Boolean,
        "plane": pl.String,
        "step": pl.Int64,
        "launch_id": pl.UInt32,
        "launch_ns": pl.Int64,
    },
    orient="row",
)


def test_what_only_accompanies_operations_is_not_executed() -> None:
    assert device_time.executions(OPS)["event_id"].to_list() == [0, 1, 2, 5]
    assert device_time.on_device(OPS)["event_id"].to_list() == [0, 1, 2, 4, 5]


def test_the_window_goes_from_the_first_step_program_or_operation_to_the_last_end() -> None:
    nothing = OPS.select("start_ns", "end_ns").clear()
    assert device_time.window(OPS, nothing, nothing).rows() == [(0, 22)]
    steps = pl.DataFrame({"start_ns": [-5], "end_ns": [12]})
    programs = pl.DataFrame({"start_ns": [1], "end_ns": [25]})
    assert device_time.window(OPS, programs, steps).rows() == [(-5, 25)]
    assert device_time.window(OPS.clear(), nothing, steps).is_empty()


def test_only_waiting_that_no_other_operation_hides_counts() -> None:
    assert device_time.waits(device_time.on_device(OPS)).rows() == [(5, 9), (12, 14)]


def test_gaps_are_where_nothing_ran_for_long_enough() -> None:
    ran = device_time.executions(OPS)
    during = pl.DataFrame({"start_ns": [0], "end_ns": [22]})
    found = device_time.gaps(ran, during, by=["device", "plane"], min_gap_ns=5)
    assert found.select("start_ns", "end_ns").rows() == [(10, 20)]
    assert device_time.gaps(ran, during, by=["device", "plane"], min_gap_ns=11).is_empty()
