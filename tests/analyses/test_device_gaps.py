"""When devices have nothing to do, and why."""

from __future__ import annotations

import polars as pl
import pytest

from drawing import draw
from holotrace import UsageError
from holotrace.analyses.gaps import gaps
from holotrace.diagnosis.rank.host_parts import PARTS
from holotrace.job import Job
from holotrace.present.wording import sentence


def found(job: Job, **options: object) -> list[tuple[int, int, str, str | None]]:
    table = job.gaps(min_gap_ns=1_000, **options)  # type: ignore[arg-type]  # as the test says
    return table.select("start_ns", "idle_ns", "cause", "detail").rows()


def test_a_gap_belongs_to_what_the_host_did_for_most_of_it() -> None:
    job = draw("""
        tpu  |A......B|
        call |.KKKLL.b|
        K = Iterator::Prefetch
        L = PjitFunction(step)
    """)
    assert found(job) == [(1_000, 6_000, "input", "Iterator::Prefetch")]
    assert job.gaps(min_gap_ns=1_000).select("input_ns", "dispatch_ns", "unattributed_ns").row(0) == (
        3_000,
        2_000,
        1_000,
    )


def test_compiling_counts_before_what_surrounds_it_and_names_the_program() -> None:
    job = draw("""
        tpu  |A......B|
        call |.LLLLLLb|
        call |..KKKK..|
        K = backend_compile
        L = PjitFunction(step)
    """)
    assert found(job) == [(1_000, 6_000, "compilation", "jit_step")]


def test_what_the_launching_thread_does_goes_before_what_others_do() -> None:
    drawing = """
        tpu  |A......B|
        call |.IIIIIIb|
        call |.UUUUUU.|
        I = Iterator::Prefetch
        U = TransferToDevice
    """
    assert found(draw(drawing)) == [(1_000, 6_000, "input", "Iterator::Prefetch")]


def test_a_call_that_starts_a_program_waits_for_what_other_threads_do() -> None:
    drawing = """
        tpu  |A......B|
        call |.LLLLLLb|
        call |.UUUU...|
        L = ExecuteReplicated
        U = TransferToDevice
    """
    job = draw(drawing)
    assert found(job) == [(1_000, 6_000, "upload", "TransferToDevice")]
    assert job.gaps(min_gap_ns=1_000)["dispatch_ns"].to_list() == [2_000]


def test_waiting_within_a_call_that_starts_a_program_is_waiting() -> None:
    drawing = "tpu |A......B|\ncall |.LWWWWWb|\nL = ExecuteReplicated\nW = Wait for buffers"
    nested = drawing.replace(".LWWWWWb|", ".LLLLLLb|\ncall |........|")
    assert found(draw(drawing))[0][2] == "wait"
    assert found(draw(nested))[0][2] == "dispatch"


def test_what_another_thread_does_counts_before_the_waiting_of_the_launching_one() -> None:
    drawing = """
        tpu  |A......B|
        call |.WWWWWWb|
        call |.UUUUUU.|
        W = Wait for buffers
        U = TransferToDevice
    """
    assert found(draw(drawing)) == [(1_000, 6_000, "upload", "TransferToDevice")]


def test_what_is_still_on_its_way_as_a_program_begins_is_not_what_that_waited_for() -> None:
    """Loaders send the next batch while a graph is collected: gaps of hosts that took long for that were theirs."""
    long = "." * 200
    drawing = f"""
        tpu  |A......{"B" * 200}|
        call |.......b{long[1:]}|
        call |.UUUUUU{{}}|
        mark |.FFFFFF{long}|
        U = TransferToDevice
        F = forward
    """
    assert found(draw(drawing.format("U" * 150 + "." * 50))) == [(1_000, 6_000, "program", "forward")]
    assert found(draw(drawing.format(long))) == [(1_000, 6_000, "upload", "TransferToDevice")]


def test_work_launched_before_the_gap_was_queued_whatever_the_host_does() -> None:
    assert found(draw("tpu |A...B|\ncall |bIII.|\nI = Iterator::Next")) == [(1_000, 3_000, "queued", None)]


