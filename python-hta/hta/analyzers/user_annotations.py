"""Named ranges as HTA sees them: how long they take, and which kernels run in them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta import figures, frames
from hta.analyzers.folding import Times, folded, table_of
from hta.common.trace import Trace
from hta.common.trace_symbol_table import TraceSymbolTable, decode_symbol_id_to_symbol_name
from hta.frames import NS_PER_US

log = logging.getLogger("hta")

_ON_DEVICE, _ON_HOST = "gpu_user_annotation", "user_annotation"

Integers = npt.NDArray[np.int64]


def user_annotation_breakdown(
    t: Trace,
    *,
    on_device: bool,
    visualize: bool,
    duration_ratio: float,
    most_names: int,
    allowlist: Sequence[str] | None,
    image_renderer: str | None,
) -> pd.DataFrame | None:
    """Times of each named range by rank; None where no rank has any of that kind."""
    category = _ON_DEVICE if on_device else _ON_HOST
    if not _are_there(t, category):
        return None
    by_rank = {
        rank: folded(_times(t.get_trace(rank), t.symbol_table, category), duration_ratio, most_names, allowlist or ())
        for rank in t.get_ranks()
    }
    table = table_of(list(by_rank.values()), {"rank": np.array(list(by_rank), dtype=np.int64)})
    if visualize:
        for figure in figures.annotation_breakdown(table):
            figure.show(renderer=image_renderer)
    return table


def kernels_with_user_annotations(t: Trace, rank: int, expand_names: bool, shorten_names: bool) -> pd.DataFrame | None:
    """A rank's device rows, each with the named range it runs in; None where no rank has ranges on the device."""
    if not _are_there(t, _ON_DEVICE):
        return None
    frame, symbols = t.get_trace(rank), t.symbol_table
    ranges = frame[frame["cat"] == symbols.sym_index[_ON_DEVICE]]
    rows: pd.DataFrame = frame[frames.on_device(frame, symbols)].reset_index(drop=True)
    rows["cat"] = rows["cat"].astype("int64")
    place = _shortest_over(rows, ranges)
    rows["user_annotation"] = np.append(ranges["name"].to_numpy(), -1)[place]
    if expand_names:
        decode_symbol_id_to_symbol_name(rows, symbols, shorten_names)
    return rows


def _times(frame: pd.DataFrame, symbols: TraceSymbolTable, category: str) -> Times:
    row = np.flatnonzero(frame["cat"].to_numpy() == symbols.sym_index[category])
    duration_ns = frame["dur"].to_numpy()[row].astype(np.int64) * NS_PER_US
    return Times.of_runs(symbols.sym_table, frame["name"].to_numpy()[row], duration_ns)


def _are_there(t: Trace, category: str) -> bool:
    if category in t.symbol_table.sym_index:
        return True
    log.warning("the traces have no %s events", category)
    return False


def _shortest_over(rows: pd.DataFrame, ranges: pd.DataFrame) -> Integers:
    """For each row the place of the shortest range on its track that runs at the same time, -1 where none does."""
    found = np.full(len(rows), -1, dtype=np.int64)
    if rows.empty or ranges.empty:
        return found
    tracks = pd.concat([rows[["pid", "tid"]], ranges[["pid", "tid"]]])
    track = tracks.groupby(["pid", "tid"], sort=False).ngroup()
    first = min(int(rows["ts"].min()), int(ranges["ts"].min()))
    width = max(int(rows["end"].max()), int(ranges["end"].max())) - first + 1
    # Tracks one after the other on one time line, so that all are searched at once.
    shift = track.to_numpy(dtype=np.int64) * width - first
    starts, ends = (rows[side].to_numpy(dtype=np.int64) + shift[: len(rows)] for side in ("ts", "end"))
    range_starts, range_ends = (ranges[side].to_numpy(dtype=np.int64) + shift[len(rows) :] for side in ("ts", "end"))
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    # Rows from the first that may reach into a range to the last that starts before its end.
    begin = np.searchsorted(np.maximum.accumulate(ends), range_starts, side="right")
    count = np.maximum(np.searchsorted(starts, range_ends, side="left") - begin, 0)
    # The longest range first: of those that write to a row, the last one stays.
    longest = np.argsort(range_starts - range_ends, kind="stable")
    of_range = np.repeat(longest, count[longest])
    row = np.arange(len(of_range)) - np.repeat(np.cumsum(count[longest]) - count[longest], count[longest])
    row += begin[of_range]
    inside = ends[row] > range_starts[of_range]
    found[order[row[inside]]] = of_range[inside]
    return found
