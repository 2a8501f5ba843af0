"""A host that waits for its device launches too late afterwards: that is what the wait costs, and not its speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import holotrace
from holotrace.capture import UNPROFILED_STEP_NS
from holotrace.cli import main
from holotrace.diagnosis.job import idle
from holotrace.diagnosis.job.candidates import Job as CausesJob
from holotrace.diagnosis.rank import account, host, lead
from holotrace.errors import UsageError
from trace_files import write_trace

LAUNCH_US, LAYER = 40, 12
NO_FUNCTIONS = pl.DataFrame(schema={"rank": pl.Int64, "name": pl.String, "time_ns": pl.Int64, "count": pl.Int64})


def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


ITEM = ("python_function", "train.py(7): check"), ("cpu_op", "aten::item"), ("cpu_op", "aten::_local_scalar_dense")


def steps(
    folder: Path,
    kernels_us: list[int],
    *,
    reads: bool,
    reader: tuple[tuple[str, str], ...] = ITEM,
    unprofiled_step_ms: float | None = None,
    waited_us: int = 0,
    then: tuple[str, str, int] | None = None,
    **metadata: Any,
) -> pl.DataFrame:
    """The causes of steps of layers, each of kernels that take so long, and whose result is read or not.

    Every launch takes the host LAUNCH_US. A read waits until the device has done all, and all times follow from that;
    ``then`` the host may do something else, of a category and a name, for so many us.
    At first the host has waited for work that was not recorded.
    """
    events, host, device, correlation = [], waited_us, waited_us, 0
    if waited_us:
        events.append(event("cuda_runtime", "cudaStreamSynchronize", 0, waited_us - 1))
    for step in range(4):
        begin = host
        for layer in range(LAYER):
            for kernel_us in kernels_us:
                correlation += 1
                begun = max(device, host + 10)
                events += [
                    event("cuda_runtime", "cudaLaunchKernel", host, 9, correlation=correlation),
                    event("kernel", f"layer{layer}", begun, kernel_us, correlation=correlation, stream=7, device=0),
                ]
                host, device = host + LAUNCH_US, begun + kernel_us
            if reads:
                until = max(host, device) + 5
                events += [
                    *(
                        event(category, name, host + place - 2, until - host + 4 - 2 * place)
                        for place, (category, name) in enumerate(reader)
                    ),
                    event("cuda_runtime", "cudaStreamSynchronize", host + 1, until - host - 1),
                ]
                host = until + 3
            if then:
                events.append(event(then[0], then[1], host, then[2]))
                host += then[2] + 1
        events.append(event("user_annotation", f"ProfilerStep#{step}", begin, host - begin))
    write_trace(folder / "rank-0.json", events=events, **metadata)
    return holotrace.open(folder).causes(unprofiled_step_ms=unprofiled_step_ms)


# The host launches a layer in 240 us, and its device takes 390 us for it: unless it waits, the host is far ahead.
FAST_HOST = [5, 5, 5, 5, 5, 365]


def test_launching_too_late_after_a_read_is_what_the_read_costs_and_its_line_is_named(tmp_path: Path) -> None:
    (found,) = steps(tmp_path, FAST_HOST, reads=True).to_dicts()
    assert (found["cause"], found["responsible"]) == ("synchronization", "aten::item")
    assert "aten::item (train.py(7): check)" in found["message"]
    # Of all that the device waits, but for the first launch of all.
    assert found["cost_ns"] >= 0.9 * holotrace.open(tmp_path).time_breakdown()["idle_ns"][0]


@pytest.mark.parametrize(
    ("category", "name"), [("user_annotation", "track_tokens"), ("python_function", "hooks.py(5): track_tokens")]
)
def test_what_a_host_does_after_it_has_waited_is_named_however_short_it_is(
    tmp_path: Path, category: str, name: str
) -> None:
    """Servers were told to synchronize, or to be launch-bound, as each turn had less than 1 ms of it."""
    found = steps(tmp_path, FAST_HOST, reads=True, then=(category, name, 200)).to_dicts()
    assert (found[0]["cause"], found[0]["responsible"]) == ("python-function", name)
    assert found[0]["cost_ns"] == pytest.approx(200_000 * 4 * LAYER, rel=0.1)
    short = steps(tmp_path, FAST_HOST, reads=True, then=(category, name, 40)).to_dicts()
    assert [each["cause"] for each in short] == ["synchronization"]


def test_launching_too_late_after_a_read_within_an_evaluation_is_a_part_of_that(tmp_path: Path) -> None:
    """It was a synchronization, and of an evaluation on one rank a third was told to be that rank's launching."""
    reader = (("python_function", "train.py(9): evaluate"), *ITEM[1:])
    (found,) = steps(tmp_path, FAST_HOST, reads=True, reader=reader).to_dicts()
    assert (found["cause"], found["responsible"]) == ("evaluation", "train.py(9): evaluate")
    assert found["cost_ns"] >= 0.9 * holotrace.open(tmp_path).time_breakdown()["idle_ns"][0]


