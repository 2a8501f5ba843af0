"""Programs, categories and names of operations as a tree."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import holotrace
import xplane_files
from drawing import draw
from holotrace.core.tables import XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.job import Job
from holotrace.present.wording import sentence
from xla_drawing import frame


def tree(job: Job, depth: int = 3) -> list[tuple[object, ...]]:
    """Rows as a reader sees them: depth, what it is called, time in µs."""
    called = pl.coalesce("operation", "name", "category", "module")
    return job.programs(depth=depth).select("depth", called, pl.col("self_ns") // 1_000).rows()


def test_below_programs_stand_categories_and_below_these_names_most_time_first() -> None:
    job = draw(
        "tpu |AABBBCD|\nA = dot.1 in jit_f(1)\nB = dot.7 in jit_f(1)\nC = add.2 in jit_f(1)\nD = add.3 in jit_g(2)"
    )
    assert tree(job) == [
        (0, "jit_f", 6),
        (1, "dot", 5),
        (2, "dot", 5),
        (1, "add", 1),
        (2, "add", 1),
        (0, "jit_g", 1),
        (1, "add", 1),
        (2, "add", 1),
    ]
    assert job.programs()["leaf_ns"].sum() == job.programs(depth=1)["leaf_ns"].sum() == 7_000
    assert tree(job, depth=4)[2:5] == [(2, "dot", 5), (3, "dot.7", 3), (3, "dot.1", 2)]


def test_runs_of_one_name_in_programs_of_one_name_are_apart() -> None:
    job = draw("tpu |AABBB|\nA = dot.1 in jit_f(1)\nB = dot.1 in jit_f(2)")
    shown = job.programs().filter(depth=2).select("module", "program", "name", "self_ns")
    assert shown.rows() == [("jit_f", 2, "dot", 3_000), ("jit_f", 1, "dot", 2_000)]


def test_a_loop_counts_with_what_its_body_does_not_take() -> None:
    place = {"device": 0, "plane": "/device:TPU:0", "line": "XLA Ops", "module": "jit_f", "program": 1, "start_ns": 0}
    loop = {"name": "while.1", "category": "while", "end_ns": 10_000, "self_ns": 3_000, "device_ps": 10_000_000}
    body = {"name": "dot.2", "category": "dot", "end_ns": 7_000, "self_ns": 7_000}
    ops = [place | loop | {"is_container": True}, place | body]
    job = Job.from_ranks({0: RankTrace(0, {"xla_ops": frame(XLA_OPS, ops)})})
    assert tree(job, depth=2) == [(0, "jit_f", 10), (1, "dot", 7), (1, "while", 3)]


def test_operations_that_the_compiler_says_are_duplicates_are_one() -> None:
    place = {"device": 0, "plane": "/device:TPU:0", "line": "XLA Ops", "module": "jit_f", "program": 1, "start_ns": 0}
    time = {"end_ns": 1_000, "self_ns": 1_000, "category": "loop fusion"}
    ops = [place | time | {"name": "fusion.7"}, place | time | {"name": "fusion.9", "same_as": "fusion.7"}]
    job = Job.from_ranks({0: RankTrace(0, {"xla_ops": frame(XLA_OPS, ops)})})
    row = job.programs(depth=4).row(-1, named=True)
    assert (row["operation"], row["operation_count"], row["self_ns"]) == ("fusion.7", 2, 2_000)


@pytest.mark.parametrize("name", ["jax_cpu_gaps", "torch_xla_cpu_gaps"])
def test_each_level_takes_the_time_of_all_operations(name: str, tmp_path: Path) -> None:
    job = holotrace.open(xplane_files.capture(name, tmp_path))
    levels = job.programs(depth=4).group_by("depth").agg(pl.col("self_ns").sum(), pl.col("share_ratio").sum())
    # Rows are rounded to nanoseconds.
    assert levels["self_ns"].to_list() == pytest.approx([job.hlo_ops()["self_ns"].sum()] * 4, rel=1e-6)
    assert levels["share_ratio"].to_list() == pytest.approx([1.0] * 4)


def test_thousands_of_operations_of_a_model_have_a_few_dozen_names() -> None:
    job = holotrace.open(xplane_files.found("found/vllm_tpu"))
    of_step = job.programs().filter(pl.col("depth") == 2, pl.col("module") == "jit_step_fun")
    assert (of_step["operation_count"].sum(), of_step["name"].n_unique()) == (3_440, 23)
    top = of_step.select("category", "name", "operation_count").rows()[:2]
    assert top == [("convolution fusion", "convolution_bitcast_fusion", 64), ("convolution fusion", "fusion", 128)]


def test_changes_of_layout_that_take_the_time_are_a_finding() -> None:
    job = draw("tpu |AAABC|\nA = dot.1\nB = copy.2\nC = transpose.3")
    found = next(finding for finding in job.findings() if finding.rule == "costly-formatting")
    assert sentence(found) == "Copies and changes of layout take 40% of the device time, most of it in jit_f"
    assert found.cost_ns == 2_000


def test_collectives_that_were_not_split_are_a_finding_as_far_as_other_work_could_hide_them() -> None:
    job = draw("tpu |AAABB|\nA = all-reduce.1\nB = dot.2")
    found = next(finding for finding in job.findings() if finding.rule == "synchronous-collectives")
    assert sentence(found) == "Devices do nothing else during collectives for 60% of their time, most of it in jit_f"
    assert found.cost_ns == 2_000
    split = draw("tpu |ABBBC|\nA = all-reduce-start.1\nB = dot.2\nC = all-reduce-done.1")
    assert "synchronous-collectives" not in {finding.rule for finding in split.findings()}
