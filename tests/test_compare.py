"""What changed between two jobs: counts, times, and whom the changes belong to."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

import holotrace
import xplane_files
from drawing import draw
from holotrace.cli import main
from holotrace.comparing import COLUMNS
from holotrace.core.problems import OTHER_STEPS
from holotrace.core.tables import ANNOTATIONS, DEVICE_EVENTS, EVENTS, MODULES, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.job import Job
from trace_files import EVENTS as WRITTEN
from trace_files import write_trace

US = 1_000


def job(*rows: tuple[str, int, int], on_device: tuple[str, ...] = ("kernel",), ranks: int = 1) -> Job:
    """A job whose ranks ran these: name, start and end in µs; step 1 is up to 100 µs, step 2 from there to 200 µs.

    A category stands before a slash. Device work was launched when it started; ranges on the device have no launch.
    """
    events = pl.DataFrame(
        [(number, *name.split("/"), start * US, end * US) for number, (name, start, end) in enumerate(rows)],
        schema={
            "event_id": pl.UInt32,
            "category": pl.String,
            "name": pl.String,
            "start_ns": pl.Int64,
            "end_ns": pl.Int64,
        },
        orient="row",
    )
    device = events.filter(pl.col("category").is_in(on_device)).select(
        "event_id", "start_ns", step=1 + pl.col("start_ns") // (100 * US)
    )
    ranges = events.filter(category="gpu_user_annotation").select("event_id", on_device=True)
    steps = pl.DataFrame({"step": [1, 2], "start_ns": [0, 100 * US], "end_ns": [100 * US, 200 * US]})
    tables = {EVENTS.name: events, DEVICE_EVENTS.name: device, ANNOTATIONS.name: ranges, STEPS.name: steps}
    return Job.from_ranks({rank: RankTrace(rank, tables) for rank in range(ranks)}, title="made up")


def rows(table: pl.DataFrame, *columns: str) -> dict[str, tuple[object, ...]]:
    return {row[0]: row[1:] for row in table.select("name", *columns).iter_rows()}


BEFORE = job(("cpu_op/add", 0, 10), ("cpu_op/add", 20, 40), ("cpu_op/gone", 50, 55), ("kernel/gemm", 60, 90))
AFTER = job(("cpu_op/add", 0, 10), ("cpu_op/new", 50, 58), ("kernel/gemm", 60, 80))


def test_counts_and_times_of_both_sides_and_their_differences() -> None:
    table = holotrace.compare(BEFORE, AFTER)
    assert table.columns == [column.name for column in COLUMNS]
    assert rows(table, "before_count", "after_count", "difference_count") == {
        "add": (2, 1, -1),
        "gemm": (1, 1, 0),
        "new": (0, 1, 1),
        "gone": (1, 0, -1),
    }
    assert rows(table, "before_total_ns", "after_total_ns", "difference_ns") == {
        "add": (30 * US, 10 * US, -20 * US),
        "gemm": (30 * US, 20 * US, -10 * US),
        "new": (0, 8 * US, 8 * US),
        "gone": (5 * US, 0, -5 * US),
    }


def test_the_change_is_told_by_how_often_it_ran() -> None:
    assert rows(holotrace.compare(BEFORE, AFTER), "change") == {
        "add": ("fewer",),
        "gemm": ("same",),
        "new": ("added",),
        "gone": ("removed",),
    }
    assert rows(holotrace.compare(AFTER, BEFORE), "change")["add"] == ("more",)


def test_the_largest_difference_in_time_comes_first() -> None:
    assert holotrace.compare(BEFORE, AFTER)["name"].to_list() == ["add", "gemm", "new", "gone"]


def test_a_job_differs_from_itself_in_nothing() -> None:
    table = holotrace.compare(BEFORE, BEFORE)
    assert set(table["change"]) == {"same"}
    assert table.select(pl.col("difference_count", "difference_ns").abs().sum()).row(0) == (0, 0)


def test_one_name_in_two_categories_is_two_rows() -> None:
    both = job(("cpu_op/step", 0, 10), ("user_annotation/step", 0, 20))
    assert holotrace.compare(both, both)["category"].to_list() == ["cpu_op", "user_annotation"]


def test_operations_without_a_name_are_compared_with_each_other() -> None:
    events = pl.DataFrame({"category": ["kernel"], "start_ns": [0], "end_ns": [5]})
    nameless = Job.from_ranks({0: RankTrace(0, {EVENTS.name: events})})
    assert holotrace.compare(nameless, nameless).rows() == [
        (None, "kernel", 1, 1, 0, 5, 5, 0, "same", None, None, None)
    ]


def test_the_profilers_own_bracket_is_no_operation() -> None:
    assert holotrace.compare(job(("Trace/recording", 0, 90)), job()).is_empty()


def test_device_work_belongs_to_the_step_that_launched_it() -> None:
    late = job(("cpu_op/add", 10, 20), ("cpu_op/add", 110, 120), ("kernel/gemm", 110, 130))
    assert rows(holotrace.compare(late, late, steps=1), "before_count") == {"add": (1,)}
    assert rows(holotrace.compare(late, late, steps=[2]), "before_count") == {"gemm": (1,), "add": (1,)}


def test_each_side_may_have_steps_and_ranks_of_its_own() -> None:
    steps = job(("cpu_op/add", 10, 20), ("cpu_op/add", 110, 150), ranks=2)
    table = holotrace.compare(steps, steps, ranks=[0, 1], steps=1, after_ranks=1, after_steps=2)
    assert rows(table, "before_count", "after_count", "before_total_ns", "after_total_ns") == {
        "add": (2, 1, 20 * US, 40 * US)
    }


# Steps of 10 µs, each with an A and a B.
TWO_STEPS = draw("step |11111111112222222222|\nop |AA..B.....AA..B.....|")
THREE_STEPS = draw("step |111111111122222222223333333333|\nop |AA..BB....AA..BB....AA..BB....|")


def test_a_job_that_recorded_more_steps_is_compared_by_a_step() -> None:
    """All that runs in every step was said to be "more"."""
    table = holotrace.compare(TWO_STEPS, THREE_STEPS)
    changed = ("before_count", "after_count", "change", "before_step_ns", "after_step_ns", "difference_step_ns")
    assert rows(table, *changed) == {
        "B": (2, 3, "same", US, 2 * US, US),
        "A": (2, 3, "same", 2 * US, 2 * US, 0),
    }
    assert table["difference_ns"].to_list() == [4 * US, 2 * US]
    assert holotrace.compare(TWO_STEPS, THREE_STEPS, steps=1)["difference_step_ns"].to_list() == [US, 0]


def test_which_job_recorded_how_many_steps_is_said() -> None:
    holotrace.compare(TWO_STEPS, THREE_STEPS)
    assert THREE_STEPS.noticed().select("problem", "example").rows() == [(OTHER_STEPS, "2 before, 3 after")]


def test_ranks_are_compared_by_a_step_of_one() -> None:
    one, two = job(("cpu_op/add", 0, 10)), job(("cpu_op/add", 0, 10), ranks=2)
    assert rows(holotrace.compare(one, two), "difference_count", "change", "difference_step_ns") == {
        "add": (1, "same", 0)
    }


def test_host_and_device_are_told_apart() -> None:
    mixed = job(("cpu_op/add", 0, 10), ("kernel/gemm", 20, 30), ("gpu_user_annotation/forward", 20, 30))
    assert set(holotrace.compare(mixed, mixed, device=True)["name"]) == {"gemm", "forward"}
    assert set(holotrace.compare(mixed, mixed, device=False)["name"]) == {"add"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 7}, "step 7 is not in made up; there are steps 1-2"),
        ({"ranks": 3}, "rank 3 does not exist"),
    ],
)
def test_what_is_not_there_is_no_change_but_an_error(options: dict[str, int], said: str) -> None:
    with pytest.raises(holotrace.InputError, match=said):
        holotrace.compare(BEFORE, AFTER, **options)  # type: ignore[arg-type]  # all are numbers


def test_a_rank_that_cannot_be_read_is_no_change_but_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("nothing")
    files = {0: write_trace(tmp_path / "rank-0.json"), 1: broken}
    with pytest.raises(holotrace.InputError, match=r"rank 1 of .* cannot be read"):
        holotrace.compare(files, files)


def test_jobs_without_events_differ_in_nothing() -> None:
    table = holotrace.compare(job(), job())
    assert table.is_empty()
    assert table.schema == {column.name: column.unit.dtype for column in COLUMNS}


def test_steps_of_other_numbers_are_the_same_operation() -> None:
    """A recording that began elsewhere had other steps: each was added or removed, and stood above all else."""
    before = job(("user_annotation/ProfilerStep#3", 0, 90), ("user_annotation/ProfilerStep#4", 100, 180))
    after = job(("user_annotation/ProfilerStep#12", 0, 90), ("user_annotation/ProfilerStep#13", 100, 190))
    (row,) = holotrace.compare(before, after).to_dicts()
    assert (row["name"], row["before_count"], row["after_count"]) == ("ProfilerStep", 2, 2)
    assert (row["change"], row["difference_ns"]) == ("same", 10 * US)


class TestCommand:
    """holotrace compare BEFORE AFTER."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write_trace(tmp_path / "before" / "rank-0.json.gz", rank=0)
        write_trace(tmp_path / "after" / "rank-0.json.gz", rank=0, events=WRITTEN[:-1])
        return tmp_path

    def test_it_prints_the_table_in_the_format_asked_for(self, folder: Path) -> None:
        done = self.run(folder, "--format", "json", "--limit", "1")
        envelope = json.loads(done)
        assert (envelope["name"], envelope["data"]["total"]) == ("compare", 4)
        (row,) = envelope["data"]["rows"]
        assert (row["name"][:13], row["change"], row["difference_ns"]) == ("ncclDevKernel", "removed", -20 * US)
        assert "removed" in self.run(folder)

    def test_steps_and_sides_are_chosen(self, folder: Path) -> None:
        shown = json.loads(self.run(folder, "--host", "--step", "3", "--format", "json"))["data"]["rows"]
        assert {row["name"] for row in shown} == {"ProfilerStep", "cudaLaunchKernel"}

    def test_it_leaves_the_traces_alone(self, folder: Path) -> None:
        content = {path: path.read_bytes() for path in folder.rglob("*.gz")}
        self.run(folder)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == content

    def run(self, folder: Path, *options: str) -> str:
        done = CliRunner().invoke(main, ["compare", str(folder / "before"), str(folder / "after"), *options])
        assert done.exit_code == 0, done.output
        return done.stdout


