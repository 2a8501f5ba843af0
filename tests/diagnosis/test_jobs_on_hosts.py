"""Causes of jobs that compute on their hosts, whose faults a simulation of threads and exchanges has planted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holotrace
from holotrace.diagnosis.rank import account, lead, recovered
from holotrace.present.report import verdict
from trace_files import REAL_TRACES, needs_real_traces, write_trace

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
NODE = "autograd::engine::evaluate_function: AddmmBackward0"
OPERATORS = ("aten::native_layer_norm", "aten::_softmax", "aten::gelu", "aten::mm")
WAITING = "<built-in method wait of pybind11_builtins.pybind11_detail_function_record_v1 object at 0x7f75fea66a50>"
STEPS, MOVING_US = 5, 400


@dataclass(frozen=True)
class Fault:
    """What a rank does otherwise in a step, in microseconds where it is a time."""

    loads: float = 200
    between: float = 20
    """Python and PyTorch between two operators."""
    slower: float = 1
    rows: int = 64
    saves: float = 0
    makes_view: float = 3
    waits: float = 0
    """For an exchange that is over."""
    in_operator: bool = False
    """It does so in an operator that Python carries out."""


def simulated(folder: Path, ranks: int, fault: Callable[[int, int], Fault], *, layer: float = 1_000) -> float:
    """Write the job; returns how long it takes in all."""
    now = dict.fromkeys(range(ranks), 0.0)
    events: Mapping[int, list[dict[str, Any]]] = {rank: [] for rank in now}

    def span(rank: int, name: str, start: float, end: float, category: str = "cpu_op", **args: Any) -> None:
        place = {"ph": "X", "cat": category, "pid": rank + 1, "tid": 2 if name.startswith("gloo") else 1}
        known = {"External id": len(events[rank]) + 1, **args}
        events[rank].append({**place, "name": name, "ts": round(start, 3), "dur": round(end - start, 3), "args": known})

    def compute(rank: int, name: str, lasts: float, does: Fault, around: str | None = None) -> None:
        begun, lasts = now[rank], lasts * does.slower * does.rows / 64
        dims: dict[str, Any] = {"Input Dims": [[does.rows, 512], [512, 512]], "Input type": ["float", "float"]}
        span(rank, name, begun + 2, begun + 2 + lasts, **dims)
        if around:
            span(rank, around, begun, begun + lasts + 4)
        now[rank] = begun + lasts + 4 + does.between * does.slower

    for step in range(STEPS):
        done = {rank: fault(rank, step) for rank in now}
        begun = dict(now)
        asked = {}
        for rank, does in done.items():
            span(rank, LOADER, now[rank], now[rank] + does.loads)
            now[rank] += does.loads + 10
            for name in (*OPERATORS, *OPERATORS):
                compute(rank, name, layer, does)
            for name in (*OPERATORS, *OPERATORS):
                compute(rank, f"{name}_backward", 2 * layer, does, NODE)
            span(rank, "c10d::allreduce_", now[rank], now[rank] + 30)
            asked[rank] = now[rank] + 40
            now[rank] += 30
        over = max(asked.values()) + MOVING_US
        for rank, does in done.items():
            span(rank, "gloo:all_reduce", asked[rank], over, "user_annotation")
            now[rank] = over + 50
            if does.waits:
                until = now[rank] + does.waits
                name = "torch/_ops.py(920): redispatch" if does.in_operator else WAITING
                if does.in_operator:
                    span(rank, "_c10d_functional::wait_tensor", now[rank] - 1, until + 1)
                span(rank, name, now[rank], until, category="python_function")
                now[rank] += does.waits + 5
            compute(rank, "aten::add_", layer, does)
            span(rank, "aten::detach", now[rank], now[rank] + does.makes_view)
            now[rank] += does.makes_view
            if does.saves:
                span(
                    rank, "train.py(80): save_checkpoint", now[rank], now[rank] + does.saves, category="python_function"
                )
                now[rank] += does.saves + 5
            mark = f"ProfilerStep#{step}"
            span(rank, mark, begun[rank], now[rank], "user_annotation")
            now[rank] += 5
    for rank, told in events.items():
        write_trace(folder / f"rank-{rank}.json", rank=rank, world=ranks, backend="gloo", events=told)
    return max(now.values())


# Name: the fault of a rank in a step, and the first cause with its ranks and something that it names.
FAULTS: Mapping[str, tuple[Callable[[int, int], Fault], str, tuple[int, ...], str]] = {
    "loader of one": (lambda rank, _: Fault(loads=6_000 if rank == 1 else 200), "input", (1,), "DataLoader"),
    "loader of all": (lambda *_: Fault(loads=6_000), "input", (), "DataLoader"),
    "slow CPU": (lambda rank, _: Fault(slower=1.4 if rank == 0 else 1), "slow-device", (0,), "Rank 0 has a slow CPU"),
    "more work": (
        lambda rank, _: Fault(rows=96 if rank == 1 else 64),
        "more-work",
        (1,),
        "computing takes 1.50 times as long",
    ),
    "checkpoint": (
        lambda rank, step: Fault(saves=20_000 if rank == 0 and step % 2 else 0),
        "checkpoint",
        (0,),
        "save_checkpoint",
    ),
}


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", FAULTS)
def test_the_first_cause_is_the_fault_with_what_it_costs(tmp_path: Path, name: str, ranks: int) -> None:
    fault, rule, who, named = FAULTS[name]
    whole = simulated(tmp_path / "faulty", ranks, fault)
    healthy = simulated(tmp_path / "healthy", ranks, lambda *_: Fault())
    job = holotrace.open(tmp_path / "faulty")
    (first, *others) = [finding for finding in job.findings() if finding.severity != "info"]
    assert (first.rule, first.ranks) == (rule, who)
    assert named in first.message
    assert "device" not in first.message
    assert first.cost_ns == pytest.approx(1_000 * (whole - healthy), rel=0.1)
    assert others == []


@pytest.mark.parametrize(("slower", "rows", "said"), [(1.6, 64, "calls of equal shapes"), (1, 96, "have uneven work")])
def test_ranks_that_take_turns_have_more_to_do_only_by_their_shapes(
    tmp_path: Path, slower: float, rows: int, said: str
) -> None:
    """Processes that shared the cores of a host, one now and one then the slower, were said to have uneven work."""

    def fault(rank: int, step: int) -> Fault:
        return Fault(slower=slower, rows=rows) if rank == step % 2 else Fault()

    simulated(tmp_path, 2, fault)
    (found,) = [finding for finding in holotrace.open(tmp_path).findings() if finding.severity != "info"]
    assert (found.rule, said in found.message) == ("uneven-work", True)
    assert ("other processes" in found.what_to_do) == (rows == 64)


def test_an_operator_that_computes_nothing_does_not_take_long_by_itself(tmp_path: Path) -> None:
    """A process that got no core while it made a view was told as a function to be moved out of the step."""
    simulated(tmp_path, 2, lambda rank, step: Fault(makes_view=30_000 if (rank, step) == (1, 3) else 3))
    (found,) = [finding for finding in holotrace.open(tmp_path).findings() if finding.severity != "info"]
    assert (found.rule, found.ranks) == ("host-pause", (1,))
    assert found.message == (
        "The host of rank 1 pauses in aten::detach without calling anything (garbage collection, another process), "
        "and nothing is computed, in step 3"
    )


@pytest.mark.parametrize("in_operator", [False, True])
def test_waiting_for_an_exchange_that_is_over_is_no_function_to_be_moved(tmp_path: Path, in_operator: bool) -> None:
    """Processes with more threads than processors were to move waiting out of their steps."""
    simulated(tmp_path, 2, lambda *_: Fault(waits=3_000, in_operator=in_operator))
    (found,) = [finding for finding in holotrace.open(tmp_path).findings() if finding.severity != "info"]
    assert (found.rule, found.ranks) == ("host-pause", ())
    assert (
        f"in {'torch/_ops.py(920): redispatch' if in_operator else '<built-in method wait>'} without" in found.message
    )


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_healthy_job_is_silent(tmp_path: Path, ranks: int) -> None:
    simulated(tmp_path, ranks, lambda *_: Fault())
    assert [finding for finding in holotrace.open(tmp_path).findings() if finding.severity != "info"] == []


def test_small_operators_are_told_without_words_of_accelerators(tmp_path: Path) -> None:
    simulated(tmp_path, 2, lambda *_: Fault(loads=20, between=60), layer=40)
    (first,) = [finding for finding in holotrace.open(tmp_path).findings() if finding.severity != "info"]
    assert (first.rule, first.ranks) == ("launch-bound", ())
    assert "CUDA" not in first.what_to_do and "kernel" not in first.message


def test_equal_work_of_processes_that_share_cores_may_differ_by_some_percent(tmp_path: Path) -> None:
    simulated(tmp_path, 2, lambda rank, _: Fault(slower=1.08 if rank else 1))
    assert [finding for finding in holotrace.open(tmp_path).findings() if finding.severity != "info"] == []


def test_what_shared_cores_bring_about_is_not_told_as_hidden_either(tmp_path: Path) -> None:
    """A rank that waited for another one's checkpoints was named, since it computed some percent longer."""
    simulated(tmp_path, 2, lambda rank, _: Fault(saves=20_000) if rank else Fault(slower=1.08))
    job = holotrace.open(tmp_path)
    assert job.causes()["cause"].to_list() == ["checkpoint"]


