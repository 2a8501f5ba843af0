"""Operations of compiled programs against what the device could do."""

from __future__ import annotations

from drawing import draw
from holotrace.analyses.hlo_ops import BEYOND_PEAK, COLLECTIVE, STARTING, UNCOUNTED, WAITING, hlo_ops
from holotrace.core.tables import DEVICES, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.job import Job
from holotrace.present.wording import sentence
from xla_drawing import frame


def test_runs_of_an_operation_add_up_over_devices() -> None:
    table = draw("tpu |AA.BA|\ntpu |AAA..|\nA = dot.1\nB = all-reduce.2").hlo_ops()
    assert table.select("name", "category", "kind", "op_count", "device_count", "self_ns").rows() == [
        ("dot.1", "dot", "compute", 3, 2, 6_000),
        ("all-reduce.2", "all-reduce", "communication", 1, 1, 1_000),
    ]
    by_category = draw("tpu |AABC|\nA = dot.1\nB = dot.2\nC = add").hlo_ops(by_category=True)
    assert by_category.select("category", "name", "op_count", "self_ns").rows() == [
        ("dot", None, 2, 3_000),
        ("add", None, 1, 1_000),
    ]


PEAKS = [{"device": 0, "plane": "/device:TPU:0", "peak_flops": 1e12, "peak_bandwidth": 1e9}]


def one(category: str = "fusion", **values: object) -> dict[str, object]:
    """The row of one operation of 1 ms on a device of 1 TFLOP/s and 1 GB/s."""
    place = {"device": 0, "plane": "/device:TPU:0", "line": "XLA Ops", "name": "op.1", "category": category}
    op = place | {"start_ns": 0, "end_ns": 1_000_000, "self_ns": 1_000_000, "duration_ps": 10**9} | values
    rank = RankTrace(0, {"xla_ops": frame(XLA_OPS, [op]), "devices": frame(DEVICES, PEAKS)})
    return Job.from_ranks({0: rank}).hlo_ops().row(0, named=True)


def test_rates_are_compared_with_the_peaks_that_the_profile_declares() -> None:
    row = one(flops=500_000_000, accessed_bytes=250_000)
    assert (row["tflops"], row["flops_ratio"]) == (0.5, 0.5)
    assert (row["bandwidth_gbps"], row["bandwidth_ratio"]) == (0.25, 0.25)
    assert row["below_peak_ns"] == 500_000
    assert row["caveat"] is None


def test_more_bytes_than_can_be_counted_are_not_known() -> None:
    """Damaged counts of a profile were an exception."""
    place = {"device": 0, "plane": "/device:TPU:0", "line": "XLA Ops", "name": "op.1", "category": "fusion"}
    ops = [place | {"start_ns": at, "end_ns": at + 9, "self_ns": 9, "accessed_bytes": 2**62} for at in (0, 10, 20)]
    rank = RankTrace(0, {"xla_ops": frame(XLA_OPS, ops), "devices": frame(DEVICES, PEAKS)})
    assert Job.from_ranks({0: rank}).hlo_ops().select("op_count", "accessed_bytes").rows() == [(3, None)]


def test_code_that_the_compiler_cannot_count_is_work_that_is_not_known() -> None:
    """A decomposition in a library took most of the time, and all of the time was said to be modelled."""
    place = {"device": 0, "plane": "/device:TPU:0", "line": "XLA Ops", "kind": "compute", "accessed_bytes": 8}
    ms = 1_000_000
    ops = [
        ("dot.1", "dot", 300 * ms, 0, 1),
        ("add.1", "fusion", None, 1, 2),
        ("eigh.1", "custom-call", None, 2, 7),
        ("kernel.1", "custom-call", 0, 7, 9),
        ("kernel.2", "custom-call", 1_000, 9, 10),
    ]
    rows: list[dict[str, object]] = [
        {**place, "name": name, "category": category, "flops": flops}
        | {"start_ns": start * ms, "end_ns": end * ms, "self_ns": (end - start) * ms}
        for name, category, flops, start, end in ops
    ]
    tables = {"xla_ops": frame(XLA_OPS, rows), "devices": frame(DEVICES, PEAKS)}
    assert Job.from_ranks({0: RankTrace(0, tables)}).efficiency()["modelled_ratio"].to_list() == [0.3]


def test_programs_get_of_the_device_what_the_compiler_counts() -> None:
    place = {"device": 0, "plane": "/device:TPU:0", "line": "XLA Ops", "category": "fusion", "kind": "compute"}
    ops = [
        {"name": "fusion.1", "start_ns": 0, "flops": 300_000_000, "step": 1},
        {"name": "fusion.1.remat", "start_ns": 1_000_000, "flops": 60_000_000, "step": 1},
        {"name": "dot.4", "start_ns": 1_000_000, "flops": 40_000_000, "step": 1}
        | {"scope": "jit(f)/transpose(jvp(g))/checkpoint/rematted_computation/dot_general"},
        {"name": "while.2", "start_ns": 0, "flops": 900_000_000, "step": 1, "is_container": True},
        {"name": "all-reduce.3", "start_ns": 0, "flops": 7, "step": 1, "kind": "communication"},
    ]
    rows = [place | {"end_ns": op["start_ns"] + 1_000_000, "self_ns": 1_000_000} | op for op in ops]  # type: ignore[operator]  # a start is a number
    steps: list[dict[str, object]] = [{"step": 1, "event_id": 0, "start_ns": 0, "end_ns": 2_000_000}]
    tables = {"xla_ops": frame(XLA_OPS, rows), "devices": frame(DEVICES, PEAKS), "steps": frame(STEPS, steps)}
    whole, step = Job.from_ranks({0: RankTrace(0, tables)}).efficiency().rows(named=True)
    assert whole | {"step": 1} == step
    assert (step["model_flops"], step["recomputed_flops"], step["peak_tflops"]) == (3e8, 1e8, 1)
    assert (step["mfu_ratio"], step["hfu_ratio"], step["modelled_ratio"]) == (0.15, 0.2, 1)
    assert step["reason"] == "operations as the compiler counts them"
    alone = Job.from_ranks({0: RankTrace(0, tables | {"devices": DEVICES.empty()})}).efficiency().row(0, named=True)
    assert (alone["mfu_ratio"], alone["reason"]) == (None, "the peak of the device is not known")


