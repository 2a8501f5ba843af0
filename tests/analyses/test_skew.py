"""Clocks of devices against their host's."""

from __future__ import annotations

import pytest

from holotrace.core.tables import HOST_CALLS, MODULES, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.job import Job
from holotrace.present.wording import sentence
from xla_drawing import frame

PLACE: dict[str, object] = {"device": 0, "plane": "/device:TPU:0"}


Run = tuple[int, int, int | None, int | None]


def job(*runs: Run, run_of_host: int = 0, ops: list[dict[str, object]] | None = None) -> Job:
    """Runs of programs: start and end on the device, when they were enqueued, when the host heard of their end."""
    modules = [
        PLACE | {"run": number, "start_ns": start, "end_ns": end, "module": "jit_f", "program": 1}
        for number, (start, end, _, _) in enumerate(runs)
    ]
    calls = [
        {"name": name, "run": number + run_of_host, "device": 0, "start_ns": at, "end_ns": at + 1}
        for number, run in enumerate(runs)
        for name, at in zip(("DoEnqueueProgram", "CompleteCallbacks"), run[2:], strict=True)
        if at is not None
    ]
    executed = [PLACE | {"line": "XLA Ops", "name": "op", "start_ns": s, "end_ns": e} for s, e, _, _ in runs]
    tables = {
        "modules": frame(MODULES, modules),
        "host_calls": frame(HOST_CALLS, calls),
        "xla_ops": frame(XLA_OPS, ops if ops is not None else executed),
    }
    return Job.from_ranks({0: RankTrace(0, tables)})


@pytest.mark.parametrize(
    ("runs", "least", "most", "shift"),
    [
        ([(100, 200, 90, 210), (300, 400, 280, 405)], -10, 5, 0),
        # A device that seems to begin before it was told to, as one of a TPU v6e did by 396 µs.
        ([(100, 200, 490, 700), (1_000, 1_100, 1_395, 1_591)], 395, 491, 395),
        ([(100, 200, 50, 170)], -50, -30, -30),
        ([(100, 200, 150, 190)], 50, -10, None),
        ([(100, 200, 150, None)], 50, None, 50),
        ([(100, 200, None, None)], None, None, 0),
    ],
)
def test_a_shift_lets_no_run_begin_before_its_launch_or_end_after_its_completion(
    runs: list[Run], least: int | None, most: int | None, shift: int | None
) -> None:
    table = job(*runs).skew()
    assert table.select("run_count", "least_shift_ns", "most_shift_ns", "shift_ns").row(0) == (
        len(runs),
        least,
        most,
        shift,
    )


def test_runs_are_matched_by_the_lower_bits_of_their_ids() -> None:
    assert job((100, 200, 150, 300), run_of_host=1 << 28).skew()["least_shift_ns"].item() == 50


def test_gaps_are_put_where_the_corrected_clock_has_them() -> None:
    shifted = job((100, 200, 490, 700), (1_000, 1_100, 1_395, 1_591))
    assert shifted.gaps(min_gap_ns=1).select("start_ns", "idle_ns").rows() == [(595, 800)]


def test_a_clock_that_is_off_is_said_and_by_how_much() -> None:
    messages = {f.rule: sentence(f) for f in job((100, 200, 490_100, 700_000)).findings()}
    assert messages["shifted-clock"] == "Device clocks are off by 490 µs or more against their host"
    assert "shifted-clock" not in {f.rule for f in job((100, 200, 90, 210)).findings()}


def test_a_clock_that_contradicts_itself_drifts() -> None:
    messages = {f.rule: sentence(f) for f in job((0, 9_000_000, 1_000_000, 8_000_000)).findings()}
    assert messages["drifting-clock"] == (
        "The clock of a device drifts: launches and completions contradict each other by 2.00 ms"
    )


def test_durations_that_the_mapping_stretched_are_said() -> None:
    op = PLACE | {"line": "XLA Ops", "start_ns": 0, "end_ns": 900_000}
    ops = [
        op | {"name": "long", "duration_ps": 1_800_000_000, "device_ps": 2_000_000_000},
        op | {"name": "short", "duration_ps": 10, "device_ps": 100},
    ]
    drifting = job((0, 900_000, None, None), ops=ops)
    assert drifting.skew().select("least_stretch_ratio", "most_stretch_ratio").row(0) == (0.9, 0.9)
    messages = {f.rule: sentence(f) for f in drifting.findings()}
    assert messages["drifting-clock"].endswith("the durations of operations are off by up to 10%")
