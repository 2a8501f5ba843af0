"""Rings, as of ring attention, whose kernels send and receive at once and tell nothing of it (batch_isend_irecv)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.derive import collectives
from trace_files import write_trace

RANKS, STEPS, ROUNDS = 4, 6, 3
COMPUTE_US, MOVE_US = 400.0, 300.0


class Drawn:
    """What one rank did: its host is ahead of its device, but where it stands still at the begin of a step."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.events: list[dict[str, Any]] = []
        self.host_us, self.device_us, self.correlation = 100.0, 100.0, 0

    def call(self, category: str, name: str, us: float, **args: Any) -> None:
        place = {"pid": 1, "tid": 1, "ts": self.host_us, "dur": us}
        self.events.append({"ph": "X", "cat": category, "name": name, **place, "args": args})
        self.host_us += us

    def launch(self, name: str, start_us: float, end_us: float, stream: int, blocks: int = 1) -> None:
        self.correlation += 1
        self.call("cuda_runtime", "cudaLaunchKernel", 3, correlation=self.correlation)
        args = {
            "correlation": self.correlation,
            "stream": stream,
            "device": 0,
            "grid": [blocks, 1, 1],
            "block": [1, 1, 1],
        }
        times = {"ts": start_us, "dur": end_us - start_us}
        self.events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, **times, "args": args})

    def asks(self, collective: str, peer: int) -> None:
        group = {"Process Group Name": "1", "Process Group Ranks": str([*range(RANKS)]), "Group size": RANKS}
        end = {("Dst Rank" if collective == "send" else "Src Rank"): peer}
        sizes = {"In msg nelems": 1_000_000, "Out msg nelems": 1_000_000, "dtype": "BFloat16"}
        self.call("cpu_op", "record_param_comms", 1, **{"Collective name": collective}, **group, **end, **sizes)


def ring(folder: Path, *, late_us: float = 0, slow_link: float = 1, more_us: float = 0) -> holotrace.Job:
    """Each rank computes and passes on; rank 1 begins steps later, or the link between ranks 2 and 3 is slow.

    In each round rank 2 computes for so much longer, in larger kernels.
    """
    drawn = [Drawn(rank) for rank in range(RANKS)]
    for step in range(STEPS):
        began = [each.device_us + 5 for each in drawn]
        for each in drawn:
            each.host_us = each.device_us = began[each.rank]
            if each.rank == 1 and late_us:
                each.call("python_function", "train.py(7): tokenize", late_us)
                each.device_us += late_us
        for _ in range(ROUNDS):
            come = []
            for each in drawn:
                computed_us = each.device_us + COMPUTE_US + (more_us if each.rank == 2 else 0)
                blocks = 2 if each.rank == 2 and more_us else 1
                each.launch("gemm", each.device_us + 5, computed_us, 7, blocks)
                come.append(computed_us + 1)
            for rank, each in enumerate(drawn):
                beside = [(rank - 1) % RANKS, rank, (rank + 1) % RANKS]
                factor = slow_link if rank in (2, 3) else 1
                each.asks("send", beside[2])
                each.asks("recv", beside[0])
                each.device_us = max(come[at] for at in beside) + factor * MOVE_US
                each.launch("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", come[rank], each.device_us, 20)
        for each in drawn:
            each.call("cuda_runtime", "cudaDeviceSynchronize", each.device_us + 2 - each.host_us)
            times = {"ts": began[each.rank], "dur": each.host_us - began[each.rank]}
            mark = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1}
            each.events.append({**mark, **times})
    for each in drawn:
        write_trace(folder / f"rank{each.rank}.json", rank=each.rank, world=RANKS, events=each.events)
    return holotrace.open(folder)


def told(job: holotrace.Job, cause: str) -> list[tuple[list[int], int]]:
    found = job.causes().filter(pl.col("cause") == cause)
    return list(found.select("ranks", "cost_ns").iter_rows())


def test_what_makes_a_rank_late_in_a_ring_costs_what_all_wait_for_it(tmp_path: Path) -> None:
    """Without meetings it was worth a quarter of it, and a loader that stalled was nothing."""
    job = ring(tmp_path, late_us=1_000)
    ((ranks, cost_ns),) = told(job, "python-function")
    assert ranks == [1]
    assert cost_ns == pytest.approx(1_000_000 * STEPS, rel=0.1)
    assert not told(job, "pipeline-bubble")


def test_a_slow_link_of_a_ring_is_told_of_its_ranks_only(tmp_path: Path) -> None:
    """Kernels of others last as long, since they wait for what comes late because of it."""
    ((ranks, cost_ns),) = told(ring(tmp_path, slow_link=3), "slow-link")
    assert ranks == [2, 3]
    assert cost_ns == pytest.approx(2 * MOVE_US * 1_000 * ROUNDS * STEPS, rel=0.1)


def test_a_rank_with_more_work_in_a_ring_is_no_slow_stage(tmp_path: Path) -> None:
    """All ranks send and receive, as those of a pipeline do, but none waits for what another one has computed."""
    job = ring(tmp_path, more_us=200)
    ((ranks, cost_ns),) = told(job, "more-work")
    assert ranks == [2]
    assert cost_ns == pytest.approx(200_000 * ROUNDS * STEPS, rel=0.1)
    assert not told(job, "pipeline-bubble")


def test_nothing_is_told_of_an_even_ring_but_what_it_exposes(tmp_path: Path) -> None:
    assert set(ring(tmp_path).causes()["cause"]) <= {"exposed-transfer"}


@pytest.mark.parametrize(
    ("asked", "told_as", "peer"),
    [
        ([("send", 1)], "send", 1),
        ([("recv", 3)], "recv", 3),
        ([("send", 1), ("recv", 3)], "batch_isend_irecv", None),
        ([], "ncclDevKernel_SendRecv", None),
    ],
)
def test_a_kernel_is_of_the_messages_that_the_host_asked_for_before(
    tmp_path: Path, asked: list[tuple[str, int]], told_as: str, peer: int | None
) -> None:
    """Stages of pipelines that batch their messages met nobody, so that no factors were known of them."""
    drawn = Drawn(0)
    drawn.asks("send", 2)
    drawn.launch("ncclDevKernel_SendRecv", 200, 300, 20)
    for collective, rank in asked:
        drawn.asks(collective, rank)
    drawn.launch("ncclDevKernel_SendRecv", 400, 500, 24)
    path = write_trace(tmp_path / "rank-0.json", rank=0, world=RANKS, events=drawn.events)
    (calls,) = holotrace.open(path).map(collectives.calls, collectives.READS)
    assert calls.select("collective", "peer_rank").rows() == [("send", 2), (told_as, peer)]
