"""Roofline charts: what rows achieved, below what their device could do."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from holotrace.core.charts import Roofline
from holotrace.present import format as fmt

_MOST_DOTS = 400
_LARGEST = 38.0  # pixels across
_SMALLEST = 5.0
# Shares of a decade that the axes go beyond the dots.
_MARGIN = 2.0


def traces(chart: Roofline, table: pl.DataFrame, colors: dict[str, str]) -> list[dict[str, Any]]:
    """Limits as lines, and a dot for each row that has both figures, the largest first."""
    x, y = pl.col(chart.x), pl.col(chart.y[0])
    dots = table.filter((x > 0) & (y > 0)).top_k(_MOST_DOTS, by=chart.size)
    if dots.is_empty():
        return []
    return [*_limits(chart, dots), *_dots(chart, dots, colors)]


def layout() -> dict[str, Any]:
    axis = {"type": "log", "exponentformat": "power"}
    return {
        "xaxis": {**axis, "title": {"text": "floating-point operations for each byte"}},
        "yaxis": {**axis, "title": {"text": "TFLOP/s"}},
    }


def _limits(chart: Roofline, dots: pl.DataFrame) -> list[dict[str, Any]]:
    """One line for each pair of peaks, up the slope of the memory and along the peak of a type."""
    pairs = dots.select(chart.peak, chart.bandwidth).drop_nulls().unique().sort(chart.peak, chart.bandwidth)
    low, high = float(dots[chart.x].min()) / _MARGIN, float(dots[chart.x].max()) * _MARGIN  # type: ignore[arg-type]
    lines = []
    for peak, bandwidth in pairs.iter_rows():
        # GB/s times operations for each byte are thousandths of TFLOP/s.
        ridge = peak / bandwidth * 1000
        at = [min(low, ridge), ridge, max(high, ridge)]
        name = f"{peak:,.0f} TFLOP/s, {bandwidth:,.0f} GB/s"
        lines.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": at,
                "y": [min(peak, one * bandwidth / 1000) for one in at],
                "line": {"color": "#7a828c", "width": 1.5},
                "hovertemplate": f"{name}<extra></extra>",
                "showlegend": False,
            }
        )
    return lines


def _dots(chart: Roofline, dots: pl.DataFrame, colors: dict[str, str]) -> list[dict[str, Any]]:
    largest = float(dots[chart.size].max() or 1)  # type: ignore[arg-type]
    found = []
    for group in dots.partition_by(chart.by, maintain_order=True):
        part = str(group[chart.by][0])
        sizes = [max(_LARGEST * math.sqrt(size / largest), _SMALLEST) for size in group[chart.size].to_list()]
        found.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": part,
                "x": group[chart.x].to_list(),
                "y": group[chart.y[0]].to_list(),
                "text": [_hover(row, chart) for row in group.iter_rows(named=True)],
                "marker": {"size": sizes, "color": colors[part], "opacity": 0.75, "line": {"width": 0}},
                "hovertemplate": "%{text}<br>%{y:.3g} TFLOP/s at %{x:.3g} operations a byte<extra></extra>",
            }
        )
    return found


def _hover(row: dict[str, Any], chart: Roofline) -> str:
    names = [str(row[name]) for name in ("name", "input_dims") if row.get(name)]
    milliseconds = f"{row[chart.size] / 1e6:,.3f} ms"
    return "<br>".join([*(fmt.printable(name)[:100] for name in names), milliseconds])
