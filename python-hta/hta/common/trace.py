"""The events of all ranks of a job, as HTA's frames."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta._bridge import frames
from hta._bridge.arg_keys import all_args
from hta._bridge.copies import TraceCopy
from hta._bridge.events import PHASE_COUNTER, PHASE_FLOW_END, PHASE_FLOW_START, counter_table, flow_event
from hta._bridge.links import (
    add_fwd_bwd_links,
    add_iteration,
    get_cpu_gpu_correlation,
    transform_correlation_to_index,
)
from hta.common.constants import DEFAULT_TRACE_DIR
from hta.common.trace_file import create_rank_to_trace_dict, create_rank_to_trace_dict_from_dir, validated, write_trace
from hta.common.trace_parser import MetaData, described, infer_gpu_type, parse_trace_dict, parse_trace_file
from hta.common.trace_symbol_table import TraceSymbolTable, decode_symbol_id_to_symbol_name
from hta.common.types import MTIAMemoryKernelGroupingPattern
from hta.configs.parser_config import ParserConfig
from hta.utils.utils import normalize_path

__all__ = [
    "PHASE_COUNTER",
    "PHASE_FLOW_END",
    "PHASE_FLOW_START",
    "MetaData",
    "Trace",
    "add_fwd_bwd_links",
    "add_iteration",
    "get_cpu_gpu_correlation",
    "infer_gpu_type",
    "parse_trace_dict",
    "parse_trace_file",
    "trace_event_timestamp_to_unixtime_ns",
    "transform_correlation_to_index",
]

log = logging.getLogger("hta")

# To copy a run of rows, column by column, takes as long as to pick thousands of single ones.
_FEW_RUNS = 64
_STEP = re.compile(r"ProfilerStep#(\d+)")


class Trace:
    """The frames of a job's ranks, their metadata, and the symbols their names and categories stand for.

    Args:
        trace_files: A dict of rank to file, or files whose ranks are found out; by default those in ``trace_dir``.
        trace_dir: The folder that relative paths are in.
        parser_config: Which args of events become columns; a copy of the default config if left out.
    """

    def __init__(
        self,
        trace_files: Mapping[int, str] | Sequence[str] | None = None,
        trace_dir: str = DEFAULT_TRACE_DIR,
        parser_config: ParserConfig | None = None,
    ) -> None:
        self.parser_config = parser_config or ParserConfig.get_default_cfg()
        self.trace_path: str = normalize_path(trace_dir)
        self.trace_files: dict[int, str] = _find(trace_files, self.trace_path)
        self.traces: dict[int, pd.DataFrame] = {}
        self.meta_data: dict[int, MetaData] = {}
        self.symbol_table = TraceSymbolTable()
        # Of each rank that was read, what its frame has no columns for.
        self.exact: dict[int, frames.Exact] = {}
        # Microseconds taken off all times by alignment.
        self.min_ts: int = 0
        self.is_parsed: bool = False

    def load_traces(
        self,
        include_last_profiler_step: bool | None = False,
        use_multiprocessing: bool = True,
        use_memory_profiling: bool = True,
    ) -> None:
        """Read all ranks, put them on one clock and leave out the last training step unless told otherwise.

        ``use_multiprocessing`` and ``use_memory_profiling`` are HTA's; threads read the ranks whatever they say.
        """
        if self.is_parsed:
            log.warning("the traces are read already; make another Trace to read them anew")
            return
        self.parse_traces()
        self.align_and_filter_trace(include_last_profiler_step)

    def parse_traces(
        self, max_ranks: int = -1, use_multiprocessing: bool = True, use_memory_profiling: bool = True
    ) -> None:
        """Read all ranks, or the first ``max_ranks`` of them."""
        ranks = sorted(self.trace_files)
        self.parse_multiple_ranks(ranks if max_ranks < 0 else ranks[:max_ranks])
        self.is_parsed = bool(ranks)

    def parse_multiple_ranks(
        self, ranks: Sequence[int], use_multiprocessing: bool = True, use_memory_profiling: bool = True
    ) -> None:
        """Read some ranks."""
        if not ranks:
            log.warning("there is no trace to read")
            return
        files = {rank: self.trace_files[rank] for rank in ranks}
        config = self.parser_config
        read, unread = frames.read(files, all_args(files.values()) if config.parse_all_args else config.get_args())
        for rank, error in unread.items():
            log.warning("rank %d is left out: %s", rank, error)
        while read:
            # Let a rank's columns go before the next one's frame is made.
            self._add(read.pop(0))

    def parse_single_rank(self, rank: int) -> None:
        """Read one rank."""
        self.parse_multiple_ranks([rank])

    def _add(self, events: frames.RankEvents) -> None:
        if not len(events.columns["index"]):
            log.warning("rank %d is left out: %s holds no event", events.rank, self.trace_files[events.rank])
            return
        symbols = events.symbols
        self.symbol_table.add_symbols(symbols)
        self.traces[events.rank] = frames.to_frame(events, self.symbol_table)
        self.meta_data[events.rank] = described(events)
        self.exact[events.rank] = events.exact

    def align_and_filter_trace(self, include_last_profiler_step: bool | None = False) -> None:
        """Count time from the job's first event, and leave out the last training step unless told otherwise.

        A step that is left out takes the device work with it that it launched. With less than two steps all is kept.
        """
        if not self.traces:
            return
        first = min(int(frame["ts"].min()) for frame in self.traces.values())
        self.min_ts += first
        for frame in self.traces.values():
            frame["ts"] -= first
            frame["end"] -= first
        if sum(_STEP.match(symbol) is not None for symbol in self.symbol_table.sym_table) < 2:
            log.info("there are less than two training steps: all events are kept")
            return
        for rank, frame in self.traces.items():
            self.traces[rank] = self._within_steps(rank, frame, bool(include_last_profiler_step))

    def start_ns(self, rank: int) -> frames.Integers:
        """When each row of a rank began, to the nanosecond where the recording has it; frames have microseconds."""
        frame = self.get_trace(rank)
        start_ns = frame["ts"].to_numpy(dtype=np.int64) * frames.NS_PER_US
        if rank not in self.exact:
            return start_ns
        # A row that was put in by hand began when its frame says.
        early_ns = np.append(self.exact[rank].early_ns, np.int16(0))
        exact: frames.Integers = start_ns - early_ns.take(frame["index"].to_numpy(dtype=np.int64), mode="clip")
        return exact

    def _within_steps(self, rank: int, frame: pd.DataFrame, include_last: bool) -> pd.DataFrame:
        on_device = frames.on_device(frame, self.symbol_table)
        # The device shows steps later than the host launches them.
        is_step = self._is_step(frame)
        is_step &= frame["cat"].to_numpy() != self.symbol_table.sym_index.get("gpu_user_annotation", -1)
        steps = frame[is_step & ~on_device]
        if steps.empty:
            return frame
        ts, correlation = frame["ts"].to_numpy(), frame["correlation"].to_numpy()
        kept = ~on_device & (ts <= steps["end"].max() if include_last else ts < steps["ts"].max())
        work = np.flatnonzero(on_device)
        kept[work] = np.isin(correlation[work], correlation[kept])
        if rank in self.exact:
            # The device comes to a range after the host: the host's range that it shows decides.
            ranges, shown = map(frames.places(frame), self.exact[rank].device_ranges)
            kept[ranges] = kept[shown]
        return _rows(frame, kept)

    def _is_step(self, frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
        """Which rows are training steps, of the host or as the device shows them."""
        numbered = self.symbol_table.mask_where(lambda symbol: _STEP.match(symbol) is not None)
        is_step: npt.NDArray[np.bool_] = numbered[frame["name"].to_numpy()]
        return is_step

    def get_ranks(self) -> list[int]:
        """Ranks that are there, ascending."""
        return sorted(self.traces)

    def get_trace(self, rank: int) -> pd.DataFrame:
        """The frame of a rank."""
        if rank not in self.traces:
            raise ValueError(f"rank {rank} does not exist; the job has ranks {self.get_ranks()}")
        return self.traces[rank]

    def get_all_traces(self) -> dict[int, pd.DataFrame]:
        """The frame of each rank."""
        return self.traces

    def get_iterations(self, rank: int | None = None) -> list[int]:
        """The training steps of a rank, by default the first; none where the rank is not there."""
        frame = self.traces.get(rank) if rank is not None else self._frame(None)
        if frame is None or "iteration" not in frame:
            return []
        return [int(step) for step in sorted(frame["iteration"].unique()) if step >= 0]

    def get_trace_duration(self, rank: int | None = None) -> int:
        """Microseconds from the first start of a rank's events to their last start; by default of the first rank."""
        frame = self._frame(rank)
        return 0 if frame is None or frame.empty else int(np.ptp(frame["ts"].to_numpy()))

    def _frame(self, rank: int | None) -> pd.DataFrame | None:
        if rank is not None:
            return self.get_trace(rank)
        return self.traces[self.get_ranks()[0]] if self.traces else None

    def get_trace_start_unixtime_ns(self, rank: int) -> int:
        """When the job's first event began, in nanoseconds since 1970."""
        if rank not in self.meta_data:
            raise ValueError(f"rank {rank} does not exist; the job has ranks {self.get_ranks()}")
        return trace_event_timestamp_to_unixtime_ns(self.min_ts, self.meta_data[rank])

    def get_device_type(self) -> str:
        """The vendor of the first rank's accelerator."""
        ranks = self.get_ranks()
        return str(self.meta_data[ranks[0]].get("device_type", "UNKNOWN")) if ranks else "UNKNOWN"

    def get_raw_trace_for_one_rank(self, rank: int = 0) -> dict[str, Any]:
        """The JSON of a rank's file as it is."""
        if rank not in self.trace_files:
            raise ValueError(f"rank {rank} does not exist; the job has ranks {sorted(self.trace_files)}")
        return parse_trace_dict(self.trace_files[rank])

    def write_raw_trace(self, output_file: str, trace_contents: Mapping[str, Any]) -> None:
        """Write JSON to a file, compressed if its name ends in ``.gz``; all copies of traces are written by this."""
        if isinstance(trace_contents, TraceCopy):
            trace_contents.write(output_file)
        else:
            write_trace(trace_contents, output_file)

    def convert_time_series_to_events(
        self, series: pd.DataFrame, counter_name: str, counter_col: str
    ) -> list[dict[str, Any]]:
        """A counter event per row of a time series; none, with a warning, where it has no ``pid``, ``ts`` or values.

        Args:
            series: ``ts`` since the job's first event, ``pid`` and the values; and, where there are, the ``name`` and
                ``id`` of each row's counter.
            counter_name: What the values are, and the counter's name where rows have none.
            counter_col: The column of the values.
        """
        return counter_table(series, counter_name, counter_col, self.min_ts).to_dicts()

    def _fix_mtia_memory_kernels(self, trace_df: pd.DataFrame) -> pd.DataFrame:
        """Give copies of old MTIA recordings the step they run in, and their thread as stream where they have none.

        HTA keeps this for recordings that lack both; the frame is changed in place and returned.
        """
        names, ts = trace_df["name"].to_numpy(), trace_df["ts"].to_numpy()
        is_copy = self.symbol_table.mask_where(MTIAMemoryKernelGroupingPattern.match)[names]
        steps = trace_df[self._is_step(trace_df) & (trace_df["stream"].to_numpy() == -1)]
        numbers = [int(_STEP.sub(r"\1", self.symbol_table.sym_table[name])) for name in steps["name"]]
        starts = steps["ts"].to_numpy()
        step = frames.within(ts, starts, starts + steps["dur"].to_numpy(), np.array(numbers, dtype=np.int64))
        for column, values in (("iteration", step), ("stream", trace_df["tid"].to_numpy())):
            known = trace_df[column].to_numpy()
            trace_df[column] = np.where(is_copy & (known == -1), values, known)
        return trace_df

    flow_event = staticmethod(flow_event)

    def decode_symbol_ids(self, use_shorten_name: bool = True) -> None:
        """Add the strings of names and categories to every frame, as ``s_name`` and ``s_cat``."""
        for frame in self.traces.values():
            decode_symbol_id_to_symbol_name(frame, self.symbol_table, use_shorten_name)


