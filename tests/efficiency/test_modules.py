"""Which modules take the time: modules are drawn as lines of letters, one line for each level."""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holotrace
from drawing import US
from holotrace.analyses import Analyses
from holotrace.core.tables import ANNOTATIONS, CPU_OPS, PYTHON_CALLS
from holotrace.core.trace import RankTrace
from holotrace.present.wording import sentence
from shaped import Given, addition, job, matrix_product, shaped
from trace_files import REAL_TRACES, needs_real_traces

NAMES = {"N": "Net_0", "B": "Block_0", "C": "Block_1", "L": "Linear_0", "D": "DistributedDataParallel_0"}
OPS = {"M": matrix_product(1024), "A": addition(1000)}
FLOPS = 2.0 * 1024**3
STEP = """
    op      |.MMMM.AA......|
    host    |..K...LO......|
    compute |...KKKK.LL.OOO|
"""


def within(traced: RankTrace, text: str, names: dict[str, str] | None = None, tid: str = "1") -> RankTrace:
    """The rank with calls of modules that are drawn on a thread."""
    known = NAMES | (names or {})
    spans = [
        ("nn.Module: " + known[found[0][0]], found.start() * US, found.end() * US)
        for line in re.findall(r"\|(.*)\|", text)
        for found in re.finditer(r"([A-Z])\1*", line)
    ]
    before = traced.tables.get(PYTHON_CALLS.name, PYTHON_CALLS.empty())
    first = 10_000 + before.height
    rows = [
        {"event_id": first + number, "name": name, "pid": "1", "tid": tid, "start_ns": start, "end_ns": end}
        for number, (name, start, end) in enumerate(spans)
    ]
    added = pl.DataFrame(rows).select(
        (pl.col(column.name) if column.name in rows[0] else pl.lit(None).alias(column.name)).cast(column.unit.dtype)
        for column in PYTHON_CALLS.columns
    )
    return replace(traced, tables={**traced.tables, PYTHON_CALLS.name: pl.concat([before, added])})


def table(*ranks: RankTrace, **options: bool) -> dict[str | None, dict[str, object]]:
    return {row["module"]: row for row in job(*ranks).modules(**options).rows(named=True)}


def test_work_belongs_to_the_innermost_module_that_launched_it_and_adds_up_to_the_busy_time() -> None:
    found = table(within(shaped(STEP, OPS), "|NNNNNNN.......|\n|.BBBB.........|"))
    own = {name: (row["self_ns"], row["total_ns"]) for name, row in found.items()}
    assert own == {"Net_0": (2_000, 6_000), "Net_0/Block_0": (4_000, 4_000), None: (3_000, 3_000)}
    assert [row["event_count"] for row in found.values()] == [2, 1, 1]
    assert found["Net_0"]["share_ratio"] == pytest.approx(6 / 9)
    assert found[None]["call_count"] is None


def test_time_of_the_host_is_that_of_calls_and_their_own_part_of_it() -> None:
    found = table(within(shaped(STEP, OPS), "|NNNNNNN.......|\n|.BB.BB........|"))
    assert {name: (row["call_count"], row["host_ns"], row["host_self_ns"]) for name, row in found.items() if name} == {
        "Net_0": (1, 7_000, 3_000),
        "Net_0/Block_0": (2, 4_000, 4_000),
    }


def test_operations_are_counted_with_their_share_of_the_peak() -> None:
    row = table(within(shaped(STEP, OPS), "|NNNNNNN.......|"))["Net_0"]
    assert row["flops"] == FLOPS
    assert row["peak_ratio"] == pytest.approx(FLOPS / 989_400 / 6_000)
    assert row["modelled_ratio"] == 1
    unknown = table(within(shaped(STEP, OPS, device=None), "|NNNNNNN.......|"))["Net_0"]
    assert (unknown["flops"], unknown["peak_ratio"]) == (FLOPS, None)
    without_shapes = table(within(shaped(STEP, {}), "|NNNNNNN.......|"))["Net_0"]
    assert (without_shapes["flops"], without_shapes["modelled_ratio"]) == (None, 0)


