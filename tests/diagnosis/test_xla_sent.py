"""Jobs of JAX with two GPUs, whose kernels threads of the runtime launch when the inputs of a program are there."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

import holotrace
from holotrace.derive import host_time
from holotrace.diagnosis.rank import account, exposed_copies
from holotrace.diagnosis.rank.xla import calls, hosts
from holotrace.job import Job
from xplane_files import Event, Line, Plane, Stat, space

US, GPUS = 1_000_000, 2
TRAIN, EVALUATE = "train_step", "eval_step"


@dataclass
class _Host:
    """What a host recorded whose main thread runs one program after another."""

    at_us: int = 1_000
    busy_us: list[int] = field(default_factory=lambda: [0] * GPUS)
    copied_us: list[int] = field(default_factory=lambda: [0] * GPUS)
    launched: int = 0
    main: list[Event] = field(default_factory=list)
    sending: list[Event] = field(default_factory=list)
    threads: list[list[Event]] = field(default_factory=lambda: [[] for _ in range(GPUS)])
    kernels: list[list[Event]] = field(default_factory=lambda: [[] for _ in range(GPUS)])
    copies: list[list[Event]] = field(default_factory=lambda: [[] for _ in range(GPUS)])

    def run(
        self,
        function: str,
        *,
        sends_us: int,
        runs_us: int,
        waits_us: int = 0,
        launches_us: int = 150,
        copies_us: int | None = None,
    ) -> None:
        """Sends inputs, which a thread of the runtime copies to pinned memory first, and starts a program with them.

        Threads that launch it, for each GPU after the other, wait for room in the queues of the GPUs first.
        """
        self.main.append(_span("DevicePut", self.at_us, self.at_us + 50))
        called, sent = self.at_us + 50, self.at_us + 50 + sends_us
        self.sending.append(_span("H2D Dispatch", called, sent))
        for gpu in range(GPUS):
            begins = sent + waits_us + 20 + launches_us * gpu
            self.launched += 1
            kernel: dict[str, Stat] = {"correlation_id": self.launched, "hlo_module": f"jit_{function}"}
            kernel |= {"hlo_op": "fusion.1", "program_id": len(function)}
            self.threads[gpu] += [
                _span("Scheduled Execute", called + 5, begins + launches_us - 30, {"_ct": 5, "_c": self._call()}),
                _span(f"jit_{function}:XLA GPU module", begins, begins + launches_us - 40),
                _span("cuLaunchKernel", begins + 50, begins + 60, {"correlation_id": self.launched}),
            ]
            if waits_us:
                self.threads[gpu].append(_span("ComputeSemaphoreAcquire", sent + 5, sent + waits_us))
            copying = max(sent, self.copied_us[gpu])
            copied = self.copied_us[gpu] = copying + (sends_us // 10 if copies_us is None else copies_us)
            self.copies[gpu].append(_span("MemcpyH2D", copying, copied, {"memcpy_details": "size:4096"}))
            start = max(begins + 65, copied + 5, self.busy_us[gpu])
            self.busy_us[gpu] = start + runs_us
            self.kernels[gpu].append(Event("fusion_1", start * US, runs_us * US, kernel, "fusion_1"))
        self.at_us = sent + waits_us + 20 + launches_us * GPUS
        self.main.append(_span(f"PjitFunction({function})", called, self.at_us, {"_pt": 5, "_p": self._call()}))

    def wait(self) -> None:
        """Reads a result of what was launched last."""
        until_us = max(self.busy_us) + 300
        self.main.append(_span("np.asarray(jax.Array)", self.at_us, until_us))
        self.at_us = until_us

    def does(self, name: str, took_us: int) -> None:
        self.main.append(_span(name, self.at_us, self.at_us + took_us))
        self.at_us += took_us

    def read(self) -> None:
        """Reads a result that is there, which takes 400 us, of which a GPU copies for one."""
        self.main.append(_span("np.asarray(jax.Array)", self.at_us, self.at_us + 400))
        details: dict[str, Stat] = {"memcpy_details": "size:4"}
        self.copies[0].append(_span("MemcpyD2H", self.at_us + 200, self.at_us + 201, details))
        self.at_us += 400

    def _call(self) -> int:
        return (self.launched - 1) // GPUS

    def written(self, folder: Path) -> Job:
        host = Plane(
            "/host:CPU",
            [
                Line("python3", self.main, id=1),
                Line("pjrt_async_work_runner/2", self.sending, id=2),
                *(Line(f"py_xla_execute/{3 + gpu}", self.threads[gpu], id=3 + gpu) for gpu in range(GPUS)),
            ],
        )
        gpus = [
            Plane(
                f"/device:GPU:{gpu}",
                [
                    Line("Stream #14(Compute)", self.kernels[gpu], 14),
                    Line("Stream #15(MemcpyH2D)", self.copies[gpu], 15),
                ],
            )
            for gpu in range(GPUS)
        ]
        (folder / "host.xplane.pb").write_bytes(space(host, *gpus))
        return holotrace.open(folder)


def _span(name: str, start_us: int, end_us: int, stats: dict[str, Stat] | None = None) -> Event:
    return Event(name, start_us * US, (end_us - start_us) * US, stats or {}, name if name.startswith("Mem") else "")


def _trained(*, sends_us: int, reads: bool = False, validates: bool = False, since_us: int = 1_000) -> _Host:
    host = _Host(since_us)
    for step in range(8):
        begun_us = host.at_us
        if reads:
            host.read()
            host.main.append(_span("$stats.py:7 count", host.at_us, host.at_us + 4_000))
            host.at_us += 4_000
        host.run(TRAIN, sends_us=sends_us, runs_us=8_000)
        if validates and step % 4 == 3:
            since_us = host.at_us
            for _ in range(3):
                host.run(EVALUATE, sends_us=100, runs_us=2_000)
            host.main.append(_span("run_validation", since_us, host.at_us))
        host.main.append(_span("train", begun_us, host.at_us, {"_r": 1, "step_num": step}))
    return host


def test_gpus_that_wait_for_what_is_sent_are_late_by_all_of_it_and_not_by_the_copy(tmp_path: Path) -> None:
    """It was told as a copy, and as launching: the call that starts a program returns when its inputs are there."""
    host = _trained(sends_us=12_000)
    (found,) = host.written(tmp_path).causes().to_dicts()
    assert (found["cause"], found["responsible"]) == ("upload", "H2D Dispatch")
    # Each step could be as short as its kernels; the recording began with nothing launched ahead.
    step_us = host.at_us // 8
    assert found["cost_per_step_ns"] == pytest.approx((step_us - 8_000) * 1e3, rel=0.05)


def test_copying_a_result_that_is_read_does_not_end_what_gpus_wait_for(tmp_path: Path) -> None:
    """The time before the copy of a few bytes was laid to the function before it, besides the whole to sending."""
    host = _trained(sends_us=8_000, reads=True)
    (found,) = host.written(tmp_path).causes().to_dicts()
    assert found["cause"] == "upload"
    assert found["cost_ns"] == pytest.approx(8 * (host.at_us / 8 - 8_000) * 1e3, rel=0.05)


def test_what_is_sent_while_gpus_work_costs_nothing(tmp_path: Path) -> None:
    assert _trained(sends_us=6_000).written(tmp_path).causes().is_empty()


def test_an_evaluation_is_named_by_the_program_and_not_by_threads_of_the_runtime(tmp_path: Path) -> None:
    """Kernels were looked up in the calls around their launches: "jit_eval_step:XLA GPU module"."""
    found = _trained(sends_us=100, validates=True).written(tmp_path).causes().to_dicts()
    assert [(row["cause"], row["responsible"]) for row in found] == [("evaluation", "run_validation")]


@pytest.mark.parametrize("since_us", [10, 100_000])
def test_only_what_is_copied_in_a_graph_launched_before_the_recording_is_not_told(
    since_us: int, tmp_path: Path
) -> None:
    """Of a graph under way as the recording began nothing tells what it is made of: 5.6 of 448 ms were told."""
    host = _trained(sends_us=100, since_us=5_000)
    graph: dict[str, Stat] = {"correlation_id": 99, "hlo_module": f"jit_{TRAIN}", "hlo_op": "command_buffer"}
    graph |= {"cuda_graph_id": 7, "memcpy_details": "kind_src:device kind_dst:device size:4096"}
    for gpu in range(GPUS):
        host.kernels[gpu].append(_span("MemcpyD2D", since_us, since_us + 300, graph))
    (copies,) = host.written(tmp_path).map(partial(exposed_copies.of_rank, runs_ahead=True), account.READS)
    # Of those at once the first has the time that they share.
    assert copies.height == (0 if since_us == 10 else 1)


def _copied_slowly() -> _Host:
    host = _Host()
    for step in range(8):
        begun_us = host.at_us
        host.run(TRAIN, sends_us=20, runs_us=8_000, launches_us=4_000, copies_us=9_500)
        host.main.append(_span("train", begun_us, host.at_us, {"_r": 1, "step_num": step}))
    return host


def test_a_program_is_as_late_as_its_inputs_however_early_it_was_launched(tmp_path: Path) -> None:
    """A slow device seemed to cost what it took longer, though its inputs would not have been there any earlier."""
    (found,) = _copied_slowly().written(tmp_path).map(hosts.host, account.READS)
    late = found.launches.tail(7)
    assert late["gap_ns"].to_list() == pytest.approx([1_500 * US // 1_000] * 7, rel=0.05)
    assert late["launched_ns"].to_list() == late["begun_ns"].to_list()


def test_what_gpus_wait_for_while_they_copy_it_is_told_by_that(tmp_path: Path) -> None:
    """Nobody was responsible for it where the host launched meanwhile, and so sent nothing itself."""
    (found,) = _copied_slowly().written(tmp_path).causes().to_dicts()
    assert (found["cause"], found["responsible"]) == ("upload", "MemcpyH2D")


def test_waiting_for_threads_that_wait_for_room_in_queues_is_no_launching(tmp_path: Path) -> None:
    """Hosts that were far ahead seemed to be slow, and the slow one fast."""
    host = _Host()
    for step in range(3):
        host.run(TRAIN, sends_us=1_000, runs_us=8_000, waits_us=6_000 * step)
    (found,) = host.written(tmp_path).map(calls.medians, host_time.READS)
    took_us = 1_000 + 20 + 150 * GPUS
    assert dict(found.select("name", "time_ns").iter_rows())[f"PjitFunction({TRAIN})"] == pytest.approx(
        took_us * 1e3, rel=0.05
    )


def test_what_a_host_does_after_it_waited_for_an_evaluation_is_not_laid_to_that(tmp_path: Path) -> None:
    """Waiting was longer than saving, all of which was told as evaluation."""
    host = _Host()
    for step in range(9):
        begun_us = host.at_us
        host.run(TRAIN, sends_us=100, runs_us=8_000)
        if step % 4 == 3:
            since_us = host.at_us
            host.run(EVALUATE, sends_us=100, runs_us=2_000)
            host.wait()
            host.main.append(_span("run_validation", since_us, host.at_us))
            host.does("save_checkpoint", 9_000)
        host.main.append(_span("train", begun_us, host.at_us, {"_r": 1, "step_num": step}))
    costs = {row["cause"]: row["cost_ns"] for row in host.written(tmp_path).causes().to_dicts()}
    # Without the evaluation, which it waits for, the host would be so far ahead that saving was hidden.
    assert costs == {"checkpoint": pytest.approx(18e6, rel=0.02), "evaluation": pytest.approx(24e6, rel=0.03)}
