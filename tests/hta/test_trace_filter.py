"""Rows of HTA's frames by step, rank, time, name, device or operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hta_traces import event, kernel, launch, step

from hta.common.trace import Trace
from hta.common.trace_df import (
    find_events_by_name_patterns_using_decoded_names,
    find_events_by_name_patterns_using_symbol_table,
    find_op_occurrence,
    get_iterations,
)
from hta.common.trace_filter import (
    CompositeFilter,
    CPUOperatorFilter,
    Filter,
    FirstIterationFilter,
    GPUKernelFilter,
    IterationFilter,
    IterationIndexFilter,
    MemCopyEventFilter,
    NameFilter,
    NameIdColumnFilter,
    NameStringColumnFilter,
    QueryFilter,
    RankFilter,
    TimeRangeFilter,
    ZeroDurationFilter,
)
from hta.common.trace_stack_filter import (
    AfterOperatorFilter,
    BeforeOperatorFilter,
    CombinedOperatorFilter,
    OperatorFilter,
    OperatorFilterMethod,
    UnderOperatorFilter,
)
from hta.common.types import DeviceType, infer_device_type
from trace_files import REAL_TRACES, needs_real_traces, write_trace

COPY = "Memcpy DtoH (Device -> Pinned)"


@pytest.fixture
def t(tmp_path: Path) -> Trace:
    """Two steps; in the first an operator that launches a kernel and one that copies, in the second one on its own."""
    events = [
        step(3, 100, 100),
        event("aten::mm", 110, 30),
        launch(1, 120, 5),
        event("aten::item", 150, 30),
        launch(2, 160, 5),
        step(4, 200, 100),
        event("aten::mm", 210, 0),
        kernel("gemm", 130, 40, correlation=1),
        kernel(COPY, 170, 5, correlation=2, cat="gpu_memcpy"),
        event("Event Sync", 190, 5, cat="cuda_sync", pid=0, tid=-1, stream=-1, correlation=3),
    ]
    write_trace(tmp_path / "rank-0.json", events=events)
    t = Trace([str(tmp_path / "rank-0.json")])
    t.parse_traces()
    return t


@pytest.fixture
def frame(t: Trace) -> pd.DataFrame:
    return t.get_trace(0)


@pytest.fixture
def decoded(t: Trace) -> pd.DataFrame:
    t.decode_symbol_ids()
    return t.get_trace(0)


def test_rows_of_steps(frame: pd.DataFrame) -> None:
    assert IterationFilter(4)(frame).index.tolist() == [5, 6]
    assert len(IterationFilter([3, 4])(frame)) == 10
    assert len(IterationFilter([9])(frame)) == 0
    assert FirstIterationFilter()(frame).index.tolist() == [0, 1, 2, 3, 4, 7, 8, 9]
    assert IterationIndexFilter([1, 5])(frame).index.tolist() == [5, 6]
    # HTA's sign for no such step.
    assert IterationIndexFilter(-1)(frame).equals(pd.DataFrame())


def test_a_frame_without_the_column_stays_as_it_is(frame: pd.DataFrame) -> None:
    bare = frame[["pid"]]
    every: list[Filter] = [
        IterationFilter(1),
        IterationIndexFilter(1),
        RankFilter(1),
        TimeRangeFilter((0, 1)),
        GPUKernelFilter(),
        CPUOperatorFilter(),
        NameStringColumnFilter("a"),
        NameIdColumnFilter("a"),
        UnderOperatorFilter("a", 0),
        CombinedOperatorFilter("a", "b", "c"),
    ]
    for chosen in every:
        assert chosen(bare) is bare
    no_step = frame.assign(iteration=-1)
    assert FirstIterationFilter()(no_step) is no_step


def test_rows_of_ranks_and_times(frame: pd.DataFrame) -> None:
    ranks = frame.assign(rank=frame.index % 2)
    assert RankFilter(1)(ranks).index.tolist() == [1, 3, 5, 7, 9]
    # A row must lie within the time altogether.
    assert TimeRangeFilter((110, 165))(frame).index.tolist() == [1, 2, 4]


def test_rows_by_name_in_strings_or_numbers(t: Trace, frame: pd.DataFrame, decoded: pd.DataFrame) -> None:
    for rows in (
        NameFilter("aten::[m]", t.symbol_table)(frame),
        NameFilter("aten::[m]")(frame, t.symbol_table),
        NameIdColumnFilter("aten::[m]")(frame, t.symbol_table),
        NameFilter("aten::[m]")(decoded),
        NameFilter("aten::[m]", name_column="s_name")(decoded),
        NameStringColumnFilter("aten::[m]")(decoded),
    ):
        assert rows.index.tolist() == [1, 6]
    # From the start of the name.
    assert NameFilter("mm")(decoded).empty
    assert NameFilter("a")(pd.DataFrame()).empty


def test_rows_of_the_device_and_all_others(t: Trace, frame: pd.DataFrame) -> None:
    assert GPUKernelFilter()(frame).index.tolist() == [7, 8]
    assert CPUOperatorFilter()(frame).index.tolist() == [0, 1, 2, 3, 4, 5, 6, 9]
    # Waiting has no stream, but a name that symbols tell.
    assert GPUKernelFilter()(frame, t.symbol_table).index.tolist() == [7, 8, 9]
    assert CPUOperatorFilter()(frame, t.symbol_table).index.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert infer_device_type(GPUKernelFilter()(frame)) is DeviceType.GPU
    assert infer_device_type(CPUOperatorFilter()(frame)) is DeviceType.CPU
    assert infer_device_type(frame) is infer_device_type(frame[["pid"]]) is DeviceType.UNKNOWN


def test_copies_of_a_type(t: Trace, frame: pd.DataFrame) -> None:
    assert MemCopyEventFilter(COPY, t.symbol_table)(frame).index.tolist() == [8]
    assert MemCopyEventFilter("Memcpy HtoD", t.symbol_table)(frame).equals(pd.DataFrame())


def test_queries_and_filters_one_after_the_other(frame: pd.DataFrame) -> None:
    assert QueryFilter("ts > 200")(frame).index.tolist() == [6]
    assert 6 not in ZeroDurationFilter(frame).index
    both = CompositeFilter([IterationFilter(3), TimeRangeFilter((110, 165))])
    assert both(frame).index.tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: IterationFilter("x"), TypeError),  # type: ignore[arg-type]
        (lambda: IterationIndexFilter(1.5), TypeError),  # type: ignore[arg-type]
        (lambda: RankFilter("x"), TypeError),  # type: ignore[arg-type]
        (lambda: TimeRangeFilter((2, 1)), ValueError),
        (lambda: TimeRangeFilter([1, 2]), ValueError),  # type: ignore[arg-type]
        (lambda: TimeRangeFilter((1.0, 2)), ValueError),  # type: ignore[arg-type]
        (lambda: CompositeFilter([ZeroDurationFilter]), TypeError),  # type: ignore[list-item]
    ],
)
def test_arguments_that_say_nothing_are_refused(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_rows_around_an_operator(decoded: pd.DataFrame) -> None:
    assert UnderOperatorFilter("aten::mm", 0)(decoded).index.tolist() == [1, 2]
    assert UnderOperatorFilter("aten::mm", 0, include_gpu_kernels=True)(decoded).index.tolist() == [1, 2, 7]
    assert UnderOperatorFilter("aten::mm", -1)(decoded).index.tolist() == [6]
    assert AfterOperatorFilter("aten::item", 0)(decoded).index.tolist() == [5, 6, 9]
    assert BeforeOperatorFilter("aten::item", 0, include_gpu_kernels=True)(decoded).index.tolist() == [1, 2, 7]
    assert UnderOperatorFilter("aten::none", 0)(decoded).equals(pd.DataFrame())
    assert OperatorFilter("aten::mm", 0, OperatorFilterMethod.Under)(decoded).index.tolist() == [1, 2]
    with pytest.raises(NotImplementedError):
        OperatorFilter("aten::mm", 0, OperatorFilterMethod.Stack)(decoded)


def test_operators_bound_each_other_and_absent_ones_nothing(decoded: pd.DataFrame) -> None:
    assert CombinedOperatorFilter("ProfilerStep#3", "aten::mm", "none")(decoded).index.tolist() == [3, 4, 9]
    assert CombinedOperatorFilter("none", "aten::mm", "Event Sync", True)(decoded).index.tolist() == [3, 4, 8]
    with_depth = decoded.assign(depth=[0, 1, 2, 1, 2, 0, 1, -1, -1, -1])
    deep = CombinedOperatorFilter("ProfilerStep#3", "none", "none", True, stack_depths=[1])
    assert deep(with_depth).index.tolist() == [1, 3, 7, 8]


def test_runs_of_an_operator_are_counted_in_time(decoded: pd.DataFrame) -> None:
    found, row = find_op_occurrence(decoded, "aten::mm", 1)
    assert (found, row["ts"]) == (True, 210)
    assert find_op_occurrence(decoded, "aten::mm", -1)[1]["ts"] == 210
    assert not find_op_occurrence(decoded, "aten::mm", 2)[0]
    assert not find_op_occurrence(decoded.drop(columns="s_name"), "aten::mm", 0)[0]


def test_rows_whose_names_match_any_pattern(t: Trace, decoded: pd.DataFrame) -> None:
    patterns = ["aten::mm", "ge"]
    assert find_events_by_name_patterns_using_symbol_table(decoded, patterns, t.symbol_table).tolist() == [1, 6, 7]
    assert find_events_by_name_patterns_using_decoded_names(decoded, patterns).tolist() == [1, 6, 7]
    assert find_events_by_name_patterns_using_decoded_names(decoded, []).empty
    assert find_events_by_name_patterns_using_decoded_names(decoded, ["aten::(?!mm)"]).index.isin([1]).sum() == 0


def test_steps_of_a_frame(frame: pd.DataFrame) -> None:
    assert get_iterations(frame) == [3, 4]
    for broken in (frame[["pid"]], frame.assign(iteration=1.5)):
        with pytest.raises(TypeError):
            get_iterations(broken)


@needs_real_traces
def test_rows_of_a_recorded_trace_are_htas() -> None:
    t = Trace(trace_dir=str(REAL_TRACES / "hta" / "tests" / "data" / "trace_filter"))
    t.parse_traces()
    t.decode_symbol_ids(use_shorten_name=False)
    frame = t.get_trace(1)
    assert len(TimeRangeFilter((1682725898237042, 1682725898240570))(frame)) == 103
    assert len(NameFilter("^nccl")(frame)) == 20
    assert (len(GPUKernelFilter()(frame)), len(CPUOperatorFilter()(frame))) == (1154, 3521)
    assert len(UnderOperatorFilter("forward", 0, include_gpu_kernels=True)(FirstIterationFilter()(frame))) == 147
    bounded = CombinedOperatorFilter("## forward ##", "All2All_Pooled_Wait", "## sdd_preprocess_tensors ##", True)
    assert (len(bounded(frame)), int((bounded(frame)["stream"] > 0).sum())) == (409, 106)


def test_a_filter_is_not_one_of_its_own() -> None:
    composite = CompositeFilter([])
    with pytest.raises(ValueError, match="own filters"):
        composite.__init__([composite])  # type: ignore[misc]
