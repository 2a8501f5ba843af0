"""Frames as HTA makes them: columns, what stands where nothing was recorded, links and steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hta_traces import Event, analysis, event, kernel, launch, step

from hta._bridge.frames import places
from hta.common.trace import Trace
from trace_files import write_trace

COLUMNS = [
    "index",
    "cat",
    "name",
    "pid",
    "tid",
    "ts",
    "dur",
    "stream",
    "correlation",
    "bytes",
    "memory_bw_gbps",
    "wait_on_stream",
    "wait_on_cuda_event_record_corr_id",
    "input_dims",
    "input_type",
    "input_strides",
    "external_id",
    "python_id",
    "python_parent_id",
    "collective_name",
    "in_msg_nelems",
    "out_msg_nelems",
    "msg_dtype",
    "group_size",
    "process_rank",
    "in_split_size",
    "out_split_size",
    "index_correlation",
    "iteration",
    "end",
]


def frame_of(folder: Path, *events: Event) -> pd.DataFrame:
    return analysis(folder, *events).t.get_trace(0)


def test_a_frame_has_htas_columns_in_htas_order(tmp_path: Path) -> None:
    assert frame_of(tmp_path, event("a", 0, 1)).columns.tolist() == COLUMNS


def test_what_was_not_recorded_is_what_hta_puts_there(tmp_path: Path) -> None:
    row = frame_of(tmp_path, event("a", 0, 1)).iloc[0].to_dict()
    absent = {name: row[name] for name in COLUMNS[7:]} | {"end": None}
    texts = {"input_dims": "-1", "input_type": "-1", "input_strides": "-1", "collective_name": "", "msg_dtype": ""}
    zeros = dict.fromkeys(["memory_bw_gbps", "in_msg_nelems", "out_msg_nelems", "group_size"], 0)
    lists = {"in_split_size": "[]", "out_split_size": "[]"}
    assert absent == dict.fromkeys(COLUMNS[7:], -1) | texts | zeros | lists | {"end": None}


def test_args_are_columns(tmp_path: Path) -> None:
    op = event("aten::mm", 0, 1, Input_Dims=[[2, 3], [3, 4]], Input_type=["float", "float"], External_id=2**40)
    nccl = kernel("nccl", 5, 1, Collective_name="allreduce", dtype="Float", In_msg_nelems=128, In_split_size="[1, 2]")
    frame = frame_of(tmp_path, op, nccl)
    assert frame.loc[0, ["input_dims", "input_type", "external_id"]].tolist() == [
        [[2, 3], [3, 4]],
        ["float", "float"],
        2**40,
    ]
    names = ["stream", "collective_name", "msg_dtype", "in_msg_nelems", "in_split_size"]
    assert frame.loc[1, names].tolist() == [7, "allreduce", "Float", 128, "[1, 2]"]


def test_rows_go_by_their_place_in_the_file_and_what_has_no_duration_is_no_row(tmp_path: Path) -> None:
    mark = {"ph": "i", "cat": "cpu_op", "name": "mark", "pid": 1, "tid": 1, "ts": 3}
    recording = event("PyTorch Profiler (0)", 0, 99, cat="Trace", pid="Spans", tid="PyTorch Profiler")
    nameless = {"ph": "X", "name": "no category", "pid": 1, "tid": 1, "ts": 3, "dur": 1}
    frame = frame_of(tmp_path, mark, event("a", 1, 1), recording, nameless, event("b", 2, 1))
    assert frame.index.tolist() == frame["index"].tolist() == [1, 4]
    # With the recording gone, processes and threads are numbers.
    assert frame["pid"].dtype.kind == frame["tid"].dtype.kind == "i"


def test_threads_with_names_stay_beside_those_with_numbers(tmp_path: Path) -> None:
    threads = [5, "worker", -7, "--1", 2**64 - 1]
    frame = frame_of(tmp_path, *(event("a", ts, 1, tid=thread) for ts, thread in enumerate(threads)))
    assert frame["tid"].tolist() == threads


def test_starts_are_rounded_up_and_ends_down(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, event("a", 0, 1), event("b", 10.25, 10.5))
    assert frame.loc[1, ["ts", "dur", "end"]].tolist() == [11, 9, 20]


def test_frames_may_be_written_to(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, event("a", 5, 1, External_id=3), event("b", 6, 1))
    for column in COLUMNS:
        frame.loc[frame.index == 0, column] = frame[column].iloc[1]
    assert frame["ts"].tolist() == [1, 1]
    assert frame["index"].tolist() == [1, 1]
    assert frame.index.tolist() == [0, 1]


@pytest.mark.parametrize("steps", [[], [step(1, 0, 50), step(2, 100, 50)]])
def test_writing_to_a_frame_warns_of_nothing(
    tmp_path: Path, steps: list[Event], recwarn: pytest.WarningsRecorder
) -> None:
    t = analysis(tmp_path, *steps, event("a", 5, 1), event("b", 120, 1)).t
    t.get_trace(0)["new"] = 1
    t.decode_symbol_ids()
    assert not recwarn.list


@pytest.mark.parametrize("labels", [[0, 1, 4], [4, 0, 1], [-3, 1, 7], [0, 1, 10**9], [0.0, 1.0, 4.0]])
def test_rows_are_found_by_their_labels_whatever_these_are(labels: list[int]) -> None:
    frame = pd.DataFrame({"ts": 0}, index=labels)
    wanted = np.array([-1, 1, 3, 2**62, *labels], dtype=np.int64)
    assert places(frame)(wanted).tolist() == [-1, labels.index(1), -1, -1, 0, 1, 2]


def test_few_rows_are_found_in_many() -> None:
    frame = pd.DataFrame({"ts": 0}, index=range(1, 100, 2))
    assert places(frame)(np.array([-1, 0, 1, 5, 6, 99, 100, 2**62])).tolist() == [-1, -1, 0, 2, -1, 49, -1, -1]


def test_no_row_is_found_where_there_is_none() -> None:
    assert places(pd.DataFrame({"ts": []}, index=pd.Index([], dtype=np.int64)))(np.array([0, 3])).tolist() == [-1, -1]


class TestLinks:
    """index_correlation: the row at the other end of a launch."""

    def test_a_launch_and_its_kernel_name_each_other(self, tmp_path: Path) -> None:
        frame = frame_of(tmp_path, event("a", 0, 9), launch(4, 1), kernel("gemm", 5, 1, correlation=4))
        assert frame["index_correlation"].tolist() == [-1, 2, 1]

    def test_an_id_that_no_other_row_has_is_0(self, tmp_path: Path) -> None:
        frame = frame_of(tmp_path, event("a", 0, 9), launch(4, 1), kernel("gemm", 5, 1, correlation=0))
        assert frame["index_correlation"].tolist() == [-1, 0, 0]

    def test_a_graph_names_its_last_kernel_and_each_kernel_its_graph(self, tmp_path: Path) -> None:
        frame = frame_of(
            tmp_path, event("a", 0, 9), launch(4, 1), *[kernel("k", ts, 1, correlation=4) for ts in (2, 4)]
        )
        assert frame["index_correlation"].tolist() == [-1, 3, 1, 1]

    def test_of_two_calls_with_one_id_the_last_is_the_launch(self, tmp_path: Path) -> None:
        calls = [launch(4, 1, 5), launch(4, 2, 3, cat="cuda_driver")]
        frame = frame_of(tmp_path, event("a", 0, 9), *calls, kernel("k", 8, 1, correlation=4))
        assert frame["index_correlation"].tolist() == [-1, 3, 3, 2]


class TestSteps:
    """iteration: the training step of a row, and which steps are kept."""

    EVENTS = (
        event("before", 50, 5),
        step(1, 100, 100),
        launch(1, 150),
        step(2, 200, 100),
        kernel("late", 250, 10, correlation=1),
        launch(2, 260),
        kernel("dropped", 290, 10, correlation=2),
        event("after", 350, 5),
    )

    def test_device_work_belongs_to_the_step_that_launched_it(self, tmp_path: Path) -> None:
        write_trace(tmp_path / "t.json", events=list(self.EVENTS))
        t = Trace([str(tmp_path / "t.json")])
        t.parse_traces()
        assert t.get_trace(0)["iteration"].tolist() == [-1, 1, 1, 2, 1, 2, 2, -1]
        assert t.get_trace(0)["ts"].min() == 50

    def test_the_last_step_is_left_out_with_the_work_it_launched(self, tmp_path: Path) -> None:
        a = analysis(tmp_path, *self.EVENTS)
        assert a.t.get_trace(0).index.tolist() == [0, 1, 2, 4]
        assert a.get_profiler_steps() == [1]

    def test_the_last_step_is_left_out_wherever_its_events_stand_in_the_file(self, tmp_path: Path) -> None:
        mixed = [event(name, start + n, 1) for n in range(100) for name, start in (("kept", 10), ("left out", 210))]
        a = analysis(tmp_path, step(1, 0, 150), step(2, 200, 150), *mixed)
        frame = a.t.get_trace(0)
        assert frame.index.tolist() == [0, *range(2, 202, 2)]
        assert frame["name"].nunique() == 2

    def test_the_last_step_is_kept_on_request(self, tmp_path: Path) -> None:
        a = analysis(tmp_path, *self.EVENTS, include_last_profiler_step=True)
        assert a.t.get_trace(0).index.tolist() == [0, 1, 2, 3, 4, 5, 6]
        assert a.get_profiler_steps() == [1, 2]

    def test_a_single_step_is_kept(self, tmp_path: Path) -> None:
        assert len(frame_of(tmp_path, step(1, 100, 100), event("after", 350, 5))) == 2
