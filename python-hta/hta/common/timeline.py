"""Events of a frame as a timeline: a row per queue, thread level or rank, a bar per event."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pandas as pd
import plotly.express as px
from plotly.io import to_html

from hta.common.trace_symbol_table import TraceSymbolTable
from hta.utils.utils import get_symbol_column_names

log = logging.getLogger("hta")

REQUIRED_COLUMNS_FOR_CPU_GPU_ALIGNMENT = {
    "index",
    "ts",
    "first_kernel_start",
    "dur",
    "kernel_span",
    "name",
    "stream",
    "num_kernels",
}
# The stream on which modules of the host are shown next to their kernels.
AnnotationStreamID = 0

_REQUIRED = {"name", "ts", "dur", "stream"}
_SHOWN = ("name", "ts", "dur", "trace", "rank", "iteration", "stream", "cat", "index", "depth", "tid")
_AUTOGRAD = "autograd::engine::evaluate_function: "
_PARAMETERS = re.compile(r"(?<=[\w>])\(.*")
_NAME_LENGTH = 45

Filter = Callable[[pd.DataFrame, TraceSymbolTable | None], pd.DataFrame]


class EventType(Enum):
    """Where the events of a timeline ran."""

    GPUEvents = 0
    CPUEvents = 1
    AllEvents = 2


class PlotFormat(Enum):
    """What becomes of a plot: text of a page, shown at once, or a file."""

    HTML = "html"
    Inline = "inline"
    File = "file"


@dataclass
class TimelinePlotSetting:
    """How a timeline is drawn; with ``auto_detect`` the events decide the first four of the others."""

    auto_detect: bool = True
    event_type: EventType = EventType.GPUEvents
    multi_ranks: bool = False
    multi_traces: bool = False
    multi_streams: bool = True
    x_start_column: str = "calibrated_start_global"
    x_end_column: str = "calibrated_end_global"
    task_column: str = "task"
    color_column: str = "name"
    # Pixels.
    task_height: int = 30
    amplify_short_events: bool = True
    # Microseconds as long as which short events are drawn.
    short_events_display_duration: int = 1000
    # Keep times as they are instead of counting from the first event.
    use_global_time: bool = False
    plot_format: PlotFormat = PlotFormat.Inline
    # Draw all threads of the host on the same rows.
    compress_threads: bool = True


DefaultTimelinePlotSetting = TimelinePlotSetting()


def auto_detect_setting(events: pd.DataFrame, setting: TimelinePlotSetting) -> None:
    """Set what the events say of themselves: where they ran, and whether of several ranks, traces or streams."""

    def are_several(column: str) -> bool:
        return column in events and events[column].nunique() > 1

    on_device = events["stream"] >= 0
    setting.event_type = (
        EventType.GPUEvents if on_device.all() else EventType.AllEvents if on_device.any() else EventType.CPUEvents
    )
    setting.multi_ranks = are_several("rank")
    setting.multi_traces = are_several("trace")
    setting.multi_streams = are_several("stream")


def align_module_with_kernels(
    events_df: pd.DataFrame,
    module_list: Sequence[str],
    sym_table: TraceSymbolTable | None = None,
    include_original_cpu_events: bool = False,
) -> pd.DataFrame:
    """The device's events, and on stream 0 each module of the host for as long as the work it launched took.

    Args:
        events_df: Rows of a trace after a call graph was made, which says what each launched.
        module_list: Regular expressions that the start of a module's name matches.
        sym_table: The symbols that numbers in ``name`` stand for; without it there must be a column of text.
        include_original_cpu_events: Keep the modules as they ran on the host as well.
    """
    if absent := REQUIRED_COLUMNS_FOR_CPU_GPU_ALIGNMENT - set(events_df.columns):
        raise ValueError(f"the frame has no columns {sorted(absent)}; make a CallGraph of its trace first")
    names = _names(events_df, sym_table)
    if names is None:
        raise ValueError("the frame has no names as text; give its symbol table, or decode it first")
    matches = names.str.match("|".join(f"(?:{module})" for module in module_list))
    modules = events_df[matches & events_df["stream"].lt(0) & events_df["num_kernels"].gt(0)]
    shown = modules.assign(ts=modules["first_kernel_start"], dur=modules["kernel_span"], stream=AnnotationStreamID)
    on_host = [modules] if include_original_cpu_events else []
    aligned: pd.DataFrame = pd.concat([events_df[events_df["stream"] >= 0], shown, *on_host], ignore_index=True)
    return aligned


def prepare_timeline_events(
    df: pd.DataFrame,
    setting: TimelinePlotSetting = DefaultTimelinePlotSetting,
    symbol_table: TraceSymbolTable | None = None,
    hover_columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """The events with the columns that a plot needs, start, end and row, in order of rows.

    Times are microseconds from the first event on, unless ``setting`` says otherwise. Empty where ``name``, ``ts``,
    ``dur`` or ``stream`` is missing.
    """
    if df.empty or not set(df.columns) >= _REQUIRED:
        log.warning("there is nothing to draw: columns %s are needed", sorted(_REQUIRED))
        nothing: pd.DataFrame = pd.DataFrame()
        return nothing
    if setting.auto_detect:
        auto_detect_setting(df, setting)
    kept = [column for column in dict.fromkeys((*_SHOWN, *(hover_columns or ()))) if column in df]
    names = _names(df, symbol_table)
    start = df["ts"] - (0 if setting.use_global_time else df["ts"].min())
    lasts = df["dur"]
    if setting.amplify_short_events:
        lasts = lasts.clip(lower=setting.short_events_display_duration)
    events = df[kept].assign(
        **{
            "name": (df["name"].astype(str) if names is None else names).map(_simplify_name),
            setting.x_start_column: start,
            setting.x_end_column: start + lasts,
            setting.task_column: _set_task_names(df, setting),
        }
    )
    ordered: pd.DataFrame = events.sort_values(_get_sort_columns(events, setting), kind="stable")
    return ordered


def plot_events_timeline(
    title: str,
    events: pd.DataFrame,
    setting: TimelinePlotSetting = DefaultTimelinePlotSetting,
    hover_columns: Sequence[str] | None = None,
    output_image_path: str | None = None,
) -> str | None:
    """Draw events that ``prepare_timeline_events`` returned; the page's text for ``PlotFormat.HTML``, else None.

    ``PlotFormat.File`` writes to ``output_image_path``: a page where it ends in ``.html``, else an image.
    """
    if not _check_timeline_input(events, setting):
        return None
    figure = px.timeline(
        events,
        x_start=setting.x_start_column,
        x_end=setting.x_end_column,
        y=setting.task_column,
        color=setting.color_column,
        hover_data=[column for column in hover_columns or ("dur",) if column in events],
        title=title,
    )
    # Plotly draws dates; these are microseconds.
    start = events[setting.x_start_column]
    lasts = events[setting.x_end_column] - start
    for bars in figure.data:
        is_here = events[setting.color_column] == bars.name
        bars.base, bars.x = start[is_here].tolist(), lasts[is_here].tolist()
    rows = events[setting.task_column].unique().tolist()
    figure.update_layout(xaxis_type="linear", xaxis_title="µs", height=200 + setting.task_height * len(rows))
    figure.update_yaxes(categoryorder="array", categoryarray=rows[::-1], title="")
    if setting.plot_format is PlotFormat.HTML:
        return str(to_html(figure))
    if setting.plot_format is PlotFormat.File and output_image_path:
        (figure.write_html if output_image_path.endswith(".html") else figure.write_image)(output_image_path)
    else:
        figure.show()
    return None


def get_fig_title_from_fig_name(fig_name: str, sep: str = r"\s+|_+|-+") -> str:
    """``my_figure`` as a title: My Figure."""
    return " ".join(word.capitalize() for word in re.split(sep, fig_name or "untitled_figure"))


def get_fig_name_from_fig_title(title: str) -> str:
    """``My Figure`` as the name of a file: my_figure."""
    return re.sub(r"\s+", "_", (title or "Untitled Figure").lower())


class Timeline:
    """Events and how to draw them.

    Args:
        timeline_events: Rows of a trace, or what ``prepare_timeline_events`` made of them.
        symbol_table: The symbols that their names stand for.
        filter_func: Which of them to draw; all by default.
        setting: How to draw them.
        hover_columns: What to show of an event under the pointer.
    """

    def __init__(
        self,
        timeline_events: pd.DataFrame,
        symbol_table: TraceSymbolTable,
        filter_func: Filter | None = None,
        setting: TimelinePlotSetting = DefaultTimelinePlotSetting,
        hover_columns: Sequence[str] | None = None,
    ) -> None:
        self.timeline_events = timeline_events
        self.symbol_table = symbol_table
        # What one timeline finds out about its events does not concern others.
        self.setting = replace(setting)
        self.hover_columns = hover_columns
        self.prepare(filter_func)

    @staticmethod
    def is_timeline_events(df: pd.DataFrame, setting: TimelinePlotSetting) -> bool:
        """Whether a frame has the columns that a plot needs."""
        return {setting.task_column, setting.x_start_column, setting.x_end_column} <= set(df.columns)

    def prepare(self, filter_func: Filter | None = None) -> None:
        """Make the events ready to be drawn, those that ``filter_func`` leaves."""
        if filter_func is not None:
            self.timeline_events = filter_func(self.timeline_events, self.symbol_table)
        if not self.is_timeline_events(self.timeline_events, self.setting):
            self.timeline_events = prepare_timeline_events(
                self.timeline_events, self.setting, self.symbol_table, self.hover_columns
            )

    def plot(self, title: str, save_path: str | None = None) -> None:
        """Show the timeline, or write it to a file."""
        setting = replace(self.setting, plot_format=PlotFormat.File) if save_path else self.setting
        plot_events_timeline(title, self.timeline_events, setting, self.hover_columns, save_path)


def _names(df: pd.DataFrame, symbols: TraceSymbolTable | None) -> pd.Series[Any] | None:
    """The names as text; None where there is no way to know them."""
    if column := get_symbol_column_names(df)[0]:
        return df[column].astype(str)
    if symbols is None:
        return None
    texts: pd.Series[Any] = pd.Series(symbols.get_symbol_names(df["name"].unique()), dtype=object)
    return df["name"].map(texts).fillna("")


def _simplify_name(name: str, max_length: int = _NAME_LENGTH) -> str:
    """A name that fits a label: without what all of its kind begin with, its parameters, and what is too long."""
    name = name.replace(_AUTOGRAD, "autograd::")
    if len(name) > max_length:
        name = _PARAMETERS.sub("", name.removeprefix("void "))
    return name if len(name) <= max_length else f"{name[: max_length - 3]}..."


def _check_timeline_input(events: pd.DataFrame, setting: TimelinePlotSetting) -> bool:
    is_fit = not events.empty and Timeline.is_timeline_events(events, setting) and setting.color_column in events
    if not is_fit:
        log.warning("there is nothing to draw; make events with prepare_timeline_events")
    return is_fit


def _set_task_names(events: pd.DataFrame, setting: TimelinePlotSetting) -> pd.Series[str]:
    """The row of the plot that each event is on."""
    stream = events["stream"]
    on_device = _numbered("gpu stream ", stream)
    on_host = pd.Series("cpu", events.index)
    if not setting.compress_threads and "tid" in events:
        on_host += " thread " + events["tid"].astype(str)
    on_host += _numbered(" level ", events["depth"]) if "depth" in events else " events"
    place: pd.Series[str] = {
        EventType.GPUEvents: on_device if setting.multi_streams else pd.Series("gpu events", events.index),
        EventType.CPUEvents: on_host,
        EventType.AllEvents: on_device.where(stream >= 0, on_host),
    }[setting.event_type]
    if setting.multi_ranks:
        place = _numbered("rank ", events["rank"]) + " " + place
    if setting.multi_traces:
        place = events["trace"].astype(str) + " " + place
    return place


def _numbered(label: str, numbers: pd.Series[Any]) -> pd.Series[str]:
    """``label`` and each number, of three digits so that their order is that of the text."""
    return numbers.astype("int64").astype(str).str.zfill(3).radd(label)


def _get_sort_columns(events: pd.DataFrame, setting: TimelinePlotSetting) -> list[str]:
    """What the rows of the plot and the events on each are in order of."""
    of_host = ("tid", "depth") if setting.event_type is EventType.CPUEvents else ()
    several = (*(("trace",) if setting.multi_traces else ()), *(("rank",) if setting.multi_ranks else ()))
    return [column for column in (*several, "stream", *of_host, "ts") if column in events]
