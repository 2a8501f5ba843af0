"""What the host does in each step."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import symptoms
from drawing import draw, trace
from holotrace.analyses.host_steps import PARTS
from holotrace.core.tables import HLO
from holotrace.job import Job
from holotrace.present.wording import sentence
from xla_drawing import frame


def parts(job: Job, step: int = 1) -> dict[str, int]:
    """The parts of a step that are there."""
    row = job.host_steps().filter(step=step).select(PARTS).row(0, named=True)
    return {name: ns for name, ns in row.items() if ns}


def test_a_step_is_made_of_what_the_host_did_in_it() -> None:
    job = draw("""
        step |1111111111|
        call |.CCLLLIIW.|
        C = backend_compile
        L = PjitFunction(f)
        I = Iterator::Next
        W = Wait for buffers
    """)
    assert parts(job) == {
        "compilation_ns": 2_000,
        "dispatch_ns": 3_000,
        "input_ns": 2_000,
        "wait_ns": 1_000,
        "unattributed_ns": 2_000,
    }


def test_a_graph_is_not_collected_while_its_thread_waits_for_the_device() -> None:
    """PyTorch/XLA waits inside StepMarker until the step before has used its inputs: that was said to be tracing."""
    for waiting in ("Wait for donation holds", "TensorCollectionBarrier", "Acquire semaphore"):
        job = draw(f"""
            step |1111111111|
            call |.MMMMMMMM.|
            deep |...WWWWW..|
            M = StepMarker
            W = {waiting}
        """)
        waited = "back_pressure_ns" if "semaphore" in waiting else "wait_ns"
        assert parts(job) == {"tracing_ns": 3_000, waited: 5_000, "unattributed_ns": 2_000}


def test_the_name_of_the_step_itself_is_no_code_in_it() -> None:
    assert parts(draw("step |1111|\ntpu |A...|")) == {"unattributed_ns": 4_000}


def test_what_goes_on_between_steps_belongs_to_none() -> None:
    table = draw("step |111..222|\ncall |.IIIIII.|\nI = Iterator::Next").host_steps()
    assert table.select("step", "step_ns", "input_ns").rows() == [(1, 3_000, 2_000), (2, 3_000, 2_000)]


def test_the_parts_sum_to_the_step() -> None:
    table = draw("""
        step |1111112222222|
        call |.CCLLLIIW.MMM|
        call |UUUUU..UUUUUU|
        mark |FFFFFFFFFFF..|
        C = backend_compile
        M = StepMarker
        U = TransferToDevice
    """).host_steps()
    assert (table["step_ns"] == table.select(pl.sum_horizontal(PARTS)).to_series()).all()


STALLS = """
    step |{}|
    call |{}|
    I = Iterator::Next
"""


def test_a_step_whose_input_takes_much_longer_is_a_stall() -> None:
    steps = "".join(str(step) * 2_000 for step in range(1, 6))
    lengths = [100, 100, 100, 1_500, 100]
    input_calls = "".join("I" * length + "." * (2_000 - length) for length in lengths)
    found = symptoms.of(draw(STALLS.format(steps, input_calls)))
    assert sentence(found["input-stall"]) == "Input takes 1.40 ms longer than usual in step 4 (Iterator::Next)"
    assert found["input-stall"].cost_ns == 1_400_000
    assert "slow-input" not in found


def test_input_that_is_slow_in_every_step_is_no_stall_but_slow() -> None:
    steps = "".join(str(step) * 100 for step in range(1, 6))
    found = {finding.rule: finding for finding in draw(STALLS.format(steps, ("I" * 30 + "." * 70) * 5)).findings()}
    assert sentence(found["slow-input"]) == "The host spends 30% of its time on input"
    assert found["slow-input"].cost_ns == 150_000
    assert "input-stall" not in found


def test_input_that_is_read_while_devices_work_is_no_finding() -> None:
    """A healthy job whose batches another thread loads was told that its host spends a third of its time on it."""
    job = draw(f"""
        step |{"1" * 1000}{"2" * 1000}{"3" * 1000}|
        tpu  |{"A" * 1000}{"B" * 1000}{"C" * 1000}|
        call |a{"." * 998}b{"." * 999}c{"." * 1000}|
        call |{("." * 100 + "I" * 600 + "." * 300) * 3}|
        I = Iterator::Next
    """)
    assert "slow-input" not in {finding.rule for finding in job.findings()}


def test_a_result_that_is_read_back_is_said_with_the_range_it_is_read_in() -> None:
    job = draw("""
        step |11111222223333|
        call |..RR........RR|
        mark |.GGG.......GGG|
        R = np.asarray(jax.Array)
        G = log_loss
    """)
    assert job.host_steps()["read_back_name"].to_list() == ["log_loss", None, "log_loss"]
    found = next(finding for finding in job.findings() if finding.rule == "early-read")
    assert sentence(found) == "Reading results takes 4.00 µs in steps 1 and 3 (log_loss)"
    # It kept no device waiting.
    assert (found.severity, found.cost_ns) == ("info", None)


@pytest.mark.parametrize(
    ("function", "file", "name"),
    [
        # A loop in a file that compiles nothing, whose models are in others, was not known as the program's own.
        ("$trainer.py:140 log_metrics", "model.py", "trainer.py:140 log_metrics"),
        # Where a file compiles, its code is surer than what this calls.
        ("$trainer.py:140 log_metrics", "train.py", "train.py:20 fit"),
        ("$_metrics.py:9 compute", "model.py", "train.py:20 fit"),
        ("$numeric.py:9 asarray", "model.py", "train.py:20 fit"),
    ],
)
def test_a_result_that_is_read_back_is_said_with_the_line_that_reads_it(function: str, file: str, name: str) -> None:
    """Functions of JAX and of libraries are between the program and what it reads."""
    rank = trace(f"""
        step |1111111|
        call |FFFFFFF|
        deep |GGGGGG.|
        deep |HHHHH..|
        deep |JJJJ...|
        deep |.RR....|
        F = $train.py:20 fit
        G = {function}
        H = $array.py:298 __float__
        J = $profiler.py:417 wrapper
        R = np.asarray(jax.Array)
    """)
    hlo = frame(HLO, [{"source": f"/home/user/{file}:12"}])
    job = Job.from_ranks({0: replace(rank, tables={**rank.tables, "hlo": hlo})})
    assert job.host_steps()["read_back_name"].to_list() == [name]


def test_what_other_threads_read_back_is_no_early_read() -> None:
    job = draw("step |11111|\ncall |.....|\ncall |.RRR.|\nR = TransferFromDevice")
    assert parts(job)["read_back_ns"] == 3_000
    assert "early-read" not in {finding.rule for finding in job.findings()}
