"""What hosts launch late because each of their calls is written down is no cause of lost time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import holotrace
from holotrace.analyses import ALL
from holotrace.capture import UNPROFILED_STEP_NS
from holotrace.cli import main
from holotrace.present.opening import opening
from trace_files import write_trace

STEPS, LAUNCHES, LAUNCH_US = 4, 160, 30
TRACKING = "train.py(90): track"


def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


def causes(
    folder: Path, kernel_us: int, *, calls: int = 6, reads: int = 0, tracks_us: int = 0, **metadata: Any
) -> pl.DataFrame:
    """Causes of steps of launches that take the host 30 us each, with so many calls on record for each of them.

    After each ``reads`` launches the host reads a result, for which it waits until the device has done all. At the end
    of each step it is in a function of its own for so long.
    """
    events, host, device = [], 0, 0
    for step in range(STEPS):
        begin = host
        for number in range(1, LAUNCHES + 1):
            correlation = step * LAUNCHES + number
            nested = [event("cpu_op", f"aten::op{place}", host + place, 28 - 2 * place) for place in range(calls - 1)]
            begun = max(device, host + 20)
            events += [
                *nested,
                event("cuda_runtime", "cudaLaunchKernel", host + 10, 9, correlation=correlation),
                event("kernel", f"gemm{number % 2}", begun, kernel_us, correlation=correlation, stream=7, device=0),
            ]
            host, device = host + LAUNCH_US, begun + kernel_us
            if reads and number % reads == 0:
                until = max(host, device) + 3
                events += [
                    event("python_function", "train.py(7): check", host, until - host + 2),
                    event("cpu_op", "aten::item", host + 1, until - host),
                    event("cuda_runtime", "cudaStreamSynchronize", host + 2, until - host - 2),
                ]
                host = until + 3
        if tracks_us:
            events.append(event("python_function", TRACKING, host, tracks_us))
            host += tracks_us
        events.append(event("user_annotation", f"ProfilerStep#{step}", begin, host - begin))
    write_trace(folder / "rank-0.json", events=events, **metadata)
    return holotrace.open(folder).causes()


def test_a_host_that_would_be_fast_enough_without_being_recorded_is_no_cause(tmp_path: Path) -> None:
    """A healthy transformer on an H100 was told to be launch-bound, worth a third of its recorded steps."""
    (found,) = causes(tmp_path, 20).to_dicts()
    assert (found["cause"], found["severity"], found["cost_ns"]) == ("recording", "info", 0)
    assert found["profiler_ns"] == pytest.approx(STEPS * LAUNCHES * 10_000, rel=0.05)
    assert "about 1" in found["message"] and "of each step" in found["message"]


def test_a_host_that_is_too_slow_anyway_is_worth_what_it_takes_without_being_recorded(tmp_path: Path) -> None:
    """Half of 30 us for each launch, of which the device computes in 5."""
    found = causes(tmp_path, 5).row(0, named=True)
    assert found["cause"] == "launch-bound"
    assert found["cost_ns"] == pytest.approx(STEPS * LAUNCHES * 10_000, rel=0.05)
    assert found["share_ratio"] == pytest.approx(10 / 15, rel=0.05)


def test_launching_that_is_late_by_less_than_the_estimate_is_unsure_by_is_no_cause(tmp_path: Path) -> None:
    """Five healthy jobs on an H100, of which recording took more than half, were told to be launch-bound."""
    assert causes(tmp_path, 10)["cause"].to_list() == ["recording"]


def test_where_few_calls_are_on_record_these_take_nothing(tmp_path: Path) -> None:
    (found,) = causes(tmp_path, 5, calls=2).to_dicts()
    assert found["cause"] == "launch-bound"
    assert found["cost_ns"] == pytest.approx(STEPS * LAUNCHES * 25_000, rel=0.05)


def test_where_the_recorder_measured_what_it_takes_nothing_is_estimated(tmp_path: Path) -> None:
    (found,) = causes(tmp_path, 5, **{UNPROFILED_STEP_NS: LAUNCHES * LAUNCH_US * 1_000}).to_dicts()
    assert found["cost_ns"] == pytest.approx(STEPS * LAUNCHES * 25_000, rel=0.05)


def test_a_wait_costs_what_its_host_would_be_ahead_without_being_recorded(tmp_path: Path) -> None:
    """Reading the loss on an H100 was told as launching: a recorded host was too late to wait for its device."""
    found = causes(tmp_path, 16, reads=10)
    assert found["cause"].to_list() == ["synchronization", "recording"]
    assert "train.py(7): check" in found["message"][0]
    # A host that is not recorded takes 15 us for each launch: without the waits only the first of all is late.
    assert found["cost_ns"][0] < STEPS * LAUNCHES / 10 * 40_000


@pytest.mark.parametrize("calls", [2, 6])
def test_what_recording_takes_of_some_ranks_is_no_fault_of_the_others(tmp_path: Path, calls: int) -> None:
    """Hosts that make nearly enough calls for each launch would have been launch-bound beside those that do."""
    for rank, count in enumerate((6, 6, calls)):
        info = {"rank": rank, "world_size": 3, "backend": "nccl"}
        causes(tmp_path / str(rank), 20, calls=count, distributedInfo=info)
    found = holotrace.open(tmp_path, recursive=True).causes()
    assert found["cause"].to_list() == ["recording" if calls == 6 else "launch-bound"]
    assert found["ranks"].to_list() == [[]]


def test_the_verdict_says_what_recording_takes_and_how_to_measure_it(tmp_path: Path) -> None:
    causes(tmp_path, 20)
    told = CliRunner().invoke(main, ["report", str(tmp_path), "-o", str(tmp_path / "x.md")]).output
    said = " ".join(told.replace("│", " ").split())
    assert "No cause is known that is worth more than 1.0% of the time without the profiler." in said
    assert "Recording takes about" in said and "--unprofiled-step-ms" in said
    assert "idle for" not in said
    job = holotrace.open(tmp_path)
    first = opening(job.run(), ALL)
    assert "To measure it, time some steps without the profiler" in first.limits
    assert [cause.severity for cause in first.causes if cause.severity == "info"] == []


@pytest.mark.parametrize(
    ("kernel_us", "cost_us"),
    [
        pytest.param(29, 0, id="the device would have had enough to do"),
        pytest.param(15, 1_300, id="the device waits for its host anyway"),
    ],
)
def test_what_hosts_do_beside_a_device_that_is_busy_without_the_recording_costs_nothing(
    tmp_path: Path, kernel_us: int, cost_us: int
) -> None:
    """Calls of a framework's logger cost 4 % of a step, as long as the step was recorded."""
    found = causes(tmp_path, kernel_us, tracks_us=1_300).filter(cause="python-function")
    assert found["responsible"].to_list() == [TRACKING] * (cost_us > 0)
    assert found["cost_per_step_ns"].sum() == pytest.approx(cost_us * 1_000, rel=0.2)


