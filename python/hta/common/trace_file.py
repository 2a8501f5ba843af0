"""Which files make up a job, and which rank each of them is."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import holotrace

SUFFIXES = (".gz", ".json", ".zst")

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
        level = logging.WARNING if doubt["file"] else logging.INFO
        log.log(level, "%s: %s (%s)", doubt["file"] or "the job", doubt["problem"], doubt["action"])
    return {source.rank: str(source.path) for source in job.sources}