def test_a_function_of_the_program_that_waits_itself_is_named_and_not_what_calls_it(tmp_path: Path) -> None:
    reader = (
        ("python_function", "engine/core.py(30): step"),
        ("python_function", "engine/runner.py(70): wait_for_tokens"),
    )
    (found,) = steps(tmp_path, FAST_HOST, reads=True, reader=reader).to_dicts()
    assert (found["cause"], found["responsible"]) == ("synchronization", "engine/runner.py(70): wait_for_tokens")


def test_a_host_that_never_waits_keeps_that_device_busy(tmp_path: Path) -> None:
    assert steps(tmp_path, FAST_HOST, reads=False).is_empty()


def test_a_host_that_launches_too_slowly_loses_nothing_by_reading(tmp_path: Path) -> None:
    (found,) = steps(tmp_path, [5] * 6, reads=True).to_dicts()
    assert (found["cause"], found["responsible"]) == ("launch-bound", None)


def test_what_was_waited_for_before_the_recording_is_no_lead_that_the_host_lost(tmp_path: Path) -> None:
    """Of eight H200 that decode, all that hosts launched too late was laid to the warm-up before."""
    (found,) = steps(tmp_path, [5] * 6, reads=False, waited_us=100_000).to_dicts()
    assert (found["cause"], found["responsible"]) == ("launch-bound", None)


def test_a_wait_costs_no_more_than_the_host_waited(tmp_path: Path) -> None:
    """A graph is launched in 2 ms, runs for 1 ms, and is waited for: without that, a turn took 2 ms instead of 3."""
    events = []
    for turn in range(20):
        at = 3_010 * turn
        events += [
            event("cuda_runtime", "cudaGraphLaunch", at, 2_000, correlation=turn),
            event("kernel", "gemm", at + 2_000, 500, correlation=turn, stream=7, device=0),
            event("kernel", "gemm", at + 2_500, 500, correlation=turn, stream=7, device=0),
            event("cpu_op", "aten::item", at + 2_005, 1_002),
            event("cuda_runtime", "cudaStreamSynchronize", at + 2_010, 995),
        ]
    write_trace(tmp_path / "rank-0.json", events=events)
    (gaps,) = holotrace.open(tmp_path).map(host.gaps, host.READS)
    of_waits, of_launches = (
        gaps.filter(cause=cause)["share_ns"].sum() for cause in ("synchronization", "launch-bound")
    )
    assert of_waits == pytest.approx(19 * 990_000, rel=0.03)
    assert of_launches == pytest.approx(19 * 1_010_000, rel=0.03)


def test_what_the_profiler_takes_of_a_step_is_not_the_fault_of_its_host(tmp_path: Path) -> None:
    """Of real jobs on an H100 causes of hosts were worth up to five times what was saved without the profiler."""
    found = steps(tmp_path, FAST_HOST, reads=True).row(0, named=True)
    step_ns = holotrace.open(tmp_path).table("steps").select((pl.col("end_ns") - pl.col("start_ns")).mean()).item()
    for faster_ns in (100_000, 200_000):
        (less,) = steps(tmp_path, FAST_HOST, reads=True, unprofiled_step_ms=(step_ns - faster_ns) / 1e6).to_dicts()
        assert found["cost_per_step_ns"] - less["cost_per_step_ns"] == pytest.approx(faster_ns, rel=0.02)
        assert less["share_ratio"] < found["share_ratio"]
        assert (less["profiler_ns"], found["profiler_ns"]) == (4 * faster_ns, None)
    (nothing,) = steps(tmp_path, FAST_HOST, reads=True, unprofiled_step_ms=(step_ns - 3 * 10**6) / 1e6).to_dicts()
    assert (nothing["cause"], nothing["severity"], nothing["cost_ns"]) == ("recording", "info", 0)
    # One that takes longer than the recorded ones takes nothing away.
    same = steps(tmp_path, FAST_HOST, reads=True, unprofiled_step_ms=2 * step_ns / 1e6)
    assert same["cost_ns"].to_list() == [found["cost_ns"]]


