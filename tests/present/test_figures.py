"""What the charts draw."""

import dataclasses
import json
import re
from typing import Any

import made_up
import polars as pl
import pytest

from drawing import draw
from holotrace.analyses import ALL
from holotrace.analyses.causes import causes
from holotrace.analyses.efficiency import efficiency
from holotrace.analyses.job_path import job_path
from holotrace.analyses.kernels import kernels
from holotrace.analyses.peak_buffers import peak_buffers
from holotrace.analyses.replay import replay
from holotrace.analyses.slowdown import slowdown
from holotrace.analyses.waits import waits
from holotrace.analyses.work_categories import work_categories
from holotrace.core.analysis import Analysis, per_rank
from holotrace.core.charts import Bar, Line, Ranking, Stacked, Tree
from holotrace.core.schema import Column, Unit
from holotrace.core.trace import RankTrace
from holotrace.errors import UsageError
from holotrace.present import charts, figures
from holotrace.present import format as fmt
from holotrace.present.charts.plane import Plane
from holotrace.present.figures import heat, trees
from holotrace.present.figures.bars import placed


@per_rank(
    columns=(Column("time_ns", Unit.NS, "When"), Column("queue_count", Unit.COUNT, "Kernels that wait")),
    reads=(),
    chart=Line(x="time_ns", y=("queue_count",), by="rank"),
)
def queue(rank: RankTrace) -> pl.DataFrame:
    """Kernels that wait."""
    raise NotImplementedError


@per_rank(
    columns=(
        Column("rank", Unit.RANK, "Rank"),
        Column("stream", Unit.NUMBER, "Queue"),
        Column("waiting_count", Unit.COUNT, "Kernels that wait"),
    ),
    reads=(),
    chart=Bar(x="rank", y=("waiting_count",)),
)
def streams_of_ranks(rank: RankTrace) -> pl.DataFrame:
    """Kernels that wait, by stream."""
    raise NotImplementedError


@per_rank(columns=(Column("note", Unit.TEXT, "Words"),), reads=())
def notes(rank: RankTrace) -> pl.DataFrame:
    """Words only."""
    raise NotImplementedError


@pytest.mark.parametrize("analysis", made_up.ANALYSES, ids=lambda a: a.name)
@pytest.mark.parametrize("ranks", [1, 8, 1024])
def test_every_chart_is_a_valid_plotly_figure(analysis: Analysis[Any], ranks: int) -> None:
    table = made_up.make(ranks, kernel_count=20).tables[analysis.name]
    assert len(figures.figure(analysis, table).data) > 0


@pytest.mark.parametrize("analysis", made_up.ANALYSES, ids=lambda a: a.name)
def test_an_empty_table_draws_a_note(analysis: Analysis[Any]) -> None:
    figure = figures.figure(analysis, made_up.empty().tables[analysis.name])
    assert len(figure.data) == 0
    assert "empty" in figure.layout.annotations[0].text


@pytest.mark.parametrize("analysis", made_up.ANALYSES, ids=lambda a: a.name)
def test_a_chart_draws_declared_columns_only(analysis: Analysis[Any]) -> None:
    table = made_up.make(4).tables[analysis.name]
    assert analysis.chart is not None
    drawn = table.select("rank", *sorted(analysis.chart.columns - {"rank"}))
    assert figures.drawing(analysis, drawn) == figures.drawing(analysis, table)


def test_the_parts_of_a_stack_add_up_to_the_whole() -> None:
    table = made_up.make(8).tables["time_breakdown"]
    parts = figures.drawing(made_up.time_breakdown, table)["data"]
    sums = [sum(values) for values in zip(*(part["y"] for part in parts), strict=True)]
    assert sums == pytest.approx([ns / 1e6 for ns in table["total_ns"]], abs=0.05)


def test_a_missing_rank_leaves_a_gap() -> None:
    table = made_up.make(8, missing=(5,)).tables["overlap"]
    assert figures.drawing(made_up.overlap, table)["data"][0]["x"] == [0, 1, 2, 3, 4, 6, 7]


