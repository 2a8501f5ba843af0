"""One trace file as HTA's frame."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from hta import frames
from hta.common.arg_keys import all_args
from hta.common.trace_file import SUFFIXES, read_trace
from hta.common.trace_symbol_table import TraceSymbolTable
from hta.configs.parser_config import DEFAULT_PARSE_VERSION, ParserBackend, ParserConfig

__all__ = [
    "DEFAULT_PARSE_VERSION",
    "MetaData",
    "MetaDataKey",
    "ParserBackend",
    "get_default_trace_parsing_backend",
    "infer_gpu_type",
    "parse_metadata_ijson",
    "parse_trace_dataframe",
    "parse_trace_dict",
    "parse_trace_file",
    "round_down_time_stamps",
    "set_default_trace_parsing_backend",
]

# A file's top-level keys and what is known of it beside them.
MetaData = dict[str, Any]

# Names of calls that only one vendor's runtime makes.
_DEVICE_OF_CALL = {
    "cudaLaunchKernel": "NVIDIA GPU",
    "hipLaunchKernel": "AMD GPU",
    "runFunction - job_prep_and_submit_for_execution": "MTIA",
}


class MetaDataKey(Enum):
    """What is known of a file beside its own top-level keys."""

    DEVICE_TYPE = "device_type"


def infer_gpu_type(metadata: Mapping[str, Any] | None = None, name_set: Mapping[str, int] | None = None) -> str:
    """The vendor of the accelerator, by the communication library and the runtime calls."""
    job = (metadata or {}).get("distributedInfo")
    if isinstance(job, dict) and "mtia:hccl" in str(job.get("backend", "")):
        return "MTIA"
    return next((device for call, device in _DEVICE_OF_CALL.items() if call in (name_set or {})), "UNKNOWN GPU")


def described(events: frames.RankEvents) -> MetaData:
    """A file's top-level keys and what is known of it beside them."""
    device = infer_gpu_type(events.metadata, dict.fromkeys(events.symbols, 0))
    return {**events.metadata, MetaDataKey.DEVICE_TYPE.value: device}


def set_default_trace_parsing_backend(parser_backend: ParserBackend) -> None:
    """Accepted; there is one way to read."""
    config = ParserConfig.get_default_cfg()
    config.set_parser_backend(parser_backend)
    ParserConfig.set_default_cfg(config)


def get_default_trace_parsing_backend() -> ParserBackend:
    """What ``set_default_trace_parsing_backend`` got."""
    return ParserConfig.get_default_cfg().parser_backend or _auto_detect_parser_backend()


def parse_trace_file(
    trace_file_path: str, cfg: ParserConfig | None = None
) -> tuple[MetaData, pd.DataFrame, TraceSymbolTable]:
    """A file's top-level keys, its events as a frame on the file's own clock, and the symbols of that frame."""
    if not str(trace_file_path).endswith(SUFFIXES):
        raise ValueError(f"{trace_file_path} does not end in {', '.join(SUFFIXES)}; give the path of a trace")
    return parse_trace_dataframe(trace_file_path, cfg or ParserConfig.get_default_cfg())


def parse_trace_dataframe(trace_file_path: str, cfg: ParserConfig) -> tuple[MetaData, pd.DataFrame, TraceSymbolTable]:
    """The same for a file of any name."""
    args = all_args([trace_file_path]) if cfg.parse_all_args else cfg.get_args()
    [events], _ = frames.read({0: trace_file_path}, args)
    symbols = TraceSymbolTable()
    symbols.add_symbols(events.symbols)
    return described(events), frames.to_frame(events, symbols), symbols


def parse_trace_dict(trace_file_path: str) -> dict[str, Any]:
    """A file's JSON as it is."""
    return read_trace(trace_file_path)


def parse_metadata_ijson(fh: gzip.GzipFile | IO[bytes]) -> MetaData:
    """All top-level keys of an open file but its events."""
    return {key: value for key, value in json.load(fh).items() if key != "traceEvents"}


def round_down_time_stamps(df: pd.DataFrame) -> None:
    """Put raw events on whole microseconds, starts up and ends down; adds ``end``; events never end before they start.

    Only where times are fractions; events without a time or duration keep that.
    """
    if df["ts"].dtype.kind != "f":
        return
    end = np.floor(df["ts"] + df["dur"])
    df["ts"] = np.ceil(df["ts"])
    df["end"] = np.maximum(end, df["ts"])
    df["dur"] = df["end"] - df["ts"]


# The names below are no interface, but HTA's tests cannot be imported without them.


def _auto_detect_parser_backend() -> ParserBackend:
    return ParserBackend.JSON


def _open_trace_file(trace_file_path: str) -> gzip.GzipFile | IO[bytes]:
    return gzip.open(trace_file_path) if trace_file_path.endswith(".gz") else Path(trace_file_path).open("rb")


def _compress_df(df: pd.DataFrame, cfg: ParserConfig | None = None) -> tuple[pd.DataFrame, TraceSymbolTable]:
    """The frame of events that stand in ``df`` as they do in a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "events.json"
        file.write_text(f'{{"traceEvents": {df.to_json(orient="records", double_precision=15)}}}')
        return parse_trace_dataframe(str(file), cfg or ParserConfig.get_default_cfg())[1:]
