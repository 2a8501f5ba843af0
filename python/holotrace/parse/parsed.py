"""What every reader returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl


@dataclass(frozen=True)
class Parsed:
    """One file's tables, what it says of itself as a whole, and what reading it took."""

    tables: Mapping[str, pl.DataFrame]
    metadata: Mapping[str, Any]
    counts: Mapping[str, int]
    load_ns: int