def test_a_range_that_the_program_named_says_which_code_it_is() -> None:
    drawing = "tpu |A.....B|\ncall |......b|\nmark |.FFFF..|\nF = forward"
    assert found(draw(drawing)) == [(1_000, 5_000, "program", "forward")]


def test_a_range_called_after_data_is_the_input_pipeline_and_others_can_be_named() -> None:
    drawing = "tpu |A.....B|\ncall |......b|\nmark |.FFFF..|\nF = {}"
    assert found(draw(drawing.format("load_batch")))[0][2] == "input"
    assert found(draw(drawing.format("next_image")))[0][2] == "program"
    assert found(draw(drawing.format("next_image")), input_ranges="image")[0][2] == "input"


def test_reading_a_result_before_the_step_ends_is_reading_back_also_what_runs_for_it() -> None:
    drawing = "tpu |A.....B|\ncall |.SSSS.b|\nS = SyncTensorsGraphInternal"
    assert found(draw(drawing))[0][2] == "read_back"
    at_the_end = "tpu |A.....B|\ncall |.MMMM.b|\ncall |.......|\nM = StepMarker"
    assert found(draw(at_the_end))[0][2] == "tracing"


def test_a_gap_that_nothing_tells_about_is_unattributed() -> None:
    assert found(draw("tpu |A..B|")) == [(1_000, 2_000, "unattributed", None)]


def test_gaps_begin_and_end_the_window() -> None:
    job = draw("tpu |..AA...|\nstep |1111111|")
    assert [row[:2] for row in found(job)] == [(4_000, 3_000), (0, 2_000)]
    assert job.gaps(min_gap_ns=1_000)["step"].to_list() == [1, 1]


def test_a_gap_belongs_to_the_step_that_launched_what_ended_it() -> None:
    job = draw("tpu |A.......BB|\nstep |1112222223|\ncall |....b.....|")
    assert job.gaps(min_gap_ns=1_000)["step"].to_list() == [2]


def test_short_gaps_are_left_out() -> None:
    job = draw("tpu |A.A...A|")
    assert job.gaps(min_gap_ns=3_000).height == 1
    assert job.gaps(min_gap_ns=2_000).height == 1
    assert job.gaps(min_gap_ns=1_000).height == 2
    with pytest.raises(UsageError, match="min_gap_ns is 0"):
        job.gaps(min_gap_ns=0)


def test_each_device_has_its_own_gaps() -> None:
    table = draw("tpu |A..A|\ntpu |AAAA|").gaps(min_gap_ns=1_000)
    assert table["device"].to_list() == [0]


def test_the_parts_of_a_gap_sum_to_it_and_gaps_to_the_idle_time() -> None:
    job = draw("""
        tpu  |A......B..A..|
        call |.KKKLL.b.....|
        call |...UUUU......|
        mark |......FFFF...|
        step |111111222222.|
        K = Iterator::Prefetch
        L = PjitFunction(step)
        U = TransferToDevice
    """)
    table = job.gaps(min_gap_ns=1)
    assert (table["idle_ns"] == table.select(pl.sum_horizontal(f"{c}_ns" for c in PARTS)).to_series()).all()
    assert table["idle_ns"].sum() == job.duty_cycle()["idle_ns"].sum()


def test_a_host_that_keeps_devices_waiting_is_a_finding() -> None:
    dots = "." * 200
    job = draw(f"tpu |A{dots}B|\ncall |.{'L' * 199}.b|\nL = PjitFunction(step)")
    (finding,) = gaps.findings(job.gaps())
    assert finding.rule == "host-bound-device"
    assert sentence(finding) == (
        "Devices stand still for 199 µs while the host prepares and starts programs, mostly in PjitFunction(step)"
    )
    assert finding.cost_ns == 199_000


def test_sending_data_while_devices_wait_is_a_finding() -> None:
    dots = "." * 200
    job = draw(f"tpu |A{dots}B|\ncall |.{'U' * 150}b|\nU = TransferToDevice")
    assert [(f.rule, f.cost_ns) for f in gaps.findings(job.gaps())] == [("slow-upload", 150_000)]
