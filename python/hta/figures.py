"""HTA's plots, from the tables its methods return."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
from plotly.subplots import make_subplots

_PIES_PER_ROW = 2


def temporal_breakdown(table: pd.DataFrame) -> go.Figure:
    """Stacked percentages of each rank."""
    parts = ["idle_time_pctg", "compute_time_pctg", "non_compute_time_pctg"]
    labels = {"value": "Percentage of time", "rank": "Rank", "variable": ""}
    return px.bar(table, x="rank", y=parts, title="Temporal breakdown across ranks", labels=labels)


def comm_comp_overlap(table: pd.DataFrame) -> go.Figure:
    """One bar per rank."""
    return px.bar(
        table,
        x="rank",
        y="comp_comm_overlap_pctg",
        text="comp_comm_overlap_pctg",
        title="Computation-Communication Overlap",
        labels={"rank": "Rank", "comp_comm_overlap_pctg": "Communication hidden by computation (%)"},
    )


def kernel_breakdown(by_type: pd.DataFrame, by_name: pd.DataFrame) -> Iterator[go.Figure]:
    """A pie of the types; for each type a pie of its kernels per rank; for each kernel a bar of its mean per rank."""
    yield px.pie(
        by_type, values="sum", names="kernel_type", title="Kernel Type Percentage Across All Ranks", height=500
    )
    for kernel_type, kernels in by_name.groupby("kernel_type"):
        yield _pies(str(kernel_type), kernels)
        for name, ranks in kernels.groupby("name"):
            yield _means(str(name), ranks)


def _pies(kernel_type: str, kernels: pd.DataFrame) -> go.Figure:
    ranks = sorted(kernels["rank"].unique())
    rows = -(-len(ranks) // _PIES_PER_ROW)
    titles = [f"Rank {rank}" for rank in ranks]
    figure = make_subplots(rows, _PIES_PER_ROW, specs=[[{"type": "pie"}] * _PIES_PER_ROW] * rows, subplot_titles=titles)
    for place, rank in enumerate(ranks):
        of_rank = kernels[kernels["rank"] == rank]
        figure.add_trace(
            go.Pie(labels=of_rank["name"].tolist(), values=of_rank["sum (us)"].tolist()),
            row=place // _PIES_PER_ROW + 1,
            col=place % _PIES_PER_ROW + 1,
        )
    title = f'Kernel type "{kernel_type}" - kernel distribution on each rank'
    return figure.update_layout(title_text=title, height=200 + 400 * rows)


def _means(name: str, ranks: pd.DataFrame) -> go.Figure:
    return px.bar(
        ranks.assign(above=ranks["max (us)"] - ranks["mean (us)"], below=ranks["mean (us)"] - ranks["min (us)"]),
        x="rank",
        y="mean (us)",
        error_y="above",
        error_y_minus="below",
        title=name,
        labels={"rank": "Rank", "mean (us)": "Mean duration (us)"},
    )
