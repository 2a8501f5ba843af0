"""Comparing jobs by cause: which causes came, went and grew, and which parts of a step they made longer."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import other_jobs
import pytest
import xla_jobs
from click.testing import CliRunner
from other_jobs import Other

import holotrace
from drawing import draw
from holotrace import sample
from holotrace.cli import main
from holotrace.job import Job


def written(folder: Path, job: Other) -> Path:
    folder.mkdir()
    other_jobs.write(folder, job)
    return folder


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("jobs") / "clean", Other("tensor", ranks=2, steps=4))


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("jobs") / "slow", Other("tensor", "loader-of-all", ranks=2, steps=4))


def test_a_cause_that_came_is_added_and_one_that_went_is_removed(clean: Path, slow: Path) -> None:
    came = holotrace.compare(clean, slow, by="cause").filter(category="cause")
    went = holotrace.compare(slow, clean, by="cause").filter(category="cause")
    assert came.select("change").to_series().to_list() == ["added"]
    assert came["name"][0].startswith("input in ")
    assert went["change"].to_list() == ["removed"]
    assert came["difference_ns"][0] == -went["difference_ns"][0] > 5_000_000


def test_a_job_of_more_steps_is_no_slower(tmp_path: Path) -> None:
    """What a host does after each step delays all but the first, a fifth of one job and a ninth of the other."""
    for steps in (5, 9):
        sample.write(tmp_path / str(steps), ranks=2, steps=steps, seed=108, faults=["python-function"])
    change = holotrace.step_change(tmp_path / "5", tmp_path / "9")
    assert "as long as before" in change.told
    assert change.after_ns == pytest.approx(change.before_ns, rel=0.002)


def test_a_change_is_printed_as_its_verdict(clean: Path, slow: Path) -> None:
    """All tables of both jobs were printed."""
    change = holotrace.step_change(clean, slow)
    assert str(change).splitlines() == [*change.verdict]
    assert repr(change) == f"StepChange({change.told!r})"


def test_parts_add_up_to_the_change_of_the_step(clean: Path, slow: Path) -> None:
    parts = holotrace.compare(clean, slow, by="cause").filter(category="step")
    assert parts.height == 4
    # From the mark of the first step, as replaying them does.
    steps = [holotrace.open(job).replay()["recorded_ns"].mean() for job in (clean, slow)]
    assert parts["before_total_ns"].sum() == pytest.approx(steps[0], rel=1e-3)
    assert parts["after_total_ns"].sum() == pytest.approx(steps[1], rel=1e-3)


@pytest.mark.parametrize("fault", ["loader-of-all", "slow-device", "logging-every-third", "exposed"])
def test_a_step_is_longer_by_what_the_fault_costs(tmp_path: Path, fault: str) -> None:
    """The first step's wait for input comes before any work on its device."""
    before = written(tmp_path / "before", Other("fsdp", ranks=4, steps=6, seed=3))
    (tmp_path / "after").mkdir()
    truth = other_jobs.write(tmp_path / "after", Other("fsdp", fault, ranks=4, steps=6, seed=3))
    change = holotrace.step_change(before, tmp_path / "after")
    assert 6 * (change.after_ns - change.before_ns) == pytest.approx(1e3 * truth.cost_us, rel=0.02)


def test_factors_add_up_to_the_step_and_say_what_it_is_lost_to(clean: Path, slow: Path) -> None:
    rows = holotrace.compare(clean, slow, by="cause")
    parts, factors = (rows.filter(category=category) for category in ("step", "factor"))
    for side in ("before_total_ns", "after_total_ns"):
        assert factors[side].sum() == pytest.approx(parts[side].sum(), abs=5)
    lost = dict(factors.select("name", "difference_ns").iter_rows())
    assert lost["host"] > 5_000_000 > 10 * abs(lost["communication"] + lost["balance"] + lost["copies"])


def test_factors_that_are_known_of_one_job_only_are_not_compared(tmp_path: Path) -> None:
    """A job whose steps and programs hosts and devices were in at other times seemed to compute nothing any more."""
    job = xla_jobs.any_job(("function",), 5)
    jobs = {"before": replace(job, faults=()), "after": job}
    for name, each in jobs.items():
        xla_jobs.write(tmp_path / name, each)
    assert [holotrace.open(tmp_path / name).factors()["host_ratio"].null_count() > 0 for name in jobs] == [False, True]
    table = holotrace.compare(tmp_path / "before", tmp_path / "after", by="cause")
    assert set(table["category"]) == {"step", "cause"}


def test_steps_cannot_be_chosen_for_causes(clean: Path) -> None:
    with pytest.raises(holotrace.UsageError, match="whole steps"):
        holotrace.compare(clean, clean, by="cause", steps=3)


def of_steps(*lengths: int) -> Job:
    """A rank whose steps take so many microseconds, all of which but the first it computes."""
    lanes = {"step": "", "host": "", "compute": ""}
    for number, length in enumerate(lengths):
        launch = "ABCDEFGH"[number]
        lanes["step"] += str(number + 1) * length
        lanes["host"] += launch + "." * (length - 1)
        lanes["compute"] += "." + launch * (length - 1)
    return draw("\n".join(f"{lane} |{text}|" for lane, text in lanes.items()))


