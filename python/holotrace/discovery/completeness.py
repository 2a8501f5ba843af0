"""Whether the files of a job are all of it, and of one job only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holotrace.core.problems import MISSING, problem, spelled
from holotrace.core.source import RankSource

# What doubts() says.
DOUBTS = (MISSING, "rank unknown", "files of different jobs")


def doubts(sources: Sequence[RankSource]) -> list[dict[str, Any]]:
    """Rows of the problems table on missing ranks, guessed ranks and mixed jobs."""
    return [*_missing(sources), *_guessed(sources), *_mixed(sources)]


def world_size(sources: Sequence[RankSource]) -> int | None:
    """Ranks of the whole job, as the files say; null where none does."""
    sizes = [size for source in sources if isinstance(size := source.metadata.get("world_size"), int)]
    return max(sizes, default=None)


def _missing(sources: Sequence[RankSource]) -> list[dict[str, Any]]:
    world = world_size(sources)
    absent = set(range(world or 0)) - {source.rank for source in sources}
    if not absent:
        return []
    noun = "rank" if len(absent) == 1 else "ranks"
    example = f"{len(absent)} of {world}: {noun} {spelled(absent)}"
    return [problem(MISSING, count=len(absent), example=example, action="the others were read")]


def _guessed(sources: Sequence[RankSource]) -> list[dict[str, Any]]:
    # Where no file tells its rank, numbering them is all there is; among files that do, it is a guess.
    numbered = [source for source in sources if source.rank_from == "number"]
    if len(numbered) == len(sources):
        return []
    return [
        problem("rank unknown", rank=source.rank, file=source.path, action="numbered after the others")
        for source in numbered
    ]


def _mixed(sources: Sequence[RankSource]) -> list[dict[str, Any]]:
    rows = []
    for key, meaning in (("world_size", "world size"), ("backend", "backend")):
        ranks: dict[str, list[int]] = {}
        for source in sources:
            if source.metadata.get(key) is not None:
                ranks.setdefault(str(source.metadata[key]), []).append(source.rank)
        if len(ranks) > 1:
            example = "; ".join(f"{meaning} {value} on ranks {spelled(having)}" for value, having in ranks.items())
            rows.append(problem("files of different jobs", count=len(ranks), example=example, action="read as one job"))
    return rows
