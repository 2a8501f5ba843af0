"""hta names the ranks that start the decisive communication kernel last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from hta_traces import event, kernel, launch, step

from hta.analyzers.straggler import extract_iteration_info, find_stragglers_with_late_start_comm_kernels
from hta.trace_analysis import TraceAnalysis
from trace_files import write_trace

NCCL, RCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclKernel_AllReduce_RING_LL_Sum_float"
STEP_US = 1_000


def job(folder: Path, *ranks: list[int], name: str = NCCL, stream: int = 7) -> TraceAnalysis:
    """A job whose ranks start their collective so long after each step's start; it ends 900 µs after it for all."""
    for rank, starts in enumerate(ranks):
        events = []
        for number, start in enumerate(starts):
            at, correlation = number * STEP_US, number + 1
            events += [
                step(number, at, STEP_US),
                launch(correlation, at + 10),
                kernel(name, at + start, 900 - start, correlation=correlation, stream=stream),
            ]
        # A last step, which is left out.
        events.append(step(len(starts), len(starts) * STEP_US, STEP_US))
        write_trace(folder / f"rank-{rank}.json", rank=rank, events=events)
    return TraceAnalysis(trace_dir=str(folder))


def test_the_ranks_that_start_last_are_named(tmp_path: Path) -> None:
    a = job(tmp_path, [100, 100], [700, 700], [100, 100], [500, 500])
    assert a.get_potential_stragglers() == [1, 3]
    assert a.get_potential_stragglers(num_candidates=1) == [1]
    assert a.get_potential_stragglers(num_candidates=-1) == [1]
    assert all(type(rank) is int for rank in a.get_potential_stragglers())


def test_only_the_steps_asked_for_count(tmp_path: Path) -> None:
    a = job(tmp_path, [100, 800], [800, 100])
    assert a.get_profiler_steps() == [0, 1]
    assert a.get_potential_stragglers([0], 1) == [1]
    assert a.get_potential_stragglers([1], 1) == [0]
    assert a.get_potential_stragglers([1, 77], 1) == [0]


def test_steps_that_are_not_there_are_an_error_that_says_which_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"profiler_steps=\[9\]; available profiler steps=\[0, 1\]"):
        job(tmp_path, [100, 100], [800, 800]).get_potential_stragglers([9])


def test_bug_7_any_communication_kernel_on_any_stream_counts(tmp_path: Path) -> None:
    for number, (name, stream) in enumerate([(NCCL, 7), (NCCL, 0), (RCCL, 0), ("hcclAllReduce", 3)]):
        a = job(tmp_path / str(number), [100, 100], [700, 700], [100, 100], name=name, stream=stream)
        assert a.get_potential_stragglers(num_candidates=1) == [1]


def test_bug_7_nothing_to_compare_is_an_empty_list(tmp_path: Path) -> None:
    assert job(tmp_path / "one rank", [100, 100]).get_potential_stragglers() == []
    assert job(tmp_path / "no comm", [100, 100], [700, 700], name="gemm").get_potential_stragglers() == []
    folder = tmp_path / "no steps"
    for rank in (0, 1):
        write_trace(folder / f"rank-{rank}.json", rank=rank, events=[event("aten::mm", 0, 9), kernel(NCCL, 1, 5)])
    assert TraceAnalysis(trace_dir=str(folder)).get_potential_stragglers() == []


def test_how_stragglers_are_told_can_be_chosen(tmp_path: Path) -> None:
    a = job(tmp_path, [100], [700], [100])
    seen: dict[str, Any] = {}

    def most_rows(df: pd.DataFrame, symbols: Any, count: int, visualize: bool) -> pd.Series:
        seen.update(df=df, symbols=symbols, count=count, visualize=visualize)
        scores: pd.Series = pd.Series({0: 1, 2: 5, 1: 3})
        return scores

    assert a.get_potential_stragglers(num_candidates=2, straggler_identification_impl=most_rows) == [2, 1]
    assert (seen["symbols"], seen["count"], seen["visualize"]) == (a.t.symbol_table, 2, False)
    assert {*a.t.get_trace(0).columns, "rank", "idx"} <= set(seen["df"].columns)
    assert seen["df"].groupby("rank").size().to_dict() == {
        rank: int((a.t.get_trace(rank)["iteration"] == 0).sum()) for rank in range(3)
    }


def test_the_score_counts_the_steps_in_which_a_rank_was_late(tmp_path: Path) -> None:
    a = job(tmp_path, [100, 100, 800], [700, 700, 100], [110, 110, 110])
    rows = pd.concat([a.t.get_trace(rank).assign(rank=rank) for rank in a.t.get_ranks()])
    rows = rows[rows["iteration"] >= 0]
    score = find_stragglers_with_late_start_comm_kernels(rows, a.t.symbol_table, 1)
    assert score.to_dict() == {0: 1, 1: 2, 2: 0}
    assert score.index.name == "rank"


def test_starts_are_plotted_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[go.Figure] = []
    monkeypatch.setattr(go.Figure, "show", lambda figure, *args, **kwargs: shown.append(figure))
    a = job(tmp_path, [100, 100], [700, 700])
    a.get_potential_stragglers()
    assert not shown
    a.get_potential_stragglers(visualize=True)
    assert [figure.layout.title.text for figure in shown] == [f"Start of {NCCL}"]
    assert len(shown[0].data) == 2


def test_steps_of_all_ranks_are_listed(tmp_path: Path) -> None:
    for rank in (0, 1):
        steps = [step(number, 100 * number, 100) for number in (1, 2, 3)]
        write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=[*steps, step(1, 150, 100, on_device=True)])
    t = TraceAnalysis(trace_dir=str(tmp_path)).t
    before = [frame.copy() for frame in t.get_all_traces().values()]
    listed = extract_iteration_info(t)
    assert listed[["rank", "iter", "ts", "end"]].to_numpy().tolist() == [
        [0, 1, 0, 100],
        [0, 2, 100, 200],
        [1, 1, 0, 100],
        [1, 2, 100, 200],
    ]
    assert t.symbol_table.sym_table[listed["profiler_step"].iloc[1]] == "ProfilerStep#2"
    for frame, known in zip(t.get_all_traces().values(), before, strict=True):
        pd.testing.assert_frame_equal(frame, known)


def test_without_ranks_no_steps_are_listed(tmp_path: Path) -> None:
    assert extract_iteration_info(TraceAnalysis(trace_dir=str(tmp_path)).t).columns.tolist() == [
        *("profiler_step", "ts", "dur", "iter", "end", "rank"),
    ]