def test_a_verdict_says_how_much_longer_a_step_takes_which_part_does_and_what_came(clean: Path, slow: Path) -> None:
    change = holotrace.step_change(clean, slow)
    took, part, lost, came = change.verdict
    assert change.after_ns - change.before_ns > 5_000_000
    assert " longer than before" in took
    assert "more idle time" in part
    assert lost.endswith(" more to hosts.")
    assert came.startswith("New, ")
    assert "waits for input" in came
    back = holotrace.step_change(slow, clean)
    assert " shorter than before" in back.told
    assert back.verdict[-1].startswith("Gone, ")
    assert not back.exceeds(0)


def test_equal_jobs_have_one_sentence(clean: Path) -> None:
    change = holotrace.step_change(clean, clean)
    assert len(change.verdict) == 1
    assert "as long as before" in change.told
    assert not change.exceeds(0)


def test_a_step_that_is_longer_exceeds_what_it_is_longer_by() -> None:
    change = holotrace.step_change(of_steps(10, 10, 10, 10), of_steps(11, 11, 11, 11))
    assert change.ratio == pytest.approx(0.1, abs=0.03)
    assert change.noise_ns == pytest.approx(0, abs=1)
    assert change.exceeds(5)
    assert not change.exceeds(15)


def test_kernels_that_made_computing_longer_are_named() -> None:
    change = holotrace.step_change(of_steps(10, 10, 10), of_steps(12, 12, 12))
    _, part, *named = change.verdict
    assert part == "Each step has 2.00 µs more computing."
    assert named == [f"Grew from 3.00 µs to 3.67 µs a step: kernel {name}, as often as before." for name in "ABC"]


def test_a_step_that_may_be_longer_by_chance_does_not_take_as_long() -> None:
    """A step of 75 ms took "as long as before (43 ms)", where two of four steps had compiled."""
    change = holotrace.step_change(of_steps(10, 10, 10, 10), of_steps(30, 10, 10, 30))
    assert not change.exceeds(0)
    assert "may be chance" in change.told
    assert "as long as before" not in change.told


def test_what_steps_differ_by_is_no_change_but_one_slow_step_is() -> None:
    restless = of_steps(8, 12, 8, 12, 8, 12), of_steps(9, 12, 9, 13, 8, 12)
    change = holotrace.step_change(*restless)
    assert change.after_ns > change.before_ns
    assert (change.noise_ns or 0) > 1_000
    assert not change.exceeds(1)
    assert change.told.endswith(" longer than before, which may be chance: steps differ from each other by as much.")
    assert holotrace.step_change(of_steps(10, 10, 10, 10, 10), of_steps(10, 10, 10, 30, 10)).exceeds(20)


def test_few_steps_tell_nothing_of_chance() -> None:
    change = holotrace.step_change(of_steps(10, 10), of_steps(12, 12))
    assert change.noise_ns is None
    assert "by chance" not in change.told
    assert change.exceeds(5)


def test_recordings_without_steps_are_compared_as_wholes_and_with_none_that_has() -> None:
    whole, longer = draw("host |A...|\ncompute |AAAA|"), draw("host |A.....|\ncompute |AAAAAA|")
    assert holotrace.step_change(whole, longer).told.startswith("The recording takes 6.00 µs on average, 2.00 µs (50%)")
    with pytest.raises(holotrace.InputError, match="marked steps"):
        holotrace.step_change(whole, of_steps(4, 4))
    with pytest.raises(holotrace.InputError, match="no work on devices"):
        holotrace.step_change(draw("host |AAAA|"), whole)


@pytest.mark.parametrize("by", ["cause", "name"])
@pytest.mark.parametrize(("percent", "code"), [("1", 4), ("500", 0)])
def test_the_command_fails_where_a_step_takes_longer_than_it_may(
    clean: Path, slow: Path, by: str, percent: str, code: int
) -> None:
    ended = CliRunner().invoke(main, ["compare", str(clean), str(slow), "--by", by, "--fail-above", percent])
    assert ended.exit_code == code
    assert ("That is more than 1%." in ended.stderr) == (code == 4)
    assert ("New, " in ended.stdout) == (by == "cause")


def test_the_command_does_not_fail_for_some_steps_only(clean: Path) -> None:
    ended = CliRunner().invoke(main, ["compare", str(clean), str(clean), "--step", "1", "--fail-above", "1"])
    assert ended.exit_code == 2
    assert "leave out --step" in ended.stderr


def test_a_rank_that_is_cut_off_does_not_make_the_step_shorter(clean: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(clean, cut)
    first, *others = sorted(cut.iterdir())
    text = first.read_bytes()
    first.write_bytes(text[: len(text) // 2])
    change = holotrace.step_change(clean, cut)
    assert change.after_ns == pytest.approx(change.before_ns, rel=1e-3)
    for other in others:
        other.write_bytes(other.read_bytes()[: len(text) // 2])
    with pytest.raises(holotrace.InputError, match="recorded to its end"):
        holotrace.step_change(clean, cut)
