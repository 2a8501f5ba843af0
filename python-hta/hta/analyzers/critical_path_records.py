"""Events that a rank recorded on its streams, and what waited for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from hta.common.trace import Trace

_CALL = ["index", "name", "pid", "tid", "ts", "correlation"]
# The columns of waiting that say for what.
_STREAM, _RECORDED_BY = "wait_on_stream", "wait_on_cuda_event_record_corr_id"


def event_records(t: Trace, rank: int) -> pd.DataFrame:
    """A row per recording of an event that something waited for, and the last launch on its stream before.

    Only waiting says on which stream an event was recorded. ``index_previous_launch`` and ``correlation_launch_event``
    are -1 where no launch came before.
    """
    frame = t.get_trace(rank)
    stream = _waits(t, frame).drop_duplicates(_RECORDED_BY, keep="last").set_index(_RECORDED_BY)[_STREAM]
    is_record = (frame["name"] == _number(t, "cudaEventRecord")) & frame["correlation"].isin(stream.index)
    records = frame.loc[is_record, _CALL].copy()
    records["stream"] = records["correlation"].map(stream)
    names = {"launch": "index_previous_launch", "launched_by": "correlation_launch_event"}
    return _with_launch(records, frame, "backward", ["stream"], names)


def stream_waits(t: Trace, rank: int) -> pd.DataFrame:
    """A row per call that made a stream wait for an event, and the next launch by its thread on that stream.

    ``index_next_launch`` and ``correlation_next_launch`` are -1 where none came after.
    """
    frame = t.get_trace(rank)
    waits = _waits(t, frame)
    stream = waits[waits["name"] == _number(t, "Stream Wait Event")].set_index("index_correlation")["stream"]
    calls = frame.loc[frame["index"].isin(stream.index), _CALL].copy()
    calls["stream"] = calls["index"].map(stream)
    names = {"launch": "index_next_launch", "launched_by": "correlation_next_launch"}
    return _with_launch(calls, frame, "forward", ["pid", "tid", "stream"], names)


def _number(t: Trace, symbol: str) -> int:
    return t.symbol_table.sym_index.get(symbol, -1)


def _waits(t: Trace, frame: pd.DataFrame) -> pd.DataFrame:
    """Waiting for events, a row per call that waits: for which recording, and on which stream that was."""
    # A config may leave the args of waiting out.
    frame = frame.assign(**{column: -1 for column in (_STREAM, _RECORDED_BY) if column not in frame})
    is_wait = (frame["cat"] == _number(t, "cuda_sync")) & (frame[_RECORDED_BY] > 0)
    waits: pd.DataFrame = frame[is_wait].drop_duplicates("index_correlation", keep="last")
    return waits


def _with_launch(
    calls: pd.DataFrame,
    frame: pd.DataFrame,
    direction: Literal["backward", "forward"],
    by: Sequence[str],
    names: Mapping[str, str],
) -> pd.DataFrame:
    """These calls with ``names`` of the nearest launch before or after each that is the same in columns ``by``."""
    work = frame[(frame["stream"] >= 0) & (frame["index_correlation"] > 0)]
    work = work[work["index_correlation"].isin(frame.index)]
    callers = frame.loc[work["index_correlation"], _CALL].rename(columns={"index": "launch"})
    launches = callers.assign(launched_by=callers["correlation"], stream=work["stream"].to_numpy(dtype=np.int64))
    sides = (calls.astype({"stream": np.int64}), launches[["ts", *names, *by]].rename(columns=names))
    calls, launches = (side.sort_values("ts", kind="stable").reset_index(drop=True) for side in sides)
    found = pd.merge_asof(calls, launches, on="ts", by=list(by), direction=direction, allow_exact_matches=False)
    for name in names.values():
        found[name] = found[name].fillna(-1).astype(np.int64)
    result: pd.DataFrame = found.set_index("index", drop=False).rename_axis(index=None)
    return result
