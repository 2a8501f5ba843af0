"""What the page draws of a chart without any library."""

import base64
import itertools
import math
import re
import struct
import zlib
from typing import Any

import made_up
import polars as pl
import pytest

from holotrace.analyses import ALL
from holotrace.analyses.step_times import step_times
from holotrace.core.analysis import Analysis, per_rank
from holotrace.core.charts import Line
from holotrace.core.schema import Column, Unit
from holotrace.core.trace import RankTrace
from holotrace.present import figures
from holotrace.present.charts import picture
from holotrace.present.charts.axes import Axis
from holotrace.present.charts.boxes import Boxes
from holotrace.present.charts.cells import Cells
from holotrace.present.charts.links import Bands
from holotrace.present.charts.plane import Plane
from holotrace.present.charts.rows import Rows


def plane(drawing: dict[str, Any]) -> Plane:
    found = picture(drawing)
    assert isinstance(found, Plane)
    return found


def rows(drawing: dict[str, Any]) -> Rows:
    found = picture(drawing)
    assert isinstance(found, Rows)
    return found


def boxes(path: str) -> list[tuple[float, float, float, float]]:
    """Left, right, bottom and top of each bar of a path; down is positive."""
    found = re.findall(r"M([-\d.]+) ([-\d.]+)V([-\d.]+)H([-\d.]+)V", path)
    return [(float(left), float(right), float(bottom), float(top)) for left, bottom, top, right in found]


def test_parts_of_a_stack_stand_on_each_other() -> None:
    drawn = plane(figures.drawing(made_up.time_breakdown, made_up.make(8).tables["time_breakdown"]))
    parts = [boxes(mark.path) for mark in drawn.marks]
    assert [len(part) for part in parts] == [8] * 4
    for below, above in itertools.pairwise(parts):
        assert [box[3] for box in below] == [box[2] for box in above]
    assert all(0 <= edge <= 1000 for part in parts for box in part for edge in box)


def test_bars_beside_each_other_do_not_cover_each_other() -> None:
    bars = {"type": "bar", "x": [0, 1], "y": [2, 4], "name": "", "marker": {"color": "red"}}
    layout = {"barmode": "group", "bargap": 0.2, "height": 300, "xaxis": {"range": [-0.5, 1.5]}, "yaxis": {}}
    drawn = plane({"data": [bars, bars], "layout": layout})
    (a, b), (c, d) = (boxes(mark.path) for mark in drawn.marks)
    assert a[1] == c[0] < c[1] < b[0] and b[1] == d[0]


def test_ticks_are_round_and_within_the_axis() -> None:
    axis = Axis.of({"rangemode": "tozero"}, [0.0, 277.0])
    assert [tick.text for tick in axis.ticks] == ["0", "50", "100", "150", "200", "250"]
    assert all(0 <= tick.at <= 100 for tick in axis.ticks)


def test_an_axis_of_equal_values_has_a_range() -> None:
    for values in ([], [0.0], [5.0, 5.0], [-3.0], [math.nan, math.inf]):
        axis = Axis.of({"rangemode": "tozero"}, values)
        assert axis.high > axis.low and axis.ticks


def test_a_logarithmic_axis_leaves_out_what_has_no_logarithm() -> None:
    axis = Axis.of({"type": "log"}, [0.0, -1.0, 1.0, 100.0, None])
    assert (axis.percent(1.0), axis.percent(10.0), axis.percent(100.0), axis.percent(0.0)) == (0, 50, 100, None)


def test_names_of_bars_are_whole_and_plain() -> None:
    name = "void f<a & b>" + "x" * 200
    drawn = rows(figures.drawing(made_up.kernels, made_up.make(2, names=[name] * 3).tables["kernels"]))
    assert name in [row.name for row in drawn.rows]


def test_the_longest_bar_reaches_the_end_with_its_spread() -> None:
    drawn = rows(figures.drawing(made_up.kernels, made_up.make(8).tables["kernels"]))
    ends = [row.spread.left + row.spread.width for row in drawn.rows if row.spread]
    assert max(ends) == pytest.approx(100, abs=0.1)
    widths = [sum(piece.width for piece in row.pieces) for row in drawn.rows]
    assert widths == sorted(widths, reverse=True)