def test_where_the_time_goes_is_told_of_operators_and_exchanges(tmp_path: Path) -> None:
    simulated(tmp_path, 2, lambda *_: Fault())
    result = holotrace.open(tmp_path).run()
    assert "compute" in verdict(result)[0] and "a step" in verdict(result)[0]
    times = result.tables["step_times"]
    assert (times["compute_ns"] == 25_000_000).all()
    assert (result.tables["replay"]["error_ratio"].abs() < 0.01).all()


@needs_real_traces
def test_the_rank_that_sleeps_in_its_loader_is_named_in_a_recording() -> None:
    job = holotrace.open(REAL_TRACES / "ours" / "cpu_gloo_ddp4")
    first = job.findings()[0]
    assert (first.rule, first.ranks) == ("input", (2,))
    assert "data_loading" in first.message


def test_a_host_that_computes_has_no_lead_that_standing_still_could_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: Any) -> Any:
        raise AssertionError("what a lead would have hidden was asked for")

    for module, name in ((recovered, "rows"), (lead, "laid_to_stalls"), (lead, "laid_to_waits")):
        monkeypatch.setattr(module, name, asked)
    simulated(tmp_path, 1, lambda *_: Fault(loads=6_000))
    (rows,) = holotrace.open(tmp_path).map(account.account, reads=account.READS)
    assert "gap" in rows["row"]