def backward(traced: RankTrace, pairs: dict[int, int]) -> RankTrace:
    """The rank, whose operators of the second position go back to those of the first."""
    ops = traced.tables[CPU_OPS.name].sort("start_ns")
    sequence = [None] * ops.height
    thread = [0] * ops.height
    for number, (forward, back) in enumerate(pairs.items(), 5):
        sequence[forward] = sequence[back] = number  # type: ignore[call-overload]  # a list of numbers and None
        thread[back] = 1
    named = ops.with_columns(
        pl.Series("sequence", sequence, dtype=pl.Int64()), pl.Series("forward_thread", thread, dtype=pl.Int64())
    )
    return replace(traced, tables={**traced.tables, CPU_OPS.name: named})


TRAINED = """
    op      |.MMMM..AAAA...|
    host    |..K.....L.....|
    compute |...KKKK..LLL..|
"""


def test_backward_pass_belongs_to_the_module_of_the_forward_operator() -> None:
    found = table(within(backward(shaped(TRAINED, OPS), {0: 1}), "|NNNNNN........|\n|.BBBB.........|"))
    block = found["Net_0/Block_0"]
    assert (block["self_ns"], block["backward_ns"]) == (7_000, 3_000)
    assert found["Net_0"]["backward_ns"] == 3_000
    assert None not in found


def test_backward_pass_of_what_is_outside_of_modules_is_outside() -> None:
    found = table(within(backward(shaped(TRAINED, OPS), {0: 1}), "|......NNNNNNN.|"))
    assert (found[None]["self_ns"], found[None]["backward_ns"]) == (7_000, 3_000)


def test_wrapper_is_one_with_what_it_wraps() -> None:
    text = "|DDDDDDDDDDDDDD|\n|OOOOOOOOOOOOO.|\n|.NNNNNN.......|\n|.BBBB.........|"
    found = table(within(shaped(STEP, OPS), text, {"O": "OptimizedModule_0", "B": "FSDPBlock_0"}))
    assert list(found) == ["Net_0", "Net_0/Block_0"]
    net = found["Net_0"]
    assert (net["call_count"], net["host_ns"], net["total_ns"]) == (1, 14_000, 9_000)
    assert net["host_self_ns"] == 10_000


def test_wrapper_of_a_compiled_module_stands_for_itself() -> None:
    found = table(within(shaped(STEP, OPS), "|DDDDDDD.......|", {"D": "OptimizedModule_0"}))
    assert list(found) == ["OptimizedModule_0", None]


def test_module_that_a_checkpoint_runs_again_is_where_it_was_before() -> None:
    forward = within(
        shaped(STEP, OPS), "|NNNNN.........|\n|.WWWW.........|\n|.BBB..........|", {"W": "CheckpointWrapper_0"}
    )
    found = table(within(forward, "|......BBBBBBB.|"))
    assert list(found) == ["Net_0", "Net_0/Block_0"]
    block = found["Net_0/Block_0"]
    assert (block["call_count"], block["host_ns"], block["self_ns"]) == (2, 11_000, 9_000)


def test_modules_are_numbered_within_the_one_around_them() -> None:
    names = {"L": "Linear_7", "K": "Linear_9"}
    rows = job(within(shaped(STEP, OPS), "|NNNNNNN.......|\n|.LL.KK........|", names)).modules()
    assert rows["place"].to_list() == ["Net_0", "Net_0/Linear_0", "Net_0/Linear_1", None]
    assert rows["module"].to_list() == ["Net_0", "Net_0/Linear_7", "Net_0/Linear_9", None]


def test_modules_follow_the_one_around_them_in_the_order_of_their_first_call() -> None:
    rows = job(within(shaped(STEP, OPS), "|NNNNNNNNNNNN..|\n|.CCC.BBB.LL...|\n|..L...........|")).modules()
    assert rows["module"].to_list() == [
        "Net_0", "Net_0/Block_1", "Net_0/Block_1/Linear_0", "Net_0/Block_0", "Net_0/Linear_0",
    ]  # fmt: skip


