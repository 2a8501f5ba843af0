"""The Rust core: the one place that imports it, since checks of imports do not see compiled modules."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holotrace import _native as native
else:
    native = import_module("holotrace._native")

__all__ = ["native"]
