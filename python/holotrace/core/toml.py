"""Files of TOML."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """What is in the file; raises ``OSError``, or ``ValueError`` where that is no TOML."""
    # Few read one, and the reader takes longer to import than most of the package.
    reader = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    content: dict[str, Any] = reader.loads(path.read_text(encoding="utf-8"))
    return content