def test_the_limit_that_is_closer_bounds_an_operation() -> None:
    computing = one(flops=500_000_000, accessed_bytes=250_000)
    assert (computing["intensity"], computing["bound_by"], computing["roofline_ratio"]) == (2_000, "compute", 0.5)
    moving = one(flops=100_000_000, accessed_bytes=250_000)
    assert (moving["bound_by"], moving["roofline_ratio"]) == ("memory", 0.25)
    for uncertain in (one(accessed_bytes=2_000_000), one("custom-call", flops=5), one()):
        assert (uncertain["bound_by"], uncertain["roofline_ratio"]) == (None, None)


def test_the_devices_own_clock_is_what_rates_are_by() -> None:
    assert one(flops=500_000_000, device_ps=2 * 10**9)["flops_ratio"] == 0.25


def test_what_was_not_counted_is_null_and_not_zero() -> None:
    row = one()
    assert [row[name] for name in ("flops", "tflops", "flops_ratio", "accessed_bytes", "below_peak_ns")] == [None] * 5


def test_numbers_that_say_less_than_they_seem_to_come_with_the_reason() -> None:
    assert one("copy-done", is_wait=True)["caveat"] == WAITING
    assert one("copy-start")["caveat"] == STARTING
    assert one("all-reduce", is_collective=True)["caveat"] == COLLECTIVE
    assert one("custom-call")["caveat"] == UNCOUNTED
    beyond = one(accessed_bytes=2_000_000)
    assert (beyond["caveat"], beyond["below_peak_ns"]) == (BEYOND_PEAK, None)


def test_collectives_that_take_the_time_are_a_finding_that_names_the_largest() -> None:
    job = draw("tpu |AABBBC|\ntpu |AABBBC|\nA = dot\nB = all-reduce.1\nC = all-gather.2")
    found = next(finding for finding in job.findings() if finding.rule == "costly-collective")
    assert sentence(found) == "Collectives take 67% of the device time, all-reduce.1 most of all"
    assert found.cost_ns == 4_000


def test_collectives_that_kernels_of_their_own_move_beside_others_are_no_finding() -> None:
    """GPUs execute a start as a kernel that lasts as long as the transfer."""
    job = draw("tpu |BBBBAA|\nA = dot\nB = all-reduce-start.1")
    assert "costly-collective" not in [finding.rule for finding in job.findings()]


def test_an_operation_far_below_both_peaks_is_a_finding() -> None:
    place = {"device": 0, "plane": "/device:TPU:0", "line": "XLA Ops", "module": "jit_f", "category": "dot"}
    time = {"start_ns": 0, "end_ns": 10**6, "self_ns": 10**6, "duration_ps": 10**9}
    ops = [place | time | {"name": "dot.1", "flops": 10**8}, place | time | {"name": "dot.2", "flops": 9 * 10**8}]
    rank = RankTrace(0, {"xla_ops": frame(XLA_OPS, ops), "devices": frame(DEVICES, PEAKS)})
    found = [finding for finding in Job.from_ranks({0: rank}).findings() if finding.rule == "far-below-peak"]
    assert [sentence(finding) for finding in found] == ["dot.1 of jit_f reaches 10% of what the device could do"]
    assert found[0].cost_ns == 900_000


def test_python_functions_that_programs_call_are_told_where_they_take_a_tenth_of_the_time() -> None:
    def told(callback_us: int, target: str | None = "xla_ffi_python_cpu_callback") -> list[str]:
        place = {"device": 0, "plane": "/host:CPU", "line": "python", "start_ns": 0, "module": "jit_step"}
        ops = [
            {"name": "dot.1", "category": "dot", "self_ns": 900_000},
            {"name": "pure_callback.1", "category": "custom-call", "self_ns": 1_000 * callback_us, "target": target}
            | {"source": "train.py:58"},
        ]
        rows = [place | {"end_ns": op["self_ns"]} | op for op in ops]
        job = Job.from_ranks({0: RankTrace(0, {"xla_ops": frame(XLA_OPS, rows)})})
        return [sentence(finding) for finding in hlo_ops.findings(job.hlo_ops()) if "Python" in finding.message]

    said = "Python functions that programs call take 50% of the device time, pure_callback.1 (train.py:58) most of all"
    assert told(900) == [said]
    assert told(90) == told(900, None) == told(900, "lapack_sgetrf_ffi") == []
