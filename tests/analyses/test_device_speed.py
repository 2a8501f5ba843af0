"""A slow device is told from more work: only runs with equal grids and inputs are compared."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import holotrace
from drawing import device_trace
from holotrace import Finding, Job, sample
from holotrace.analyses.device_speed import device_speed
from holotrace.core.tables import CPU_OPS
from trace_files import REAL_TRACES, needs_real_traces

# Name, grid, how often, how long.
Kernels = list[tuple[str, int, int, int]]
USUAL: Kernels = [("gemm", 64, 10, 100_000), ("add", 8, 10, 10_000)]
FAULTS = REAL_TRACES.parent / "faults"


def job_of(*ranks: Kernels) -> Job:
    traces = {}
    for number, kernels in enumerate(ranks):
        rows: list[dict[str, object]] = [
            {"name": name, "kind": "compute", "start_ns": 0, "end_ns": ns, "grid": f"[{grid}, 1, 1]", "block": "[32]"}
            for name, grid, count, ns in kernels
            for _ in range(count)
        ]
        for event_id, row in enumerate(rows):
            row["event_id"] = event_id
        traces[number] = device_trace(rows, rank=number)
    return Job.from_ranks(traces)


def found(job: Job) -> list[Finding]:
    return device_speed.findings(job.device_speed())


def test_a_slow_device_is_found_by_equal_work_taking_longer() -> None:
    slow: Kernels = [("gemm", 64, 10, 110_000), ("add", 8, 10, 11_000)]
    (finding,) = found(job_of(USUAL, slow, USUAL, USUAL))
    assert (finding.rule, finding.ranks, finding.cost_ns) == ("slow-device", (1,), 110_000)
    # Of two ranks nobody can say which is odd.
    assert found(job_of(USUAL, slow)) == []


def test_a_rank_with_longer_sequences_has_no_slow_device() -> None:
    # It was told to drain the node.
    longer: Kernels = [("gemm", 102, 10, 160_000), ("add", 13, 10, 16_000)]
    (finding,) = found(job_of(USUAL, longer, USUAL, USUAL))
    assert (finding.rule, finding.ranks, finding.cost_ns) == ("more-work", (1,), 660_000)
    row = job_of(USUAL, longer, USUAL, USUAL).device_speed().filter(rank=1)
    assert row.select("same_ns", "other_ns", "slower_ratio").rows() == [(0, 1_760_000, None)]


def test_more_runs_are_more_work() -> None:
    more: Kernels = [("gemm", 64, 12, 100_000), ("add", 8, 10, 10_000)]
    (finding,) = found(job_of(USUAL, more, USUAL))
    assert (finding.rule, finding.cost_ns) == ("more-work", 200_000)


def test_equal_grids_on_other_inputs_are_other_work() -> None:
    def with_shapes(job: Job, shapes: list[str]) -> Job:
        ranks = {}
        for number, shape in enumerate(shapes):
            trace = job.only(number).found.sources[0]
            assert isinstance(trace, holotrace.RankTrace)
            op = {"event_id": 900, "name": "mm", "pid": "1", "tid": "1", "start_ns": 0, "end_ns": 9_000}
            ops = pl.DataFrame([op | {"input_dims": shape}])
            table = CPU_OPS.empty()
            ops = pl.concat([table, ops.select(pl.col(c).cast(table.schema[c]) for c in ops.columns)], how="diagonal")
            events = trace.tables["device_events"]
            launched = device_trace([{**row, "launch_id": 901, "launch_ns": 5} for row in events.to_dicts()])
            ranks[number] = replace(launched, rank=number, tables={**launched.tables, CPU_OPS.name: ops})
        return Job.from_ranks(ranks)

    one: Kernels = [("gemm", 132, 1, 100_000)]
    long: Kernels = [("gemm", 132, 1, 150_000)]
    job = job_of(one, long, one, one)
    assert [finding.rule for finding in found(with_shapes(job, ["[[8]]"] * 4))] == ["slow-device"]
    assert [finding.rule for finding in found(with_shapes(job, ["[[8]]", "[[12]]", "[[8]]", "[[8]]"]))] == ["more-work"]


def test_kernels_without_a_grid_tell_no_speed() -> None:
    rows: list[dict[str, object]] = [{"name": "gemm", "kind": "compute", "start_ns": 0, "end_ns": 100}]
    job = Job.from_ranks({n: device_trace([{**rows[0], "end_ns": 100 + 50 * (n == 1)}], rank=n) for n in range(3)})
    assert job.device_speed()["same_ns"].to_list() == [0, 0, 0]
    assert [finding.rule for finding in found(job)] == ["more-work"]


def test_the_slow_device_of_the_sample_is_found(tmp_path: object) -> None:
    truth = sample.write(str(tmp_path), ranks=4, steps=2, seed=3, compress=False)
    slow = [finding for finding in found(holotrace.open(str(tmp_path))) if finding.rule == "slow-device"]
    assert [finding.ranks for finding in slow] == [(truth.straggler_rank,)]


@needs_real_traces
@pytest.mark.parametrize(
    ("folder", "ranks"), [("d1_clean", []), ("d2_loader", []), ("d3_slow_gpu", [(3,)]), ("d5_logging_one_rank", [])]
)
def test_only_the_slow_device_of_the_made_up_jobs_is_called_slow(folder: str, ranks: list[tuple[int, ...]]) -> None:
    if not FAULTS.is_dir():
        pytest.skip("no made-up jobs with faults")
    assert [finding.ranks for finding in found(holotrace.open(FAULTS / folder))] == ranks