def test_a_line_is_broken_where_a_value_is_missing() -> None:
    @per_rank(
        columns=(Column("time_ns", Unit.NS, "When"), Column("queue_count", Unit.COUNT, "Kernels that wait")),
        reads=(),
        chart=Line(x="time_ns", y=("queue_count",), by="rank"),
    )
    def queue(rank: RankTrace) -> pl.DataFrame:
        """Kernels that wait."""
        raise NotImplementedError

    table = pl.DataFrame({"rank": [0] * 5, "time_ns": [1, 2, 3, 4, 5], "queue_count": [1, 2, None, 2, 1]})
    (line,) = plane(figures.drawing(queue, table)).marks
    assert [point[0] for point in re.findall(r"[ML]", line.path)] == ["M", "L", "M", "L"]


def test_an_empty_table_has_no_picture() -> None:
    assert picture(figures.drawing(made_up.kernels, made_up.empty().tables["kernels"])) is None


def test_a_thousand_ranks_are_drawn_in_little_text() -> None:
    drawn = plane(figures.drawing(made_up.time_breakdown, made_up.make(1024).tables["time_breakdown"]))
    assert sum(len(mark.path) for mark in drawn.marks) < 200_000


TREE = {
    "type": "icicle",
    "ids": ["m", "m/a", "m/b", "m/a/<x>"],
    "parents": ["", "m", "m", "m/a"],
    "labels": ["m", "a", "b", "&lt;x&gt;"],
    "values": [100.0, 30.0, 60.0, 30.0],
    "marker": {"colors": [0.5, 0.0, 1.0, 0.2]},
    "customdata": [["50%"], ["0%"], ["100%"], ["20%"]],
    "meta": {"unit": "ms", "decimals": 1, "rate": "of the peak"},
}


def test_a_box_lies_within_the_box_that_it_is_in_the_widest_first() -> None:
    drawn = picture({"data": [TREE], "layout": {}})
    assert isinstance(drawn, Boxes)
    found = {box.name: (box.left, box.width, box.depth) for box in drawn.boxes}
    assert found == {"m": (0, 100, 0), "b": (0, 60, 1), "a": (60, 30, 1), "<x>": (60, 30, 2)}
    assert drawn.depth == 3
    told = {box.name: box.told for box in drawn.boxes}
    assert told["b"] == "m/b: 60.0 ms, 60.0%; 100% of the peak"


SANKEY = {
    "type": "sankey",
    "node": {"label": ["Rank &lt;0&gt;", "Rank 1", "Rank 2"], "color": ["#888888", "#888888", "#ff0000"]},
    "link": {"source": [0, 1], "target": [2, 2], "value": [3.0, 1.0], "color": ["red", "red"]},
    "meta": {"unit": "ms", "decimals": 1, "from": "waited", "to": "for"},
}


def test_bands_are_as_wide_at_both_ends_and_fill_their_names() -> None:
    drawn = picture({"data": [SANKEY], "layout": {}})
    assert isinstance(drawn, Bands)
    assert [(node.name, node.value, node.share) for node in drawn.left] == [
        ("Rank <0>", "3.0 ms", "75.0%"),
        ("Rank 1", "1.0 ms", "25.0%"),
    ]
    (late,) = drawn.right
    assert late.height == pytest.approx(sum(node.height for node in drawn.left), abs=0.2)
    for band, node in zip(drawn.bands, drawn.left, strict=True):
        numbers = [float(number) for number in re.findall(r"[\d.]+", band.path)]
        assert numbers[1] == pytest.approx(node.top, abs=0.1)
        assert numbers[-1] - numbers[1] == pytest.approx(node.height, abs=0.2)
    assert all(node.top >= 0 and node.top + node.height <= drawn.height for node in (*drawn.left, *drawn.right))
    assert drawn.bands[0].told == "Rank <0> \u2192 Rank 2: 3.0 ms"


def test_names_of_narrow_bands_do_not_run_into_each_other() -> None:
    links = {"source": list(range(20)), "target": [20] * 20, "value": [1000.0, *[0.1] * 19], "color": ["red"] * 20}
    nodes = {"label": [f"Rank {i}" for i in range(21)], "color": ["#888888"] * 21}
    drawn = picture({"data": [SANKEY | {"node": nodes, "link": links}], "layout": {}})
    assert isinstance(drawn, Bands)
    middles = [node.top + node.height / 2 for node in drawn.left]
    assert all(b - a >= 20 for a, b in itertools.pairwise(middles))


