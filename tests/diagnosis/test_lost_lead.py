"""A host that waits for its device launches too late afterwards: that is what the wait costs, and not its speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

import holotrace
from trace_files import write_trace

LAUNCH_US, LAYER = 40, 12


def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


def steps(folder: Path, kernels_us: list[int], *, reads: bool) -> pl.DataFrame:
    """The causes of steps of layers, each of kernels that take so long, and whose result is read or not.

    Every launch takes the host LAUNCH_US. A read waits until the device has done all, and all times follow from that.
    """
    events, host, device, correlation = [], 0, 0, 0
    for step in range(4):
        begin = host
        for layer in range(LAYER):
            for kernel_us in kernels_us:
                correlation += 1
                begun = max(device, host + 10)
                events += [
                    event("cuda_runtime", "cudaLaunchKernel", host, 9, correlation=correlation),
                    event("kernel", f"layer{layer}", begun, kernel_us, correlation=correlation, stream=7, device=0),
                ]
                host, device = host + LAUNCH_US, begun + kernel_us
            if reads:
                until = max(host, device) + 5
                events += [
                    event("python_function", "train.py(7): check", host - 2, until - host + 4),
                    event("cpu_op", "aten::item", host - 1, until - host + 2),
                    event("cpu_op", "aten::_local_scalar_dense", host, until - host),
                    event("cuda_runtime", "cudaStreamSynchronize", host + 1, until - host - 1),
                ]
                host = until + 3
        events.append(event("user_annotation", f"ProfilerStep#{step}", begin, host - begin))
    write_trace(folder / "rank-0.json", events=events)
    return holotrace.open(folder).causes()


# The host launches a layer in 240 us, and its device takes 390 us for it: unless it waits, the host is far ahead.
FAST_HOST = [5, 5, 5, 5, 5, 365]


def test_launching_too_late_after_a_read_is_what_the_read_costs_and_its_line_is_named(tmp_path: Path) -> None:
    (found,) = steps(tmp_path, FAST_HOST, reads=True).to_dicts()
    assert (found["cause"], found["responsible"]) == ("synchronization", "aten::item")
    assert "aten::item (train.py(7): check)" in found["message"]
    # Of all that the device waits, but for the first launch of all.
    assert found["cost_ns"] >= 0.9 * holotrace.open(tmp_path).time_breakdown()["idle_ns"][0]


def test_a_host_that_never_waits_keeps_that_device_busy(tmp_path: Path) -> None:
    assert steps(tmp_path, FAST_HOST, reads=False).is_empty()


def test_a_host_that_launches_too_slowly_loses_nothing_by_reading(tmp_path: Path) -> None:
    (found,) = steps(tmp_path, [5] * 6, reads=True).to_dicts()
    assert (found["cause"], found["responsible"]) == ("launch-bound", None)
