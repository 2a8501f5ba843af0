"""What is said of what recording takes of programs of XLA, most of whose devices are threads of their host."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holotrace.core.tables import DEVICE_EVENTS, HOST_CALLS, MODULES, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import COMPUTE, MEMORY
from holotrace.job import Job
from xla_drawing import frame

# Name, start and end, in microseconds.
Span = tuple[str, float, float]
STEPS_US, STEP_COUNT = 10_000, 6
INPUT = "$train.py:9 load_batch"


def job(calls: Sequence[Span], ops: Sequence[Span], *, first: Sequence[Span] = (), plane: str = "/host:CPU") -> Job:
    """Six steps of 10 ms in each of which a host makes these calls and its threads compute these operations.

    Args:
        calls: Of each step, counted from its begin.
        ops: Of each step.
        first: What the host does in the first step, if not the same.
        plane: Where the operations run.
    """
    steps = [at * STEPS_US for at in range(STEP_COUNT)]
    told: list[Span] = [("train", at, at + STEPS_US) for at in steps]
    told += [(name, at + start, at + end) for at in steps for name, start, end in (calls if at or not first else first)]
    of_thread: dict[str, object] = {"tid": "python", "pid": "1"}
    on_host: dict[str, object] = {"plane": plane, "line": "tf_XLAEigen/1", "device": 0, "stream": 0}
    ran = [
        on_host
        | place
        | {"kind": kind, "category": "copy" if kind == MEMORY else "fusion", "step": step, "self_ns": ns}
        for step, at in enumerate(steps)
        for name, start, end in ops
        for kind, ns in [(MEMORY if name.startswith("copy") else COMPUTE, round((end - start) * 1_000))]
        for place in [_placed(len(told) + step, name, at + start, at + end)]
    ]
    for number, op in enumerate(ran):
        op["event_id"] = len(told) + number
    # Each step is one program, from its first operation to its last.
    of_program: dict[str, object] = {"module": "jit_f", "program": 7, "plane": plane, "device": 0}
    ran_from, ran_until = ops[0][1], ops[-1][2]
    runs = [_placed(0, "", at + ran_from, at + ran_until) | of_program | {"step": n} for n, at in enumerate(steps)]
    tables = {
        "modules": frame(MODULES, runs),
        "steps": frame(STEPS, [_placed(n, *told[n]) | {"step": n} for n in range(STEP_COUNT)]),
        "host_calls": frame(HOST_CALLS, [of_thread | _placed(n, *call) for n, call in enumerate(told)]),
        "xla_ops": frame(XLA_OPS, ran),
        "device_events": frame(DEVICE_EVENTS, ran),
    }
    return Job.from_ranks({0: RankTrace(0, tables)})


def _placed(event_id: int, name: str, start_us: float, end_us: float) -> dict[str, object]:
    return {"event_id": event_id, "name": name, "start_ns": round(start_us * 1_000), "end_ns": round(end_us * 1_000)}


def told(job: Job) -> list[tuple[str, str | None, float]]:
    """The causes with what is responsible, and what they cost, in milliseconds per step."""
    rows = job.causes().select("cause", "responsible", "cost_per_step_ns").rows()
    return [(cause, responsible, cost_ns / 1e6) for cause, responsible, cost_ns in rows]


def traced(begin_us: float, end_us: float, count: int) -> list[Span]:
    """An operation that is not compiled: so many functions of JAX, one after the other."""
    length = (end_us - begin_us) / count
    inner = [
        ("$core.py:709 bind", begin_us + length * at, begin_us + length * at + length / 2) for at in range(1, count)
    ]
    return [("$traceback_util.py:191 reraise_with_filtered_traceback", begin_us, end_us), *inner]


def test_operations_that_are_started_one_by_one_are_launching_and_no_functions_of_the_program() -> None:
    """The functions of JAX were told as the program's own: 10 of 107 ms were those of its filter of tracebacks."""
    ((cause, _, cost),) = told(job(traced(0, 6_000, 100), [("fusion.1", 6_000, 10_000)]))
    assert cause == "launch-bound"
    # A hundred functions take little to be written down.
    assert cost == pytest.approx(6 - 100 * 0.0005, rel=0.02)