def test_what_the_recorder_measured_without_the_profiler_counts_unless_another_time_is_given(tmp_path: Path) -> None:
    given = steps(tmp_path / "given", FAST_HOST, reads=True, unprofiled_step_ms=6.5)
    measured: dict[str, Any] = {UNPROFILED_STEP_NS: 6_500_000}
    told = steps(tmp_path / "told", FAST_HOST, reads=True, **measured)
    assert told.equals(given) and told["profiler_ns"][0] > 0
    both = steps(tmp_path / "both", FAST_HOST, reads=True, unprofiled_step_ms=6.5, **measured | {UNPROFILED_STEP_NS: 1})
    assert both.equals(given)


@pytest.mark.parametrize("value", ["6500000", -1, 0, 10**30, 6.5, None, [6_500_000]])
def test_what_is_no_time_was_not_measured(tmp_path: Path, value: Any) -> None:
    nothing = steps(tmp_path / "nothing", FAST_HOST, reads=True)
    assert steps(tmp_path / "told", FAST_HOST, reads=True, **{UNPROFILED_STEP_NS: value}).equals(nothing)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_step_takes_some_time(tmp_path: Path, value: float) -> None:
    with pytest.raises(UsageError, match=r"is a time in milliseconds, e\.g\. 48\.1"):
        steps(tmp_path, FAST_HOST, reads=True, unprofiled_step_ms=value)


def test_without_steps_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    kernels = [event("kernel", "work", ts, 9, correlation=ts, stream=7, device=0) for ts in (0, 1_000)]
    launches = [event("cuda_runtime", "cudaLaunchKernel", ts - 20, 9, correlation=ts) for ts in (0, 1_000)]
    write_trace(tmp_path / "rank-0.json", events=[*kernels, *launches])
    with pytest.raises(UsageError, match=r"no steps to compare with; call profiler\.step\(\)"):
        holotrace.open(tmp_path).causes(unprofiled_step_ms=4)


def test_the_verdict_of_a_report_knows_it_too(tmp_path: Path) -> None:
    steps(tmp_path, FAST_HOST, reads=True)
    asked = ["report", str(tmp_path), "-o", str(tmp_path / "x.md"), "--unprofiled-step-ms", "4.4"]
    assert "No cause is known" in CliRunner().invoke(main, asked).output
    assert "No cause is known" not in CliRunner().invoke(main, asked[:4]).output
    some = CliRunner().invoke(main, [*asked[:5], "6.5"]).output
    assert "could be saved without the profiler, which takes about 496 µs of it" in " ".join(some.split())


