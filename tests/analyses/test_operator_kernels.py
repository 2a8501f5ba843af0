"""Sequences of kernels by operator, and how long they take to begin."""

from __future__ import annotations

from pathlib import Path

import holotrace
from drawing import device_trace, draw
from holotrace import Job
from holotrace.analyses import Analyses
from holotrace.present.wording import sentence
from trace_files import write_trace


def test_a_call_launches_its_kernels_in_order() -> None:
    job = draw("""
        op      |.AAAAAA........|
        host    |...KL..........|
        compute |.....LL.KKK....|
    """)
    (row,) = job.operator_kernels().to_dicts()
    assert row == {
        "rank": 0,
        "operator": "A",
        "source": "operator",
        "kernels": "K -> L",
        "count": 1,
        "mean_launch_delay_ns": 2_000,
        "mean_work_delay_ns": 5_000,
        "work_count": 2,
        "work_ns": 5_000,
    }


def test_calls_that_launch_the_same_are_one_row_and_others_another() -> None:
    job = draw("""
        op      |AA.AA..AAAA|
        host    |K...K..KL..|
        compute |.K...K..KL.|
    """)
    table = job.operator_kernels().select("operator", "kernels", "count", "mean_launch_delay_ns", "mean_work_delay_ns")
    assert table.rows() == [("A", "K", 2, 500, 1_000), ("A", "K -> L", 1, 0, 1_000)]


def test_a_kernel_that_seems_to_begin_before_its_launch_tells_no_delay() -> None:
    """A capture of two TPUs, whose clocks are 0.6 ms behind their host's, was told a mean delay of -0.6 ms."""
    job = draw("""
        op      |.AAA...AAAAA|
        host    |...K...K....|
        compute |.K......K...|
    """)
    assert job.operator_kernels()["mean_work_delay_ns"].to_list() == [1_000]


def test_a_launch_belongs_to_the_innermost_operator() -> None:
    job = draw("""
        op      |AAAAAAA|
        op      |.BBB...|
        host    |..K..L.|
        compute |...K..L|
    """)
    assert job.operator_kernels().select("operator", "kernels").rows() == [("A", "L"), ("B", "K")]


def test_a_launch_outside_of_operators_is_looked_at_by_itself_and_waiting_is_left_out() -> None:
    job = draw("""
        op      |AA.....|
        host    |W..K...|
        compute |....K..|
        sync    |.WWWWWW|
    """)
    table = job.operator_kernels().select("operator", "source", "kernels", "mean_launch_delay_ns")
    assert table.rows() == [("cudaLaunchKernel", "launch", "K", 0)]


def test_chains_of_short_kernels_are_found() -> None:
    job = draw("op |AAAA|\nhost |KLMN|\ncompute |.KLMN|", "op |AAA|\nhost |KLM|\ncompute |.KLM|")
    (finding,) = Analyses.operator_kernels.findings(job.operator_kernels())
    assert sentence(finding) == "100% of kernels are in chains of short kernels, most of them launched by A"
    assert finding.ranks == (0,)
    assert finding.cost_ns is None


def test_chains_of_long_kernels_and_few_short_ones_are_not_found() -> None:
    long = "".join(letter * 10 for letter in "KLMN")
    few = "op |AAAABCDEFGHIJOPQR|\nhost |KLMNABCDEFGHIJOPQ|\ncompute |.KLMNABCDEFGHIJOPQ|"
    for drawing in (f"op |AAAA|\nhost |KLMN|\ncompute |.{long}|", few):
        job = draw(drawing)
        assert job.operator_kernels()["work_count"].sum() >= 4
        assert Analyses.operator_kernels.findings(job.operator_kernels()) == []


def test_a_launch_within_a_launch_is_the_operators_too(tmp_path: Path) -> None:
    def event(name: str, category: str, span: tuple[int, int], correlation: int, tid: int = 1) -> dict[str, object]:
        args = {"correlation": correlation, "stream": tid, "device": 0}
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1,
            "tid": tid,
            "ts": span[0],
            "dur": span[1],
            "args": args,
        }

    events = [
        event("op", "cpu_op", (0, 20), 0),
        event("hipModuleLaunchKernel", "cuda_runtime", (1, 9), 1),
        event("hipExtModuleLaunchKernel", "cuda_runtime", (2, 7), 2),
        event("outer", "kernel", (30, 5), 1, tid=7),
        event("inner", "kernel", (40, 5), 2, tid=7),
    ]
    write_trace(tmp_path / "rank0.json", rank=0, events=events)
    job = holotrace.open(tmp_path)
    assert job.operator_kernels()["kernels"].to_list() == ["outer -> inner"]
    assert job.operators().select("self_ns", "runtime_ns", "self_work_count").rows() == [(11_000, 9_000, 2)]


def test_the_sequence_of_a_graph_is_shown_in_part() -> None:
    rows: list[dict[str, object]] = [
        {"name": "k", "kind": "compute", "start_ns": 10 * n, "end_ns": 10 * n + 5}
        | {"event_id": n, "launch_id": 99, "launch_ns": 0}
        for n in range(60)
    ]
    (kernels,) = Job.from_ranks({0: device_trace(rows)}).operator_kernels()["kernels"]
    assert kernels == " -> ".join(["k"] * 50) + " -> … (10 more)"