def test_programs_of_xla_are_compared_by_what_stays_the_same_between_compilations() -> None:
    before = draw("tpu |AABBBC|\nA = dot.1 @ jit(f)/attention/dot\nB = fusion.7 @ jit(f)/mlp/mul\nC = add in jit_g(2)")
    after = draw("tpu |ABBBBC|\nA = dot.4 @ jit(f)/attention/dot\nB = fusion.9 @ jit(f)/mlp/mul\nC = add in jit_g(9)")
    times = ("before_total_ns", "after_total_ns", "change")
    assert rows(holotrace.compare(before, after, by="program"), *times) == {
        "jit_f": (5 * US, 5 * US, "same"),
        "jit_g": (US, US, "same"),
    }
    assert rows(holotrace.compare(before, after, by="operation"), *times) == {
        "jit_f/fusion (mlp/mul)": (3 * US, 4 * US, "same"),
        "jit_f/dot (attention/dot)": (2 * US, US, "same"),
        "jit_g/add": (US, US, "same"),
    }
    assert rows(holotrace.compare(before, after, by="scope"), *times)["f/mlp"] == (3 * US, 4 * US, "same")
    with pytest.raises(holotrace.UsageError, match="what devices did"):
        holotrace.compare(before, after, by="scope", device=False)


def test_operations_of_xla_are_the_same_by_scope_and_number_or_compared_as_all_of_their_name() -> None:
    """All that a program fuses was one row, which did not change if one operation took longer and others less long."""
    before = draw("tpu |AABBBC|\nA = fusion.1 @ jit(f)/a/mul\nB = fusion.2 @ jit(f)/a/mul\nC = fusion.3 @ jit(f)/b/add")
    after = draw("tpu |AAABBC|\nA = fusion.1 @ jit(f)/a/mul\nB = fusion.2 @ jit(f)/a/mul\nC = fusion.9 @ jit(f)/b/add")
    other = draw("tpu |AAABBC|\nA = fusion.1 @ jit(f)/a/mul\nB = fusion.4 @ jit(f)/a/mul\nC = fusion.9 @ jit(f)/c/add")
    times = ("before_total_ns", "after_total_ns")
    assert rows(holotrace.compare(before, after, by="operation"), *times) == {
        "jit_f/fusion.1 (a/mul)": (2 * US, 3 * US),
        "jit_f/fusion.2 (a/mul)": (3 * US, 2 * US),
        "jit_f/fusion (b/add)": (US, US),
    }
    assert rows(holotrace.compare(before, other, by="operation"), *times) == {
        "jit_f/fusion (a/mul)": (5 * US, 5 * US),
        "jit_f/fusion": (US, US),
    }
    new = draw("tpu |AAABBC|\nA = fusion.1 @ jit(f)/a/mul\nB = fusion.2 @ jit(f)/a/mul\nC = dot.3 @ jit(f)/b/add")
    assert rows(holotrace.compare(before, new, by="operation"), "change")["jit_f/fusion (b/add)"] == ("removed",)


