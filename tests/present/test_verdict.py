"""The verdict: what could be saved, why it is lost, and what to do next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import other_jobs
import polars as pl
import pytest

import holotrace
from drawing import draw
from holotrace import sample
from holotrace.analyses.stragglers import stragglers
from holotrace.core.analysis import CAUSES, Finding
from holotrace.present import report, terminal, verdict


def causes(*rows: tuple[str, str, int, float], joint_ns: int) -> pl.DataFrame:
    names = ("cause", "message", "cost_ns", "share_ratio")
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(joint_ns=pl.lit(joint_ns))


def test_it_says_what_could_be_saved_why_and_what_to_do() -> None:
    table = causes(("input", "Rank 1 waits.", 40_000_000, 0.2), joint_ns=50_000_000)
    advice = "Use more workers. They load ahead."
    found = [
        Finding("critical", "Rank 1 waits.", (1,), 40_000_000, rule="input", analysis=CAUSES, what_to_do=advice),
        Finding("info", "something else", (), 90_000_000, rule="other", analysis="kernels"),
    ]
    said = verdict.of({CAUSES: table}, found, 4)
    assert said.saving == "12.5 ms of each step (25%) could be saved."
    assert said.why == ("10.0 ms a step (20%): Rank 1 waits.",)
    assert said.next == (advice,)


def test_of_further_causes_the_first_sentence_is_what_to_do() -> None:
    table = causes(("a", "First.", 9, 0.9), ("b", "Second.", 1, 0.1), joint_ns=10)
    found = [
        Finding("warning", "First.", (), 9, rule="a", analysis=CAUSES, what_to_do="Do this. Then that."),
        Finding("warning", "Second.", (), 1, rule="b", analysis=CAUSES, what_to_do="Set num_workers. It helps."),
    ]
    assert verdict.of({CAUSES: table}, found, 1).next == ("Do this. Then that.", "Set num_workers.")


def test_a_clean_job_is_told_what_limits_it(tmp_path: Path) -> None:
    other_jobs.write(tmp_path, other_jobs.Other("tensor"))
    text = terminal.as_text(terminal.verdict(holotrace.open(tmp_path).run()))
    assert "No cause is known that is worth more than 1.0% of the time." in text
    assert "the factors are: host" in text


def test_a_clean_job_is_told_its_mfu_where_nearly_all_work_is_known() -> None:
    of_causes = causes(joint_ns=0)
    known = pl.DataFrame(
        {"step": [None, 1, None], "modelled_ratio": [0.95, 0.95, 0.97], "mfu_ratio": [0.41, 0.9, 0.43]}
    )
    assert verdict.of({CAUSES: of_causes, "efficiency": known}, [], 1).limits == (
        "The model gets 41% to 43% of what the devices could compute (MFU)."
    )
    unknown = known.with_columns(modelled_ratio=0.5)
    assert verdict.of({CAUSES: of_causes, "efficiency": unknown}, [], 1).limits == ""


def test_a_clean_job_is_told_what_its_computing_is_made_of() -> None:
    """Nine tenths of the time of a healthy job is computing, of which its verdict had no word but the MFU."""
    parts = {"gemm_ns": [60, 9, 62], "attention_ns": [15, 1, 15], "norm_ns": [9, 0, 9], "other_ns": [16, 0, 14]}
    table = pl.DataFrame({"step": [None, 1, None], "busy_ns": [100, 10, 100], **parts})
    said = verdict.of({CAUSES: causes(joint_ns=0), "work_categories": table}, [], 1).limits
    assert said == "Of the time that devices are busy, 61% goes to products of matrices and 15% to attention."
    assert verdict.of({CAUSES: causes(joint_ns=0), "work_categories": table.clear()}, [], 1).limits == ""


def test_where_ranks_could_not_be_compared_no_cause_is_no_praise() -> None:
    table = pl.DataFrame({"rank": [0, 1], "collective_count": [0, 1], "uncompared_count": [8, 7]})
    found = stragglers.findings(
        table.with_columns(lost_ns=0, device=None, standing_ns=0, total_ns=0, clock_offset_ns=0)
    )
    told = verdict.of({CAUSES: causes(joint_ns=0)}, found, 1)
    assert told.limits.startswith("15 of 16 collectives could not be compared between ranks, so that what ranks wait")
    assert told.next == (found[0].what_to_do,)
    assert "record_shapes=True" in told.next[0]


@pytest.mark.parametrize(
    ("exposed_ns", "bus_gbps", "compared", "said"),
    [
        (80, 1.5, 4, "Moving data takes 70% of the time, most of it in allreduce at a bus bandwidth of 1.5 GB/s."),
        (80, None, 4, "Moving data takes 70% of the time."),
        # Half of it the rank waited for others, or computed.
        (60, 1.5, 4, ""),
        # What is not compared with other ranks may be waiting for these.
        (80, 1.5, 0, ""),
    ],
)
def test_a_job_that_moving_data_limits_is_told_how_fast_that_is(
    exposed_ns: int, bus_gbps: float | None, compared: int, said: str
) -> None:
    """Of a job on an H100 that spent 93% of its time in collectives over sockets only factors were told."""
    parts = {"compute_ns": [20, 20], "exposed_comm_ns": exposed_ns, "exposed_memory_ns": 0, "idle_ns": 80 - exposed_ns}
    breakdown = pl.DataFrame({"step": [None, 1], **parts}, schema_overrides=dict.fromkeys(parts, pl.Int64))
    moved = {"collective": "allreduce", "exposed_ns": exposed_ns, "moving_ns": 90, "lost_ns": 10 if compared else None}
    moved |= {"count": 4, "compared_count": compared}
    # Two devices of the rank communicate at once.
    communication = pl.DataFrame([{**moved, "bus_gbps": bus_gbps}] * 2, schema_overrides={"bus_gbps": pl.Float64})
    found = verdict.of({CAUSES: causes(joint_ns=0), "communication": communication, "time_breakdown": breakdown}, [], 1)
    assert found.limits == said
    assert [text.startswith("Compare this bandwidth") for text in found.next] == [True] * bool(said)


@pytest.mark.parametrize(
    ("between", "outside", "said"),
    [(2_000, 1_000, ", most of it within programs, between their operations"), (1, 2, "")],
)
def test_idle_time_is_said_to_be_within_programs_where_most_of_it_is(between: int, outside: int, said: str) -> None:
    result = draw("host |K....|\ncompute |KK..K|").run()
    steps = pl.DataFrame({"other_ns": [between], "idle_ns": [outside]})
    told = report.verdict_parts(replace(result, tables={**result.tables, "device_steps": steps}))
    assert told.where_time_goes == f"The rank ran 5.00 µs: 60% compute (3.00 µs) and 40% idle (2.00 µs{said})."


def test_without_devices_it_says_what_to_record() -> None:
    said = terminal.as_text(terminal.verdict(draw("host |AABB|").run()))
    assert "Finding causes needs the events of devices, so record these too (PyTorch: activities=" in said
    assert "No cause is known" not in said


def test_time_before_the_first_work_is_said_where_causes_are_looked_for_in_it() -> None:
    """Without it a cause may be worth more than the time that the rank is said to have run."""
    late = "step    |1111111111|\ncompute |......AAAA|"
    said = terminal.as_text(terminal.verdict(draw(late).run()))
    assert (
        "From the first work on its device to the last, the rank ran 4.00 µs, of 10.0 µs recorded: 100% compute" in said
    )
    assert "The rank ran 10.0 µs" in terminal.as_text(terminal.verdict(draw(late.replace(".", "A")).run()))


def test_it_fits_on_a_screen_and_names_the_cause_once(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=4, steps=6, seed=2, faults=["checkpoint", "slow-device"], stacks=True)
    text = terminal.as_text(terminal.verdict(holotrace.open(tmp_path).run()), 110)
    assert len(text.splitlines()) <= 20
    assert text.count("saves a checkpoint in") == 1


def test_where_causes_were_not_asked_for_it_says_nothing_of_them() -> None:
    assert verdict.of({}, [], 1) == verdict.Verdict()
