"""Libraries that are not installed with this package, imported or explained."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from holotrace.errors import MissingExtraError


def require(module: str, *, extra: str) -> ModuleType:
    """The module, if the extra that brings it is installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"this needs {module}, which is not installed; get it with pip install 'holotrace[{extra}]'"
        ) from error