def test_without_scopes_operations_are_the_same_by_their_numbers_if_both_jobs_have_the_same_ones() -> None:
    before, after = draw("tpu |AAB|\nA = fusion.1\nB = fusion.2"), draw("tpu |ABB|\nA = fusion.1\nB = fusion.2")
    assert set(holotrace.compare(before, after, by="operation")["name"]) == {"jit_f/fusion.1", "jit_f/fusion.2"}
    lazy = "tpu |AAB|\nA = fusion.1 in SyncTensorsGraph{0}(1)\nB = fusion.{1} in SyncTensorsGraph{0}(1)"
    # The drawing has no numbers of programs, which those of PyTorch/XLA have.
    graphs = [draw(lazy.format("", number)) for number in (2, 3)]
    assert set(holotrace.compare(*graphs, by="operation")["name"]) == {"SyncTensorsGraph/fusion"}


def test_what_was_launched_before_the_recording_is_of_no_step() -> None:
    """Jobs that recorded different numbers of steps seemed to have changed all of their operations."""
    before = draw("step |...111|\ntpu |AAABBB|\nA = add.1 in f(1)\nB = add.1 in f(1)")
    after = draw("step |...111222|\ntpu |AAABBBBBB|\nA = add.1 in f(1)\nB = add.1 in f(1)")
    (row,) = holotrace.compare(before, after, by="program").to_dicts()
    assert (row["before_total_ns"], row["after_total_ns"]) == (6 * US, 9 * US)
    assert (row["before_step_ns"], row["after_step_ns"]) == (3 * US, 3 * US)


