"""HTA's call graph and its stacks: callers across threads, heights, and what was launched below each event."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hta_traces import Event, analysis, event, kernel, launch, step

from hta.common.trace import Trace
from hta.common.trace_call_graph import CallGraph
from hta.common.trace_call_stack import CallStackGraph, CallStackIdentity, CallStackNode
from hta.common.trace_symbol_table import TraceSymbolTable
from hta.common.types import DeviceType
from hta.trace_analysis import TraceAnalysis
from trace_files import REAL_TRACES, needs_real_traces, write_trace

KERNELS = ["num_kernels", "kernel_dur_sum", "kernel_span", "first_kernel_start", "last_kernel_end"]
MAIN, BACKWARD = 10, 20
RECORDED = (
    "hta/tests/data/trace_diff/control/control.json.gz",
    "hta/tests/data/mtia_inference_trace/mtia_inference_rank_0.json.gz",
    "hta/tests/data/call_stack/backward_thread.json",
    "tracelens/tests/traces/mi300/resnet_act_checkpoint.json.gz",
    "ours/cpu_gloo_ddp2_stack_memory/rank-0.pt.trace.json.gz",
)


def training(*, with_range: bool = True) -> list[Event]:
    """A step whose backward pass runs on another thread; all starts are 100 later than they look."""
    return [
        {**step(1, 100, 60), "tid": MAIN},  # 0
        {**event("forward", 101, 9), "tid": MAIN},  # 1
        {**launch(1, 102), "tid": MAIN},  # 2
        kernel("k", 110, 5, correlation=1),  # 3
        event("## backward ##" if with_range else "waiting", 120, 30, cat="user_annotation", tid=MAIN),  # 4
        event("autograd::engine::evaluate_function: MmBackward0", 122, 20, tid=BACKWARD),  # 5
        event("aten::mm", 123, 10, tid=BACKWARD),  # 6
        {**launch(2, 124), "tid": BACKWARD},  # 7
        kernel("b", 140, 10, correlation=2),  # 8
        event("autograd::after", 170, 9, tid=BACKWARD),  # 9
    ]


def frame_of(a: TraceAnalysis) -> pd.DataFrame:
    return a.t.get_trace(0)


def test_events_have_callers_depth_and_height(tmp_path: Path) -> None:
    a = analysis(
        tmp_path, event("op", 0, 20), event("inner", 1, 10), launch(1, 5), kernel("k", 30, 5), event("alone", 40, 5)
    )
    CallGraph(a.t)
    columns = frame_of(a)[["parent", "depth", "height"]]
    assert columns.to_numpy().tolist() == [[-1, 0, 3], [0, 1, 2], [1, 2, 1], [2, 3, 0], [-1, 0, 1]]


def test_kernels_are_summed_over_all_that_an_event_called(tmp_path: Path) -> None:
    a = analysis(
        tmp_path,
        event("op", 0, 20),
        launch(1, 5),
        kernel("k", 30, 5, correlation=1),
        launch(2, 10),
        kernel("l", 32, 10, correlation=2, stream=8),
        event("none", 50, 5),
    )
    CallGraph(a.t)
    columns = frame_of(a)[KERNELS].to_numpy().tolist()
    assert columns[0] == [2, 15, 12, 30, 42]
    assert columns[1] == columns[2] == [1, 5, 5, 30, 35]
    assert columns[5] == [0, 0, 0, -1, -1]


def test_the_backward_thread_is_called_by_the_range_of_the_main_one(tmp_path: Path) -> None:
    a = analysis(tmp_path, *training())
    graph = CallGraph(a.t)
    columns = frame_of(a)[["parent", "depth", "height", "num_kernels", "kernel_dur_sum", "kernel_span"]]
    assert columns.to_numpy().tolist() == [
        [-MAIN, 0, 5, 2, 15, 40],
        [0, 1, 2, 1, 5, 5],
        [1, 2, 1, 1, 5, 5],
        [2, 3, 0, 1, 5, 5],
        [0, 1, 4, 1, 10, 10],
        [4, 2, 3, 1, 10, 10],
        [5, 3, 2, 1, 10, 10],
        [6, 4, 1, 1, 10, 10],
        [7, 5, 0, 1, 10, 10],
        # It began after the step.
        [-BACKWARD, 0, 1, 0, 0, 0],
    ]
    assert graph.mapping.to_numpy().tolist() == [
        [0, 1, MAIN, "main", 0, -MAIN, 1],
        # The second stack with this root.
        [0, 1, BACKWARD, "bwd", 1, -MAIN, 2],
    ]
    assert graph.mapping.columns.tolist() == ["rank", "pid", "tid", "label", "stack_index", "stack_root", "count"]


def test_without_a_range_the_step_calls_the_backward_thread(tmp_path: Path) -> None:
    a = analysis(tmp_path, *training(with_range=False))
    graph = CallGraph(a.t)
    assert frame_of(a).loc[5, ["parent", "depth"]].tolist() == [0, 1]
    assert graph.get_csg_of_node(5).get_parent(5) == 0
    assert 5 in graph.get_csg_of_node(0).get_children(0)


def test_with_two_backward_threads_none_is_called_by_the_main_one(tmp_path: Path) -> None:
    a = analysis(tmp_path, *training(), event("autograd::other", 125, 9, tid=30))
    graph = CallGraph(a.t)
    assert frame_of(a).loc[[5, 10], "parent"].tolist() == [-BACKWARD, -30]
    assert graph.mapping["stack_root"].tolist() == [-MAIN, -BACKWARD, -30]
    assert graph.mapping["count"].tolist() == [1, 1, 1]


def test_the_stack_of_an_event_has_its_callers_all_below_it_and_kernels(tmp_path: Path) -> None:
    a = analysis(tmp_path, *training())
    graph = CallGraph(a.t)
    assert graph.get_stack_of_node(8)["index"].tolist() == [0, 4, 5, 6, 7, 8]
    assert graph.get_stack_of_node(4)["index"].tolist() == [0, 4, 5, 6, 7, 8]
    assert graph.get_stack_of_node(5, skip_ancestors=True)["index"].tolist() == [5, 6, 7, 8]
    assert graph.get_stack_of_node(8, rank=0, skip_ancestors=True)["index"].tolist() == [8]


def test_stacks_of_a_rank_share_their_nodes(tmp_path: Path) -> None:
    a = analysis(tmp_path, *training())
    graph = CallGraph(a.t)
    main, backward = graph.call_stacks
    assert main.nodes is backward.nodes is graph.rank_to_nodes[0]
    assert graph.rank_to_stacks == {0: [main, backward]}
    assert main.nodes[8] == CallStackNode(7, 5, 0, DeviceType.GPU, [])
    assert main.nodes[4] == CallStackNode(0, 1, 4, DeviceType.CPU, [5])
    assert main.get_path_to_root(8) == [8, 7, 6, 5, 4, 0, -MAIN]
    assert main.get_leaf_nodes(4) == [7]
    assert main.get_leaf_nodes(4, include_gpu_kernel=True) == [8]
    assert main.get_paths_to_leaves(5, include_cuda_kernel=True) == [[5, 6, 7, 8]]
    assert main.get_descendants(0) == [1, 2, 4, 5, 6, 7]
    assert main.get_descendants(0, include_gpu_kernel=True) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_stacks_are_found_by_thread_and_place(tmp_path: Path) -> None:
    graph = CallGraph(analysis(tmp_path, *training()).t)
    assert [stack.identity for stack in graph.get_call_stacks(tid=BACKWARD)] == [CallStackIdentity(0, 1, BACKWARD)]
    assert [stack.identity.tid for stack in graph.get_call_stacks(stack_index=0)] == [MAIN]
    assert len(list(graph.get_call_stacks(rank=0))) == 2
    assert list(graph.get_call_stacks(rank=7)) == []
    assert graph.get_csg_of_node(8).identity.tid == BACKWARD
    assert graph.get_node_attributes(4)["num_kernels"] == 1
    assert graph.get_gpu_kernels()["index"].tolist() == [3, 8]


def test_what_is_not_there_is_a_value_error(tmp_path: Path) -> None:
    a = analysis(tmp_path, *training(), kernel("unlaunched", 150, 5, correlation=99))
    graph = CallGraph(a.t)
    with pytest.raises(ValueError, match="event 77 is not in rank 0"):
        graph.get_node_attributes(77)
    with pytest.raises(ValueError, match="event 10 of rank 0 is in no call stack"):
        graph.get_csg_of_node(10)
    with pytest.raises(ValueError, match="rank 3 is not in the graph"):
        graph.get_stack_of_node(0, rank=3)
    with pytest.raises(ValueError, match="No rank was found for the trace"):
        CallGraph(a.t, ranks=[5])


def test_rank_0_is_a_rank(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=[event(f"op{rank}", rank, 20)])
    trace = TraceAnalysis(trace_dir=str(tmp_path)).t
    graph = CallGraph(trace)
    trace.decode_symbol_ids()
    assert [graph.get_node_attributes(0, rank)["s_name"] for rank in (0, 1, None)] == ["op0", "op1", "op0"]
    assert CallGraph(trace, ranks=[1, 9]).ranks == [1]


def test_a_graph_is_made_from_a_frame_with_or_without_symbols(tmp_path: Path) -> None:
    a = analysis(tmp_path, *training())
    a.t.decode_symbol_ids()
    frame = frame_of(a)
    for symbols in (a.t.symbol_table, None):
        graph = CallGraph.from_dataframe(frame.copy(), symbols, rank=3)
        assert graph.mapping["label"].tolist() == ["main", "bwd"]
        assert graph.mapping["rank"].tolist() == [3, 3]
        assert graph.trace_data.get_trace(3)["parent"].tolist() == [-MAIN, 0, 1, 2, 0, 4, 5, 6, 7, -BACKWARD]


def test_bug_1_events_within_a_microsecond_do_not_stop_the_graph(tmp_path: Path) -> None:
    a = analysis(tmp_path, event("op", 0.5, 20.25), event("short", 5.2, 0.3), event("shorter", 5.25, 0.1))
    CallGraph(a.t)
    assert frame_of(a)["parent"].tolist() == [-1, 0, 1]


def test_bug_3_work_on_stream_0_is_below_its_launch(tmp_path: Path) -> None:
    a = analysis(tmp_path, event("op", 0, 20), launch(1, 5), kernel("k", 30, 5, stream=0))
    CallGraph(a.t)
    assert frame_of(a)["num_kernels"].tolist() == [1, 1, 1]


def test_bug_4_times_of_kernels_count_from_the_first_event(tmp_path: Path) -> None:
    a = analysis(tmp_path, event("op", 1_000_000, 20), launch(1, 1_000_005), kernel("k", 1_000_030, 5))
    CallGraph(a.t)
    assert frame_of(a).loc[0, KERNELS].tolist() == [1, 5, 5, 30, 35]


def test_bug_4b_a_second_graph_of_the_same_trace_has_the_same_columns(tmp_path: Path) -> None:
    filler = [event("op", 1000 * number, 900) for number in range(1, 200)]
    inner = [event("inner", 1000 * number + 1, 9) for number in range(1, 200)]
    a = analysis(tmp_path, *filler, *inner)
    CallGraph(a.t)
    first = frame_of(a).copy()
    CallGraph(a.t)
    pd.testing.assert_frame_equal(frame_of(a), first)
    assert first["parent"].tolist()[199:] == list(range(199))


def test_bug_20_all_kernels_of_a_graph_launch_are_below_it(tmp_path: Path) -> None:
    a = analysis(tmp_path, event("op", 0, 20), launch(1, 5), *(kernel(name, 30, 5) for name in "klm"))
    graph = CallGraph(a.t)
    assert frame_of(a)["num_kernels"].tolist() == [3, 3, 1, 1, 1]
    assert graph.call_stacks[0].get_children(1) == [2, 3, 4]


def test_ranges_on_the_device_are_in_no_stack(tmp_path: Path) -> None:
    on_device = event("range", 30, 9, cat="gpu_user_annotation", pid=1, tid=7)
    a = analysis(tmp_path, event("op", 0, 20), launch(1, 5), kernel("k", 30, 5), on_device)
    graph = CallGraph(a.t)
    assert graph.mapping["tid"].tolist() == [1]
    assert set(graph.call_stacks[0].nodes) == {-1, 0, 1, 2}
    assert frame_of(a).loc[3, ["parent", "depth", "height"]].tolist() == [-1, -1, -1]


def test_a_stack_alone_has_nodes_and_writes_columns() -> None:
    frame = pd.DataFrame({"index": [4, 5, 6], "ts": [0, 1, 30], "dur": [9, 3, 5], "pid": 1, "tid": 2})
    frame[["stream", "index_correlation"]] = -1
    correlation = pd.DataFrame({"cpu_index": [5], "gpu_index": [6]})
    whole = frame.copy()
    stack = CallStackGraph(frame[:2], CallStackIdentity(0, 1, 2), correlation, whole, TraceSymbolTable())
    assert stack.get_nodes() == {
        -2: CallStackNode(-1, -1, 3, DeviceType.CPU, [4]),
        4: CallStackNode(-2, 0, 2, DeviceType.CPU, [5]),
        5: CallStackNode(4, 1, 1, DeviceType.CPU, [6]),
        6: CallStackNode(5, 2, 0, DeviceType.GPU, []),
    }
    assert whole[["depth", "height", "parent"]].to_numpy().tolist() == [[0, 2, -2], [1, 1, 4], [2, 0, 5]]
    assert stack.get_depth().to_dict() == {4: 0, 5: 1, 6: 2}
    assert str(stack.get_depth().dtype) == "Int16"
    assert stack.get_root(6) == -2
    assert stack.get_parent(77) == -2
    assert stack.get_root(77) == -1


def test_an_event_can_call_what_nothing_called_in_another_stack() -> None:
    def thread(tid: int, *spans: tuple[int, int, int]) -> CallStackGraph:
        frame = pd.DataFrame(spans, columns=["index", "ts", "dur"])
        frame[["pid", "tid", "stream", "index_correlation"]] = (1, tid, -1, -1)
        none = pd.DataFrame({"cpu_index": [], "gpu_index": []})
        return CallStackGraph(frame, CallStackIdentity(0, 1, tid), none, frame, TraceSymbolTable(), nodes)

    nodes: dict[int, CallStackNode] = {}
    called = thread(2, (0, 5, 5), (1, 6, 2))
    caller = thread(3, (7, 0, 50))
    called.update_parent_of_first_layer_nodes(7)
    assert called.root_index == caller.root_index == called.get_root(1) == -3
    assert called.get_path_to_root(1) == [1, 0, 7, -3]
    assert [(nodes[idx].depth, nodes[idx].height) for idx in (-3, 7, 0, 1)] == [(-1, 4), (0, 3), (1, 2), (2, 1)]
    assert -2 not in nodes
    with pytest.raises(ValueError, match="event 77 is in no call stack"):
        caller.update_parent_of_first_layer_nodes(77)


def test_a_stack_fills_columns_that_are_absent_or_null_and_needs_no_thread_in_its_frame() -> None:
    frame = pd.DataFrame({"index": [0, 1], "ts": [0, 1], "dur": [9, 2], "stream": -1, "index_correlation": -1})
    whole = frame.assign(parent=pd.array([pd.NA, pd.NA], "Int64"))
    none = pd.DataFrame({"cpu_index": [], "gpu_index": []})
    CallStackGraph(frame.iloc[1:], CallStackIdentity(0, 1, 2), none, whole, TraceSymbolTable())
    assert whole[["depth", "height", "parent"]].to_numpy().tolist() == [[-1, -1, -1], [0, 1, -2]]


def test_a_thread_whose_number_is_longer_than_64_bits_has_the_root_of_those_without_one(tmp_path: Path) -> None:
    t = analysis(tmp_path, event("aten::add", 0, 5, tid=2**63), event("aten::mul", 10, 5, tid=7)).t
    CallGraph(t)
    assert t.get_trace(0)["parent"].tolist() == [-1, -7]


@needs_real_traces
@pytest.mark.parametrize("file", RECORDED)
def test_columns_and_nodes_of_recorded_traces_agree(file: str) -> None:
    trace = Trace({0: str(REAL_TRACES / file)})
    trace.load_traces()
    graph = CallGraph(trace)
    frame, nodes = trace.get_trace(0).set_index("index"), graph.rank_to_nodes[0]
    events = [idx for idx in nodes if idx >= 0]
    for column in ("parent", "depth", "height"):
        assert frame.loc[events, column].tolist() == [getattr(nodes[idx], column) for idx in events]
    launched = graph.get_gpu_kernels()
    assert frame.loc[frame["depth"] == 0, "num_kernels"].sum() == len(launched)
    assert frame.loc[frame["depth"] == 0, "kernel_dur_sum"].sum() == launched["dur"].sum()
