"""No finding is worth more than there is: one definition of cost for all rules, over the recording and per step."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import holotrace
from drawing import US, draw
from holotrace import Finding, Job, JobResult, sample
from holotrace.core.tables import RANK_INFO
from holotrace.derive.worth import settled
from quick import every
from trace_files import REAL_TRACES, needs_real_traces

INFO = pl.DataFrame({"rank": [0, 1], "step_count": [4, 4], "span_ns": [100, 80]}).with_columns(
    pl.col("rank").cast(RANK_INFO.empty().schema["rank"])
)
BREAKDOWN = pl.DataFrame({"rank": [0, 1], "idle_ns": [30, 10], "exposed_memory_ns": [5, 0]}).with_columns(
    pl.col("rank").cast(pl.Int32)
)


def costs(finding: Finding, breakdown: pl.DataFrame | None = BREAKDOWN) -> tuple[int | None, int | None]:
    tables = {} if breakdown is None else {"time_breakdown": breakdown}
    (found,) = settled([finding], tables, INFO)
    return found.cost_ns, found.step_cost_ns


def test_a_cost_is_of_the_recording_and_of_a_step() -> None:
    assert costs(Finding("info", "x", (0,), 40)) == (40, 10)
    assert costs(Finding("info", "x", (0,), step_cost_ns=10)) == (40, 10)
    assert costs(Finding("info", "x", (0,))) == (None, None)


def test_no_cost_exceeds_the_time_of_its_ranks() -> None:
    assert costs(Finding("info", "x", (1,), 1_000)) == (80, 20)
    assert costs(Finding("info", "x", (), step_cost_ns=50)) == (100, 25)


def test_what_devices_are_idle_for_is_the_most_that_a_late_host_can_cost() -> None:
    # Operators were worth 9.96 ms on a device that was idle for 0.38.
    assert costs(Finding("info", "x", (1,), 60, within=("idle_ns",))) == (10, 2)
    assert costs(Finding("info", "x", (0,), 60, within=("idle_ns", "exposed_memory_ns"))) == (35, 9)


def test_where_the_most_is_unknown_so_is_the_cost() -> None:
    assert costs(Finding("info", "x", (1,), 60, within=("idle_ns",)), None) == (None, None)
    # A rank without any device work, as on a CPU, has no idle device.
    assert costs(Finding("info", "x", (1,), 60, within=("idle_ns",)), BREAKDOWN.head(1)) == (60, 15)


def test_findings_are_in_one_order() -> None:
    found = [
        Finding("info", "a", (), 1),
        Finding("warning", "b"),
        Finding("critical", "c"),
        Finding("info", "d", (), 9),
    ]
    assert [finding.message for finding in settled(found, {}, INFO)] == ["d", "a", "c", "b"]


def test_the_critical_path_of_one_step_costs_what_all_steps_would_save() -> None:
    # Costs of one step stood in a column that is defined as the total.
    result = draw(
        """
        step    |111111112222222233|
        op      |OOOOOOOO..........|
        op      |........PPPPPPPP..|
        host    |......A.......B...|
        compute |.......A.......B..|
        """
    ).run([Job.critical_path, Job.time_breakdown])
    (found,) = (finding for finding in result.findings if finding.rule == "host-on-critical-path")
    assert found.step_cost_ns is not None and found.cost_ns is not None
    # From the first kernel to the last the device is idle for 7 µs only.
    assert found.cost_ns == 7 * US
    assert found.step_cost_ns == round(7 * US / 3)


def check(result: JobResult) -> None:
    spans = dict(result.info.select("rank", "span_ns").iter_rows())
    breakdown = result.tables["time_breakdown"]
    for finding in result.findings:
        ranks = finding.ranks or tuple(spans)
        if finding.cost_ns is None:
            assert finding.step_cost_ns is None
            continue
        assert 0 <= finding.cost_ns <= max(spans[rank] or 0 for rank in ranks), finding
        assert finding.step_cost_ns is None or finding.step_cost_ns <= finding.cost_ns, finding
        parts = breakdown.filter(pl.col("rank").is_in(ranks))
        if finding.within and not parts.is_empty():
            most = parts.select(pl.sum_horizontal(finding.within).max()).item()
            assert finding.cost_ns <= most, finding
        for name, value in finding.values.items():
            if name == "ratio" and finding.rule not in ("slow-device", "more-work", "heavy-backward"):
                assert 0 <= value <= 1, finding
    lost = [finding for finding in result.findings if finding.rule == "straggling-rank"]
    communicated = int(result.tables["overlap"]["comm_ns"].max() or 0)  # type: ignore[arg-type]  # an Int64 column
    assert all((finding.cost_ns or 0) <= communicated for finding in lost)


def test_no_finding_of_the_sample_is_worth_more_than_there_is_and_the_dearest_comes_first(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=3, steps=3, seed=2, compress=False)
    result = holotrace.open(tmp_path).run()
    check(result)
    costs_ns = [finding.cost_ns or 0 for finding in result.findings]
    assert costs_ns == sorted(costs_ns, reverse=True)


def test_no_finding_of_a_drawn_job_is_worth_more_than_there_is() -> None:
    early, late = "compute |A......|\ncomm |.CCCCCCC|", "compute |AAAA..|\ncomm |.......C|"
    for ranks in (
        [early, late],
        [early, early, late],
        ["copy |AAA.BBB|"],
        ["op |OOOOOO|\nhost |A.B.C.|\ncompute |.A.B.C|"],
    ):
        check(draw(*ranks).run())


FAULTS = sorted((REAL_TRACES.parent / "faults").glob("d*")) if REAL_TRACES.is_dir() else []
JOBS = [
    *FAULTS,
    *(REAL_TRACES / "torchrec/examples/golden_training/trace").glob("sst_*_2"),
    REAL_TRACES / "tracelens/tests/traces/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    REAL_TRACES / "tracelens/tests/traces/torch_compile_triton/trace.json.gz",
    REAL_TRACES / "hta/tests/data/ns_resolution_trace",
]


@needs_real_traces
@pytest.mark.parametrize("path", every(8, JOBS), ids=lambda path: path.name)
def test_no_finding_of_a_real_job_is_worth_more_than_there_is(path: Path) -> None:
    check(holotrace.open(path).run())
