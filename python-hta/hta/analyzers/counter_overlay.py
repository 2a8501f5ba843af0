"""Counters written into copies of the traces that they were taken from."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from enum import Flag
from pathlib import Path

import pandas as pd

from hta.analyzers.device_job import asked
from hta.analyzers.trace_counters import TraceCounters
from hta.common.trace import Trace
from hta.common.trace_copy import TraceCopy
from hta.common.trace_events import counter_table

log = logging.getLogger("hta")

DEFAULT_SUFFIX = "_with_counters"
_PACKED = re.compile(r"(\.json)?(\.gz|\.zst)?$")


class TimeSeriesTypes(Flag):
    """What changes over time and can be written into a trace; ``|`` joins several."""

    QUEUE_LENGTH = 1
    MEMCPY_BANDWIDTH = 2


def _queue_lengths(t: Trace, ranks: Sequence[int]) -> dict[int, pd.DataFrame]:
    series = TraceCounters.get_queue_length_time_series(t, ranks)
    return {rank: frame.rename(columns={"stream": "id"}) for rank, frame in series.items()}


_SERIES: dict[TimeSeriesTypes, tuple[Callable[[Trace, Sequence[int]], dict[int, pd.DataFrame]], str, str]] = {
    TimeSeriesTypes.QUEUE_LENGTH: (_queue_lengths, "Queue Length", "queue_length"),
    TimeSeriesTypes.MEMCPY_BANDWIDTH: (TraceCounters.get_memory_bw_time_series, "Memcpy BW", "memory_bw_gbps"),
}


def generate_trace_with_counters(
    t: Trace,
    time_series: TimeSeriesTypes | None = None,
    ranks: Sequence[int] | None = None,
    output_suffix: str = DEFAULT_SUFFIX,
) -> None:
    """Write these time series of these ranks, as counters, into a copy next to each trace that has any."""
    suffix = output_suffix or DEFAULT_SUFFIX
    if Path(suffix).name != suffix:
        raise ValueError(f"output_suffix is {suffix!r}; it becomes part of a file's name, so give one without slashes")
    chosen = asked(t, ranks)
    wanted = [_SERIES[kind] for kind in _SERIES if time_series is None or kind in time_series]
    found = [(series_of(t, chosen), name, column) for series_of, name, column in wanted]
    for rank in chosen:
        tables = [
            counter_table(series[rank], name, column, t.min_ts) for series, name, column in found if rank in series
        ]
        events = [table.write_ndjson().rstrip("\n").replace("\n", ",\n") for table in tables if not table.is_empty()]
        if not events:
            log.warning("rank %d has no counters to write", rank)
            continue
        source = t.trace_files[rank]
        target = with_suffix(source, suffix)
        t.write_raw_trace(target, TraceCopy(source, append=events))
        log.info("wrote %s", target)


def with_suffix(file: str, suffix: str) -> str:
    """The path of a file whose name has ``suffix`` before its ``.json`` or ``.gz``."""
    name = _PACKED.sub(lambda packed: suffix + packed[0], Path(file).name, count=1)
    return str(Path(file).with_name(name))
