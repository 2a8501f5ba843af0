"""What the first screen of the report says."""

import dataclasses
from pathlib import Path

import made_up
import polars as pl
import pytest
from markupsafe import escape

import holotrace
from holotrace import sample
from holotrace.analyses import ALL
from holotrace.analyses.causes import causes
from holotrace.analyses.duty_cycle import duty_cycle
from holotrace.analyses.factors import factors
from holotrace.analyses.replay import replay
from holotrace.core.analysis import Finding
from holotrace.present import format as fmt
from holotrace.present import html, report
from holotrace.present.opening import Opening, opening

ANALYSES = (*made_up.ANALYSES, causes, factors, replay)
# Two ranks: 100 ms and 90 ms computed, 104 ms with copies, 115 ms with communication in no time.
# 120 ms are replayed, 121 ms recorded.
_RATIOS = {"host_ratio": 104 / 115, "balance_ratio": 0.95, "copy_ratio": 100 / 104, "communication_ratio": 115 / 120}
FACTORS = (100, 90), {**_RATIOS, "efficiency_ratio": 95 / 120}


def table(analysis: object, **columns: object) -> pl.DataFrame:
    """Rows of an analysis' table, null where nothing is said."""
    nothing = analysis.nothing  # type: ignore[attr-defined]
    given = pl.DataFrame(columns)
    return given.select(
        (pl.col(name) if name in given.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in nothing.schema.items()
    )


def job(*, found: tuple[Finding, ...] = (), known: bool = True) -> made_up.Result:
    made = made_up.make(2)
    computed, ratios = FACTORS
    given = {name: [value if known else None] * 2 for name, value in ratios.items()}
    tables = {
        "factors": table(
            factors, rank=[0, 1], compute_ns=[c * 10**6 for c in computed], job_ns=[120 * 10**6] * 2, **given
        ),
        "replay": table(replay, rank=[0, 0, 1], step=[1, 2, 1], recorded_ns=[60 * 10**6, 61 * 10**6, 50 * 10**6]),
        "causes": table(
            causes,
            cause=["input"],
            message=["rank 1 waits for input"],
            responsible=["DataLoader.<next>"],
            steps=[[2]],
            cost_ns=[10 * 10**6],
            cost_per_step_ns=[5 * 10**6],
            share_ratio=[0.08],
        ),
    }
    return dataclasses.replace(made, tables={**made.tables, **tables}, findings=found)


CAUSE = Finding("warning", "rank 1 waits for input", (1,), 10 * 10**6, "input", "causes", what_to_do="More workers.")


def first_screen(result: made_up.Result) -> Opening:
    return opening(result, ANALYSES)


def test_the_waterfall_goes_from_computing_to_the_recorded_time_without_a_gap() -> None:
    waterfall = first_screen(job()).waterfall
    assert waterfall is not None
    *parts, measured = waterfall.rows
    assert [row.name for row in parts] == [
        *("Computing, mean of ranks", "Unequal work of ranks", "Copies not hidden"),
        *("Devices wait for hosts or each other", "Communication not hidden", "Beyond the replay"),
    ]
    ends = [(row.pieces[0].left, row.pieces[0].left + row.pieces[0].width) for row in parts]
    assert ends[0][0] == 0 and ends[-1][1] == pytest.approx(100, abs=0.02)
    assert [end for _, end in ends[:-1]] == pytest.approx([start for start, _ in ends[1:]], abs=0.02)
    assert (measured.name, measured.value) == ("Measured time", "121 ms")


def test_computing_of_several_devices_of_a_rank_is_said_to_be_their_mean() -> None:
    made = job()
    devices = table(duty_cycle, rank=[0, 0, 1], device=[0, 1, 0])
    waterfall = first_screen(dataclasses.replace(made, tables={**made.tables, "duty_cycle": devices})).waterfall
    assert waterfall is not None and waterfall.rows[0].name == "Computing, mean of devices"


def test_a_gain_goes_back_from_the_measured_time_and_is_never_larger_than_it() -> None:
    small, large = (dataclasses.replace(CAUSE, cost_ns=ns) for ns in (10 * 10**6, 10**12))
    for cause, width in ((small, 10 / 1.21), (large, 100)):
        waterfall = first_screen(job(found=(cause,))).waterfall
        assert waterfall is not None
        gain = waterfall.rows[-1]
        assert gain.name == "Without input (DataLoader.<next>), rank 1"
        assert gain.pieces[0].left + gain.pieces[0].width == pytest.approx(100, abs=0.02)
        assert gain.pieces[0].width == pytest.approx(width, abs=0.02)


def test_a_job_without_steps_has_nothing_beyond_what_is_replayed() -> None:
    made = job()
    replayed = made.tables["replay"].with_columns(step=pl.lit(None, pl.Int64))
    waterfall = first_screen(dataclasses.replace(made, tables={**made.tables, "replay": replayed})).waterfall
    assert waterfall is not None
    assert "Beyond the replay" not in [row.name for row in waterfall.rows]


@pytest.mark.parametrize(
    ("share", "of_what", "title"), [(10 / 121, "", ""), (0.04, " of the job", "in percent of the step")]
)
def test_parts_of_a_job_that_is_more_than_its_steps_are_no_parts_of_a_step(
    share: float, of_what: str, title: str
) -> None:
    """The waterfall had 91 % beside the 77 % of the same cause."""
    made = job(found=(CAUSE,))
    known = made.tables["causes"].with_columns(share_ratio=share, joint_ns=pl.lit(10**7))
    made = dataclasses.replace(
        made,
        tables={**made.tables, "causes": known, "replay": made.tables["replay"].filter(rank=0)},
        info=made.info.with_columns(step_count=2),
    )
    shown = first_screen(made)
    assert shown.causes[0].share == f"{fmt.percent(share)}{of_what}"
    assert f"({fmt.percent(share)}{of_what})" in "".join(report.verdict_parts(made, ANALYSES).causes.why)
    assert shown.saving == f"5.00 ms of each step ({fmt.percent(share)}{of_what}) could be saved."
    assert shown.waterfall_title.endswith(f"measured one, {title}" if title else "measured one")


@pytest.mark.parametrize(("profiler_ns", "title"), [(40 * 10**6, ", in percent of the recorded step"), (1_000, "")])
def test_parts_of_a_step_without_the_profiler_are_no_parts_of_the_recorded_one(profiler_ns: int, title: str) -> None:
    """The waterfall had 35 % beside the 37 % of the same cause."""
    made = job(found=(CAUSE,))
    known = made.tables["causes"].with_columns(share_ratio=10 / 81, joint_ns=10**7, profiler_ns=pl.lit(profiler_ns))
    made = dataclasses.replace(
        made, tables={**made.tables, "causes": known, "replay": made.tables["replay"].filter(rank=0)}
    )
    made = dataclasses.replace(made, info=made.info.with_columns(step_count=2))
    assert first_screen(made).waterfall_title.partition("measured one")[2] == title


def test_without_factors_the_parts_of_the_time_are_shown() -> None:
    waterfall = first_screen(job(known=False)).waterfall
    assert waterfall is not None
    assert [row.name for row in waterfall.rows][:2] == ["Compute", "Exposed communication"]


def test_a_cause_tells_worth_rank_steps_and_who_is_responsible() -> None:
    (cause,) = first_screen(job(found=(CAUSE,))).causes
    assert (cause.worth, cause.share) == ("5.00 ms a step", "8.0%")
    assert dict(cause.details) == {"Ranks": "1", "Steps": "2", "Responsible": "DataLoader.<next>"}
    assert cause.advice.what_to_do == "More workers."


def test_where_no_cause_is_known_findings_take_their_place() -> None:
    shown = opening(made_up.make(8), made_up.ANALYSES)
    assert shown.noun == "finding"
    assert [cause.severity for cause in shown.causes] == ["critical", "warning"]


def test_causes_beyond_the_first_screen_are_counted() -> None:
    found = tuple(dataclasses.replace(CAUSE, cost_ns=n * 10**6) for n in range(5, 0, -1))
    shown = first_screen(job(found=found))
    assert (len(shown.causes), shown.more) == (3, 2)


def test_a_job_without_any_time_has_no_waterfall() -> None:
    assert opening(made_up.empty(), made_up.ANALYSES).waterfall is None


def test_a_job_that_loses_nothing_says_so_and_what_limits_it(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=2, steps=4, faults=[])
    result = holotrace.open(tmp_path).run()
    shown = opening(result, ALL)
    assert shown.saving == "No cause is known that is worth more than 1.0% of the time."
    assert shown.limits.startswith("Devices compute ")
    page = html.page(result)
    assert (
        escape(shown.saving) in page
        and escape(shown.limits) in page
        and "No rule found" not in page.partition('id="findings"')[0]
    )


def test_a_step_is_told_only_where_the_replay_says_the_same() -> None:
    # The headline said 332 ms a step, and the picture beside it 426.
    result = made_up.make(4)
    assert " a step: " in opening(result, made_up.ANALYSES).headline
    whole = sum(part.ns for part in report.parts(result, made_up.ANALYSES))
    for factor, is_told in ((1.0, True), (1.3, False)):
        recorded = pl.DataFrame({"rank": [0], "step": [1], "recorded_ns": [int(factor * whole)]})
        told = dataclasses.replace(result, tables={**result.tables, "replay": recorded})
        assert (" a step: " in report.verdict(told, made_up.ANALYSES)[0]) is is_told


def test_a_job_without_steps_has_no_ideal_step() -> None:
    result = made_up.make(2)
    without = dataclasses.replace(result, info=result.info.with_columns(step_count=pl.lit(0, pl.Int64)))
    first = opening(without, made_up.ANALYSES)
    assert first.waterfall_title == "What the measured time is made of"
    assert "step" not in first.facts
    assert opening(result, made_up.ANALYSES).waterfall_title == "From an ideal step to the measured one"


def test_what_came_before_the_steps_is_worth_its_time_and_no_part_of_each_step() -> None:
    """57 of the 784 ms of a step were taken off for what came before all of them."""
    of_steps = job(found=(CAUSE,))
    steps = table(replay, rank=[0, 0, 1, 1], step=[1, 2, 1, 2], recorded_ns=[60 * 10**6, 61 * 10**6] * 2)
    of_steps = dataclasses.replace(of_steps, tables={**of_steps.tables, "replay": steps})
    told = of_steps.tables["causes"].with_columns(cost_per_step_ns=pl.lit(None, pl.Int64))
    before = dataclasses.replace(of_steps, tables={**of_steps.tables, "causes": told})
    within, outside = first_screen(of_steps), first_screen(before)
    assert within.causes[0].worth.endswith("a step")
    assert outside.causes[0].worth == "10.0 ms"
    assert " of each step (" in within.saving
    assert " of the job (" in outside.saving
    assert within.waterfall is not None
    assert outside.waterfall is not None
    assert len(within.waterfall.rows) == len(outside.waterfall.rows) + 1
