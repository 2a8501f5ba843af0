"""Work of an XLA device that goes on beside other work: what is counted of it, and when."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace import Job, PartialDataWarning
from xplane_files import Event, Line, Plane, space

US = 1_000_000  # in ps


def op(name: str, category: str, start: int, length: int, text: str = "", **stats: int) -> Event:
    return Event(text or f"%{name} = f32[8]", start * US, length * US, {"hlo_category": category, **stats}, name)


def drawn(folder: Path, ops: list[Event], spans: list[Event]) -> Job:
    lines = [Line("XLA Ops", ops, id=3), Line("Async XLA Ops", spans, id=4)]
    path = folder / "host.xplane.pb"
    path.write_bytes(space(Plane("/device:TPU:0", lines)))
    return holotrace.open(path)


GATHER_DONE = "%all-gather-done.7 = f32[8] all-gather-done((f32[8], f32[8]) %all-gather-start.2), calls=%region"
OPS = [
    op("all-gather-start.2", "all-gather-start", 0, 1),
    op("fusion.1", "loop fusion", 1, 6),
    op("all-gather-done.7", "all-gather-done", 7, 2, GATHER_DONE),
]
SPAN = op("all-gather-start.2", "all-gather", 0, 9)


def test_a_collective_beside_other_work_is_one_event_from_its_start_to_its_end(tmp_path: Path) -> None:
    events = drawn(tmp_path, OPS, [SPAN]).table("device_events").cast({pl.Categorical: pl.String})
    assert events.select("name", "kind", "start_ns", "end_ns").rows() == [
        ("fusion.1", "compute", 1_000, 7_000),
        ("all-gather-start.2", "communication", 0, 9_000),
    ]


def test_a_collective_beside_other_work_is_hidden_by_it(tmp_path: Path) -> None:
    assert drawn(tmp_path, OPS, [SPAN]).overlap()["hidden_ratio"].to_list() == [6 / 9]


def test_a_collective_whose_span_was_not_recorded_is_one_event_from_its_start_to_its_end(tmp_path: Path) -> None:
    measured = [op("all-gather-start.2", "all-gather-start", 0, 1, device_duration_ps=US), *OPS[1:]]
    job = drawn(tmp_path, measured, [])
    assert job.overlap()["hidden_ratio"].to_list() == [6 / 9]
    assert dict(job.kernels().select("name", "sum_ns").iter_rows()) == {"all-gather-start.2": 9_000, "fusion.1": 6_000}


def test_each_device_has_its_collectives_though_only_the_first_shows_their_spans(tmp_path: Path) -> None:
    path = tmp_path / "host.xplane.pb"
    first, second = ([Line("XLA Ops", OPS, id=3), Line("Async XLA Ops", spans, id=4)] for spans in ([SPAN], []))
    path.write_bytes(space(Plane("/device:TPU:0", first), Plane("/device:TPU:1", second)))
    events = holotrace.open(path).table("device_events").filter(pl.col("kind") == "communication")
    assert events.select("device", "start_ns", "end_ns").rows() == [(0, 0, 9_000), (1, 0, 9_000)]


def test_the_last_end_of_a_collective_that_began_before_the_recording_is_none(tmp_path: Path) -> None:
    again = [op("fusion.1", "loop fusion", 20, 3), op("all-gather-start.2", "all-gather-start", 23, 1)]
    events = drawn(tmp_path, [*OPS[1:], *again], []).table("device_events")
    assert events.select("start_ns", "end_ns").sort("start_ns").rows() == [
        (1_000, 7_000),
        (7_000, 9_000),
        (20_000, 23_000),
        (23_000, 24_000),
    ]


def test_a_collective_whose_end_was_lost_does_not_last_until_that_of_the_next(tmp_path: Path) -> None:
    again = [
        op("all-gather-start.2", "all-gather-start", 20, 1),
        op("fusion.1", "loop fusion", 21, 6),
        op("all-gather-done.7", "all-gather-done", 27, 2, GATHER_DONE),
    ]
    events = drawn(tmp_path, [*OPS[:2], *again], []).table("device_events").filter(pl.col("kind") == "communication")
    assert events.select("start_ns", "end_ns").rows() == [(20_000, 29_000)]


def test_a_copy_beside_other_work_counts_for_what_the_device_executes_of_it(tmp_path: Path) -> None:
    ops = [
        op("copy-start.1", "copy-start", 0, 1),
        op("fusion.1", "loop fusion", 1, 6),
        op("copy-done.1", "copy-done", 7, 2, "%copy-done.1 = f32[8] copy-done((f32[8], u32[]) %copy-start.1)"),
    ]
    kernels = drawn(tmp_path, ops, [op("copy-start.1", "copy-start", 0, 9)]).kernels()
    assert dict(kernels.select("name", "sum_ns").iter_rows()) == {
        "copy-start.1": 1_000,
        "fusion.1": 6_000,
        "copy-done.1": 2_000,
    }


def test_a_run_that_the_clock_of_the_host_cut_to_nothing_takes_what_the_device_measured(tmp_path: Path) -> None:
    ops = [
        op("fusion.1", "loop fusion", 0, 0, device_duration_ps=3 * US),
        op("fusion.1", "loop fusion", 5, 4, device_duration_ps=3 * US),
    ]
    job = drawn(tmp_path, ops, [])
    assert job.hlo_ops().select("op_count", "self_ns").row(0) == (2, 6_000)
    assert job.kernels().select("count", "sum_ns", "max_ns").row(0) == (2, 6_000, 3_000)


@pytest.mark.parametrize("measured", [2**63 - 1, 2**64 - 5])
def test_a_time_by_the_devices_clock_that_is_longer_than_any_recording_is_told(tmp_path: Path, measured: int) -> None:
    """Operations took minus 106 days by themselves."""
    ops = [
        op("while.1", "while", 0, 20),
        op("fusion.1", "loop fusion", 2, 8, device_duration_ps=measured),
    ]
    job = drawn(tmp_path, ops, [])
    with pytest.warns(PartialDataWarning):
        operations = job.hlo_ops()
    assert dict(operations.select("name", "self_ns").iter_rows()) == {"while.1": 12_000, "fusion.1": 8_000}
    assert operations["share_ratio"].to_list() == pytest.approx([0.6, 0.4])
    assert dict(job.problems().select("problem", "count").iter_rows())["duration over a week"] == 1


def test_a_loop_takes_for_itself_what_the_device_measured_beyond_the_operations_inside_it(tmp_path: Path) -> None:
    ops = [
        op("while.1", "while", 0, 20, device_duration_ps=10 * US),
        op("fusion.1", "loop fusion", 2, 8, device_duration_ps=4 * US),
        op("fusion.2", "loop fusion", 12, 0, device_duration_ps=3 * US),
    ]
    operations = drawn(tmp_path, ops, []).hlo_ops()
    assert dict(operations.select("name", "self_ns").iter_rows()) == {
        "while.1": 3_000,
        "fusion.1": 4_000,
        "fusion.2": 3_000,
    }


def test_a_collective_whose_end_takes_no_time_was_over_when_the_device_still_worked(tmp_path: Path) -> None:
    """What a device waited for before it came to that end was laid to both."""
    ops = [
        *OPS[:2],
        op("recv-done.1", "recv-done", 7, 5, "%recv-done.1 = f32[8] recv-done(%recv.1)"),
        op("all-gather-done.7", "all-gather-done", 12, 0, GATHER_DONE),
    ]
    events = drawn(tmp_path, ops, []).table("device_events").cast({pl.Categorical: pl.String})
    assert events.select("name", "start_ns", "end_ns").sort("name").rows() == [
        ("all-gather-start.2", 0, 7_000),
        ("fusion.1", 1_000, 7_000),
        ("recv-done.1", 7_000, 12_000),
    ]


ATTRIBUTES = (
    'is_host_transfer=true, frontend_attributes={_xla_host_transfer_rendezvous="psum.7_0",'
    '_xla_megascale_target="{1,2}x{0}",_xla_megascale_transfer_type="TYPE"}'
)


def exchange(start: int, own: int, over: int, transfer: str = "ALL_REDUCE") -> list[Event]:
    """A program that computes for so long, and what slices exchange of that until another time."""
    attributes, sent = ATTRIBUTES.replace("TYPE", transfer), start + own
    return [
        op("fusion.1", "loop fusion", start, own),
        op("send", "send", sent, 1, f"%send = (f32[8], u32[], token[]) send(f32[8] %fusion.1), {attributes}"),
        op("recv", "recv", sent + 1, 1, f"%recv = (f32[8], u32[], token[]) recv(token[] %after-all), {attributes}"),
        op("send-done", "send-done", sent + 2, 2, "%send-done = token[] send-done((f32[8], u32[], token[]) %send)"),
        op("recv-done", "recv-done", sent + 4, over - sent - 4, "%recv-done = (f32[8], token[]) recv-done(%recv)"),
    ]


def test_what_slices_exchange_is_one_event_from_its_send_to_the_end_of_receiving(tmp_path: Path) -> None:
    job = drawn(tmp_path, exchange(0, 10, 30), [])
    events = job.table("device_events").filter(pl.col("kind") == "communication").cast({pl.Categorical: pl.String})
    assert events.select("name", "start_ns", "end_ns").rows() == [("all-reduce (send)", 10_000, 30_000)]
    calls = job.table("collectives").cast({pl.Categorical: pl.String})
    assert calls.select("collective", "group_ranks").rows() == [("allreduce", "[[0,1]]")]


def test_what_passes_through_hosts_between_slices_is_communication_and_what_is_theirs_is_not(tmp_path: Path) -> None:
    """Profilers say "host recv-done" of both; devices were told to wait for a function of the host's."""
    through_hosts = [
        replace(each, stats={"hlo_category": f"host {each.display}"}) if each.display != "fusion.1" else each
        for each in exchange(0, 10, 30)
    ]
    text = "%recv-done.5 = (f32[8], token[]) recv-done(%recv.5), is_host_transfer=true"
    called = op("recv-done.5", "host recv-done", 40, 10, text)
    events = drawn(tmp_path, [*through_hosts, called], []).table("device_events").cast({pl.Categorical: pl.String})
    assert events.select("name", "kind", "end_ns").sort("end_ns").rows() == [
        ("fusion.1", "compute", 10_000),
        ("all-reduce (send)", "communication", 30_000),
        ("recv-done.5", "sync", 50_000),
    ]


