"""HTA's plots, from the tables its methods return."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from hta.analyzers.folding import FOLDED

_PIES_PER_ROW = 2
_BINS = 300  # of a histogram
_PERCENT = ".2%"  # of an axis of shares
_KERNEL_TYPES = ("COMPUTATION", "COMMUNICATION", "MEMORY")
_GB = 1024**3  # bytes
# What columns with a trace's label end in, in a comparison of two.
_TOTAL = "_total_duration"


def temporal_breakdown(table: pd.DataFrame) -> go.Figure:
    """Stacked shares of each rank."""
    parts = ("idle_time", "compute_time", "non_compute_time")
    shares = table[["rank"]].assign(**{part: table[f"{part}_pctg"] / 100 for part in parts})
    figure = px.bar(shares, x="rank", y=list(parts), title="Temporal breakdown across ranks", labels={"rank": "Rank"})
    return figure.update_layout(yaxis_tickformat=_PERCENT, yaxis_title="Percentage", legend_title="Time Breakdown")


def comm_comp_overlap(table: pd.DataFrame) -> go.Figure:
    """One bar per rank."""
    figure = px.bar(
        table.assign(share=table["comp_comm_overlap_pctg"] / 100),
        x="rank",
        y="share",
        title="Computation-Communication Overlap",
        labels={"rank": "Rank", "share": "Computation-Communication Overlap Percentage"},
    )
    return figure.update_layout(yaxis_tickformat=_PERCENT)


def idle_time(table: pd.DataFrame, rank: int, percentage: bool) -> go.Figure:
    """One bar per stream of a rank, made of the causes of its idle time."""
    figure = px.bar(
        table,
        x="stream",
        y="idle_time_ratio" if percentage else "idle_time",
        color="idle_category",
        hover_data=["idle_time", "idle_time_ratio"],
        title=f"Idle time breakdown on rank {rank} per CUDA stream",
    )
    axis = (
        {"yaxis_title": "Percentage", "yaxis_tickformat": _PERCENT} if percentage else {"yaxis_title": "Idle time (us)"}
    )
    return figure.update_layout(legend_title="Idle Time Breakdown", **axis)


def launch_stats(table: pd.DataFrame, rank: int, runtime_cutoff: int, launch_delay_cutoff: int) -> Iterator[go.Figure]:
    """Histograms of calls that took longer than what they launched, of long calls, and of late starts."""
    call = table["cpu_duration"]
    is_slow, is_late = call > runtime_cutoff, table["launch_delay"] > launch_delay_cutoff
    is_short = ~is_slow & (table["gpu_duration"] < call)
    histograms = (
        ("cpu_duration", is_short, "Short GPU kernels (gpu op duration < cpu op duration)", None),
        ("cpu_duration", is_slow, f"Runtime Event Duration Outliers (duration > {runtime_cutoff} us) ", _BINS),
        ("launch_delay", is_late, f"Launch Delay Outliers (duration > {launch_delay_cutoff} us)", _BINS),
    )
    labels = {"cpu_duration": "Cuda Runtime Event Duration (us)", "launch_delay": "Launch Delay Duration (us)"}
    for column, rows, title, bins in histograms:
        yield px.histogram(table[rows], x=column, nbins=bins, title=f"{title} on rank {rank}", labels=labels)


def aten_op_kernels(table: pd.DataFrame, rank: int) -> go.Figure:
    """The table itself."""
    names = (
        *("ATen Operation", "Kernel Sequence", "Occurrence Count"),
        *("Average ATen Op Launch Delay (us)", "Average Runtime Delay (us)"),
    )
    cells = go.Table(
        header={"values": names, "align": "left"},
        cells={"values": [table[column] for column in table.columns], "align": "left"},
    )
    title = f"ATen Operations, Associated Kernels, ATen and Runtime Delays for Rank {rank}"
    return go.Figure(cells).update_layout(title=title)


def kernel_sequences(table: pd.DataFrame, rank: int) -> go.Figure:
    """How often each sequence of kernels was launched."""
    # The names of all kernels of a sequence are longer than any page is wide, so they are told when pointed at.
    bars = table.assign(pattern=table["pattern"].str.replace("|", "<br>"))
    title = f"Top {len(bars)} frequent patterns for rank {rank}"
    labels = {"count": "Pattern Count"}
    figure = px.bar(bars, x=bars.index, y="count", hover_data=["pattern"], title=title, labels=labels)
    return figure.update_xaxes(type="category")


def kernel_breakdown(by_type: pd.DataFrame, by_name: pd.DataFrame) -> Iterator[go.Figure]:
    """A pie of the types; for each type a pie of its kernels per rank; for each kernel a bar of its mean per rank."""
    yield px.pie(
        by_type[by_type["percentage"] > 0],
        values="percentage",
        names="kernel_type",
        title="Kernel Type Percentage Across All Ranks",
        height=500,
    )
    for kernel_type in _KERNEL_TYPES:
        kernels = by_name[by_name["kernel_type"] == kernel_type]
        if not kernels.empty:
            title = f'Kernel type "{kernel_type}"'
            yield _pies(f"{title} - kernel distribution on each rank", kernels)
            yield from _means(f"{title} - ", kernels)


def memory_timeline(held: pl.DataFrame) -> go.Figure:
    """What each category of tensors held over time, one above the other."""
    time_ms = ((held["time_ns"] - held["time_ns"].min()) / 1e6).to_numpy()
    figure = go.Figure()
    below = pl.zeros(held.height, eager=True)
    for name in held.columns[1:]:
        below += held[name] / _GB
        label = name.removesuffix("_bytes").replace("_", " ").capitalize()
        figure.add_scatter(x=time_ms, y=below.to_numpy(), name=label, mode="lines", fill="tonexty")
    return figure.update_layout(
        title={"text": "Memory timeline", "x": 0.5},
        xaxis_title="Time (ms)",
        yaxis_title="Memory (GB)",
        width=1200,
        height=800,
    )


def counts_difference(table: pd.DataFrame) -> go.Figure:
    """How often each operation ran in two traces, and the difference."""
    return _difference(table, "counts", "Ops Count Comparison")


def durations_difference(table: pd.DataFrame) -> go.Figure:
    """How long each operation ran in two traces, and the difference."""
    figure = _difference(table, "duration", "Ops Duration Comparison")
    return figure.update_layout(yaxis_title="Total Duration (us)", autosize=True, width=1000, height=1000)


def _difference(table: pd.DataFrame, what: str, title: str) -> go.Figure:
    labels = [column.removesuffix(_TOTAL) for column in table.columns if column.endswith(_TOTAL)]
    if len(labels) < 2:
        raise ValueError("there are no two traces in the table; give what compare_traces returned")
    sides = [(label, f"{label}_{'counts' if what == 'counts' else 'total_duration'}") for label in labels[:2]]
    figure = go.Figure()
    for label, column in (*sides, ("Difference", f"diff_{what}")):
        figure.add_bar(x=table.index.tolist(), y=table[column].to_numpy(), name=label)
    return figure.update_layout(title=title, barmode="group")


def annotation_breakdown(table: pd.DataFrame) -> Iterator[go.Figure]:
    """A pie of named ranges per rank; for each range a bar of its mean per rank."""
    if table.empty:
        return
    yield _pies("User annotation distribution on each rank", table)
    yield from _means("User annotation = ", table)


def _pies(title: str, kernels: pd.DataFrame) -> go.Figure:
    ranks = sorted(kernels["rank"].unique())
    rows = -(-len(ranks) // _PIES_PER_ROW)
    figure = make_subplots(rows, _PIES_PER_ROW, specs=[[{"type": "pie"}] * _PIES_PER_ROW] * rows)
    for place, rank in enumerate(ranks):
        of_rank = kernels[kernels["rank"] == rank]
        figure.add_trace(
            go.Pie(title=f"Rank {rank}", labels=of_rank["name"].tolist(), values=of_rank["sum (us)"].tolist()),
            row=place // _PIES_PER_ROW + 1,
            col=place % _PIES_PER_ROW + 1,
        )
    return figure.update_layout(title_text=title, height=200 + 400 * rows)


def _means(title: str, kernels: pd.DataFrame) -> Iterator[go.Figure]:
    """For each name, but for those that were folded into one, a bar of its mean per rank."""
    for name, ranks in kernels[kernels["name"] != FOLDED].groupby("name"):
        figure = px.bar(
            ranks.assign(above=ranks["max (us)"] - ranks["mean (us)"], below=ranks["mean (us)"] - ranks["min (us)"]),
            x="rank",
            y="mean (us)",
            error_y="above",
            error_y_minus="below",
            title=f"{title}{name}",
            labels={"rank": "Rank", "mean (us)": "Mean Duration (us)"},
        )
        yield figure.update_xaxes(tickmode="linear", tick0=0, dtick=1)


def late_starts(kernels: pd.DataFrame, name: str) -> go.Figure:
    """When each rank started a kernel, by iteration."""
    return px.scatter(
        kernels.assign(rank=kernels["rank"].astype(str)),
        x="iteration",
        y="start",
        color="rank",
        title=f"Start of {name}",
        labels={"iteration": "Iteration", "start": "Start (in average iterations)", "rank": "Rank"},
    )
