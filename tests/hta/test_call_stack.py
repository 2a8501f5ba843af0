"""HTA's older call stacks: nodes, ways through them, and the columns they add to frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hta_traces import analysis, event, kernel, launch, step

from hta.common.call_stack import CallGraph, CallStackGraph, CallStackIdentity, CallStackNode, infer_device_type
from hta.common.trace import Trace
from hta.common.trace_filter import NameFilter
from hta.common.types import DeviceType
from trace_files import REAL_TRACES, needs_real_traces

THREAD = CallStackIdentity(0, 1, 2)


def rows(*spans: tuple[int, int, int], stream: int = -1) -> pd.DataFrame:
    """Rows of one thread: index, start and duration."""
    frame: pd.DataFrame = pd.DataFrame(spans, columns=["index", "ts", "dur"])
    frame[["pid", "tid", "stream", "index_correlation"]] = (1, 2, stream, -1)
    return frame


# 0 calls 1 (which calls 2) and 3; 4 follows.
FRAME = rows((0, 0, 10), (1, 1, 5), (2, 3, 2), (3, 7, 3), (4, 10, 4))


def parents(frame: pd.DataFrame) -> dict[int, int]:
    return {idx: node.parent for idx, node in CallStackGraph(frame, THREAD).nodes.items() if idx >= 0}


def test_nodes_know_callers_depth_and_what_they_called() -> None:
    assert CallStackGraph(FRAME, THREAD).get_nodes() == {
        -1: CallStackNode(-1, -1, [0, 4]),
        0: CallStackNode(-1, 0, [1, 3]),
        1: CallStackNode(0, 1, [2]),
        2: CallStackNode(1, 2, []),
        3: CallStackNode(0, 1, []),
        4: CallStackNode(-1, 0, []),
    }


def test_a_stack_needs_no_thread_in_its_frame() -> None:
    frame = FRAME.drop(columns=["pid", "tid"])
    assert parents(frame) == parents(FRAME)


def test_a_graph_takes_any_source_of_frames() -> None:
    class Frames:
        def __init__(self) -> None:
            self.frame = FRAME.copy()

        def get_all_traces(self) -> dict[int, pd.DataFrame]:
            return {3: self.frame}

        def get_trace(self, rank: int) -> pd.DataFrame:
            return self.get_all_traces()[rank]

    source = Frames()
    graph = CallGraph(source)
    assert [stack.identity for stack in graph.call_stacks] == [CallStackIdentity(3, 1, 2)]
    assert source.frame["parent"].tolist() == [-1, 0, 1, 0, -1]


def test_ways_lead_up_to_the_root_and_down_to_what_called_nothing() -> None:
    stack = CallStackGraph(FRAME, THREAD)
    assert stack.get_path_to_root(2) == [2, 1, 0, -1]
    assert stack.get_leaf_nodes(0) == [2, 3]
    assert stack.get_leaf_nodes(3) == [3]
    assert stack.get_paths_to_leaves(0) == [[0, 1, 2], [0, 3]]
    assert stack.get_children(0) == [1, 3]
    assert stack.get_parent(2) == 1


def test_an_event_that_is_not_there_has_no_ways() -> None:
    stack = CallStackGraph(FRAME, THREAD)
    assert stack.get_parent(99) == -2
    assert stack.get_children(99) == stack.get_path_to_root(99) == stack.get_leaf_nodes(99) == []
    assert stack.get_paths_to_leaves(99) == []


def test_a_walk_enters_each_event_before_those_it_called_and_leaves_it_after() -> None:
    steps: list[str] = []
    CallStackGraph(FRAME, THREAD).dfs_traverse(
        lambda idx, node: steps.append(f"+{idx}"), lambda idx, node: steps.append(f"-{idx}")
    )
    assert " ".join(steps) == "+0 +1 +2 -2 -1 +3 -3 -0 +4 -4"


def test_depths_are_a_series_by_index() -> None:
    stack = CallStackGraph(FRAME, THREAD)
    depth = stack.get_depth()
    assert depth is not None
    assert depth.to_dict() == {0: 0, 1: 1, 2: 2, 3: 1, 4: 0}
    assert stack.get_dataframe() is FRAME


def test_a_queue_of_a_device_has_no_calls() -> None:
    stack = CallStackGraph(rows((0, 0, 10), (1, 1, 5), stream=7), THREAD)
    assert stack.device_type is DeviceType.GPU
    assert stack.get_depth() is None
    assert stack.get_nodes() == {-1: CallStackNode(-1, -1, [])}
    assert infer_device_type(FRAME) is DeviceType.CPU
    assert infer_device_type(pd.concat([FRAME, rows((9, 0, 1), stream=7)])) is DeviceType.UNKNOWN


def test_bug_25_an_end_closes_its_own_event_not_the_one_on_top() -> None:
    # 1 and 2 overlap in part; 3 begins after the end of 1.
    assert parents(rows((0, 0, 100), (1, 10, 40), (2, 40, 40), (3, 60, 10))) == {0: -1, 1: 0, 2: 0, 3: 2}


def test_bug_25_callers_do_not_depend_on_the_order_of_rows() -> None:
    # The rules by which HTA compares these three contradict each other (its issue 113).
    frame = rows((0, 0, 10), (1, 10, 10), (2, 10, 0), (3, 10, 0), (4, 0, 10))
    expected = parents(frame)
    assert expected == {0: -1, 4: 0, 1: -1, 2: 1, 3: 2}
    for seed in range(5):
        assert parents(frame.sample(frac=1, random_state=np.random.default_rng(seed))) == expected


def test_bug_25_a_deep_stack_needs_no_recursion() -> None:
    deep = rows(*((number, number, 20_000 - 2 * number) for number in range(5_000)))
    stack = CallStackGraph(deep, THREAD)
    assert stack.get_path_to_root(4_999)[-2:] == [0, -1]
    assert stack.get_leaf_nodes(0) == [4_999]


def test_a_graph_has_a_stack_for_each_thread_and_adds_columns(tmp_path: Path) -> None:
    a = analysis(
        tmp_path, event("op", 0, 20), launch(1, 5), kernel("k", 30, 5), event("other", 1, 3, tid=2), step(1, 0, 50)
    )
    graph = CallGraph(a.t)
    frame = a.t.get_trace(0)
    assert graph.mapping.index.names == ["rank", "pid", "tid"]
    assert graph.mapping.loc[(0, 1, 2), "csg_index"] == 2
    assert graph.call_stacks[2].get_leaf_nodes(3) == [3]
    assert frame["depth"].tolist() == [1, 2, -1, 0, 0]
    assert frame["parent"].tolist() == [4, 0, 1, -1, -1]


def test_threads_can_count_as_another_and_rows_be_left_out(tmp_path: Path) -> None:
    a = analysis(tmp_path, event("step", 0, 20), event("autograd", 5, 5, tid=2), event("noise", 1, 18))
    remapped = CallGraph(a.t, remapped_tids={0: {2: 1}})
    assert a.t.get_trace(0)["parent"].tolist() == [-1, 2, 0]
    assert list(remapped.mapping.index) == [(0, 1, 1)]
    assert remapped.call_stacks[0].get_path_to_root(1) == [1, 2, 0, -1]
    a.t.decode_symbol_ids()
    CallGraph(a.t, filter_func=NameFilter("step|autograd", name_column="s_name"), remapped_tids={0: {2: 1}})
    assert a.t.get_trace(0)[["depth", "parent"]].to_numpy().tolist() == [[0, -1], [1, 0], [-1, -1]]


def test_the_stack_of_an_event_has_what_it_called_and_launched_and_its_callers(tmp_path: Path) -> None:
    a = analysis(tmp_path, step(1, 0, 50), event("op", 1, 20), launch(1, 5), kernel("k", 30, 5), event("later", 40, 5))
    graph = CallGraph(a.t)
    assert graph.get_stack_of_node(1, 0)["index"].tolist() == [0, 1, 2, 3]
    assert graph.get_stack_of_node(1, 0, skip_ancestors=True)["index"].tolist() == [1, 2, 3]
    assert graph.get_stack_of_node(3, 0)["index"].tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="event 77 of rank 0 is in no call stack"):
        graph.get_stack_of_node(77, 0)


def test_python_functions_end_with_their_callers_if_asked_for(tmp_path: Path) -> None:
    def python(name: str, ts: int, dur: int, number: int, parent: int | None) -> dict[str, object]:
        return event(name, ts, dur, cat="python_function", Python_id=number, Python_parent_id=parent)

    a = analysis(tmp_path, python("outer", 0, 10, 1, None), python("inner", 5, 9, 2, 1), python("inmost", 6, 20, 3, 2))
    CallGraph(a.t, pre_process_trace_data=True)
    frame = a.t.get_trace(0)
    assert frame["dur"].tolist() == [10, 5, 4]
    assert frame["end"].tolist() == [10, 10, 10]
    assert frame["parent"].tolist() == [-1, 0, 1]


@needs_real_traces
@pytest.mark.parametrize(
    "file", ["trace_diff/control/control.json.gz", "mtia_inference_trace/mtia_inference_rank_0.json.gz"]
)
def test_columns_and_nodes_of_recorded_traces_agree(file: str) -> None:

    trace = Trace({0: str(REAL_TRACES / "hta/tests/data" / file)})
    trace.load_traces()
    graph = CallGraph(trace)
    frame = trace.get_trace(0).set_index("index")
    for stack in graph.call_stacks:
        events = [idx for idx in stack.nodes if idx >= 0]
        assert frame.loc[events, "parent"].tolist() == [stack.nodes[idx].parent for idx in events]
        assert frame.loc[events, "depth"].tolist() == [stack.nodes[idx].depth for idx in events]
