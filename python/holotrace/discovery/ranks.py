"""Which rank a file is, by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from holotrace.stores import Origin

# rank3, rank-3, rank_003, rank[3]; worker3 is how PyTorch's TensorBoard plugin names them.
_RANK = re.compile(r"(?<![a-z])rank[-_.=\[ ]?(\d+)", re.IGNORECASE)
_WORKER = re.compile(r"(?<![a-z])worker[-_]?(\d+)", re.IGNORECASE)
# rank_3/trace.json; lora_rank8/trace.json is another thing.
_own = re.compile(r"(?:rank|worker)[-_]?(\d{1,9})", re.IGNORECASE).fullmatch
# TP-3, DP0_TP3 (serving engines); data-0-pipeline-3-tensor-0 (Megatron).
_COORDINATE = re.compile(r"(?<![a-z])(dp|pp|tp|cp|ep|data|pipeline|tensor)[-_]?(\d+)(?!\d)", re.IGNORECASE)
_AXES = {"data": "dp", "pipeline": "pp", "tensor": "tp"}
# Slowest axis first: neighbours along tp have neighbouring ranks.
_ORDER = ("dp", "pp", "cp", "ep", "tp")


def ranks_from_names(paths: Sequence[Origin]) -> dict[Origin, int]:
    """The rank of each file whose name tells it, or its folder's where each rank has its own."""
    told = {path: rank for path in paths if (rank := _rank(path.name)) is not None}
    placed = {path: axes for path in paths if path not in told and (axes := _coordinates(path.name))}
    told |= _ranks_of_places(placed)
    in_folders = {path: int(found[1]) for path in paths if path not in told and (found := _own(path.parent.name))}
    return told if len(set(in_folders.values())) < len(in_folders) else told | in_folders


def _rank(name: str) -> int | None:
    # The last one counts: lora_rank8.rank_3.json is rank 3.
    for pattern in (_RANK, _WORKER):
        if found := pattern.findall(name):
            return int(found[-1])
    return None


def _coordinates(name: str) -> dict[str, int]:
    return {_AXES.get(axis.lower(), axis.lower()): int(number) for axis, number in _COORDINATE.findall(name)}


def _ranks_of_places(placed: Mapping[Origin, dict[str, int]]) -> dict[Origin, int]:
    """Ranks from coordinates: along the one axis that tells all files apart, else counted over all axes."""
    for axis in reversed(_ORDER):
        numbers = [axes.get(axis) for axes in placed.values()]
        if None not in numbers and len(set(numbers)) == len(numbers):
            return {path: axes[axis] for path, axes in placed.items()}
    places = sorted({_place(axes) for axes in placed.values()})
    return {path: places.index(_place(axes)) for path, axes in placed.items()}


def _place(axes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(axes.get(axis, 0) for axis in _ORDER)
