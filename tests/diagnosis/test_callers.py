"""Which code of the program is told to have called what its host stands still in, where functions were recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from holotrace.diagnosis.words.classes import is_of_package, is_of_program
from trace_files import write_trace

STEPS, LAUNCH_US, LONG_US, STANDS_US, KERNELS = 5, 10, 400, 12_000, 20
LOOP, OWN = "trainer.py(88): fit", "model.py(55): block"
SLEEP = "<built-in function sleep>"


def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


class Drawn:
    """Steps of one rank: long kernels, something that their host stands still in or launches, and its loss."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.host, self.device, self.correlation = 0, 0, 0

    def launch(self, took_us: int, name: str = "gemm") -> None:
        self.correlation += 1
        begun = max(self.device, self.host + 4)
        launched = {"correlation": self.correlation}
        self.events.append(event("cuda_runtime", "cudaLaunchKernel", self.host, LAUNCH_US - 2, **launched))
        self.events.append(event("kernel", name, begun, took_us, **launched, stream=7, device=0))
        self.host, self.device = self.host + LAUNCH_US, begun + took_us

    def stand(self, names: tuple[str, ...], call: str = "") -> None:
        """The host is in functions within each other, the last of which may call the runtime."""
        for level, name in enumerate(names):
            at, took_us = self.host + level, STANDS_US - 2 * level
            self.events.append(event("python_function", name, at, took_us))
        if call:
            self.events.append(event("cuda_runtime", call, self.host + len(names), STANDS_US - 2 * len(names)))
        self.host += STANDS_US

    def read(self) -> None:
        end = max(self.device, self.host) + 3
        self.events.append(event("cpu_op", "aten::item", self.host, end + 1 - self.host))
        self.events.append(event("cuda_runtime", "cudaStreamSynchronize", self.host + 1, end - self.host - 1))
        self.host = end + 5

    def within(self, name: str, begun: int) -> None:
        self.events.append(event("python_function", name, begun, self.host - begun))


def told(tmp_path: Path, drawn: Drawn, cause: str) -> dict[str, Any]:
    drawn.events.append(event("python_function", LOOP, -1, drawn.host + 2))
    write_trace(tmp_path / "rank-0.json", events=drawn.events)
    rows = {row["cause"]: row for row in holotrace.open(tmp_path).causes().to_dicts()}
    assert [*rows] == [cause]
    return rows[cause]


def stands(tmp_path: Path, cause: str, names: tuple[str, ...], *, call: str = "", launches: bool = False) -> Any:
    """What is told of steps in which the host stands still after its device has nothing left to do."""
    return told(tmp_path, standing(names, call=call, launches=launches), cause)


def standing(names: tuple[str, ...], *, call: str = "", launches: bool = False) -> Drawn:
    drawn = Drawn()
    for step in range(STEPS):
        begun = drawn.host
        for _ in range(KERNELS):
            drawn.launch(LONG_US)
        drawn.read()
        own = drawn.host - (drawn.host - begun if launches else 0)
        drawn.stand(names, call)
        if launches:
            drawn.within(OWN, own)
        drawn.events.append(event("user_annotation", f"ProfilerStep#{step}", begun, drawn.host - begun))
    return drawn


@pytest.mark.parametrize("library", ["tenacity/nap.py(31): sleep", "wandb/sdk/lib/retry.py(9): wait"])
def test_who_sleeps_in_a_library_is_the_program(tmp_path: Path, library: str) -> None:
    caller = "rate_limit.py(12): throttle"
    cause = "logging" if "wandb" in library else "python-function"
    row = stands(tmp_path, cause, (caller, library, SLEEP))
    assert caller in row["message"]


def test_a_function_that_launches_is_told_to_call_what_it_stands_still_in(tmp_path: Path) -> None:
    """It was told to be the sleep alone, which does not say which of all."""
    row = stands(tmp_path, "python-function", (SLEEP,), launches=True)
    assert row["responsible"] == SLEEP
    assert row["message"].endswith(f"{SLEEP}, called in {OWN}")


@pytest.mark.parametrize(
    ("cause", "names", "call"),
    [
        ("checkpoint", ("run.py(99): finish", "torch/serialization.py(800): save", "<built-in method write>"), ""),
        ("garbage-collection", ("run.py(99): finish", "<built-in function collect>"), ""),
        ("allocator", ("run.py(99): finish", "torch/cuda/memory.py(190): empty_cache"), "cudaMalloc"),
        ("logging", ("run.py(99): finish", "wandb/sdk/wandb_run.py(1): log"), ""),
    ],
)
def test_the_line_to_change_is_told_of_each_class(
    tmp_path: Path, cause: str, names: tuple[str, ...], call: str
) -> None:
    assert stands(tmp_path, cause, names, call=call)["message"].endswith(", called in run.py(99): finish")


def test_the_runtime_that_makes_a_graph_ready_compiles(tmp_path: Path) -> None:
    """As where a graph is captured anew for each shape: it was told to pause without calling anything."""
    row = stands(tmp_path, "compilation", ("runner.py(41): capture_graph",), call="cudaGraphInstantiateWithFlags")
    assert row["message"].endswith("cudaGraphInstantiateWithFlags, called in runner.py(41): capture_graph")


