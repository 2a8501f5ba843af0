"""The events of all ranks of a job, as HTA's frames."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta import frames
from hta.common.arg_keys import all_args
from hta.common.constants import DEFAULT_TRACE_DIR
from hta.common.trace_file import create_rank_to_trace_dict, create_rank_to_trace_dict_from_dir, validated
from hta.common.trace_symbol_table import TraceSymbolTable, decode_symbol_id_to_symbol_name
from hta.configs.parser_config import ParserConfig
from hta.utils.utils import normalize_path

log = logging.getLogger("hta")

_STEP = re.compile(r"ProfilerStep#(\d+)")
# Names of calls that only one vendor's runtime makes.
_DEVICE_OF_CALL = {
    "cudaLaunchKernel": "NVIDIA GPU",
    "hipLaunchKernel": "AMD GPU",
    "runFunction - job_prep_and_submit_for_execution": "MTIA",
}


def infer_gpu_type(metadata: Mapping[str, Any] | None = None, name_set: Mapping[str, int] | None = None) -> str:
    """The vendor of the accelerator, by the communication library and the runtime calls."""
    job = (metadata or {}).get("distributedInfo")
    if isinstance(job, dict) and "mtia:hccl" in str(job.get("backend", "")):
        return "MTIA"
    return next((device for call, device in _DEVICE_OF_CALL.items() if call in (name_set or {})), "UNKNOWN GPU")


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
        self.meta_data: dict[int, dict[str, Any]] = {}
        self.symbol_table = TraceSymbolTable()
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
        self.parse_traces()
        self.align_and_filter_trace(include_last_profiler_step)

    def parse_traces(
        self, max_ranks: int = -1, use_multiprocessing: bool = True, use_memory_profiling: bool = True
    ) -> None:
        """Read all ranks, or the first ``max_ranks`` of them."""
        ranks = sorted(self.trace_files)
        self.parse_multiple_ranks(ranks if max_ranks < 0 else ranks[:max_ranks])
        self.is_parsed = True

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
        device = infer_gpu_type(events.metadata, dict.fromkeys(symbols, 0))
        self.meta_data[events.rank] = {**events.metadata, "device_type": device}

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
            self.traces[rank] = self._within_steps(frame, bool(include_last_profiler_step))

    def _within_steps(self, frame: pd.DataFrame, include_last: bool) -> pd.DataFrame:
        on_device = frames.on_device(frame, self.symbol_table)
        # The device shows steps later than the host launches them.
        is_step = self.symbol_table.mask_where(lambda symbol: _STEP.match(symbol) is not None)[frame["name"]]
        is_step &= frame["cat"].to_numpy() != self.symbol_table.sym_index.get("gpu_user_annotation", -1)
        steps = frame[is_step & ~on_device]
        if steps.empty:
            return frame
        kept = ~on_device & (frame["ts"] <= steps["end"].max() if include_last else frame["ts"] < steps["ts"].max())
        launched = frame["correlation"].isin(frame.loc[kept, "correlation"].unique())
        # Unlike indexing by a mask, this leaves no doubt whether the result may be written to.
        within: pd.DataFrame = frame.take(np.flatnonzero(kept | (on_device & launched)))
        return within

    def get_ranks(self) -> list[int]:
        """Ranks that are there, ascending."""
        return sorted(self.traces)

    def get_trace(self, rank: int) -> pd.DataFrame:
        """The frame of a rank."""
        if rank not in self.traces:
            raise ValueError(f"rank {rank} is not there; there are ranks {self.get_ranks()}")
        return self.traces[rank]

    def get_all_traces(self) -> dict[int, pd.DataFrame]:
        """The frame of each rank."""
        return self.traces

    def get_iterations(self, rank: int | None = None) -> list[int]:
        """The training steps of a rank, by default the first."""
        frame = self._frame(rank)
        if frame is None:
            return []
        return [int(step) for step in sorted(frame["iteration"].unique()) if step >= 0]

    def get_trace_duration(self, rank: int | None = None) -> int:
        """Microseconds from the first start of a rank's events to their last start; by default of the first rank."""
        frame = self._frame(rank)
        return 0 if frame is None or frame.empty else int(frame["ts"].max() - frame["ts"].min())

    def _frame(self, rank: int | None) -> pd.DataFrame | None:
        if rank is not None:
            return self.get_trace(rank)
        return self.traces[self.get_ranks()[0]] if self.traces else None

    def get_trace_start_unixtime_ns(self, rank: int) -> int:
        """When the job's first event began, in nanoseconds since 1970."""
        if rank not in self.meta_data:
            raise ValueError(f"rank {rank} is not there; there are ranks {self.get_ranks()}")
        return self.min_ts * 1000 + int(self.meta_data[rank]["baseTimeNanoseconds"])

    def get_device_type(self) -> str:
        """The vendor of the first rank's accelerator."""
        ranks = self.get_ranks()
        return str(self.meta_data[ranks[0]].get("device_type", "UNKNOWN")) if ranks else "UNKNOWN"

    def decode_symbol_ids(self, use_shorten_name: bool = True) -> None:
        """Add the strings of names and categories to every frame, as ``s_name`` and ``s_cat``."""
        for frame in self.traces.values():
            decode_symbol_id_to_symbol_name(frame, self.symbol_table, use_shorten_name)


def _find(trace_files: Mapping[int, str] | Sequence[str] | None, trace_dir: str) -> dict[int, str]:
    if trace_files is None:
        return create_rank_to_trace_dict_from_dir(trace_dir)[1]
    if isinstance(trace_files, Mapping):
        return validated(trace_files, trace_dir)
    several = [trace_files] if isinstance(trace_files, str) else trace_files
    located = validated(dict(enumerate(several)), trace_dir)
    return create_rank_to_trace_dict(list(located.values()))[1]