def test_rows_of_a_rank_per_step_stand_side_by_side() -> None:
    one = made_up.make(2).tables["time_breakdown"]
    steps = pl.concat([one.with_columns(step=pl.lit(step, pl.Int64)) for step in (10, 11)]).sort("rank", "step")
    drawing = figures.drawing(made_up.time_breakdown, steps)
    assert drawing["data"][0]["x"] == [0, 1, 2, 3]
    assert drawing["layout"]["xaxis"]["ticktext"] == ["0 · 10", "0 · 11", "1 · 10", "1 · 11"]


def test_the_axis_of_many_ranks_is_not_crowded() -> None:
    table = made_up.make(1024, kernel_count=9).tables["time_breakdown"]
    layout = figures.drawing(made_up.time_breakdown, table)["layout"]
    assert "tickvals" not in layout["xaxis"]
    assert layout["bargap"] == 0


def test_a_ranking_draws_the_mean_rank_and_says_what_it_leaves_out() -> None:
    table = made_up.make(8, kernel_count=40).tables["kernels"]
    drawing = figures.drawing(made_up.kernels, table)
    bars = sorted((x for trace in drawing["data"] for x in trace["x"]), reverse=True)
    sums = table.group_by("name").agg(pl.col("sum_ns").sum())["sum_ns"].sort(descending=True)
    assert bars == pytest.approx([ns / 8e6 for ns in sums[:15]], abs=0.05)
    assert "the largest 15 of 40" in drawing["layout"]["annotations"][0]["text"]


def test_a_concept_has_one_colour_in_every_chart() -> None:
    assert figures.color("exposed_comm_ns") == figures.color("communication")
    assert figures.color("exposed_memory_ns") == figures.color("memory")
    assert len({figures.color(name) for name in ("compute", "communication", "memory", "sync", "other", "idle")}) == 6


def test_a_kernel_name_is_text_and_not_plotlys_markup() -> None:
    table = made_up.make(1, names=["gemm<float, 4> & <b>more</b>"]).tables["kernels"]
    drawing = figures.drawing(made_up.kernels, table)
    assert "gemm&lt;float, 4&gt; &amp; &lt;b&gt;more&lt;/b&gt; " in drawing["layout"]["yaxis"]["ticktext"]
    assert "<b>more" not in json.dumps([trace["customdata"] for trace in drawing["data"]])


def test_a_line_per_rank_is_drawn_over_time() -> None:
    rows = {"rank": [0, 0, 1, 1], "time_ns": [0, 2_000_000, 0, 2_000_000], "queue_count": [0, 5, 1, None]}
    figure = figures.figure(queue, pl.DataFrame(rows))
    assert [trace.name for trace in figure.data] == ["Rank 0", "Rank 1"]
    assert list(figure.data[0].x) == [0.0, 2.0]


def test_an_analysis_without_a_chart_says_so() -> None:
    with pytest.raises(UsageError, match="notes declares no chart"):
        figures.figure(notes, pl.DataFrame({"rank": [0], "note": ["x"]}))