def test_boxes_that_nobody_sees_are_counted_and_not_drawn() -> None:
    count = 2_000
    flat = TREE | {name: TREE[name] * count for name in ("labels", "values", "customdata")}  # type: ignore[operator]
    flat |= {"ids": [str(i) for i in range(count)], "parents": [""] * count, "marker": {"colors": [0.0] * count}}
    drawn = picture({"data": [flat], "layout": {}})
    assert isinstance(drawn, Boxes) and (drawn.boxes, drawn.hidden) == ((), count)


@pytest.mark.parametrize("analysis", [a for a in ALL if a.chart is not None], ids=lambda analysis: analysis.name)
def test_every_declared_chart_is_one_that_the_page_draws(analysis: Analysis[Any]) -> None:
    table = pl.DataFrame(
        {column.name: [0, 1] if column.unit is Unit.RANK else _values(column) for column in analysis.columns},
        schema=analysis.nothing.schema,
    )
    assert picture(figures.drawing(analysis, table)) is not None


def _values(column: Column) -> list[Any]:
    if column.unit in (Unit.TEXT, Unit.LABEL):
        return ["a", "a/b"]
    if column.unit in (Unit.RANKS, Unit.STEPS):
        return [[0], [1]]
    return [False, True] if column.unit is Unit.BOOL else [1, 2]


STEPS = pl.DataFrame(
    {
        "rank": [0, 0, 1, 1, 2, 2],
        "step": [1, 2] * 3,
        "total_ns": [100, 200, 110, 200, 100, 300],
        "compute_ns": [90, 100, 90, 100, 90, 100],
        "exposed_comm_ns": [0] * 6,
        "exposed_memory_ns": [0] * 6,
        "idle_ns": [10, 100, 20, 100, 10, 200],
    },
    schema=step_times.nothing.schema,
)


def test_steps_show_the_mean_rank_and_how_far_ranks_are_apart() -> None:
    drawn = plane(figures.drawing(step_times, STEPS))
    assert [mark.kind for mark in drawn.marks] == ["bar"] * 2 + ["line"] * 2
    told = {one["name"]: one["values"] for one in drawn.told["series"]}
    assert told["Compute"] == [90, 100]
    assert told["Total, most of any rank"] == [110, 300]
    assert told["Total, least of any rank"] == [100, 200]


def test_a_step_with_a_cause_is_flagged_where_it_stands() -> None:
    drawn = plane(figures.drawing(step_times, STEPS)).flagged({2: "the host waits for input", 99: "not drawn"})
    (flag,) = drawn.flags
    assert flag.text == "the host waits for input" and flag.at == pytest.approx(drawn.x.percent(2), abs=0.01)


def test_a_map_tells_how_far_each_rank_is_off_the_median_in_each_step() -> None:
    _, *maps = figures.drawings(step_times, STEPS)
    (drawn,) = map(picture, maps)
    assert isinstance(drawn, Cells)
    assert drawn.told["permille"] == [[0, 0], [100, 0], [0, 500]]
    assert [tick.text for tick in drawn.x] == ["1", "2"] and [tick.text for tick in drawn.y] == ["0", "1", "2"]
    assert drawn.scale == ("\u221250%", "+50%")


def test_a_map_is_an_image_of_a_pixel_per_cell() -> None:
    _, *maps = figures.drawings(step_times, STEPS)
    drawn = picture(maps[0])
    assert isinstance(drawn, Cells)
    image = base64.b64decode(drawn.image.removeprefix("data:image/png;base64,"))
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", image[16:24]) == (2, 3)
    start = image.index(b"IDAT")
    (length,) = struct.unpack(">I", image[start - 4 : start])
    pixels = zlib.decompress(image[start + 4 : start + 4 + length])
    assert pixels == bytes([0, 120, 120, 0, 144, 120, 0, 120, 240])


def test_ranks_that_are_alike_have_no_map() -> None:
    alike = STEPS.with_columns(total_ns=pl.lit(100, pl.Int64()))
    assert len(figures.drawings(step_times, alike)) == 1
    assert len(figures.drawings(step_times, STEPS.filter(pl.col("rank") == 0))) == 1


def test_bars_of_nothing_are_no_chart() -> None:
    table = made_up.make(2).tables["time_breakdown"]
    parts = pl.col(made_up.time_breakdown.chart.y) if made_up.time_breakdown.chart else pl.lit(0)
    assert picture(figures.drawing(made_up.time_breakdown, table)) is not None
    assert picture(figures.drawing(made_up.time_breakdown, table.with_columns(parts * 0))) is None
