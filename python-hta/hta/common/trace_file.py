"""Which files make up a job, and which rank each of them is."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import holotrace

SUFFIXES = (".gz", ".json", ".zst")
_JSON_SUFFIXES = (".gz", ".json")
_GZIP = b"\x1f\x8b"
# How a rank was found where no file says it.
_GUESSED = ("only file", "number")

log = logging.getLogger("hta")


def create_rank_to_trace_dict(file_list: Sequence[str]) -> tuple[bool, dict[int, str]]:
    """(True, the file of each rank); where two files claim one rank, the last by name is taken, with a warning."""
    if not file_list:
        return True, {}
    job = holotrace.open([str(path) for path in file_list], on_duplicate="last")
    return True, _by_rank(job)


def create_rank_to_trace_dict_from_dir(trace_dir: str) -> tuple[bool, dict[int, str]]:
    """(Whether the folder holds traces, the file of each rank)."""
    try:
        job = holotrace.open(trace_dir, on_duplicate="last")
    except holotrace.InputError as error:
        log.warning("%s", error)
        return False, {}
    return True, _by_rank(job)


def get_trace_files(trace_path: str) -> dict[int, str]:
    """The file of each rank in a folder; none where it holds no trace."""
    return create_rank_to_trace_dict_from_dir(trace_path)[1]


def read_trace(file_path: str) -> dict[str, Any]:
    """The JSON of a ``.json`` or ``.gz`` file as it is."""
    if not file_path.endswith(_JSON_SUFFIXES):
        raise ValueError(f"{file_path} does not end in {' or '.join(_JSON_SUFFIXES)}; give the path of a trace")
    content = Path(file_path).read_bytes()
    try:
        trace: dict[str, Any] = json.loads(gzip.decompress(content) if content.startswith(_GZIP) else content)
    except RecursionError as error:
        raise holotrace.TraceFormatError(f"{file_path} is nested too deeply; give a profiler's trace") from error
    return trace


def write_trace(trace_data: Mapping[str, Any], file_path: str) -> None:
    """Write JSON to a file, compressed if its name ends in ``.gz``, and its folder if need be."""
    file = Path(file_path)
    file.parent.mkdir(parents=True, exist_ok=True)
    if file_path.endswith(".gz"):
        file.write_bytes(gzip.compress(json.dumps(trace_data).encode()))
    else:
        file.write_text(json.dumps(trace_data, indent=2))


def update_trace_rank(file_path: str, rank: int) -> None:
    """Write into a trace that it is of ``rank``."""
    trace = read_trace(file_path)
    trace["distributedInfo"] = {**trace.get("distributedInfo", {}), "rank": rank}
    write_trace(trace, file_path)


def validated(trace_files: Mapping[int, str], trace_dir: str) -> dict[int, str]:
    """The files with their folder, in order of ranks; ValueError where one cannot be a trace."""
    files = {rank: _located(path, trace_dir) for rank, path in sorted(trace_files.items())}
    for path in files.values():
        if not Path(path).is_file():
            raise ValueError(f"Trace files validation failed. {path} is no file; give paths of traces")
        if not path.endswith(SUFFIXES):
            raise ValueError(f"Trace files validation failed. {path} does not end in {', '.join(SUFFIXES)}")
    return files


def _located(path: str, trace_dir: str) -> str:
    """``path``, in ``trace_dir`` unless it says otherwise or is found as it stands only."""
    inside = Path(trace_dir) / path
    is_complete = Path(path).is_absolute() or str(path).startswith(trace_dir)
    return str(path) if is_complete or (Path(path).is_file() and not inside.is_file()) else str(inside)


def _by_rank(job: holotrace.Job) -> dict[int, str]:
    for doubt in job.found.problems:
        if doubt["problem"] == "rank claimed twice":
            log.warning("%s has the same rank %d as another file: %s", doubt["file"], doubt["rank"], doubt["action"])
            continue
        level = logging.WARNING if doubt["file"] else logging.INFO
        log.log(level, "%s: %s (%s)", doubt["file"] or "the job", doubt["problem"], doubt["action"])
    for source in job.sources:
        if source.rank_from in _GUESSED:
            log.warning("%s: the trace file does not have the rank; it is read as rank %d", source.path, source.rank)
    return {source.rank: str(source.path) for source in job.sources}