def test_more_bars_than_a_page_has_room_for_are_points_above_each_other() -> None:
    streams = pl.DataFrame({"rank": [0, 0, 1, 1] * 300, "stream": [7, 20] * 600, "waiting_count": range(1200)})
    table = streams.with_columns(rank=pl.col("rank") + 2 * (pl.int_range(pl.len()) // 4))
    drawing = figures.drawing(streams_of_ranks, table)
    (points,) = drawing["data"]
    assert (points["type"], points["x"][:5], points["x"][-1]) == ("scatter", [0, 0, 1, 1, 2], 599)
    assert (points["y"][-1], points["customdata"][-1]) == (1199, "599 · 20")
    assert "tickvals" not in drawing["layout"]["xaxis"]
    assert figures.drawing(streams_of_ranks, table.head(100))["data"][0]["type"] == "bar"
    assert len(figures.figure(streams_of_ranks, table).data) == 1


def test_what_is_infinite_is_not_drawn() -> None:
    table = pl.DataFrame({"rank": [0, 0], "stream": [1, 2], "waiting_count": [float("inf"), 3.0]})
    (bars,) = figures.drawing(streams_of_ranks, table)["data"]
    assert bars["y"] == [None, 3.0]


def test_a_ranking_shows_the_mean_rank_and_not_a_silent_sum() -> None:
    # A critical path of 368 ms was drawn for a step of 52.
    analysis = next(a for a in ALL if a.name == "kernels")
    job = draw("compute |AAAA..|\ncomm |....B.|", "compute |AA....|\ncomm |.....B|", "compute |AAA...|")
    drawn = figures.drawing(analysis, job.kernels())
    bars = {trace["customdata"][0][0]: trace for trace in drawn["data"]}
    assert bars["A"]["x"] == [3.0]
    assert (bars["A"]["error_x"]["array"], bars["A"]["error_x"]["arrayminus"]) == ([1.0], [1.0])
    # The third rank has no B.
    assert bars["B"]["error_x"]["arrayminus"] == bars["B"]["x"] == [pytest.approx(0.667, abs=0.001)]
    title = drawn["layout"]["xaxis"]["title"]["text"]
    assert title == "Sum [µs] per rank, mean of 3 and least to most"


def test_a_ranking_of_one_rank_is_its_own() -> None:
    analysis = next(a for a in ALL if a.name == "kernels")
    drawn = figures.drawing(analysis, draw("compute |AAAA..|").kernels())
    assert "error_x" not in drawn["data"][0]
    assert drawn["layout"]["xaxis"]["title"]["text"] == "Sum [µs]"


def test_every_axis_says_of_what() -> None:
    job = draw("compute |AAAA..|\ncopy |....B.|", "compute |AA....|")
    for analysis in ALL:
        table = analysis(job)
        if not table.is_empty():
            drawing = figures.drawing(analysis, table)
            if not drawing["data"]:
                continue  # a roofline of work that nobody knows
            if isinstance(analysis.chart, Tree):
                continue  # boxes have no axes
            layout = drawing["layout"]
            value = layout["xaxis" if isinstance(analysis.chart, Ranking) else "yaxis"]["title"]["text"]
            assert value.partition("[")[0].strip(), analysis.name


def test_boxes_of_a_tree_are_inside_those_around_them_as_text() -> None:
    rows = [("<N>_0", 6_000, 0.5), ("<N>_0/B_0", 4_000, None), (None, 3_000, None), ("C_0", 0, None)]
    table = pl.DataFrame(
        rows, schema={"module": pl.String, "total_ns": pl.Int64, "peak_ratio": pl.Float64}, orient="row"
    )
    chart = Tree(x="module", y=("total_ns",), total="total_ns", rate="peak_ratio")
    (boxes,) = trees.traces(chart, table, fmt.Scale())
    assert (boxes["labels"], boxes["parents"], boxes["values"]) == (
        ["&lt;N&gt;_0", "B_0"],
        ["", "<N>_0"],
        [6_000, 4_000],
    )
    assert boxes["customdata"] == [["50%"], ["\u2013"]]


def rows_of(analysis: Analysis[Any], **columns: Any) -> pl.DataFrame:
    """Rows of an analysis' table, null where nothing is said."""
    given, nothing = pl.DataFrame(columns), analysis.nothing
    return given.select(
        (pl.col(name) if name in columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in nothing.schema.items()
    )


def test_what_a_cause_costs_the_job_is_not_the_mean_of_ranks() -> None:
    told = ["input", "slow-device", "recording"]
    table = rows_of(causes, rank=[0, 2, None], cause=told, cost_ns=[18_000_000, 9_500_000, 0])
    (bars,) = figures.drawing(causes, table)["data"]
    assert bars["y"] == [18.0, 9.5]


def test_a_step_is_one_bar_of_what_its_critical_path_is_made_of() -> None:
    table = rows_of(
        job_path,
        rank=[2, 2, 0, 2],
        step=[1, 1, 1, 2],
        bound_by=["host", "compute", "compute", "compute"],
        duration_ns=[5000, 3000, 1000, 2000],
    )
    drawing = figures.drawing(job_path, table)
    assert [(bars["name"], bars["y"]) for bars in drawing["data"]] == [("Compute", [4.0, 2.0]), ("Host", [5.0, 0.0])]
    assert (drawing["layout"]["barmode"], drawing["layout"]["xaxis"]["ticktext"]) == ("stack", ["1", "2"])


def test_steps_of_several_ranks_are_drawn_as_their_mean() -> None:
    table = rows_of(
        replay, rank=[0, 1, 0], step=[1, 1, 2], recorded_ns=[4000, 6000, 7000], replayed_ns=[4000, 5000, 7000]
    )
    drawing = figures.drawing(replay, table)
    assert [bars["y"] for bars in drawing["data"]] == [[5.0, 7.0], [4.5, 7.0]]


def test_series_of_one_chart_have_different_colours() -> None:
    assert work_categories.chart
    names = work_categories.chart.y
    assert len(set(figures.colors(names))) == len(names)


def test_what_is_nowhere_is_no_part_of_a_bar() -> None:
    table = rows_of(work_categories, rank=[0, 1], gemm_ns=[10, 20], norm_ns=[0, 0], copy_ns=[0, 1])
    assert [bars["name"] for bars in figures.drawing(work_categories, table)["data"]] == ["Gemm", "Copy"]


def test_rows_of_no_rank_have_no_bar_among_ranks_and_more_than_the_whole_is_seen() -> None:
    table = rows_of(slowdown, rank=[None, 0, 1], of=["job", "rank", "rank"], slowdown_ratio=[1.3, 1.0, 1.25])
    drawing = figures.drawing(slowdown, table)
    (bars,) = drawing["data"]
    assert (bars["x"], bars["y"]) == ([0, 1], [100.0, 125.0])
    assert "range" not in drawing["layout"]["yaxis"]


def waited(*pairs: tuple[int, int | None, int]) -> pl.DataFrame:
    return rows_of(
        waits,
        waiting_rank=[pair[0] for pair in pairs],
        rank=[pair[1] for pair in pairs],
        excess_ns=[pair[2] for pair in pairs],
    )


def ends(drawing: figures.Drawing) -> list[tuple[str, str, float]]:
    """Where each band begins, where it ends, and how wide it is."""
    (trace,) = drawing["data"]
    names, link = trace["node"]["label"], trace["link"]
    rows = zip(link["source"], link["target"], link["value"], strict=True)
    return [(names[source], names[target], value) for source, target, value in rows]


def test_rows_of_two_ranks_are_one_band() -> None:
    table = waited((0, 2, 3_000_000), (0, 2, 2_000_000), (1, 2, 4_000_000), (1, None, 1_000_000))
    assert ends(figures.drawing(waits, table)) == [
        ("Rank 0", "Rank 2", 5.0),
        ("Rank 1", "Rank 2", 4.0),
        ("Rank 1", "Small differences", 1.0),
    ]
    assert "annotations" not in figures.drawing(waits, table)["layout"]


def test_what_no_band_can_be_drawn_for_is_told() -> None:
    drawing = figures.drawing(waits, waited((0, 2, 5_000_000), (1, 0, -2_000_000)))
    assert ends(drawing) == [("Rank 0", "Rank 2", 5.0)]
    assert drawing["layout"]["annotations"][0]["text"] == "Left out: 2.00 ms of pairs whose sum is below zero"


def test_bands_of_a_thousand_ranks_are_few_and_add_up() -> None:
    pairs = [(rank, late, 1_000_000 + rank * late) for rank in range(1024) for late in (3, 500, 700)]
    bands = ends(figures.drawing(waits, waited(*pairs)))
    assert len(bands) < 100
    assert sum(value for *_, value in bands) == pytest.approx(sum(ns for *_, ns in pairs) / 1e6)
    assert {begins for begins, *_ in bands} >= {"1,008 other ranks"}


def test_where_nobody_waited_a_sentence_says_it() -> None:
    drawing = figures.drawing(waits, waited((0, None, 0), (1, None, 0)))
    assert drawing["data"] == [] and "no rank waited" in drawing["layout"]["annotations"][0]["text"]


def test_bars_that_would_be_written_as_nothing_are_left_out() -> None:
    # Of twenty operators the last six had 0.00 ms and 0.0%.
    sums = {"large": 166_850_000, "middle": 4_960_000, "small": 10_000, "tiny": 400, "none": 0}
    table = rows_of(kernels, rank=[0] * 5, name=list(sums), kind=["compute"] * 5, sum_ns=list(sums.values()))
    drawing = figures.drawing(kernels, table)
    assert [told[0] for trace in drawing["data"] for told in trace["customdata"]] == ["large", "middle", "small"]
    assert "the largest 3 of 5, >99.9% of the sum" in drawing["layout"]["annotations"][0]["text"]


def test_an_axis_of_two_shares_is_called_after_neither() -> None:
    table = rows_of(efficiency, rank=[0], mfu_ratio=[0.38], hfu_ratio=[0.4])
    assert figures.drawing(efficiency, table)["layout"]["yaxis"]["title"]["text"] == "Share"


def test_buffers_of_one_name_in_two_programs_are_two_bars() -> None:
    """Buffers that are never in memory together were one bar of their sum."""
    given = pl.DataFrame(
        {"rank": [0] * 3, "name": ["param", "param", "copy.1"], "program": [7, 9, 9], "peak_bytes": [4, 2, 1]}
    )
    table = given.select(
        (pl.col(name) if name in given.columns else pl.lit("jit_f" if name == "module" else None))
        .cast(dtype)
        .alias(name)
        for name, dtype in peak_buffers.nothing.schema.items()
    )
    drawn = figures.drawing(peak_buffers, table)
    assert [name.strip() for name in drawn["layout"]["yaxis"]["ticktext"]] == ["param in 7", "param in 9", "copy.1"]


def test_what_holds_until_the_next_value_is_drawn_in_steps() -> None:
    table = pl.DataFrame({"rank": [0] * 3, "time_ns": [1, 2, 3], "queue_count": [4, 1, 1]})
    held = dataclasses.replace(queue, chart=dataclasses.replace(queue.chart, holds=True))  # type: ignore[type-var]  # it has a chart
    drawn = charts.picture(figures.drawing(held, table))
    assert isinstance(drawn, Plane)
    assert re.findall(r"[MLHV]", drawn.marks[0].path) == ["M", "H", "V", "H", "V"]


def test_names_of_equal_sums_are_in_alphabetical_order_in_a_map_of_ranks() -> None:
    names = [f"name {letter}" for letter in "jihgfedcba"]
    table = pl.DataFrame({"rank": [0, 1] * 10, "name": sorted([*names, *names]), "time_ns": [1, 3] * 10})
    drawn = heat.trace(table, Column("name", Unit.TEXT, "What"), Column("time_ns", Unit.NS, "How long"))
    assert drawn is not None
    assert drawn["x"] == sorted(names)


def test_parts_of_equal_sums_are_in_alphabetical_order_in_a_stack() -> None:
    names = list("jihgfedcba")
    table = pl.DataFrame({"step": [1] * 10, "kind": names, "time_ns": [1] * 10})
    columns = {
        "step": Column("step", Unit.STEP, "Step"),
        "kind": Column("kind", Unit.TEXT, "What"),
        "time_ns": Column("time_ns", Unit.NS, "How long"),
    }
    chart, _, _ = placed(Stacked(x="step", y=("time_ns",), by="kind"), table, columns)
    assert isinstance(chart, Stacked)
    assert chart.y == tuple(f"{name}_ns" for name in sorted(names))