@pytest.mark.parametrize(
    ("waits", "launching_ns", "is_too_slow"), [(1, 500, True), (1, 300, False), (6, 500, False), (6, 1_100, True)]
)
def test_a_host_that_waits_seldom_is_too_slow_if_much_is_late_however_far_it_could_have_been_ahead(
    waits: int, launching_ns: int, is_too_slow: bool
) -> None:
    """Of a step with one read and three thousand launches the read was told first."""
    waited = {"row": "gap", "cause": "synchronization", "rank": 0, "step": 1, "time_ns": 1_000 // waits}
    # Each wait has a row in each of three parts of the step.
    gaps = pl.DataFrame([waited | {"event_id": wait} for wait in range(waits) for _ in range(3)])
    rows = pl.concat([gaps, pl.DataFrame([{"row": "step", "rank": 0, "step": 1}])], how="diagonal")
    job = CausesJob(rows, pl.DataFrame(), (0,), 0)
    assert idle._is_too_slow(gaps, launching_ns, 1_000, job) == is_too_slow


def waits(of_rank_2: int) -> pl.DataFrame:
    """Waits of three ranks for their devices, two of two ranks and so many of the third."""
    return pl.DataFrame(
        [{"rank": rank, "event_id": wait} for rank, count in ((0, 2), (1, 2), (2, of_rank_2)) for wait in range(count)]
    )


def test_a_rank_that_waits_as_often_as_the_others_and_is_late_for_longer_has_more_to_launch() -> None:
    """Every rank read its loss once a step, and the one that launched a thousand kernels after it was told not to."""
    assert idle._waits_as_often(waits(2), (2,))
    assert not idle._waits_as_often(waits(6), (2,))
    assert not idle._waits_as_often(waits(2).filter(rank=2), (2,))


@pytest.mark.parametrize(("longest_ns", "is_apart"), [(1_600, False), (2_400, True)])
def test_what_all_hosts_do_is_of_no_rank_though_one_was_less_far_ahead(longest_ns: int, is_apart: bool) -> None:
    """Every rank compiled, and the one whose device ran dry first was named for what it lost beyond the others."""
    times = [1_000, 1_000, 1_000, longest_ns]
    excess = pl.DataFrame({"rank": range(4), "step": 1, "time_ns": times, "beyond_ns": [0, 0, 0, longest_ns - 1_000]})
    assert idle._is_apart(excess, CausesJob(pl.DataFrame(), pl.DataFrame(), (0, 1, 2, 3), 100)) == is_apart


@pytest.mark.parametrize(("apart_ns", "laid_ns"), [(100, 100 * 1_023), (2_000, 500_000)])
def test_no_host_would_have_been_further_ahead_than_the_queue_of_its_device_is_long(
    apart_ns: int, laid_ns: int
) -> None:
    """After a read of the loss thousands of short kernels came too late, as they would have without it."""
    wait = {"began_ns": 0, "returned_ns": 1_000_000, "responsible": "aten::item", "event_id": 1}
    gap = {"window": 0, "start_ns": 1_000_000, "end_ns": 9_000_000}
    late = {"window": 0, "cause": "launch-bound", "share_ns": 500_000, "responsible": None, "event_id": None}
    launches = pl.Series(range(1_000_000, 1_000_000 + 2_000 * apart_ns, apart_ns))
    known = {"event_id": pl.Int64, "responsible": pl.String}
    shares, gaps, waits = (pl.DataFrame([row], schema_overrides=known) for row in (late, gap, wait))
    told = lead.laid_to_waits(shares, gaps, waits, launches)
    assert dict(told.select("cause", "share_ns").iter_rows()).get("synchronization") == pytest.approx(laid_ns, abs=1)


@pytest.mark.parametrize(("time_ns", "is_slow"), [(500_000, True), (5_000_000, False)])
def test_a_batch_that_is_ready_is_handed_over_as_slowly_as_a_slow_host_does_all(time_ns: int, is_slow: bool) -> None:
    """The others did so while their devices worked, so that the slow host waited for input, too."""
    rows = pl.DataFrame([{"rank": 1, "time_ns": time_ns, "count": 1}])
    table = pl.DataFrame({"rank": range(4), "step": 1, "time_ns": [0, time_ns, 0, 0], "beyond_ns": [0, time_ns, 0, 0]})
    nothing = CausesJob(pl.DataFrame(), pl.DataFrame(), (0, 1, 2, 3), 100)
    assert idle._follows(idle._Idle("input", None, rows, table), {1: 3.4}, NO_FUNCTIONS, nothing) == is_slow


@pytest.mark.parametrize(("time_ns", "is_slow"), [(300, True), (900, False)])
def test_slow_calls_make_a_device_stand_still_for_no_longer_than_they_take_beyond_others(
    time_ns: int, is_slow: bool
) -> None:
    """Calls that took 1.35 times as long as others' had a pause of the whole recording laid to them."""
    table = pl.DataFrame({"rank": [0, 1], "step": 1, "time_ns": [time_ns, 0], "beyond_ns": [time_ns, 0]})
    lasted = pl.DataFrame({"row": "window", "rank": [0, 1], "time_ns": [1_000, 1_000]})
    job = CausesJob(lasted, pl.DataFrame(), (0, 1), 100)
    assert idle._follows(idle._Idle("host-pause", None, table, table), {0: 1.35}, NO_FUNCTIONS, job) == is_slow


@pytest.mark.parametrize(("time_ns", "is_slow"), [(300, True), (500, False)])
def test_a_slow_host_pauses_for_no_longer_than_what_hosts_take_by_themselves_is_stretched(
    time_ns: int, is_slow: bool
) -> None:
    """A host three times as slow, whose calls take 20 of 459 ms on the others, had a pause of 96 ms laid to that."""
    table = pl.DataFrame({"rank": [0, 1], "step": 1, "time_ns": [time_ns, 0], "beyond_ns": [time_ns, 0]})
    rows = [("window", 0, 1_000), ("window", 1, 1_000), ("host", 0, 700), ("host", 1, 100)]
    job = CausesJob(pl.DataFrame(rows, ["row", "rank", "time_ns"], orient="row"), pl.DataFrame(), (0, 1), 100)
    assert idle._follows(idle._Idle("host-pause", None, table, table), {0: 3.0}, NO_FUNCTIONS, job) == is_slow


@pytest.mark.parametrize(
    ("spent_ns", "is_slow"), [([10, 10, 900], False), ([10, 20, 30], False), ([200, 200, 900], True)]
)
def test_a_slow_host_does_what_no_call_tells_of_for_no_longer_than_its_calls_take(
    spent_ns: list[int], is_slow: bool
) -> None:
    """Pauses of a slow host were its slowness: that was worth 128 ms in place of 72, and nothing was said of them."""
    spent = [{"row": "spent", "cause": "unrecorded-host", "rank": at, "time_ns": ns} for at, ns in enumerate(spent_ns)]
    window = [{"row": "window", "cause": None, "rank": rank, "time_ns": 2_000} for rank in range(3)]
    job = CausesJob(pl.DataFrame([*spent, *window]), pl.DataFrame(), (0, 1, 2), 100)
    table = pl.DataFrame({"rank": [2], "time_ns": [850], "beyond_ns": [850]})
    assert idle._follows(idle._Idle("unrecorded-host", None, table, table), {2: 5.0}, NO_FUNCTIONS, job) == is_slow


def test_what_stands_still_within_something_else_does_so_once() -> None:
    """A loop was told to cost what a function that it calls does: 7.7 ms of a server's 27, of which 2 were its own."""
    begun, lasted = pl.Series("began_ns", [10, 30, 0, 70]), pl.Series("won_ns", [10, 20, 60, 5])
    assert lead.within_none_ns(begun, lasted).to_list() == [10, 20, 30, 5]


def test_what_hosts_stood_still_in_last_is_not_all_that_they_are_late_for() -> None:
    """A host that is late after two functions is so for both; after it waited for its device for neither."""
    us = 1_000
    late = pl.DataFrame({"window": [0, 1, 2], "start_ns": [300, 400, 900], "end_ns": [360, 460, 960]})
    gaps = late.with_columns(pl.col("start_ns", "end_ns") * us)
    share = {"cause": "launch-bound", "responsible": None, "event_id": None, "share_ns": 60 * us}
    shares = pl.DataFrame([{"window": window, **share} for window in range(3)])
    stalls = pl.DataFrame(
        {"cause": "python-function", "responsible": ["pack", "loop"], "event_id": [7, 8]}
        | {"began_ns": [100 * us, 195 * us], "returned_ns": [150 * us, 215 * us]}
    )
    waits = pl.DataFrame({"began_ns": 500 * us, "returned_ns": 600 * us, "responsible": "aten::item", "event_id": [9]})
    shares, stalls, waits = (
        frame.with_columns(pl.col("event_id").cast(pl.UInt32), pl.col("responsible").cast(pl.String))
        for frame in (shares, stalls, waits)
    )
    told = lead.laid_to_stalls(shares, gaps, stalls, waits)
    sums = dict(told.group_by("responsible").agg(pl.col("share_ns").sum() // us).iter_rows())
    assert sums == {"pack": 60, "loop": 10, None: 110}


def test_what_frees_memory_has_waited_and_its_function_not_done_so_itself(tmp_path: Path) -> None:
    """A slow device was worth 0.006 of a server's time and not 0.070: its host seemed to be busy for all of that."""
    times = ((0, 20, 5_000), (5_700, 5_720, 300), (5_900, 6_500, 300))
    work = [
        part
        for number, (launched, begun, took) in enumerate(times)
        for part in (
            event("cuda_runtime", "cudaLaunchKernel", launched, 5, correlation=number),
            event("kernel", "mm", begun, took, correlation=number, stream=7, device=0),
        )
    ]
    loop = event("python_function", "serve.py(7): loop", 100, 5_500)
    write_trace(tmp_path / "rank-0.json", events=[*work, loop, event("cuda_runtime", "cudaFree", 120, 4_910)])
    ((found,), (gaps,)) = (holotrace.open(tmp_path).map(of, account.READS) for of in (host.stalls, host.gaps))
    assert found.select(pl.col("began_ns", "returned_ns") // 1_000).rows() == [(5_020, 5_600)]
    # What it launches too late after that is what freeing costs.
    late = gaps.filter(pl.col("cause").is_in(("launch-bound", "allocator")))
    assert late["cause"].unique().to_list() == ["allocator"]