def test_slices_exchange_several_things_side_by_side(tmp_path: Path) -> None:
    """In one queue each began when the one before was over, and the replay of a step was 11 % off."""

    def numbered(events: list[Event], number: int) -> list[Event]:
        texts = [each.name.replace("psum.7", f"psum.{number}") for each in events]
        texts = [re.sub(r"(%(?:send|recv)(?:-done)?)\b", rf"\1.{number}", text) for text in texts]
        names = [f"{each.display}.{number}" for each in events]
        return [replace(each, name=text, display=name) for each, text, name in zip(events, texts, names, strict=True)]

    _, *first = numbered(exchange(0, 10, 60), 1)
    work, *second = numbered(exchange(15, 10, 62), 2)
    events = drawn(tmp_path, sorted([*first, work, *second], key=lambda each: each.start_ps), []).table("device_events")
    exchanged = events.filter(pl.col("kind") == "communication").cast({pl.Categorical: pl.String})
    assert exchanged["stream"].n_unique() == 2
    assert exchanged.select("name", "start_ns", "end_ns").sort("name").rows() == [
        ("all-reduce (send.1)", 10_000, 60_000),
        ("all-reduce (send.2)", 25_000, 62_000),
    ]


def test_a_message_from_one_slice_to_another_is_no_exchange_of_all(tmp_path: Path) -> None:
    kernels = drawn(tmp_path, exchange(0, 10, 30, "ONE_TO_ONE"), []).kernels()
    assert set(kernels["name"]) == {"fusion.1", "send", "recv", "send-done", "recv-done"}


