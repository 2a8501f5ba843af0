"""Jobs without accelerators: operators that compute on the host are its work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.core.native import native
from holotrace.core.tables import ALL, COLLECTIVES, DEVICE_EVENTS, LAUNCHES
from holotrace.loading.rank import load
from trace_files import write_trace

Event = dict[str, Any]


def span(name: str, start: float, end: float, *, category: str = "cpu_op", tid: int = 1, **args: Any) -> Event:
    place = {"ph": "X", "cat": category, "pid": 1, "tid": tid}
    return {**place, "name": name, "ts": start, "dur": end - start, "args": args}


def job(folder: Path, *events: Event, **metadata: Any) -> holotrace.Job:
    write_trace(folder / "rank-0.json", rank=0, backend="gloo", events=list(events), **metadata)
    return holotrace.open(folder)


def work(made: holotrace.Job) -> list[tuple[Any, ...]]:
    """What ran: name, and start and end in microseconds."""
    table = made.table("device_events").sort("start_ns", "event_id")
    return [(name, start / 1_000, end / 1_000) for name, start, end in table["name", "start_ns", "end_ns"].rows()]


LINEAR = (
    span("aten::linear", 0, 100),
    span("aten::t", 2, 5),
    span("aten::transpose", 3, 4),
    span("aten::addmm", 10, 95),
    span("aten::expand", 11, 12),
    span("aten::copy_", 12, 15),
)


def test_the_outermost_operator_whose_time_is_mostly_its_own_is_the_work(tmp_path: Path) -> None:
    made = job(tmp_path, *LINEAR)
    assert work(made) == [("aten::addmm", 10, 95)]
    row = made.table("device_events").row(0, named=True)
    # It is no event of the file, and the operator is what launched it.
    assert (row["event_id"], row["launch_id"], row["launch_ns"]) == (6, 3, 10_000)
    assert (row["kind"], row["device"], row["stream"]) == ("compute", 0, 0)
    assert made.table("events").height == 6
    assert made.info()["event_count"].to_list() == [6]
    assert made.info()["device"].to_list() == ["CPU"]
    assert made.info()["span_ns"].to_list() == [85_000]


def test_an_operator_is_the_work_in_each_of_its_calls_though_what_it_calls_is_interrupted_in_one(
    tmp_path: Path,
) -> None:
    """Of equal calls one was the copy that it begins with, so that equal steps had unequal FLOPs."""
    products = [
        event
        for at, copied in ((0, 3), (1_000, 80), (2_000, 3))
        for event in (span("aten::addmm", at, at + 100), span("aten::copy_", at + 12, at + 12 + copied))
    ]
    made = job(tmp_path, *products)
    assert work(made) == [("aten::addmm", at, at + 100) for at in (0, 1_000, 2_000)]


def test_a_call_of_nothing_else_is_work_though_others_of_its_name_are_not(tmp_path: Path) -> None:
    outer = [
        span("aten::matmul", 0, 100),
        span("aten::mm", 2, 99),
        span("aten::matmul", 200, 300),
        span("aten::mm", 202, 299),
    ]
    assert work(job(tmp_path, *outer, span("aten::matmul", 400, 410))) == [
        ("aten::mm", 2, 99),
        ("aten::mm", 202, 299),
        ("aten::matmul", 400, 410),
    ]


def test_views_wrappers_and_nodes_of_the_backward_pass_compute_nothing_themselves(tmp_path: Path) -> None:
    node = "autograd::engine::evaluate_function: MmBackward0"
    made = job(
        tmp_path,
        span(node, 0, 100),
        span("MmBackward0", 2, 98),
        span("aten::mm", 50, 60),
        span("aten::as_strided", 110, 140),
        span("aten::reshape", 150, 200),
        span("aten::clone", 160, 199),
        span("c10d::allreduce_", 210, 260),
        # The results of functional collectives wait in whatever needs them.
        span("aten::add", 300, 400),
        span("PythonSubclass", 301, 399),
        span("_c10d_functional::wait_tensor", 310, 390),
    )
    assert work(made) == [("aten::mm", 50, 60), ("aten::clone", 160, 199)]


def test_recurrent_networks_that_ask_for_an_accelerator_compute_on_their_host(tmp_path: Path) -> None:
    """The report of every LSTM on a CPU was empty."""
    made = job(
        tmp_path,
        span("aten::lstm", 0, 100),
        span("aten::cudnn_is_acceptable", 1, 11),
        span("aten::mkldnn_rnn_layer", 12, 98),
    )
    assert work(made) == [("aten::mkldnn_rnn_layer", 12, 98)]


def test_what_a_loader_does_is_no_work_of_the_step(tmp_path: Path) -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    made = job(tmp_path, span(loader, 0, 100), span("aten::stack", 10, 90), span("aten::mm", 110, 120))
    assert work(made) == [("aten::mm", 110, 120)]


def test_compiled_code_computes_between_the_operators_that_it_calls(tmp_path: Path) -> None:
    made = job(
        tmp_path,
        span("Torch-Compiled Region: 0/0", 0, 120),
        span("CompiledFunction", 5, 110),
        span("## Call CompiledFxGraph fabc ##", 10, 100, category="user_annotation"),
        span("aten::mm", 30, 60),
        span("aten::mm", 61, 80),
    )
    graph = "## Call CompiledFxGraph fabc ##"
    # The microsecond between two products is calling the second.
    assert work(made) == [(graph, 10, 30), ("aten::mm", 30, 60), ("aten::mm", 61, 80), (graph, 80, 100)]
    launches = made.table("device_events").sort("start_ns")["launch_id"].to_list()
    assert launches == [1, 3, 4, 1]


EXCHANGE: dict[str, Any] = {"Input Dims": [[4, 8], [3]], "Input type": ["float", "float"]}


def test_an_exchange_is_communication_that_an_operator_asked_for(tmp_path: Path) -> None:
    made = job(
        tmp_path,
        span("aten::mm", 0, 100),
        span("c10d::allreduce_", 100, 105),
        span("c10d::_allgather_base_", 106, 109),
        span("c10d::_reduce_scatter_base_", 110, 115),
        span("gloo:all_reduce", 107, 150, category="user_annotation", tid=2, **EXCHANGE),
        span("gloo:all_gather", 108, 160, category="user_annotation", tid=3, **EXCHANGE),
        # Some operations of a backend are done by others.
        span("gloo:all_reduce", 150, 170, category="user_annotation", tid=2, **EXCHANGE),
    )
    table = made.table("device_events").filter(pl.col("kind") == "communication").sort("start_ns")
    assert table["stream", "launch_id"].rows() == [(1, 1), (2, 2), (1, 3)]
    known = made.table("collectives").sort("start_ns")
    assert known["collective"].to_list() == ["allreduce", "allgather", "allreduce"]
    assert known["in_elements"].to_list() == [35, 35, 35]
    assert known["element_type"].to_list() == ["float"] * 3
    assert made.table("launches").height == 4


def test_an_operator_computes_between_those_that_it_calls(tmp_path: Path) -> None:
    """What the backward pass of an embedding did itself, two fifths of its time, was told as pauses of its process."""
    backward = [
        span("aten::_embedding_bag_dense_backward", 0, 1_000),
        span("aten::fill_", 10, 600),
        # Less than this is calling others.
        span("aten::sort", 900, 930),
    ]
    made = job(tmp_path, *backward)
    own = "aten::_embedding_bag_dense_backward"
    assert work(made) == [("aten::fill_", 10, 600), (own, 600, 900), ("aten::sort", 900, 930)]
    launched = made.table("device_events").filter(pl.col("name").cast(pl.String) == own)["launch_id"]
    assert launched.to_list() == [0]


def test_an_operator_that_python_carries_out_computes_in_others(tmp_path: Path) -> None:
    """Operators on distributed tensors seemed to compute while Python found out what to do on this rank."""
    dispatch = span("torch/distributed/tensor/_dispatch.py(152): dispatch", 10, 900, category="python_function")
    local = span("aten::mul_", 700, 760)
    assert work(job(tmp_path, span("aten::mul_", 0, 1_000), dispatch, local)) == [("aten::mul_", 700, 760)]


def test_a_thread_computes_beside_the_messages_that_it_sends_and_receives_itself(tmp_path: Path) -> None:
    """The first stage of a pipeline lacked a micro-batch in each step, so that the last one was called slow."""
    made = job(
        tmp_path,
        span("c10d::send", 0, 5),
        span("gloo:send", 5, 100, category="user_annotation", **EXCHANGE),
        span("aten::mm", 10, 60),
        span("c10d::recv_", 100, 101),
        span("gloo:send", 102, 150, category="user_annotation", **EXCHANGE),
        span("gloo:recv", 103, 151, category="user_annotation", **EXCHANGE),
        # A thread of a backend asks for nothing: what it computes is a part of the exchange.
        span("gloo:all_reduce", 20, 90, category="user_annotation", tid=2, **EXCHANGE),
        span("aten::add", 30, 40, tid=2),
    )
    assert [name for name, *_ in work(made)] == ["gloo:send", "aten::mm", "gloo:all_reduce", "gloo:send", "gloo:recv"]
    streams = dict(made.table("device_events").select(pl.col("name").cast(pl.String), "stream").iter_rows())
    assert len({*streams.values()}) == 4


@pytest.mark.parametrize(("group_count", "peers"), [(1, [3, 5]), (2, [None, None]), (12, [None, None])])
def test_messages_tell_their_other_end_where_ranks_have_one_group(
    tmp_path: Path, group_count: int, peers: list[int | None]
) -> None:
    """The slow stage of a pipeline on hosts was not named."""
    sent: dict[str, Any] = {"Concrete Inputs": ["", "", "3", "0"]}
    received: dict[str, Any] = {"Concrete Inputs": ["", "", "5", "0"]}
    events = [
        *LINEAR,
        span("c10d::send", 100, 105, **sent),
        span("gloo:send", 106, 150, category="user_annotation", tid=2, **EXCHANGE),
        span("c10d::recv_", 151, 152, **received),
        span("gloo:recv", 153, 180, category="user_annotation", tid=2, **EXCHANGE),
    ]
    info = {"backend": "gloo", "rank": 4, "world_size": 8, "pg_count": group_count}
    write_trace(tmp_path / "rank-4.json", events=events, distributedInfo=info)
    known = holotrace.open(tmp_path).table("collectives").sort("start_ns")
    assert known["destination_rank"].to_list() == [peers[0], None]
    assert known["source_rank"].to_list() == [None, peers[1]]


@pytest.mark.parametrize(
    ("told", "args", "over"),
    [
        # The backend's thread was kept from a CPU: the one that waited went on before.
        (220, {}, 200),
        # The recording ended before the backend's thread could say that it was over.
        (900, {"finished": False}, 200),
        # What it does later need not be because of this.
        (400, {}, 400),
    ],
)
def test_an_exchange_is_over_when_the_thread_that_waits_for_it_goes_on(
    tmp_path: Path, told: int, args: dict[str, Any], over: int
) -> None:
    made = job(
        tmp_path,
        span("aten::mm", 0, 50),
        span("FSDP::wait", 40, 210, category="user_annotation"),
        span("c10d::allreduce_", 50, 55),
        span("gloo:all_reduce", 56, told, category="user_annotation", tid=2, **args),
        span("aten::div_", 200, 205),
        span("aten::mm", 210, 390),
    )
    assert ("gloo:all_reduce", 56, over) in work(made)


def test_a_thread_that_waits_for_two_exchanges_goes_on_in_between(tmp_path: Path) -> None:
    """Of two buckets that waited for the same rank the second was over with the first, which moved clocks by a step."""
    made = job(
        tmp_path,
        span("c10d::allreduce_", 0, 50),
        span("aten::mm", 50, 4_900),
        span("c10d::allreduce_", 4_950, 5_000),
        span("gloo:all_reduce", 5_100, 92_600, category="user_annotation", tid=2),
        span("gloo:all_reduce", 5_200, 97_700, category="user_annotation", tid=3),
        span("aten::copy_", 92_700, 94_000),
        span("aten::div_", 97_750, 99_000),
    )
    ends = [end for name, _, end in work(made) if name == "gloo:all_reduce"]
    assert ends == [92_600, 97_700]


ACCELERATED = [
    (span("cudaLaunchKernel", 20, 25, category="cuda_runtime"), {}),
    (span("aten::cudnn_convolution", 200, 300), {}),
    (span("nccl:all_reduce", 200, 300, category="user_annotation"), {}),
    (span("aten::pin_memory", 200, 300), {}),
    (span("ampere_gemm", 200, 300, category="kernel"), {}),
    # A profiler that watches a device records calls of its runtime, if only to ask for their number.
    (span("aten::mm", 200, 300), {"deviceProperties": [{"id": 0, "name": "NVIDIA A100"}]}),
]


@pytest.mark.parametrize(("event", "metadata"), ACCELERATED)
def test_operators_of_a_device_that_was_not_recorded_do_not_compute(
    tmp_path: Path, event: Event, metadata: dict[str, Any]
) -> None:
    made = job(tmp_path, *LINEAR, event, **metadata)
    assert "aten::addmm" not in made.table("device_events")["name"].to_list()


def test_a_machine_with_a_device_that_the_job_does_not_use_computes_itself(tmp_path: Path) -> None:
    asked = span("cudaGetDeviceCount", 200, 201, category="cuda_runtime")
    made = job(tmp_path, *LINEAR, asked, deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}])
    assert work(made) == [("aten::addmm", 10, 95)]
    # No peak of a device is one of the CPU.
    assert made.info()["device", "peak_tflops"].rows() == [("CPU", None)]


@pytest.mark.parametrize("table", [DEVICE_EVENTS, LAUNCHES, COLLECTIVES])
def test_it_is_told_alike_whatever_else_is_asked_for(tmp_path: Path, table: Any) -> None:
    job(
        tmp_path,
        *LINEAR,
        {**span("c10d::allreduce_", 100, 105), "args": {"External id": 9}},
        span("gloo:all_reduce", 106, 150, category="user_annotation", tid=2, **EXCHANGE),
        span("train.py(3): step", 0, 149, category="python_function"),
        {**span("aten::mm", 150, 160), "args": {"External id": 7}},
    )
    alone = holotrace.open(tmp_path).table(table.name)
    with_all = holotrace.open(tmp_path).map(_everything, reads=ALL)[0][table.name]
    assert alone.drop("rank").equals(with_all[alone.drop("rank").columns])


def _everything(rank: Any) -> dict[str, pl.DataFrame]:
    return {name: rank.tables[name] for name in (DEVICE_EVENTS.name, LAUNCHES.name, COLLECTIVES.name)}


def test_operators_have_their_own_work_and_its_operations(tmp_path: Path) -> None:
    dims: dict[str, Any] = {
        "Input Dims": [[1024], [64, 512], [512, 1024], [], []],
        "Input type": ["float"] * 3 + ["Scalar"] * 2,
    }
    dims["Concrete Inputs"] = ["", "", "", "1", "1"]
    linear = [{**event, "args": dims} if event["name"] == "aten::addmm" else event for event in LINEAR]
    made = job(tmp_path, *linear)
    by_name = {row["name"]: row for row in made.operators().iter_rows(named=True)}
    assert by_name["aten::addmm"]["self_work_ns"] == by_name["aten::linear"]["work_ns"] == 85_000
    assert by_name["aten::linear"]["self_work_ns"] == 0
    (row,) = made.operator_efficiency().rows(named=True)
    assert (row["name"], row["flops"]) == ("aten::addmm", 2 * 64 * 512 * 1024)
    assert row["peak_tflops"] is None
    # Whatever was asked before.
    assert made.efficiency()["reason"].to_list() == holotrace.open(tmp_path).efficiency()["reason"].to_list()
    assert made.launch_stats().is_empty()
    assert made.queue_length().is_empty()


def test_the_tree_of_calls_has_its_work_below_the_operator(tmp_path: Path) -> None:
    calls = job(tmp_path, *LINEAR).table("calls")
    assert calls.filter("on_device")["name", "parent_id", "work_ns"].rows() == [("aten::addmm", 3, 85_000)]
    assert calls.filter(pl.col("name") == "aten::linear")["work_ns"].to_list() == [85_000]


def test_sizes_of_exchanges_are_read_whatever_else_is_asked_for(tmp_path: Path) -> None:
    made = job(
        tmp_path,
        *LINEAR,
        span("c10d::allreduce_", 100, 105),
        span("gloo:all_reduce", 106, 150, category="user_annotation", tid=2, **EXCHANGE),
    )
    names = ("device_events", "cpu_ops", "annotations", "runtime_calls", "python_calls")
    bare = [table.only("event_id") for table in ALL if table.name in names]
    rank = load(made.sources[0], [*bare, COLLECTIVES.only("event_id", "in_elements")])
    assert rank.tables[COLLECTIVES.name]["in_elements"].to_list() == [35]


@pytest.mark.parametrize(
    "events",
    [
        (*LINEAR, span("ampere_gemm", 0, 1, category="kernel")),
        (span("train.py(3): step", 0, 1, category="python_function"),),
        LINEAR,
    ],
)
def test_a_file_of_which_everything_is_asked_is_read_once(
    tmp_path: Path, events: tuple[Event, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_trace(tmp_path / "rank-0.json", rank=0, events=list(events))
    (source,) = holotrace.open(tmp_path).sources
    readings: list[Any] = []
    original = native.read_trace_event

    def counted(*args: Any, **options: Any) -> Any:
        readings.append(args)
        return original(*args, **options)

    monkeypatch.setattr(native, "read_trace_event", counted)
    load(source, ALL)
    assert len(readings) == 1
