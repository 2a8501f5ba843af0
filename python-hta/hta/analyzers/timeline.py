"""When the kernels of each rank and stream ran, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.express as px

from hta.common.timeline import _simplify_name
from hta.common.trace import Trace
from hta.common.trace_symbol_table import TraceSymbolTable

_NEEDED = ("iteration", "name", "cat", "rank", "stream", "ts", "dur")
_DRAWN = ("calibrated_start_global", "calibrated_end_global", "task", "label")


def prepare_timeline_gpu_events(  # noqa: PLR0917  HTA's signature
    df: pd.DataFrame,
    symbol_table: TraceSymbolTable,
    ranks: Sequence[int] | None = None,
    iterations: Sequence[int] | None = None,
    streams: Sequence[int] | None = None,
    duration_threshold: int = 1000,
) -> pd.DataFrame:
    """The device's events with start and end as times from the first on, the row each is drawn on, and its label.

    Args:
        df: Rows of several ranks, with their rank.
        symbol_table: The symbols that their names stand for.
        ranks: Ranks to draw; all by default.
        iterations: Training steps to draw; all by default.
        streams: Streams to draw; all by default.
        duration_threshold: Microseconds as long as which shorter events are drawn.
    """
    _check(df, _NEEDED)
    # Where no step was recorded, all events are outside of steps.
    steps = iterations or _get_unique_values(df, "iteration") or [-1]
    chosen = {"rank": ranks or _get_unique_values(df, "rank"), "iteration": steps}
    chosen["stream"] = streams or _get_unique_values(df, "stream")
    # Rows of several ranks may have the same label.
    df = df.reset_index(drop=True)
    kept = pd.concat([df[column].isin(values) for column, values in chosen.items()], axis=1).all(axis=1)
    events = df[kept].sort_values(["rank", "stream", "ts"], kind="stable")
    start = events["ts"] - events["ts"].min()
    labels = {number: _simplify_name(name) for number, name in enumerate(symbol_table.sym_table)}
    prepared: pd.DataFrame = events.assign(
        calibrated_start_global=pd.to_datetime(start, unit="us"),
        calibrated_end_global=pd.to_datetime(start + events["dur"].clip(lower=duration_threshold), unit="us"),
        task="rank " + events["rank"].astype(str) + " stream " + events["stream"].astype(str),
        label=events["name"].map(labels),
    )
    return prepared


def plot_timeline(title: str, events: pd.DataFrame, ranks: Sequence[int] | None = None) -> None:
    """Show events that ``prepare_timeline_gpu_events`` returned, of all ranks or some."""
    _check(events, _DRAWN)
    if ranks is not None and "rank" in events:
        events = events[events["rank"].isin(ranks)]
    start, end, task, label = _DRAWN
    figure = px.timeline(events, x_start=start, x_end=end, y=task, color=label, title=title)
    # Plotly knows whole milliseconds only, which most kernels do not last.
    lasts = (events[end] - events[start]) / pd.Timedelta(milliseconds=1)
    figure.for_each_trace(lambda bars: bars.update(x=lasts[events[label] == bars.name].tolist()))
    figure.update_yaxes(autorange="reversed", title="")
    figure.show()


def plot_timeline_gpu_kernels(  # noqa: PLR0917  HTA's signature
    title: str,
    df: pd.DataFrame,
    symbol_table: TraceSymbolTable,
    ranks: Sequence[int] | None = None,
    iterations: Sequence[int] | None = None,
    streams: Sequence[int] | None = None,
    duration_threshold: int = 1000,
) -> None:
    """Show the device's events of a frame; the arguments are those of ``prepare_timeline_gpu_events``."""
    plot_timeline(title, prepare_timeline_gpu_events(df, symbol_table, ranks, iterations, streams, duration_threshold))


def plot_timeline_gpu_kernels_from_trace(  # noqa: PLR0917  HTA's signature
    title: str,
    trace_data: Trace,
    ranks: Sequence[int] | None = None,
    iterations: Sequence[int] | None = None,
    streams: Sequence[int] | None = None,
    duration_threshold: int = 1000,
) -> None:
    """Show the device's events of a trace; the arguments are those of ``prepare_timeline_gpu_events``."""
    frames = [
        trace_data.get_trace(rank).assign(rank=rank) for rank in (trace_data.get_ranks() if ranks is None else ranks)
    ]
    rows = pd.concat(frames) if frames else pd.DataFrame(columns=_NEEDED)
    plot_timeline_gpu_kernels(title, rows, trace_data.symbol_table, ranks, iterations, streams, duration_threshold)


def _get_unique_values(df: pd.DataFrame, column: str) -> list[Any]:
    """The values of a column that stand for something, ascending."""
    _check(df, (column,))
    return [value for value in sorted(df[column].unique().tolist()) if value >= 0]


def _check(df: pd.DataFrame, needed: Sequence[str]) -> None:
    if absent := [column for column in needed if column not in df]:
        raise ValueError(f"the frame has no columns {absent}; give rows of a trace, with their rank")