def test_a_slice_is_slow_whose_device_others_wait_for_where_they_receive(tmp_path: Path) -> None:
    """The wait was said to be an exposed transfer, and what the slow device costs a half of what it does."""
    for host, own in enumerate((1_000, 1_300)):
        starts = range(0, 8 * 1_340, 1_340)
        ops = [each for start in starts for each in exchange(start, own, start + 1_330)]
        runs = [Event("jit_step(7)", start * US, 1_330 * US, {"run_id": n}) for n, start in enumerate(starts)]
        lines = [Line("XLA Modules", runs, id=2), Line("XLA Ops", ops, id=3)]
        (tmp_path / f"host{host}.xplane.pb").write_bytes(space(Plane("/device:TPU:0", lines)))
    (row,) = holotrace.open(tmp_path).causes().to_dicts()
    assert (row["cause"], row["ranks"]) == ("slow-device", [1])
    assert row["cost_ns"] == pytest.approx(8 * 300_000)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("reduce-scatter-start.2", ""),
        ("async-start.2", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    ],
)
def test_a_collective_that_is_called_beside_others_is_told_by_its_own_name(
    name: str, text: str, tmp_path: Path
) -> None:
    """XLA wraps reductions that scatter in calls on GPUs: all of these were one collective, "async"."""
    stats: dict[str, str | int] = {"hlo_op": name, "hlo_category": "async-start", "hlo_module": "jit_f"}
    kernel = Event(
        text or "ncclKernel", 0, 5 * US, {**stats, "program_id": 1, "correlation_id": 1}, text or "ncclKernel"
    )
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(Plane("/device:GPU:0", [Line("Stream #20(Compute)", [kernel], id=20)])))
    collectives = holotrace.open(path).table("collectives").cast({pl.Categorical: pl.String})
    assert collectives["collective"].to_list() == ["reduce_scatter"]