def test_a_host_that_computes_itself_starts_operators_sooner_while_nobody_records_it(tmp_path: Path) -> None:
    """A healthy step of transformers on a CPU, 30.8 ms without the profiler, was launch-bound for 9.5 of 39.4 ms."""
    events, now = [], 0
    for step in range(STEPS):
        begin = now
        for _ in range(LAUNCHES):
            # Of 60 us a product computes in 40, and six calls of Python come before the next.
            dims = {"Input Dims": [[64, 512], [512, 512]], "Input type": ["float", "float"]}
            events.append(event("cpu_op", "aten::mm", now, 40) | {"args": dims})
            events += [event("python_function", f"model.py({n}): forward", now + 40 + 3 * n, 2) for n in range(6)]
            now += 60
        events.append(event("user_annotation", f"ProfilerStep#{step}", begin, now - begin))
    write_trace(tmp_path / "rank-0.json", events=events)
    launching, told = holotrace.open(tmp_path).causes().to_dicts()
    assert (launching["cause"], told["cause"]) == ("launch-bound", "recording")
    assert launching["cost_ns"] == pytest.approx(STEPS * LAUNCHES * 10_000, rel=0.05)
    assert "start operators later" in told["message"]
    assert told["profiler_ns"] == pytest.approx(STEPS * LAUNCHES * 10_000, rel=0.05)


def operator(now: int, us: int) -> dict[str, Any]:
    dims = {"Input Dims": [[64, 512], [512, 512]], "Input type": ["float", "float"]}
    return event("cpu_op", "aten::mm", now, us) | {"args": dims}


def test_half_of_an_input_of_a_host_that_computes_is_the_recordings_where_it_consists_of_calls(tmp_path: Path) -> None:
    """Samples that Python makes took 36 of 75 ms a step, which took 50 without the profiler."""
    events, now = [], 0
    for step in range(STEPS):
        begin = now
        events.append(event("python_function", "torch/utils/data/dataloader.py(720): __next__", now, 3_000))
        events += [event("python_function", f"series.py({n % 7}): encode", now + 10 * n, 9) for n in range(300)]
        events += [operator(now + 3_000 + 150 * n, 150) for n in range(20)]
        now += 6_000
        events.append(event("user_annotation", f"ProfilerStep#{step}", begin, now - begin))
    write_trace(tmp_path / "rank-0.json", events=events)
    waiting, told = holotrace.open(tmp_path).causes().to_dicts()
    assert (waiting["cause"], told["cause"]) == ("input", "recording")
    expected = pytest.approx(STEPS * 1_500_000, rel=0.05)
    assert (waiting["cost_ns"], told["profiler_ns"]) == (expected, expected)
    # Whoever measured what recording takes is told the same cause, and not launching.
    first, *others = holotrace.open(tmp_path).causes(unprofiled_step_ms=5.0).to_dicts()
    assert (first["cause"], first["cost_ns"]) == ("input", pytest.approx(STEPS * 2_000_000, rel=0.05))
    assert "launch-bound" not in {cause["cause"] for cause in others}


@pytest.mark.parametrize("us", [200, 10])
def test_short_calls_of_a_function_between_operators_are_no_launching_where_they_are_much_of_it(
    tmp_path: Path, us: int
) -> None:
    """Saving 64 pictures took most of a step on a CPU, which was told to be launch-bound."""
    events, now = [], 0
    for step in range(STEPS):
        begin = now
        for _ in range(64):
            events.append(operator(now, 50))
            events.append(event("python_function", "PIL/Image.py(2593): save", now + 55, us))
            events.append(event("python_function", "<built-in method encode of ImagingEncoder>", now + 56, us - 5))
            now += 50 + us + (15 if us > 50 else 140)
        events.append(event("user_annotation", f"ProfilerStep#{step}", begin, now - begin))
    write_trace(tmp_path / "rank-0.json", events=events)
    first, *_ = holotrace.open(tmp_path).causes().to_dicts()
    if us > 50:
        assert (first["cause"], first["responsible"]) == ("python-function", "PIL/Image.py(2593): save")
        assert first["cost_ns"] == pytest.approx(STEPS * 64 * us * 1_000, rel=0.05)
    else:
        assert first["cause"] == "launch-bound"
