"""What ranks contribute to the search for causes: the step of work, and what was launched just before it began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from drawing import US, draw
from holotrace.core.schema import filled
from holotrace.core.tables import MODULES
from holotrace.core.trace import RankTrace
from holotrace.diagnosis.job.candidates import when
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.xla import whole_runs as xla_whole_runs
from trace_files import write_trace
from xplane_files import Event, Line, Plane, space


def test_what_begins_early_on_another_queue_takes_no_work_of_the_step_before_with_it() -> None:
    """A copy for the next step's gather counted what was computed beside it for that step, on some ranks only."""
    job = draw(
        """
        step     |1112222......................|
        host     |ABRCD........................|
        compute  |...AAA......BBBBBB.....DDDD..|
        compute2 |...........C.................|
        comm     |..................RRRRR......|
        """
    )
    (rows,) = job.map(account.account, account.READS)
    computed = rows.filter(row=account.SEGMENT).group_by("step").agg(pl.col("time_ns").sum()).sort("step")
    # With C, which is nearly nothing, where B is.
    assert computed.rows() == [(1, (3 + 1 + 6) * US), (2, 4 * US)]


def test_a_rank_computes_for_as_long_as_the_device_of_it_that_computes_longest(tmp_path: Path) -> None:
    """Devices of a pipeline compute one after the other: together they seemed to take 1.6 times what is too much."""
    work = [[(0, 4), (10, 1)], [(4, 6), (10, 1)]]

    def events(name: str, spans: list[tuple[int, int]]) -> list[Event]:
        return [Event(name, begun * US * 1_000, lasts * US * 1_000) for begun, lasts in spans]

    planes = [
        Plane(
            f"/device:TPU:{device}",
            [Line("XLA Modules", events("jit_f(7)", spans), id=2), Line("XLA Ops", events("fusion.1", spans), id=3)],
        )
        for device, spans in enumerate(work)
    ]
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(*planes))
    (rows,) = holotrace.open(path).map(account.account, account.READS)
    for row in (account.SEGMENT, account.WORK):
        assert rows.filter(row=row)["time_ns"].sum() == 7 * US


def test_the_work_that_was_launched_the_least_before_it_began_bounds_what_is_between_two_meetings(
    tmp_path: Path,
) -> None:
    """Of A, R, B and C only A and C waited for their launches; B had been launched long before R was over."""
    meets = {"Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
    work = [("A", 20, 30, 30), ("ncclDevKernel_AllReduce_R", 30, 60, 110), ("B", 40, 180, 30), ("C", 215, 220, 30)]
    events: list[dict[str, Any]] = []
    for number, (name, launched, begun, lasts) in enumerate(work, 1):
        known: dict[str, Any] = {"correlation": number, "stream": 20 if "nccl" in name else 7, "device": 0}
        known |= meets if "nccl" in name else {}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
        kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": known["stream"]}
        events.append(call | {"ts": launched, "dur": 4, "args": {"correlation": number}})
        events.append(kernel | {"ts": begun, "dur": lasts, "args": known})
    # Waiting for an event is no work, and begins as soon as it is asked for.
    wait = {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 7, "ts": 46, "dur": 0}
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamWaitEvent", "pid": 1, "tid": 1, "ts": 45, "dur": 1}
    known = {"correlation": 9, "stream": 7, "device": 0}
    events += [call | {"args": {"correlation": 9}}, wait | {"args": known}]
    write_trace(tmp_path / "rank-0.json", events=events, distributedInfo={"rank": 0, "world_size": 2})
    (rows,) = holotrace.open(tmp_path).map(account.account, account.READS)
    late = rows.filter(row=account.LATE).select("at_ns", "end_ns").sort("at_ns")
    begun_ns = rows.filter(row=account.WINDOW)["start_ns"][0] - 30 * US
    assert [(at - begun_ns, end - begun_ns) for at, end in late.rows()] == [(30 * US, 20 * US), (220 * US, 215 * US)]


def test_what_is_nearly_all_between_steps_is_of_no_step() -> None:
    """A checkpoint at the end of each of twelve steps, just after its mark, was told to be in the last of them."""
    table = pl.DataFrame({"step": [None, None, 7], "time_ns": [60, 35, 5]})
    assert when(table, "time_ns") == ()
    assert when(table.tail(2), "time_ns") == ()
    assert when(table.with_columns(time_ns=pl.Series([60, 0, 40])), "time_ns") == (7,)


@pytest.mark.parametrize(("known", "is_whole"), [({"step": 1}, True), ({"launch_ns": 5}, True), ({}, False)])
def test_without_programs_a_launch_or_a_step_tells_what_is_whole(known: dict[str, int], is_whole: bool) -> None:
    """Of operations of which only the steps are known nothing was compared."""
    ran = pl.DataFrame(
        [{"device": 0, "start_ns": 10, "launch_ns": None, "step": None} | known],
        schema=dict.fromkeys(("device", "start_ns", "launch_ns", "step"), pl.Int64),
    )
    assert xla_whole_runs.is_within(ran, RankTrace(0, {MODULES.name: MODULES.empty()})).to_list() == [is_whole]


def test_the_number_of_a_device_may_be_any() -> None:
    """One beyond 32 bits, of a damaged profile, was an error."""
    device = 2**40
    known = {"module": "f", "program": 1, "device": device, "start_ns": 0, "end_ns": 90, "launch_ns": 0, "op_count": 3}
    runs = pl.DataFrame([known | {"start_ns": at, "end_ns": at + 90} for at in (0, 100, 200)])
    runs = filled(runs, MODULES.columns)
    ran = pl.DataFrame({"device": [device], "start_ns": [110]})
    assert xla_whole_runs.is_within(ran, RankTrace(0, {MODULES.name: runs})).to_list() == [True]