def test_a_host_that_stands_still_in_the_runtime_is_told_to_be_there(tmp_path: Path) -> None:
    drawn = Drawn()
    for step in range(STEPS):
        begun = drawn.host
        for place in range(KERNELS):
            drawn.launch(LONG_US)
            if (step, place) == (0, 3):
                drawn.stand(("run.py(99): finish",), "cudaStreamWaitEvent")
        drawn.events.append(event("user_annotation", f"ProfilerStep#{step}", begun, drawn.host - begun))
    message = told(tmp_path, drawn, "host-pause")["message"]
    assert "The host of rank 0 stands still in cudaStreamWaitEvent, and" in message


def test_a_wait_and_what_the_host_stands_still_in_after_it_cost_no_more_than_the_device_had_nothing_to_do(
    tmp_path: Path,
) -> None:
    """Reading the loss was told to cost 60 of 100 ms, of which 40 would be saved without it, and the pause 21 more."""
    write_trace(tmp_path / "rank-0.json", events=standing(("run.py(99): finish",), call="cudaStreamWaitEvent").events)
    costs = {row["cause"]: row["cost_ns"] / 1e6 for row in holotrace.open(tmp_path).causes().to_dicts()}
    # In the time that the device takes for a step the host could launch the next one.
    assert costs["synchronization"] == pytest.approx(STEPS * (KERNELS * (LONG_US - LAUNCH_US)) / 1e3, rel=0.02)
    assert sum(costs.values()) <= STEPS * (STANDS_US + 100) / 1e3


def test_garbage_that_python_collects_by_itself_is_nobodys(tmp_path: Path) -> None:
    row = stands(tmp_path, "garbage-collection", ("run.py(99): finish", "gc: generation 2"))
    assert "called in" not in row["message"]


def test_the_function_of_a_data_set_is_told_beside_its_loader(tmp_path: Path) -> None:
    loader, crop = "torch/utils/data/dataloader.py(733): __next__", "augment.py(77): random_crop"
    row = stands(tmp_path, "input", (loader, crop, "PIL/Image.py(900): resize"))
    assert row["responsible"] == loader
    assert row["message"].endswith(f"in {loader} ({crop})")


@pytest.mark.parametrize("inner", ["decode.py(80): score", "torch/functional.py(9): where"])
def test_the_function_that_launches_too_late_is_told(tmp_path: Path, inner: str) -> None:
    """It was told of no function, as these are not in a row of small kernels."""
    drawn = Drawn()
    for step in range(STEPS):
        begun = drawn.host
        for _ in range(KERNELS):
            drawn.launch(LONG_US)
        late = drawn.host
        for _ in range(60):
            one = drawn.host
            drawn.host += 250
            drawn.launch(20, "score")
            drawn.within(inner, one)
        drawn.within("decode.py(61): search", late)
        drawn.read()
        drawn.events.append(event("user_annotation", f"ProfilerStep#{step}", begun, drawn.host - begun))
    row = told(tmp_path, drawn, "launch-bound")
    assert row["responsible"] == (inner if inner.startswith("decode") else "decode.py(61): search")


def test_what_is_around_all_work_is_told_of_nothing(tmp_path: Path) -> None:
    drawn = Drawn()
    for step in range(STEPS):
        begun = drawn.host
        for _ in range(60):
            drawn.host += 250
            drawn.launch(20, "score")
        drawn.read()
        drawn.events.append(event("user_annotation", f"ProfilerStep#{step}", begun, drawn.host - begun))
    assert told(tmp_path, drawn, "launch-bound")["responsible"] is None


def test_what_else_goes_on_in_a_function_is_not_what_it_calls(tmp_path: Path) -> None:
    """Launching too late was told to be "called in" a callback in which the host stands still by itself."""
    drawn = Drawn()
    callback = "train.py(9): on_batch_end"
    for step in range(STEPS):
        begun = drawn.host
        drawn.launch(LONG_US)
        drawn.read()
        for _ in range(100):
            drawn.host += 90
            drawn.launch(5)
        drawn.read()
        inside = drawn.host
        drawn.host += 900
        drawn.stand((SLEEP,))
        drawn.host += 900
        drawn.within(callback, inside)
        drawn.events.append(event("user_annotation", f"ProfilerStep#{step}", begun, drawn.host - begun))
    drawn.events.append(event("python_function", LOOP, -1, drawn.host + 2))
    write_trace(tmp_path / "rank-0.json", events=drawn.events)
    rows = {row["cause"]: row["message"] for row in holotrace.open(tmp_path).causes().to_dicts()}
    assert callback in rows["python-function"] and "called in" not in rows["launch-bound"]


def test_what_is_whose_is_told_by_where_files_are() -> None:
    """Files of programs may have names of modules that no job runs."""
    own = (
        "sched.py(60): solve",
        "test.py(3): run",
        "datasets/coco.py(9): __getitem__",
        "diffusers/image.py(1): to_pil",
    )
    packages = ("requests/api.py(20): post", "/opt/lib/python3.11/site-packages/wandb/run.py(5): log")
    compiled = "/tmp/torchinductor_root/dn/cdn.py(6894): partition_0"
    foundations = ("torch/_tensor.py(22): item", compiled, "/usr/lib/python3.11/threading.py(5): wait", SLEEP)
    kind = "python_function"
    assert [is_of_program(name, kind) for name in (*own, *packages, *foundations)] == [True] * 4 + [False] * 6
    assert [is_of_package(name, kind) for name in (*own, *packages, *foundations)] == [False] * 4 + [True] * 2 + [
        False
    ] * 4
