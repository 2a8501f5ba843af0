"""Critical paths: the graph, the path, what bounds it, its files and its overlay."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hta_traces import Event, analysis, event, kernel, launch, step

from hta.analyzers.critical_path_analysis import CPEdge, CPEdgeType, CPGraph, restore_cpgraph
from hta.configs.env_options import HTAEnvOptions
from hta.trace_analysis import TraceAnalysis
from trace_files import REAL_TRACES, needs_real_traces

TRACES = REAL_TRACES / "hta/tests/data/critical_path"
FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"


def path_of(a: TraceAnalysis, annotation: str = "", instance: Any = 0) -> CPGraph:
    """The graph of rank 0, which has a critical path."""
    found = a.critical_path_analysis(0, annotation, instance)
    assert found is not None
    graph, ok = found
    assert ok
    return graph


def simple_add() -> tuple[TraceAnalysis, CPGraph]:
    a = TraceAnalysis(trace_files={0: str(TRACES / "end_to_end/simple_add/input/trace.json.gz")})
    return a, path_of(a, FORWARD, 1)


def events_of(path: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(Path(path).read_bytes()))["traceEvents"]
    return events


# An operator launches a kernel, then waits for it; a second operator follows.
WAITING: list[Event] = [
    event("aten::add", 0, 30),
    launch(5, 10, 5),
    kernel("add_kernel", 20, 100, correlation=5),
    event("aten::item", 40, 90),
    event("cudaStreamSynchronize", 50, 75, cat="cuda_runtime", correlation=6),
    event("Stream Sync", 51, 73, cat="cuda_sync", pid=0, tid=7, stream=7, correlation=6),
    event("aten::mul", 200, 10),
]


def test_work_whose_launch_took_less_than_a_microsecond_is_in_the_graph_and_its_frame(tmp_path: Path) -> None:
    launches = [launch(number, 10.0 * number + 0.3, 0.5) for number in (1, 2)]
    kernels = [kernel("mm", 100.0 * number, 90, correlation=number) for number in (1, 2)]
    graph = path_of(analysis(tmp_path, event("aten::mm", 1.0, 50), *launches, *kernels))
    work = graph.full_trace_df.query("stream == 7")["index"].tolist()
    assert {node.ev_idx for node in graph.node_list} >= set(work)
    assert graph.trace_df.query("stream == 7")["index"].tolist() == work
    assert graph.full_trace_df.query("stream == -1 and correlation > 0")["dur"].tolist() == [0, 0]


def test_the_thread_of_autograd_goes_on_for_forwards_whatever_events_without_duration_are_called(
    tmp_path: Path,
) -> None:
    forward = event("forward", 0, 100)
    backward = event("autograd::engine::evaluate_function: MmBackward0", 120, 30, tid=2)
    graph = path_of(analysis(tmp_path, forward, backward, event("forward", 130, 0, tid=2)))
    edges = {(graph.node_list[begin].ev_idx, graph.node_list[end].ev_idx) for begin, end in graph.edges}
    assert (0, 1) in edges


def test_a_path_without_edges_is_bound_by_nothing(tmp_path: Path) -> None:
    graph = path_of(analysis(tmp_path, step(1, 0, 10), event("aten::add", 20, 5)), "ProfilerStep")
    assert graph.critical_path_nodes == []
    breakdown = graph.get_critical_path_breakdown()
    assert breakdown is not None
    assert breakdown.empty
    assert graph.summary().empty
    assert CPGraph(None, None, 0).get_critical_path_breakdown() is None


@needs_real_traces
def test_graph_and_path_of_a_recorded_step_are_htas() -> None:
    _, graph = simple_add()
    assert (len(graph.nodes), len(graph.edges), len(graph.node_list)) == (414, 415, 458)
    assert (len(graph.critical_path_nodes), len(graph.critical_path_events_set)) == (315, 159)
    breakdown = graph.get_critical_path_breakdown()
    assert breakdown is not None
    assert breakdown.groupby("bound_by")["duration"].sum().to_dict() == {
        "": 0,
        "cpu_bound": 241190,
        "gpu_compute_bound": 508,
        "gpu_kernel_kernel_overhead": 9,
        "gpu_kernel_launch_overhead": 17,
    }


@needs_real_traces
def test_an_overlay_has_the_events_and_arrows_that_hta_writes(tmp_path: Path) -> None:
    a, graph = simple_add()
    for only_critical, all_edges, event_count, arrow_count in ((True, False, 719, 21), (False, True, 2178, 415)):
        events = events_of(a.overlay_critical_path_analysis(0, graph, str(tmp_path), only_critical, all_edges))
        arrows = [found for found in events if found.get("cat") == "critical_path"]
        assert len(events) == event_count
        assert len(arrows) == 2 * arrow_count
        assert {found["ph"] for found in arrows} == {"s", "f"}
        marked = [found for found in events if found.get("args", {}).get("critical") == 1 and found["ph"] == "X"]
        assert len(marked) == 159
    assert sum(found["args"]["critical"] for found in arrows) == 2 * 314


@needs_real_traces
@pytest.mark.parametrize(
    ("file", "annotation", "nodes", "edges", "path", "syncs"),
    [
        ("cuda_event_sync/event_sync_trace.json.gz", "ProfilerStep", 54, 57, 40, 4),
        ("cuda_event_sync_multi_stream/event_sync_trace.json.gz", "", 78, 82, 59, 6),
    ],
)
def test_waiting_for_events_is_a_dependency(  # noqa: PLR0917
    file: str, annotation: str, nodes: int, edges: int, path: int, syncs: int
) -> None:
    graph = path_of(TraceAnalysis(trace_files={0: str(TRACES / file)}), annotation)
    assert (len(graph.nodes), len(graph.edges), len(graph.critical_path_nodes)) == (nodes, edges, path)
    kinds = [edge.type for _, _, edge in graph.edges(data="object")]
    assert kinds.count(CPEdgeType.SYNC_DEPENDENCY) == syncs


def waits_for_an_event(folder: Path) -> TraceAnalysis:
    """Work of stream 7, an event recorded behind it, and stream 7 waiting for that event."""
    wait = kernel("Stream Wait Event", 30, 1, correlation=3, cat="cuda_sync")
    wait["args"] |= {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2}
    return analysis(
        folder,
        event("aten::mm", 0, 40),
        launch(1, 10, 2),
        kernel("first", 20, 100, correlation=1),
        event("cudaEventRecord", 14, 2, cat="cuda_runtime", correlation=2),
        event("cudaStreamWaitEvent", 18, 2, cat="cuda_runtime", correlation=3),
        wait,
        launch(4, 17, 1),
        kernel("second", 121, 3, correlation=4),
        launch(5, 24, 2),
        kernel("third", 125, 10, correlation=5),
    )


def test_a_stream_that_waits_for_its_own_work_has_a_path(tmp_path: Path) -> None:
    graph = path_of(waits_for_an_event(tmp_path))
    kinds = [edge.type for _, _, edge in graph.edges(data="object")]
    assert kinds.count(CPEdgeType.SYNC_DEPENDENCY) == 1
    assert graph.critical_path_events_set >= {2, 7, 9}


def test_recorded_events_and_what_waits_for_them_are_told(tmp_path: Path) -> None:
    graph = path_of(waits_for_an_event(tmp_path))
    records, waits = graph._get_cuda_event_record_df(), graph._get_cuda_stream_wait_event_df()
    assert records is not None and waits is not None
    (record,), (wait,) = records.to_dict("records"), waits.to_dict("records")
    told = {"index": 3, "ts": 14, "stream": 7, "index_previous_launch": 1, "correlation_launch_event": 1}
    assert {name: record[name] for name in told} == told
    told = {"index": 4, "ts": 18, "stream": 7, "index_next_launch": 8, "correlation_next_launch": 5}
    assert {name: wait[name] for name in told} == told


def test_where_nothing_waits_for_events_none_are_told(tmp_path: Path) -> None:
    graph = path_of(analysis(tmp_path, *WAITING))
    for table in (graph._get_cuda_event_record_df(), graph._get_cuda_stream_wait_event_df()):
        assert table is not None and table.empty and {"ts", "stream", "correlation"} <= set(table.columns)
    assert CPGraph()._get_cuda_event_record_df() is None


def test_edges_of_ones_own_change_the_path(tmp_path: Path) -> None:
    graph = path_of(analysis(tmp_path, *WAITING))
    assert graph._validate_graph()
    before, kernel_start = graph.number_of_edges(), graph.get_nodes_for_event(2)[0]
    assert kernel_start is not None
    graph._add_gpu_cpu_sync_edge(kernel_start, 99)
    assert not graph._add_kernel_launch_delay_edge(99, kernel_start)
    assert graph.number_of_edges() == before
    # As if the kernel had to wait for the first operator's start, and the last operator for the kernel's.
    assert graph._add_kernel_launch_delay_edge(0, kernel_start)
    graph._add_gpu_cpu_sync_edge(kernel_start, 6)
    first, last = graph.get_nodes_for_event(0)[0], graph.get_nodes_for_event(6)[1]
    assert first is not None and last is not None
    assert graph.edges[first.idx, kernel_start.idx]["weight"] == kernel_start.ts - first.ts
    sync = graph.edges[kernel_start.idx, last.idx]["object"]
    assert sync == CPEdge(kernel_start.idx, last.idx, CPEdgeType.SYNC_DEPENDENCY, 0)
    assert graph.critical_path() and graph._validate_graph()
    graph.edges[first.idx, kernel_start.idx]["weight"] += 1
    assert graph.critical_path()
    # No longer through the launch.
    assert graph.critical_path_nodes[:2] == [first.idx, kernel_start.idx]
    graph.add_edge(last.idx, first.idx, weight=1, object=CPEdge(last.idx, first.idx, CPEdgeType.DEPENDENCY, 1))
    assert not graph._validate_graph()


def test_edges_belong_to_the_event_they_are_time_of(tmp_path: Path) -> None:
    graph = path_of(analysis(tmp_path, *WAITING))
    (work,) = graph.get_edges_attributed_to_event(2)
    after = CPEdge(work.end, work.begin, CPEdgeType.OPERATOR_KERNEL, 1)
    graph._attribute_edge(after, 0)
    assert graph.get_event_attribution_for_edge(after) == 0
    with pytest.raises(AssertionError, match="the event that both are in"):
        graph._attribute_edge(after, None)
    unowned = CPEdge(work.end, work.begin + 1, CPEdgeType.DEPENDENCY, 0)
    graph._attribute_edge(unowned, 0)
    assert graph.get_event_attribution_for_edge(unowned) is None
    assert [graph._get_node_name(event) for event in (2, -1)] == ["add_kernel", "ROOT"]


def test_a_path_leads_through_the_work_the_host_waits_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = path_of(analysis(tmp_path, *WAITING))
    breakdown = graph.get_critical_path_breakdown()
    assert breakdown is not None
    assert breakdown["duration"].tolist() == [10, 10, 100, 0, 5, 0, 10]
    assert breakdown["type"].tolist() == [
        "critical_path_operator",
        "critical_path_kernel_launch_delay",
        "critical_path_operator",
        "critical_path_sync_dependency",
        "critical_path_operator",
        "critical_path_dependency",
        "critical_path_operator",
    ]
    assert breakdown["s_name"].fillna("").tolist() == ["aten::add", "", "add_kernel", "", "aten::item", "", "aten::mul"]
    summary = graph.summary()
    assert capsys.readouterr().out == "Critical Path broken down by boundedness = (in % of duration)\n"
    assert summary.name == "duration"
    assert summary.sum() == pytest.approx(100)
    assert summary["gpu_compute_bound"] == pytest.approx(100 * 100 / 135)


def test_a_changed_weight_changes_the_path(tmp_path: Path) -> None:
    graph = path_of(analysis(tmp_path, *WAITING))
    (work,) = graph.get_edges_attributed_to_event(2)
    assert work == CPEdge(work.begin, work.end, CPEdgeType.OPERATOR_KERNEL, 100)
    before = graph.critical_path_nodes
    assert graph.critical_path() and graph.critical_path_nodes == before
    graph.edges[work.begin, work.end]["weight"] = 1
    assert graph.critical_path()
    # Without the kernel the host is busy for longer: 30 + 10 + 5 + 10.
    assert nx.path_weight(graph, graph.critical_path_nodes, "weight") == 55
    graph.edges[work.begin, work.end]["weight"] = -5
    assert graph.critical_path()
    assert graph.edges[work.begin, work.end]["weight"] == 0


def test_nodes_and_edges_of_an_event_are_found(tmp_path: Path) -> None:
    graph = path_of(analysis(tmp_path, *WAITING))
    start, end = graph.get_nodes_for_event(0)
    assert start is not None and end is not None
    assert (start.ts, start.is_start, end.ts, end.is_start) == (0, True, 30, False)
    assert graph.get_nodes_for_event(99) == (None, None)
    assert graph.get_edges_attributed_to_event(99) == []
    sync = graph.get_nodes_for_event(4)[0]
    assert sync is not None and sync.is_blocking
    (work,) = graph.get_edges_attributed_to_event(2)
    assert graph.get_events_for_edge(work) == (2, 2)
    assert graph.get_event_attribution_for_edge(work) == 2


def test_it_is_a_networkx_graph(tmp_path: Path) -> None:
    graph = path_of(analysis(tmp_path, *WAITING))
    assert nx.is_directed_acyclic_graph(graph)
    assert sorted(graph.copy().edges) == sorted(graph.edges)
    assert len(graph.subgraph(graph.critical_path_nodes)) == 8
    assert graph.reverse().number_of_edges() == graph.number_of_edges()


@pytest.mark.parametrize(
    ("annotation", "instance"), [("nowhere", 0), ("aten::add", 7), ("aten::add", -1), ("aten::add", [0, 1])]
)
def test_bug_8_a_step_that_is_not_there_has_no_path(tmp_path: Path, annotation: str, instance: Any) -> None:
    assert analysis(tmp_path, *WAITING).critical_path_analysis(0, annotation, instance) is None


def test_several_instances_are_one_window(tmp_path: Path) -> None:
    graph = path_of(analysis(tmp_path, *WAITING), "aten::", (1, 2))
    assert graph.trace_df["index"].tolist() == [3, 4, 5, 6]


def test_of_a_range_of_instances_those_that_are_there_count(tmp_path: Path) -> None:
    a = analysis(tmp_path, *WAITING)
    assert path_of(a, "aten::", (1, 99)).trace_df["index"].tolist() == [3, 4, 5, 6]
    assert a.critical_path_analysis(0, "aten::", (99, 100)) is None


def test_bug_20_all_kernels_of_a_graph_launch_are_there(tmp_path: Path) -> None:
    graph_launch = event("cudaGraphLaunch", 0, 10, cat="cuda_runtime", correlation=5)
    annotation = event("annotation", 0, 1, cat="user_annotation")
    kernels = [kernel(name, ts, 10, correlation=5) for name, ts in (("a", 20), ("b", 32), ("c", 44))]
    graph = path_of(analysis(tmp_path, annotation, graph_launch, *kernels))
    breakdown = graph.get_critical_path_breakdown()
    assert breakdown is not None
    assert breakdown["duration"].tolist() == [20, 10, 2, 10, 2, 10]


def test_bug_27_calls_that_overlap_in_part_end_when_they_end(tmp_path: Path) -> None:
    calls = [event("outer", 0, 100), event("a", 10, 20), event("b", 20, 30)]
    breakdown = path_of(analysis(tmp_path, *calls)).get_critical_path_breakdown()
    assert breakdown is not None
    assert breakdown["duration"].tolist() == [10, 10, 10, 20, 50]


def test_launches_without_weight_are_drawn_where_asked_for(tmp_path: Path) -> None:
    late = [
        event("annotation", 0, 1, cat="user_annotation"),
        launch(1, 0),
        kernel("a", 10, 50),
        launch(2, 20),
        kernel("b", 65, 10, correlation=2),
    ]
    a = analysis(tmp_path, *late)

    def launches() -> list[int]:
        edges = [edge for _, _, edge in path_of(a).edges(data="object")]
        return [edge.weight for edge in edges if edge.type is CPEdgeType.KERNEL_LAUNCH_DELAY]

    assert launches() == [10]
    options = HTAEnvOptions.instance()
    options.set_critical_path_add_zero_weight_launch_edges(True)
    try:
        assert launches() == [10, 0]
    finally:
        options.set_critical_path_add_zero_weight_launch_edges(False)


def test_data_loading_has_nodes_where_it_is_named(tmp_path: Path) -> None:
    a = analysis(tmp_path, event("next_batch", 0, 50, cat="user_annotation"), event("aten::add", 60, 5))
    found = a.critical_path_analysis(0, "", 0, data_load_events=["next_batch"])
    assert found is not None
    assert found[0].summary()["data_loading"] == pytest.approx(100 * 50 / 55)
    assert path_of(a).number_of_nodes() == 2


def test_a_saved_graph_comes_back(tmp_path: Path) -> None:
    a = analysis(tmp_path / "trace", *WAITING)
    graph = path_of(a, "aten::item")
    restored = restore_cpgraph(graph.save(str(tmp_path / "saved")), a.t, 0)
    assert restored.critical_path_nodes == graph.critical_path_nodes
    assert restored.node_list == graph.node_list
    assert restored.summary().equals(graph.summary())
    assert restored.trace_df.equals(graph.trace_df)


def test_a_zip_file_of_others_is_refused(tmp_path: Path) -> None:
    a = analysis(tmp_path / "trace", *WAITING)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as packed:
        packed.writestr("cp_graph.pkl", b"")
    with pytest.raises(ValueError, match=r"holds no trace_data\.csv"):
        restore_cpgraph(str(tmp_path / "other.zip"), a.t, 0)


def test_an_overlay_needs_a_folder(tmp_path: Path) -> None:
    a = analysis(tmp_path, *WAITING)
    (tmp_path / "file").write_text("")
    assert a.overlay_critical_path_analysis(0, path_of(a), str(tmp_path / "file")) == ""


def test_an_overlay_marks_events_that_have_no_args(tmp_path: Path) -> None:
    bare = [{key: value for key, value in found.items() if key != "args"} for found in WAITING[:1]]
    a = analysis(tmp_path, *bare, event("aten::add", 50, 5, tid="worker"))
    written = Path(a.overlay_critical_path_analysis(0, path_of(a), str(tmp_path / "out")))
    (shown,) = json.loads(written.read_text())["traceEvents"]
    assert shown["args"] == {"critical": 1}


def test_arrows_of_events_that_the_trace_lacks_are_left_out(tmp_path: Path) -> None:
    a = analysis(tmp_path, *WAITING)
    graph, drawn = path_of(a), []
    for rows in (7, 6):
        a.t.traces[0] = a.t.get_trace(0).head(rows)
        written = Path(a.overlay_critical_path_analysis(0, graph, str(tmp_path / "out"), False, True))
        events = json.loads(written.read_text())["traceEvents"]
        drawn.append({found["ts"] for found in events if found.get("cat") == "critical_path"})
    # The last operator runs from 200 to 210.
    assert drawn[0] - drawn[1] == {200, 210} and drawn[1] < drawn[0]


def test_hidden_events_that_are_written_as_begin_and_end_are_hidden_whole(tmp_path: Path) -> None:
    pairs: list[Event] = [
        {"ph": phase, "name": name, "cat": "cpu_op", "pid": 1, "tid": tid, "ts": ts}
        for name, tid, start, end in (("aten::hidden", 6, 0, 3), ("aten::shown", 5, 10, 90))
        for phase, ts in (("B", start), ("E", end))
    ]
    a = analysis(tmp_path, *pairs, event("aten::too", 120, 5, tid=5))
    written = Path(a.overlay_critical_path_analysis(0, path_of(a), str(tmp_path / "out"), True))
    events = json.loads(written.read_text())["traceEvents"]
    assert [(found["ph"], found["name"]) for found in events if found["ph"] in "BEX"] == [
        ("B", "aten::shown"),
        ("E", "aten::shown"),
        ("X", "aten::too"),
    ]
