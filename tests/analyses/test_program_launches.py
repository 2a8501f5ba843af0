"""How programs are started, and what devices wait for before them."""

from __future__ import annotations

from dataclasses import replace

from drawing import draw, trace
from holotrace.core.tables import HLO
from holotrace.job import Job
from holotrace.present.wording import sentence
from xla_drawing import frame


def row(job: Job, module: str = "jit_f") -> dict[str, object]:
    return job.program_launches().filter(module=module).row(0, named=True)


def test_a_device_waits_for_what_is_launched_after_it_was_done() -> None:
    late = draw("tpu  |.AA...BB|\ncall |a....b..|\nA = dot.1 in jit_f(1)\nB = dot.2 in jit_g(2)")
    assert (row(late, "jit_g")["unlaunched_ns"], row(late, "jit_f")["unlaunched_ns"]) == (3_000, 0)
    queued = draw("tpu  |.AA...BB|\ncall |ab......|\nA = dot.1 in jit_f(1)\nB = dot.2 in jit_g(2)")
    assert row(queued, "jit_g")["unlaunched_ns"] == 0


def test_compiling_is_no_waiting_for_a_launch() -> None:
    job = draw(
        "tpu  |.AA.....BB|\ncall |a..KKKKb..|\nA = dot.1 in jit_f(1)\nB = dot.2 in jit_g(2)\nK = backend_compile"
    )
    assert row(job, "jit_g")["unlaunched_ns"] == 1_000


def test_programs_of_one_name_are_apart() -> None:
    job = draw("tpu |AAB|\nA = dot.1 in jit_f(1)\nB = dot.1 in jit_f(2)")
    assert job.program_launches().select("program", "device_ns").sort("program").rows() == [(1, 2_000), (2, 1_000)]


FORCED = """
    step |111111111111|
    mark |.FFFFF......|
    tpu  |...AA...BBB.|
    call |.SSSSS.MMM..|
    deep |..a....SSS..|
    deep |........b...|
    A = dot.1 in graph(1)
    B = dot.2 in graph(2)
    S = SyncTensorsGraphInternal
    M = StepMarker
    F = log_loss
"""


def test_a_graph_that_runs_before_the_end_of_the_step_was_forced() -> None:
    job = draw(FORCED)
    shown = job.program_launches().select("program", "forced_count", "forced_ns", "caller").sort("program")
    assert shown.rows() == [(1, 1, 2_000, "log_loss"), (2, 0, 0, None)]
    found = next(finding for finding in job.findings() if finding.rule == "forced-execution")
    assert sentence(found) == (
        "graph ran 1 time in the middle of a step for 2.00 µs since a result was read in log_loss"
    )
    assert found.cost_ns == 2_000


def test_small_programs_that_devices_wait_for_are_a_finding() -> None:
    many = draw(f"tpu  |{'.A..' * 12}|\ncall |{'a...' * 12}|\nA = add.1")
    found = next(finding for finding in many.findings() if finding.rule == "small-programs")
    assert sentence(found) == "Devices wait 33.0 µs for the launch of jit_f, which takes less than 0.1 ms a run"
    assert found.cost_ns == 11 * 3_000
    few = draw(f"tpu  |{'.A..' * 3}|\ncall |{'a...' * 3}|\nA = add.1")
    assert "small-programs" not in {finding.rule for finding in few.findings()}


def test_lines_of_the_programs_own_files_are_named_beside_ranges() -> None:
    rank = trace(
        "step |111111|\nmark |.FFF..|\ncall |PPPPPP|\ndeep |.QQQ..|\ndeep |..a...|\ntpu |...A..|\n"
        "A = dot.1\nF = train\nP = $train.py:63 main\nQ = $pjit.py:180 cache_miss"
    )
    hlo = frame(HLO, [{"source": "/home/user/train.py:12"}, {"source": "/usr/site-packages/pjit.py:9"}])
    job = Job.from_ranks({0: replace(rank, tables={**rank.tables, "hlo": hlo})})
    assert row(job)["caller"] == "train, train.py:63 main"
