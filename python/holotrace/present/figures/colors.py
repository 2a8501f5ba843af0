"""The colour of each concept, in every chart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

# One colour per concept, in every chart. Hues after Okabe and Ito: apart for colour-blind readers,
# readable on white and on black.
COLORS = {
    "hidden": "#f2b680",
    "communication": "#d95f0e",
    "compute": "#2f7fc1",
    "memory": "#2a9d78",
    "idle": "#a9b1ba",
    "sync": "#d9a400",
    "other": "#a977b8",
    "compilation": "#c2577f",
    "input": "#7a9a01",
    "tracing": "#6b7fd7",
    "dispatch": "#5ab4e5",
    "read back": "#8c6d31",
}
# Of what stands for no concept.
MORE_COLORS = (
    "#5ab4e5",
    "#8c6d31",
    "#c2577f",
    "#6b7fd7",
    "#7a9a01",
    "#a8324a",
    "#12a5a8",
    "#7d5ba6",
    "#e0a458",
    "#4f6d3a",
    "#d98cb3",
    "#3b5b92",
)
# Words of column names and kernel kinds that stand for a concept; the first that fits wins.
_CONCEPTS = (
    ("hidden", "hidden"),
    ("comm", "communication"),
    ("moving", "communication"),
    ("memory", "memory"),
    ("copy", "memory"),
    ("exposed", "communication"),
    ("idle", "idle"),
    ("wait", "sync"),
    ("unattributed", "idle"),
    ("sync", "sync"),
    ("compute", "compute"),
    ("busy", "compute"),
    ("work", "compute"),
    ("program", "compute"),
    ("compil", "compilation"),
    ("input", "input"),
    ("tracing", "tracing"),
    ("dispatch", "dispatch"),
    ("upload", "memory"),
    ("read_back", "read back"),
    ("other", "other"),
    ("gemm", "compute"),
)


def color(name: str, position: int = 0) -> str:
    """The colour of the concept a column or a kind stands for; else one by ``position``."""
    return _of_concept(name) or MORE_COLORS[position % len(MORE_COLORS)]


def colors(names: Sequence[str]) -> list[str]:
    """The colours of the series of one chart: those of their concepts, and for the others some that no other has."""
    known = list(map(_of_concept, names))
    known = [one if one not in known[:place] else None for place, one in enumerate(known)]
    free = cycle([one for one in MORE_COLORS if one not in known] or MORE_COLORS)
    return [one or next(free) for one in known]


def _of_concept(name: str) -> str | None:
    return next((COLORS[concept] for word, concept in _CONCEPTS if word in name), None)
