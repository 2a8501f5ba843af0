"""Comparing jobs by cause: which causes came, went and grew, and which parts of a step they made longer."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import other_jobs
import polars as pl
import pytest
import xla_jobs
from click.testing import CliRunner
from markupsafe import escape
from other_jobs import Fault, Other

import holotrace
from drawing import draw
from holotrace import sample
from holotrace.cli import main
from holotrace.job import Job
from holotrace.step_changes import kernels, same_causes


def written(folder: Path, job: Other, fault: Fault | None = None) -> Path:
    folder.mkdir()
    other_jobs.write(folder, job, fault)
    return folder


def of_faults(folder: Path, before: Fault | None, after: Fault | None, job: Other) -> holotrace.StepChange:
    """The change from a job with a fault to the same with another."""
    return holotrace.step_change(written(folder / "before", job, before), written(folder / "after", job, after))


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


def test_a_host_that_stands_still_after_the_last_work_makes_the_last_step_longer(clean: Path, tmp_path: Path) -> None:
    for path in shutil.copytree(clean, tmp_path / "after").iterdir():
        trace = json.loads(path.read_bytes())
        steps = [one for one in trace["traceEvents"] if one["name"].startswith("ProfilerStep") and one["ph"] == "X"]
        last = max((one for one in steps if one["cat"] == "user_annotation"), key=lambda one: one["ts"])
        last["dur"] = max(one["ts"] + one["dur"] for one in trace["traceEvents"] if "dur" in one) + 20_000 - last["ts"]
        path.write_text(json.dumps(trace))
    change = holotrace.step_change(clean, tmp_path / "after")
    came = change.rows[1].filter(pl.col("name") == "host-pause")
    assert change.after.mean_ns - change.before.mean_ns == pytest.approx(5_000_000, rel=0.1)
    assert came["total_ns"].to_list() == [pytest.approx(5_000_000, rel=0.1)]


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
    # Where hosts are late, but also where ranks take turns to have more work.
    assert lost.endswith(" more to waiting for hosts or each other.")
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
    change = holotrace.step_change(of_steps(10, 10, 10), of_steps(12, 12, 10))
    _, part, *named = change.verdict
    assert part == "On average a step has 1.33 µs more computing."
    assert named == [f"Grew from 3.00 µs to 3.67 µs a step: kernel {name}, as often as before." for name in "AB"]


def test_a_step_that_may_be_longer_by_chance_does_not_take_as_long() -> None:
    """A step of 75 ms took "as long as before (43 ms)", where two of four steps had compiled."""
    change = holotrace.step_change(of_steps(10, 20, 10, 20), of_steps(30, 10, 10, 30))
    assert not change.exceeds(0)
    assert "may be chance" in change.told
    assert "as long as before" not in change.told


def test_what_steps_differ_by_is_no_change() -> None:
    restless = of_steps(8, 12, 8, 12, 8, 12), of_steps(9, 12, 9, 13, 8, 12)
    change = holotrace.step_change(*restless)
    assert change.after_ns > change.before_ns
    assert (change.noise_ns or 0) > 1_000
    assert not change.exceeds(1)
    assert change.told.endswith(" longer than before, which may be chance: steps differ from each other by as much.")


def test_one_slow_step_may_be_chance_but_two_are_a_change() -> None:
    """A pause of one step in five, of which nothing tells whether it comes again, failed every build."""
    usual, once = of_steps(10, 10, 10, 10, 10), of_steps(10, 10, 10, 30, 10)
    change = holotrace.step_change(usual, once)
    assert not change.exceeds(0)
    assert change.told.endswith("which may be chance, as it is one step: the others take 10.0 µs (before: 10.0 µs).")
    assert "as it is one step" in holotrace.step_change(once, usual).told
    assert holotrace.step_change(usual, of_steps(10, 30, 10, 30, 10)).exceeds(20)
    # Two steps tell nothing of chance, but not which of them is usual either.
    assert not holotrace.step_change(of_steps(10, 10), of_steps(10, 30)).exceeds(20)
    both = holotrace.step_change(usual, of_steps(11, 11, 11, 31, 11))
    assert both.told.endswith(
        "longer than before, most of that in one step: the others take 11.0 µs (before: 10.0 µs)."
    )
    assert both.exceeds(5)
    assert not both.exceeds(20)


def test_every_second_step_that_became_slow_is_a_change() -> None:
    """Steps of such a job differ from each other by as much as the mean became longer."""
    change = holotrace.step_change(of_steps(10, 10, 11, 10, 10, 10), of_steps(10, 80, 10, 80, 10, 80))
    assert change.exceeds(100)
    assert "may be chance" not in change.told


def test_a_few_steps_that_are_close_by_chance_do_not_tell_how_close_they_are() -> None:
    change = holotrace.step_change(of_steps(100, 101, 103), of_steps(103, 104, 106))
    assert change.after_ns - change.before_ns == pytest.approx(3_000)
    assert not change.exceeds(1)
    assert "may be chance" in change.told
    longer = holotrace.step_change(of_steps(*[100, 101, 103] * 2), of_steps(*[103, 104, 106] * 2))
    assert longer.exceeds(1)


def test_kernels_run_as_often_in_a_step_of_a_longer_recording(tmp_path: Path) -> None:
    """The first step was left out of the number of steps, and its kernels were counted: 5.33 times in place of 4.57."""
    before = written(tmp_path / "before", Other("fsdp", ranks=2, steps=4))
    change = holotrace.step_change(before, written(tmp_path / "after", Other("fsdp", ranks=2, steps=8)))
    counts = [dict(side.kernels.select("name", "run_count").iter_rows()) for side in (change.before, change.after)]
    assert counts[0] == pytest.approx(counts[1])
    computed = change.after.kernels["total_ns"].sum()
    assert computed == pytest.approx(dict(change.after.parts_ns)["computing"], rel=0.01)


def test_a_step_that_is_left_out_has_no_causes_and_others_cost_more(tmp_path: Path) -> None:
    """A step took "as long as before", and the pause of its first one was new."""
    before = written(tmp_path / "before", Other("ddp", ranks=2, steps=6))
    job = Other("ddp", ranks=2, steps=5)
    first = holotrace.step_change(before, written(tmp_path / "first", job, Fault("pause", 2e4, (1,), 9)))
    assert len(first.verdict) == 2
    assert "as long as before" in first.told
    assert "The first step of each job is left out" in first.verdict[1]
    later = holotrace.step_change(before, written(tmp_path / "later", job, Fault("pause", 2e4, (1,), 9, 2)))
    (cost,) = later.rows[1].filter(category="cause")["total_ns"]
    assert cost == pytest.approx(later.after_ns - later.before_ns, rel=0.1)


def test_a_cause_that_was_too_small_to_be_told_did_not_come(tmp_path: Path) -> None:
    """A copy that takes 0.9% of a step was not told of, so that one of 1.2% was new."""
    job = Other("ddp", ranks=2, steps=4)
    change = of_faults(tmp_path, Fault("pageable", 110), Fault("pageable", 140), job)
    found = [holotrace.open(tmp_path / side).causes().height for side in ("before", "after")]
    assert found == [0, 1]
    assert change.verdict == (change.told,)
    (row,) = holotrace.compare(tmp_path / "before", tmp_path / "after", by="cause").filter(category="cause").to_dicts()
    assert row["change"] == "more"
    assert row["before_total_ns"] == pytest.approx(110_000, rel=0.02)


def test_a_cause_on_one_more_rank_did_not_go_and_come(tmp_path: Path) -> None:
    """That of ranks 1 and 2 was new, and that of rank 1 was gone."""
    one, two = (Fault("slow-device", 1.25, ranks) for ranks in ((1,), (1, 2)))
    change = of_faults(tmp_path, one, two, Other("pipeline", ranks=4, steps=3))
    assert [line for line in change.verdict if line.startswith(("New", "Gone"))] == []
    (row,) = holotrace.compare(tmp_path / "before", tmp_path / "after", by="cause").filter(category="cause").to_dicts()
    assert row["name"] == "slow-device, rank 1-2"
    assert row["change"] == "more"


@pytest.mark.parametrize("kind", ["logging", "collection"])
def test_a_cause_that_is_called_otherwise_for_want_of_stacks_did_not_come(tmp_path: Path, kind: str) -> None:
    fault = Fault(kind, 9e3, (0,))
    jobs = [Other("ddp", ranks=2, steps=4, stacks=stacks) for stacks in (False, True)]
    before, after = (written(tmp_path / str(job.stacks), job, fault) for job in jobs)
    assert len({*(holotrace.open(job).causes()["responsible"][0] for job in (before, after))}) == 2
    assert len(holotrace.step_change(before, after).verdict) == 1


def test_what_only_one_recording_can_tell_is_said(tmp_path: Path) -> None:
    job = Other("ddp", ranks=2, steps=4)
    before = written(tmp_path / "before", job)
    after = written(tmp_path / "after", replace(job, stacks=True, shapes=False), Fault("logging", 9e3, (0,)))
    assert (
        holotrace.step_change(before, after)
        .verdict[-1]
        .startswith("Only one of the jobs was recorded with Python functions and shapes: ")
    )


def test_recordings_of_different_work_do_not_tell_which_job_is_faster(tmp_path: Path) -> None:
    """A server that was recorded for longer failed the build."""
    server = Other("serving", ranks=1, steps=2)
    before, after = (written(tmp_path / str(steps), replace(server, steps=steps)) for steps in (2, 3))
    change = holotrace.step_change(before, after)
    assert change.verdict == (change.told,)
    assert "the same kernels ran 1.5 times as often" in change.told
    with pytest.raises(holotrace.InputError, match="does not tell which job is faster"):
        change.exceeds(0)
    ended = CliRunner().invoke(main, ["compare", str(before), str(after), "--fail-above", "1"])
    assert ended.exit_code == 3
    slower = written(tmp_path / "slower", server, Fault("slow-device", 1.2))
    assert holotrace.step_change(before, slower).exceeds(10)


def test_kernels_that_all_take_longer_alike_are_told_at_once(tmp_path: Path) -> None:
    change = of_faults(tmp_path, None, Fault("slow-device", 1.1), Other("ddp", ranks=1))
    assert change.verdict[2:] == (
        "All kernels take 1.1 times as long as before and run as often, as on slower devices or with more to do in "
        "each.",
    )


def test_kernels_of_one_slow_device_are_not_those_of_all(tmp_path: Path) -> None:
    """Of four ranks one was 1.1 times as slow, and all kernels were said to take 1.02 times as long."""
    change = of_faults(tmp_path, None, Fault("slow-device", 1.1, (1,)), Other("ddp", ranks=4))
    assert any("Rank 1 has a slow device" in line for line in change.verdict)
    assert not any("All kernels" in line for line in change.verdict)


def test_jobs_that_have_little_in_common_are_told_to_be(tmp_path: Path) -> None:
    jobs = [Other("ddp", ranks=ranks, steps=3, is_amd=ranks == 2) for ranks in (1, 2)]
    change = holotrace.step_change(*(written(tmp_path / str(job.ranks), job) for job in jobs))
    assert change.verdict[1:3] == (
        "No computing is in kernels that both jobs ran: they are of another model, type or device.",
        "Steps are the mean of 1 rank before, and of 2 after.",
    )


def test_few_steps_tell_nothing_of_chance() -> None:
    change = holotrace.step_change(of_steps(10, 10), of_steps(12, 12))
    assert change.noise_ns is None
    assert "by chance" not in change.told
    assert change.exceeds(5)


def test_recordings_without_steps_are_compared_as_wholes_and_with_none_that_has() -> None:
    whole, longer = draw("host |A...|\ncompute |AAAA|"), draw("host |A.....|\ncompute |AAAAAA|")
    assert holotrace.step_change(whole, longer).told.startswith("The recording takes 6.00 µs on average, 2.00 µs (50%)")
    with pytest.raises(holotrace.InputError, match=r"only the job after .*has marked steps"):
        holotrace.step_change(whole, of_steps(4, 4))
    with pytest.raises(holotrace.InputError, match=r"the job before .*has no work on devices"):
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


def test_a_notebook_shows_the_verdict(clean: Path, slow: Path) -> None:
    change = holotrace.step_change(clean, slow)
    shown = change._repr_html_()
    assert shown.startswith("<style>") and f"<h4>{change.verdict[0]}</h4>" in shown
    assert all(f"<p>{escape(sentence)}</p>" in shown for sentence in change.verdict[1:])


def test_a_page_tells_what_the_command_tells_and_fails_as_it_does(clean: Path, slow: Path, tmp_path: Path) -> None:
    out = tmp_path / "change.html"
    ended = CliRunner().invoke(main, ["compare", str(clean), str(slow), "-o", str(out), "--fail-above", "1"])
    page = out.read_text(encoding="utf-8")
    assert ended.exit_code == 4 and "That is more than 1%." in ended.stderr
    for sentence in holotrace.step_change(clean, slow).verdict:
        assert escape(sentence) in page
    assert "New: input in" in page


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


def test_kernels_that_take_the_place_of_others_are_told_together(tmp_path: Path) -> None:
    """They were told one by one, and not what they cost together."""
    jobs = [Other("ddp", ranks=1, steps=3, layers=layers, is_amd=layers == 4) for layers in (3, 4)]
    change = holotrace.step_change(*(written(tmp_path / str(job.layers), job) for job in jobs))
    (told,) = (line for line in change.verdict if line.startswith("New kernels"))
    came, went = told.split(", where some that are gone took ")
    assert "longest kernel Cijk" in came
    assert "longest kernel void cutlass" in went
    assert not any(line.startswith(("New, ", "Gone, ")) for line in change.verdict)


def of(*causes: tuple[str, str, int]) -> pl.DataFrame:
    """Causes of all ranks: class, what is responsible and what a step costs."""
    schema = {"cause": pl.String, "responsible": pl.String, "cost_per_step_ns": pl.Int64}
    found = pl.DataFrame(list(causes), schema=schema, orient="row")
    ranks, steps = (pl.lit([], pl.List(pl.Int64)).alias(name) for name in ("ranks", "steps"))
    return same_causes.named(found.with_columns(ranks, steps, message="responsible"))


def test_saving_is_not_compiling_where_functions_are_known_of_one_job_only() -> None:
    """ "Shrank from 72.4 to 30.6 ms: the host compiles", where a checkpoint was gone and compiling was new."""
    saving, compiling = of(("checkpoint", "torch.save", 72_400)), of(("compilation", "compile_inner", 30_600))
    apart = same_causes.joined((saving, saving), (compiling, compiling), other_stacks=True)
    assert [side["name"].to_list() for side in apart] == [
        ["checkpoint in torch.save"],
        ["compilation in compile_inner"],
    ]
    pause = of(("host-pause", "Optimizer.step", 70_000))
    joined = same_causes.joined((saving, saving), (pause, pause), other_stacks=True)
    assert [side["name"].to_list() for side in joined] == [["host-pause in Optimizer.step"]] * 2


def test_a_wait_that_functions_divide_is_as_long_without_them() -> None:
    """A server's wait shrank from 2.2 to 0.8 ms, as the rest was in functions that were too small to be told of."""
    wait, rest = ("synchronization", "sample", 800), ("python-function", "schedule", 1_400)
    before, after = (of(("synchronization", "rollout", 2_200)),) * 2, (of(wait), of(wait, rest))
    joined = same_causes.joined(before, after, other_stacks=True)
    assert [side.select("name", "total_ns").rows() for side in joined] == [[("synchronization in sample", 2_200)]] * 2
    apart = same_causes.joined(before, after, other_stacks=False)
    assert [side["total_ns"].to_list() for side in apart] == [[2_200], [800]]


