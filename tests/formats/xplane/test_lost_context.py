"""Operations of CPU devices that lost, on their way through threads, which call executes their program."""

from __future__ import annotations

from pathlib import Path

import polars as pl
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


def test_programs_that_wait_for_each_other_have_calls_of_their_own(tmp_path: Path) -> None:
    """Thirty programs of ten steps in JAX 0.4 were nine, and none was in a step: one program alone was told apart."""
    python, pool = [], [Event("ThreadpoolListener::Region", 20 * US, 900 * US, {"_ct": 15, "_c": 1})]
    for step in range(2):
        python.append(Event("train", 10 * step * US, 9 * US, {"_r": 1, "step_num": step}))
        python += [
            Event("TfrtCpuExecutable::ExecuteHelper", (10 * step + 1 + 3 * place) * US, US) for place in range(2)
        ]
        for place, module in enumerate(("jit_f", "jit_g")):
            at = (30 + 200 * step + 100 * place) * US
            stats: dict[str, Stat] = {"hlo_module": module, "program_id": place}
            pool += [
                Event(name, at + turn * US, 5 * US, {"hlo_op": name, **stats})
                for turn, name in ((0, "exp.1"), (10, "dot.2"))
            ]
    python.insert(2, Event("ThreadpoolListener::Record", 1_500_000, 100_000, {"_pt": 15, "_p": 1}))
    lines = [Line("python", python, id=1), Line("tf_XLATfrtCpuClient/2", pool, id=2)]
    (tmp_path / "host.xplane.pb").write_bytes(space(Plane("/host:CPU", lines)))
    modules = holotrace.open(tmp_path).table("modules").sort("start_ns")
    assert modules["module"].cast(pl.String).to_list() == ["jit_f", "jit_g"] * 2
    assert modules["step"].to_list() == [0, 0, 1, 1]
    assert modules["launch_ns"].diff().drop_nulls().to_list() == [3_000, 7_000, 3_000]


@pytest.mark.parametrize("lost", [0, 1])
def test_executions_without_any_way_back_are_those_of_as_many_calls(lost: int, tmp_path: Path) -> None:
    """Programs of JAX 0.4 that called Python were in no step. Where a call is missing, nobody knows whose they are."""
    python, pool = [], []
    for step in range(3):
        python.append(Event("train", 10 * step * US, 9 * US, {"_r": 1, "step_num": step}))
        if step >= lost:
            python.append(Event("TfrtCpuExecutable::ExecuteHelper", (10 * step + 1) * US, US))
        for turn, name in ((0, "exp.1"), (10, "custom-call.2")):
            at = (40 + 100 * step + turn) * US
            pool.append(Event(name, at, 5 * US, {"hlo_op": name, **PROGRAM}))
    lines = [Line("python", python, id=1), Line("tf_XLAEigen/2", pool, id=2)]
    (tmp_path / "host.xplane.pb").write_bytes(space(Plane("/host:CPU", lines)))
    modules = holotrace.open(tmp_path).table("modules").sort("start_ns")
    assert modules["step"].to_list() == ([] if lost else [0, 1, 2])


@pytest.mark.parametrize(("called", "steps"), [(True, [0, 1]), (False, [1])])
def test_the_first_execution_of_a_recording_may_have_waited_for_one_from_before_it(
    called: bool, steps: list[int], tmp_path: Path
) -> None:
    """The first step of JAX 0.5 had no work where the program before it was under way. Its call tells that it began."""
    python, pool = [], []
    for number in range(2):
        begun = 400 * US * number
        python.append(Event("train", begun, 380 * US, {"_r": 1, "step_num": number}))
        if called or number:
            python.append(Event("TfrtCpuExecutable::ExecuteHelper", begun + US, 10 * US))
        if number:
            python.append(Event("ThreadpoolListener::Record", begun + 2 * US, US, {"_pt": 15, "_p": 1}))
            pool.append(Event("ThreadpoolListener::Region", begun + 20 * US, 200 * US, {"_ct": 15, "_c": 1}))
        for name, at in (("dot.1", 120), ("add.2", 140)):
            pool.append(Event(name, begun + at * US, 10 * US, {"hlo_op": name, **PROGRAM}))
    # What is left of the program that was under way when the recording began.
    pool.append(Event("add.2", 30 * US, 10 * US, {"hlo_op": "add.2", **PROGRAM}))
    pool.sort(key=lambda event: event.start_ps)
    lines = [Line("python", python, id=1), Line("tf_XLAEigen/2", pool, id=2)]
    (tmp_path / "host.xplane.pb").write_bytes(space(Plane("/host:CPU", lines)))
    job = holotrace.open(tmp_path)
    modules = job.table("modules").sort("start_ns")
    assert (modules["step"].to_list(), modules["op_count"].to_list()) == (steps, [2] * len(steps))
    assert job.table("xla_ops")["step"].null_count() == 5 - 2 * len(steps)


def test_what_a_pool_of_threads_does_for_itself_launches_no_program(tmp_path: Path) -> None:
    """The program of the second step was said to be in the first, and all later ones a step too early."""
    python, pool = [], []
    for number in range(3):
        begun = 400 * US * number
        python += [
            Event("train", begun, 380 * US, {"_r": 1, "step_num": number}),
            Event("PjitFunction(f)", begun + US, 20 * US),
            Event("CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice", begun + 2 * US, 10 * US),
        ]
    python.insert(3, Event("ThreadpoolListener::Record", 3 * US, 0, {"_pt": 15, "_p": 1}))
    # The first program's call leads to it and to the third's; the second one's way back ends in the pool.
    pool.append(Event("ThreadpoolListener::Record", 10 * US, 0, {"_pt": 15, "_p": 7}))
    for number, context in ((0, 1), (1, 7), (2, 1)):
        at, stats = (20 + 400 * number) * US, {**PROGRAM, "hlo_module": "jit_f", "run_id": number, "device_ordinal": 0}
        pool.append(Event("ThreadpoolListener::Region", at, 90 * US, {"_ct": 15, "_c": context}))
        pool.append(Event("dot.1", at + 10 * US, 50 * US, {**stats, "hlo_op": "dot.1"}))
    lines = [Line("python", python, id=1), Line("tf_XLAPjRtCpuClient/2", pool, id=2)]
    (tmp_path / "host.xplane.pb").write_bytes(space(Plane("/host:CPU", lines)))
    modules = holotrace.open(tmp_path).table("modules").sort("start_ns")
    assert modules["step"].to_list() == [0, 1, 2]
    assert (modules["start_ns"] - modules["launch_ns"]).to_list() == [28_000] * 3