def test_classes_count_modules_inside_their_own_once() -> None:
    text = "|NNNNNNN.......|\n|.BBBBB........|\n|..CC..........|"
    found = table(within(shaped(STEP, OPS), text), by_class=True)
    assert list(found) == ["Net", "Block", None]
    block = found["Block"]
    assert (block["call_count"], block["host_ns"], block["host_self_ns"]) == (2, 5_000, 5_000)
    assert (block["self_ns"], block["total_ns"]) == (4_000, 4_000)
    assert found["Net"]["total_ns"] == 6_000


def test_each_step_has_its_own_rows() -> None:
    steps = "step |11111112222222|\n" + STEP
    rows = job(within(shaped(steps, OPS), "|NNNNN.NNNNN...|")).modules(by_step=True)
    assert rows.select("step", "module", "call_count", "self_ns").rows() == [
        (1, "Net_0", 2, 6_000),
        (2, "Net_0", 0, 3_000),
    ]


def test_named_ranges_stand_in_where_no_modules_were_recorded() -> None:
    text = "range |RRRRRRR.......|\nrange |.SSS..........|\n" + STEP
    rows = job(shaped(text, OPS)).modules()
    assert rows.select("module", "module_class", "self_ns").rows() == [
        ("R", None, 2_000),
        ("R/S", None, 4_000),
        (None, None, 3_000),
    ]


def test_steps_of_the_profiler_are_no_named_ranges() -> None:
    traced = shaped("range |RRRRRRRRRRRRRR|\n" + STEP, OPS)
    ranges = traced.tables[ANNOTATIONS.name].with_columns(name=pl.lit("ProfilerStep#3", pl.Categorical))
    assert job(replace(traced, tables={**traced.tables, ANNOTATIONS.name: ranges})).modules().is_empty()


def test_what_a_compiler_made_stands_in_where_no_modules_were_recorded() -> None:
    compiled: Given = ("Torch-Compiled Region: 0/0", [], [], [])
    text = "op |MMMMMMMM|\nop |.T......|\nhost |..K.....|\ncompute |...KKKK.|"
    rows = job(shaped(text, {"M": compiled, "T": matrix_product(64)})).modules()
    assert rows.select("module", "self_ns").rows() == [("Torch-Compiled Region: 0/0", 4_000)]


def test_modules_inside_more_than_are_looked_at_belong_to_those_around_them() -> None:
    names = [f"Deep_{depth}" for depth in range(70)]
    place = {"pid": "1", "tid": "1"}
    rows = [
        {"event_id": 100 + depth, "name": f"nn.Module: {name}", **place, "start_ns": depth, "end_ns": 20_000 - depth}
        for depth, name in enumerate(names)
    ]  # fmt: skip
    frames = pl.DataFrame(rows).select(
        (pl.col(column.name) if column.name in rows[0] else pl.lit(None).alias(column.name)).cast(column.unit.dtype)
        for column in PYTHON_CALLS.columns
    )
    traced = shaped(STEP, OPS)
    found = job(replace(traced, tables={**traced.tables, PYTHON_CALLS.name: frames})).modules()
    assert found["depth"].max() == 63
    assert found["self_ns"].sum() == 9_000