def trace_event_timestamp_to_unixtime_ns(trace_event_ts_us: float, trace_metadata: Mapping[str, Any]) -> int:
    """A time of an event in its file, in nanoseconds since 1970; KeyError where the file does not say since when."""
    base_ns = trace_metadata.get("baseTimeNanoseconds")
    if base_ns is None:
        raise KeyError("baseTimeNanoseconds")
    return int(trace_event_ts_us * 1000) + int(base_ns)


def _rows(frame: pd.DataFrame, kept: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """A frame of its own of these rows; there is no doubt whether it may be written to."""
    changes = np.flatnonzero(np.diff(kept, prepend=False, append=False))
    if not 0 < len(changes) <= 2 * _FEW_RUNS:
        taken: pd.DataFrame = frame.take(np.flatnonzero(kept))
        return taken
    # As steps are rows in a row, these are; to copy them run by run takes half the time.
    runs: pd.DataFrame = pd.concat([frame.iloc[start:end] for start, end in changes.reshape(-1, 2)])
    return runs


def _find(trace_files: Mapping[int, str] | Sequence[str] | None, trace_dir: str) -> dict[int, str]:
    if trace_files is None:
        return create_rank_to_trace_dict_from_dir(trace_dir)[1]
    if isinstance(trace_files, Mapping):
        return validated(trace_files, trace_dir)
    if not isinstance(trace_files, Sequence):
        raise TypeError(
            f"trace_files is a {type(trace_files).__name__}; give a dict of rank to file, or a list of files"
        )
    several = [trace_files] if isinstance(trace_files, str) else trace_files
    located = validated(dict(enumerate(several)), trace_dir)
    return create_rank_to_trace_dict(list(located.values()))[1]
