"""Operations of CPU devices that lost, on their way through threads, which call executes their program."""

from __future__ import annotations

from pathlib import Path

import pytest

import holotrace
from xplane_files import Event, Line, Plane, Stat, space

US = 1_000_000  # in ps
PROGRAM: dict[str, Stat] = {"hlo_module": "jit_f", "program_id": 7}


@pytest.mark.parametrize(
    ("long_us", "counts", "steps"), [(100, [2, 2], [0, 0, 1, 1]), (900, [1, 1], [0, None, 1, None])]
)
def test_an_operation_without_a_call_belongs_to_the_only_execution_under_way(
    long_us: int, counts: list[int], steps: list[int | None], tmp_path: Path
) -> None:
    """Half of the work of each step of JAX 0.4 on CPUs was in no step. Of two at once, on two devices, none is told."""
    python, pool, other = [], [], []
    for number in range(2):
        begun = 400 * US * number
        handed: dict[str, Stat] = {"_pt": 15, "_p": number + 1}
        python += [
            Event("train", begun, 380 * US, {"_r": 1, "step_num": number}),
            Event("TfrtCpuExecutable::ExecuteHelper", begun + US, 10 * US),
            Event("ThreadpoolListener::Record", begun + 2 * US, US, handed),
        ]
        # The second part of a program that is under way for long begins when the next one has begun, too.
        for name, at in (("dot.1", 20), ("add.2", long_us)):
            region = Event("ThreadpoolListener::Region", begun + at * US, 20 * US, {"_ct": 15, "_c": number + 1})
            pool += [region, Event(name, begun + (at + 1) * US, 10 * US, {"hlo_op": name, **PROGRAM})]
        lost = {"hlo_op": "exp.3", **PROGRAM}
        other.append(Event("exp.3", begun + 200 * US, 10 * US, lost))
    pool.sort(key=lambda event: (event.start_ps, -event.duration_ps))
    lines = [Line("python", python, id=1), Line("tf_XLAEigen/2", pool, id=2), Line("tf_XLAEigen/3", other, id=3)]
    (tmp_path / "host.xplane.pb").write_bytes(space(Plane("/host:CPU", lines)))
    job = holotrace.open(tmp_path)
    lone = job.table("xla_ops").sort("start_ns")
    assert [step for name, step in lone.select("name", "step").rows() if name != "add.2"] == steps
    assert [count - 1 for count in job.table("modules").sort("start_ns")["op_count"].to_list()] == counts


def test_equal_programs_whose_runs_have_one_id_are_each_launched_by_its_own_call(tmp_path: Path) -> None:
    """Programs that JAX 0.7 compiled anew in each step were launched in the first, and began late in all others."""
    python, pool = [], []
    for number in range(3):
        begun, run = 100 * US * number, {"run_id": 5}
        python += [
            Event("train", begun, 90 * US, {"_r": 1, "step_num": number}),
            Event("PjRtCpuExecutable::ExecuteHelper", begun + 50 * US, 20 * US, run),
        ]
        ran: dict[str, Stat] = {"hlo_op": "dot.1", "hlo_module": "jit_f", "program_id": 7 + number, **run}
        done = Event("ThunkExecutor::Execute (wait for completion)", begun + 66 * US, US, run)
        pool += [Event("dot.1", begun + 55 * US, 10 * US, ran), done]
    lines = [Line("python", python, id=1), Line("tf_XLAPjRtCpuClient/2", pool, id=2)]
    (tmp_path / "host.xplane.pb").write_bytes(space(Plane("/host:CPU", lines)))
    modules = holotrace.open(tmp_path).table("modules").sort("start_ns")
    assert modules["step"].to_list() == [0, 1, 2]
    assert (modules["start_ns"] - modules["launch_ns"]).to_list() == [5_000] * 3


@pytest.mark.parametrize(("called", "count"), [(3, 3), (2, 1)])
def test_executions_that_begin_when_the_one_before_is_over_have_calls_of_their_own(
    called: int, count: int, tmp_path: Path
) -> None:
    """Ten programs that JAX 0.4 was given at once were one. Where a call is missing, nothing tells whose it was."""
    python = [Event("TfrtCpuExecutable::ExecuteHelper", (1 + 3 * number) * US, US) for number in range(called)]
    python.append(Event("ThreadpoolListener::Record", 1_500_000, 100_000, {"_pt": 15, "_p": 1}))
    python.sort(key=lambda event: event.start_ps)
    pool = [Event("ThreadpoolListener::Region", 20 * US, 500 * US, {"_ct": 15, "_c": 1})]
    for number in range(3):
        at = (30 + 100 * number) * US
        loop = [Event("dot.2", at + (21 + 10 * turn) * US, 5 * US, {"hlo_op": "dot.2", **PROGRAM}) for turn in range(2)]
        pool += [
            Event("exp.1", at, 10 * US, {"hlo_op": "exp.1", **PROGRAM}),
            Event("while.3", at + 20 * US, 30 * US, {"hlo_op": "while.3", **PROGRAM}),
            *loop,
        ]
    lines = [Line("python", python, id=1), Line("tf_XLATfrtCpuClient/2", pool, id=2)]
    (tmp_path / "host.xplane.pb").write_bytes(space(Plane("/host:CPU", lines)))
    modules = holotrace.open(tmp_path).table("modules").sort("start_ns")
    assert modules["op_count"].to_list() == [12 // count] * count
    assert modules["launch_ns"].n_unique() == count
