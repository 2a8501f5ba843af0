"""Columns that say which rows of a frame belong together: launch and work, step, forward and backward."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta import frames
from hta._bridge import device_ranges
from hta.common.trace_symbol_table import TraceSymbolTable

_STEP_NUMBER = r"^ProfilerStep\s*#\s*(\d+)"


def transform_correlation_to_index(df: pd.DataFrame, symbol_table: TraceSymbolTable) -> pd.DataFrame:
    """Add ``index_correlation``: the ``index`` of the row on the other side that has the same ``correlation``.

    It is 0 where no row has it, and -1 for rows without a correlation.
    """
    if "correlation" in df:
        df["index_correlation"] = frames.linked(df, frames.on_device(df, symbol_table))
    return df


def get_cpu_gpu_correlation(df: pd.DataFrame) -> pd.DataFrame:
    """``gpu_index`` and ``cpu_index`` of each row on a stream and the call that launched it."""
    launched = df[(df["stream"] >= 0) & (df["index_correlation"] > 0)]
    pairs: pd.DataFrame = launched[["index", "index_correlation"]].reset_index(drop=True)
    pairs.columns = pd.Index(["gpu_index", "cpu_index"])
    return pairs


def profiler_steps(df: pd.DataFrame, symbol_table: TraceSymbolTable) -> pd.DataFrame:
    """The rows of the host's training steps, with their number as ``iteration`` and their name as ``s_name``."""
    names = symbol_table.get_sym_table_series()
    numbers = names.astype(object).str.extract(_STEP_NUMBER, expand=False)[df["name"]].to_numpy()
    on_host = df["cat"].to_numpy() != symbol_table.sym_index.get("gpu_user_annotation", -1)
    is_step = pd.notna(numbers) & on_host
    named = {"s_name": names[df["name"][is_step]].to_numpy(), "iteration": numbers[is_step].astype("int64")}
    steps: pd.DataFrame = df[is_step].assign(**named)
    return steps


def add_iteration(df: pd.DataFrame, symbol_table: TraceSymbolTable) -> pd.DataFrame:
    """Add ``iteration``, the training step of each row, -1 outside of all; returns what ``profiler_steps`` does.

    Work on a device has the step of its launch, a range on a device that of the host's range with its external id.
    """
    steps = profiler_steps(df, symbol_table)
    starts, numbers = steps["ts"].to_numpy(), steps["iteration"].to_numpy()
    of_time = frames.within(df["ts"].to_numpy(), starts, starts + steps["dur"].to_numpy(), numbers)
    caller = df.index.get_indexer(pd.Index(df["index_correlation"].where(df["index_correlation"] > 0, -1)))
    if "external_id" in df:
        shown = _host_ranges(df, symbol_table)
        of_time = np.where(shown >= 0, of_time[shown], of_time)
    is_operator = df["cat"].to_numpy() == symbol_table.sym_index.get("cpu_op", -1)
    on_stream = (df["stream"].to_numpy() >= 0) & ~is_operator
    df["iteration"] = np.where(on_stream, np.where(caller >= 0, of_time[caller], -1), of_time)
    return steps


def _host_ranges(df: pd.DataFrame, symbol_table: TraceSymbolTable) -> frames.Integers:
    cat = df["cat"].to_numpy()
    on_device, on_host = (
        cat == symbol_table.sym_index.get(kind, -1) for kind in (device_ranges.ON_DEVICE, device_ranges.ON_HOST)
    )
    return device_ranges.host_ranges(on_device, on_host, df["external_id"].to_numpy(), df["name"].to_numpy())


def add_fwd_bwd_links(df: pd.DataFrame) -> None:
    """Add ``fwdbwd_index``, the other end of an operator's arrow to its backward pass, and ``fwdbwd``, which end it is.

    That is 0 where the arrow leaves and 1 where it arrives; both are -1 elsewhere. Takes raw events, whose ``cat`` is
    text, with the arrows among them; without arrows nothing is added.
    """
    is_arrow = df["cat"] == "fwdbwd"
    if not is_arrow.any():
        return
    key = ["ts", "pid", "tid"]
    # An arrow begins and ends where an operator does.
    operators = df.loc[df["cat"] == "cpu_op", [*key, "index"]].drop_duplicates(key)
    ends = df.loc[is_arrow, [*key, "ph", "id"]].merge(operators, on=key)
    pairs = ends[ends["ph"] == "s"].merge(ends[ends["ph"] == "f"], on="id", suffixes=("_from", "_to"))
    leaving = pairs.set_index("index_from")["index_to"].to_frame("fwdbwd_index").assign(fwdbwd=0)
    arriving = pairs.set_index("index_to")["index_from"].to_frame("fwdbwd_index").assign(fwdbwd=1)
    links = pd.concat([leaving, arriving])
    # An operator that both leaves and arrives is shown as the one that leaves.
    links = links[~links.index.duplicated()].reindex(df["index"]).fillna(-1).astype("int64")
    df["fwdbwd_index"] = links["fwdbwd_index"].to_numpy()
    df["fwdbwd"] = links["fwdbwd"].to_numpy()
