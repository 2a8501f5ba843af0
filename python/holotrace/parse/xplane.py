"""XPlane profiles of PyTorch/XLA, JAX and TPU as the tables of holotrace.tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holotrace.parse.parsed import Parsed
from holotrace.schema import Table


def read(path: Path, tables: Sequence[Table]) -> Parsed:
    return Parsed({table.name: table.empty() for table in tables}, {}, {}, 0)