def test_what_writing_down_functions_takes_is_the_recordings() -> None:
    """A step of 56 ms took 107 while it was recorded, and launching was said to take 70 of them."""
    found = told(job(traced(0, 6_000, 5_000), [("fusion.1", 6_000, 10_000)]))
    assert [cause for cause, *_ in found] == ["launch-bound", "recording"]
    assert found[0][2] == pytest.approx(6 - 5_000 * 0.0005, rel=0.02)


def test_half_of_what_hosts_do_is_their_own_however_many_functions_they_call() -> None:
    found = told(job(traced(0, 6_000, 30_000), [("fusion.1", 6_000, 10_000)]))
    assert found[0][2] == pytest.approx(3, rel=0.02)


def test_what_hosts_do_between_programs_of_a_device_is_shorter_while_nobody_records_it() -> None:
    """Batches of tokens made in Python cost 57 of 78 ms by what was told, and 31 without the profiler, on an H100."""
    inner = [("$builtins hash", at * 1.2, at * 1.2 + 0.5) for at in range(1, 5_000)]
    calls = [(INPUT, 0, 6_000), *inner, ("PjitFunction(f)", 6_000, 6_010)]
    found = told(job(calls, [("fusion.1", 6_010, 10_000)], plane="/device:GPU:0"))
    assert [cause for cause, *_ in found] == ["input", "recording"]
    assert found[0][2] == pytest.approx(6 - 5_000 * 0.0005, rel=0.02)


def test_operations_that_take_hardly_any_time_are_mostly_written_down() -> None:
    """A step of 3.4 ms took 45 while it was recorded, and 8 of them were said to be lost by copying."""
    ops = [(f"copy.{at % 3}", at * 1.0, at * 1.0 + 0.6) for at in range(10_000)]
    (found,) = job([], ops).causes().to_dicts()
    assert found["cause"] == "recording"
    # No more than nine tenths of what they compute.
    assert found["profiler_ns"] == pytest.approx(STEP_COUNT * 0.9 * 10_000 * 600, rel=0.01)


def test_copies_that_last_are_told() -> None:
    ((cause, responsible, cost),) = told(job([], [("copy.1", 0, 2_000), ("fusion.1", 2_000, 10_000)]))
    assert (cause, responsible) == ("copy", "copy.1")
    assert cost == pytest.approx(2, rel=0.01)


def test_what_devices_wait_for_only_as_the_recording_begins_is_no_cause() -> None:
    """Each healthy program of JAX was said to lose 1 to 6 % by its input: nothing is launched as recording begins."""
    busy = [("fusion.1", 1_000, 10_950)]
    assert told(job([(INPUT, 5_000, 5_900)], busy, first=[(INPUT, 0, 1_000)])) == []
    lasting = told(job([(INPUT, 0, 1_000)], [("fusion.1", 1_000, 10_000)]))
    assert [(cause, responsible) for cause, responsible, _ in lasting] == [("input", INPUT)]


def test_all_that_evaluating_does_is_part_of_it() -> None:
    """A third of an evaluation was told as launching and input."""
    evaluating = [("$train.py:40 evaluate", 0, 6_000), (INPUT, 100, 2_000), *traced(2_000, 5_900, 50)]
    ((cause, responsible, cost),) = told(job(evaluating, [("fusion.1", 6_000, 10_000)]))
    assert (cause, responsible) == ("evaluation", "$train.py:40 evaluate")
    assert cost == pytest.approx(6, rel=0.02)


@pytest.mark.parametrize("name", ["$dataset_ops.py:4775 __next__", "$py_dataset_adapter.py:257 _finite_generator"])
def test_iterators_of_libraries_are_input(name: str) -> None:
    """What tf.data and Keras made was told as a function of the program."""
    ((cause, responsible, _),) = told(job([(name, 0, 6_000)], [("fusion.1", 6_000, 10_000)]))
    assert (cause, responsible) == ("input", name)
