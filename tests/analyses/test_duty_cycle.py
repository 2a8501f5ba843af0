"""How much of the time devices work, wait or idle."""

from __future__ import annotations

import polars as pl

from drawing import draw
from holotrace.core.tables import DEVICES, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.job import Job
from holotrace.present.wording import sentence
from xla_drawing import frame


def parts(job: Job) -> list[tuple[int, int, int, int]]:
    return job.duty_cycle().select("device", "work_ns", "wait_ns", "idle_ns").rows()


def test_waiting_for_a_copy_is_no_work() -> None:
    job = draw("tpu |AABB..A|\nA = fusion\nB = copy-done.1")
    assert parts(job) == [(0, 3_000, 2_000, 2_000)]
    assert job.duty_cycle()["busy_ns"].item() == 5_000


def test_all_devices_are_looked_at_in_the_window_of_their_rank() -> None:
    assert parts(draw("tpu |A......|\ntpu |...A...|\nstep |.111111|")) == [(0, 1_000, 0, 6_000), (1, 1_000, 0, 6_000)]


def test_the_duty_cycle_begins_and_ends_with_the_devices_own_work() -> None:
    table = draw("tpu |.A.A...|\nstep |1111111|").duty_cycle()
    assert table["hull_ns"].item() == 3_000
    assert table["duty_ratio"].item() == 2 / 3
    assert table["work_ratio"].item() == 2 / 7


def op(name: str, start_ns: int, end_ns: int, **others: object) -> dict[str, object]:
    place = {"device": 0, "plane": "/device:TPU:0", "line": "XLA Ops", "name": name}
    return {**place, "start_ns": start_ns, "end_ns": end_ns, **others}


def of_ops(*ops: dict[str, object], devices: int = 1) -> Job:
    rows: list[dict[str, object]] = [{"device": n, "plane": f"/device:TPU:{n}"} for n in range(devices)]
    return Job.from_ranks({0: RankTrace(0, {"xla_ops": frame(XLA_OPS, list(ops)), "devices": frame(DEVICES, rows)})})


def test_a_loop_waits_where_the_operation_inside_it_does() -> None:
    loop = op("while", 0, 10, is_container=True)
    job = of_ops(loop, op("fusion", 0, 4), op("all-gather-done", 4, 9, is_wait=True))
    assert parts(job) == [(0, 5, 5, 0)]


def test_what_goes_on_beside_the_operations_keeps_no_device_busy() -> None:
    job = of_ops(op("fusion", 0, 4), op("copy-start", 2, 9, line="Async XLA Ops", is_async=True))
    assert parts(job) == [(0, 4, 0, 0)]


def test_waiting_that_is_noted_beside_the_operations_is_waiting_but_not_busy() -> None:
    job = of_ops(op("fusion", 0, 4), op("barrier-cores", 3, 9, line="XLA TraceMe", is_wait=True), op("fusion", 9, 10))
    assert parts(job) == [(0, 5, 5, 0)]
    assert job.duty_cycle()["busy_ns"].item() == 5


def test_operations_that_overlap_count_once() -> None:
    assert parts(of_ops(op("a", 0, 4), op("b", 2, 6), op("c", 8, 9))) == [(0, 7, 0, 2)]


def test_a_device_without_operations_is_listed_and_said() -> None:
    job = of_ops(op("a", 0, 4), devices=2)
    assert parts(job) == [(0, 4, 0, 0), (1, 0, 0, 4)]
    assert [sentence(f) for f in job.findings() if f.rule == "silent-device"] == [
        "1 of 2 devices recorded no operation"
    ]


def test_a_device_that_mostly_waits_is_a_finding_with_its_cost() -> None:
    job = draw("tpu |ABBBB|\nA = fusion\nB = copy-done")
    found = next(f for f in job.findings() if f.rule == "waiting-device")
    assert sentence(found) == "Devices wait for 80% of the time they are busy"
    assert found.cost_ns == 4_000


def test_the_parts_make_up_the_window() -> None:
    table = draw("tpu |AABB..A|\ntpu |.C..C..|\nB = copy-done").duty_cycle()
    assert (table["window_ns"] == table.select(pl.sum_horizontal("work_ns", "wait_ns", "idle_ns")).to_series()).all()