@given(
    lines=st.lists(st.text(alphabet="NBCLDW.", min_size=14, max_size=14), min_size=1, max_size=5),
    pairs=st.sampled_from([{}, {0: 1}, {1: 0}]),
    tid=st.sampled_from(["1", "2"]),
)
def test_parts_add_up_to_the_busy_time_whatever_calls_whom(lines: list[str], pairs: dict[int, int], tid: str) -> None:
    if not any(letter != "." for line in lines for letter in line):
        return
    drawn = "\n".join(f"|{line}|" for line in lines)
    traced = within(backward(shaped(STEP, OPS), pairs), drawn, {"W": "CheckpointWrapper_0"}, tid)
    rows = job(traced).modules()
    assert rows["self_ns"].sum() == 9_000
    outermost = rows.filter(pl.col("depth").fill_null(0) == 0)
    assert outermost["total_ns"].sum() == 9_000
    assert rows["module"].is_unique().all()
    assert rows.select((pl.col("total_ns") >= pl.col("self_ns")).all(), (pl.col("flops") <= FLOPS).all()).row(0) == (
        1,
        1,
    )
    classes = job(traced).modules(by_class=True)
    assert classes["self_ns"].sum() == 9_000
    assert classes.select((pl.col("total_ns") <= 9_000).all()).item()


def test_jobs_are_aligned_by_the_place_of_modules_and_not_by_their_numbers_in_the_whole_model() -> None:
    before = job(within(shaped(STEP, OPS), "|NNNNNNN.......|\n|.LLL.B........|", {"L": "Linear_0", "B": "Head_0"}))
    after = job(within(shaped(STEP, OPS), "|NNNNNNN.......|\n|.LLL.BB.......|", {"L": "Linear_4", "B": "Head_0"}))
    found = holotrace.compare(before, after, by="module")
    told = {row["name"]: (row["change"], row["difference_ns"]) for row in found.rows(named=True)}
    assert told == {
        "Net_0/Head_0": ("same", 2_000),
        "Net_0": ("same", 0),
        "Net_0/Linear_0": ("same", 0),
        None: ("same", 0),
    }
    on_host = holotrace.compare(before, after, by="module", device=False)
    assert on_host.filter(pl.col("difference_ns") != 0)["name"].to_list() == ["Net_0/Head_0"]


def test_layer_slower_than_its_like_is_a_finding_with_what_it_costs() -> None:
    text = "op |AABBCCDD|\nhost |K.L.M.N.|\ncompute |" + "K" * 3000 + "L" * 3000 + "M" * 5000 + "N" * 3000 + "|"
    same = {letter: matrix_product(1024) for letter in "ABCD"}
    layers = {"A": "Layer_0", "B": "Layer_1", "C": "Layer_2", "D": "Layer_3"}
    traced = within(shaped(text, same), "|NNNNNNNN|\n|AABBCCDD|", layers)
    (found,) = Analyses.modules.findings(job(traced).modules())
    assert (found.rule, found.cost_ns) == ("modules-slower-than-their-like", 2_000_000)
    assert sentence(found) == "Most modules of the class Layer take less time for the same work than Net_0/Layer_2"
    other = shaped(text, same | {"C": matrix_product(2048)})
    assert not Analyses.modules.findings(job(within(other, "|NNNNNNNN|\n|AABBCCDD|", layers)).modules())


@needs_real_traces
@pytest.mark.parametrize(
    "name",
    [
        "tracelens/tests/traces/mi300/resnet_act_checkpoint.json.gz",
        "tracelens/tests/traces/h100/gaunernst_bert-small-uncased__1016001.json.gz",
        "tracelens/tests/traces/b200/eager_trace.json.gz",
    ],
)
def test_modules_of_real_traces_add_up_to_the_busy_time(name: str) -> None:
    traced = holotrace.open(REAL_TRACES / name)
    busy = traced.work_categories().filter(pl.col("step").is_null())["busy_ns"].item()
    rows = traced.modules()
    assert rows["self_ns"].sum() == busy
    assert rows.filter(pl.col("depth").fill_null(0) == 0)["total_ns"].sum() == busy
    assert rows.filter(pl.col("module").is_not_null())["self_ns"].sum() > 0
    flops = traced.efficiency().filter(pl.col("step").is_null())
    assert rows.filter(pl.col("depth").fill_null(0) == 0)["flops"].sum() == pytest.approx(
        flops.select(pl.col("model_flops") + pl.col("recomputed_flops")).item()
    )
