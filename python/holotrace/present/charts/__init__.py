"""Charts as the page draws them: text and shapes of the page itself, so that they need no library and no script."""

from __future__ import annotations

from typing import Any

from holotrace.present.charts.boxes import Boxes
from holotrace.present.charts.cells import Cells
from holotrace.present.charts.links import Bands
from holotrace.present.charts.plane import Plane
from holotrace.present.charts.rows import Rows

__all__ = ["Picture", "picture"]

Picture = Plane | Rows | Boxes | Cells | Bands


def picture(drawing: dict[str, Any]) -> Picture | None:
    """What the page draws of a ``drawing``, which is in Plotly's form; None where there is nothing to draw.

    One form serves both: Plotly draws it in a notebook, the page draws it itself.
    """
    if not drawing["data"]:
        return None
    first = drawing["data"][0]
    if first["type"] == "icicle":
        return Boxes.of(drawing)
    if first["type"] == "sankey":
        return Bands.of(drawing)
    if first["type"] == "heatmap":
        return Cells.of(drawing)
    is_across = first.get("orientation") == "h"
    if not any(value for trace in drawing["data"] for value in trace["x" if is_across else "y"]):
        return None
    return Rows.of(drawing) if is_across else Plane.of(drawing)