def test_the_only_rank_of_each_job_may_have_another_number(tmp_path: Path) -> None:
    """The cause of the one was gone, and that of the other was new."""
    job = written(tmp_path / "job", Other("ddp", ranks=2, steps=4), Fault("logging", 9e3))
    change = holotrace.step_change(job, job, ranks=0, after_ranks=1)
    causes = [side.tables["causes"]["ranks"].to_list() for side in (change.before, change.after)]
    assert causes == [[[0]], [[1]]]
    assert change.verdict == (change.told,)


def test_the_operation_of_xla_that_takes_longer_is_named_by_its_scope(tmp_path: Path) -> None:
    """All that a program fuses was one kernel, of which nobody knows where it is written."""
    job = xla_jobs.Job(hosts=1, cores=1, steps=4, layers=2, noise=0.002)
    for faults in ((), ("inefficient",)):
        xla_jobs.write(tmp_path / str(len(faults)), replace(job, faults=faults))
    change = holotrace.step_change(tmp_path / "0", tmp_path / "1")
    (grew,) = (line for line in change.verdict if "kernel" in line)
    assert grew.startswith("Grew from ")
    assert grew.endswith("kernel transpose_fusion.25 (loss/transpose), as often as before.")


def test_what_is_left_of_a_kernel_is_told_beside_its_operations() -> None:
    """One operation that took longer, and others that took less long, were one kernel that hardly changed."""
    names = pl.Series(["fusion.1", "fusion.2", "fusion.3", "dot.4"])
    known = pl.DataFrame({"name": names, "scope": ["f/a/mul", "f/b/mul", "f/c/mul", None], "module": ["f"] * 4})
    known = known.with_columns(run_count=2.0, of_hosts=False)
    sides = [
        known.with_columns(total_ns=pl.Series(times)) for times in ((50.0, 40.0, 40.0, 9.0), (90.0, 35.0, 35.0, 9.0))
    ]
    of_all = [
        each.group_by(pl.col("name").str.replace(r"\.\d$", "")).agg(
            pl.col("total_ns", "run_count").sum(), pl.col("of_hosts").any()
        )
        for each in sides
    ]
    told = kernels.told_apart(kernels.beside(of_all[0], of_all[1]), (sides[0], sides[1]), 9.0)
    assert told.select("name", "was", "became").rows() == [
        ("fusion.1 (f/a/mul)", 50.0, 90.0),
        ("fusion, others", 80.0, 70.0),
    ]