def test_by_name_it_is_of_no_step_either() -> None:
    times = {"start_ns": pl.Int64, "end_ns": pl.Int64}
    events = pl.DataFrame(
        [
            (0, "jit_f(1)", "modules", 0, 5),
            (1, "add.1", "add", 0, 5),
            (2, "jit_f(1)", "modules", 5, 9),
            (3, "add.1", "add", 5, 9),
            (4, "train", "user_annotation", 4, 9),
        ],
        schema={"event_id": pl.UInt32, "name": pl.String, "category": pl.String, **times},
        orient="row",
    )
    steps = pl.DataFrame({"step": [1], "start_ns": [4], "end_ns": [9]})
    ops = events.filter(category="add").select("event_id", step=pl.Series([None, 1]))
    runs = events.filter(category="modules").select("start_ns", step=pl.Series([None, 1]))
    known = {EVENTS.name: events, STEPS.name: steps, XLA_OPS.name: ops, MODULES.name: runs}
    one = Job.from_ranks({0: RankTrace(0, known)})
    assert rows(holotrace.compare(one, one), "before_total_ns", "before_step_ns") == {
        "add.1": (9, 4),
        "jit_f(1)": (9, 4),
        "train": (5, 5),
    }


def test_two_runs_of_a_capture_differ_by_the_recompilation(tmp_path: Path) -> None:
    job = holotrace.open(xplane_files.capture("jax_cpu_gaps", tmp_path))
    table = holotrace.compare(job, job, steps=4, after_steps=5, by="program")
    assert table.select("name", "change").rows() == [("jit_train_step", "same")]
    assert table["difference_ns"].item() > 0
    whole = holotrace.compare(job, job, by="operation")
    assert whole["before_total_ns"].sum() == pytest.approx(job.hlo_ops()["self_ns"].sum(), rel=1e-6)
