"""Every exception this package raises, each message one sentence and a way out, and imports that explain themselves."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class HolotraceError(Exception):
    """Base of all errors a caller may want to catch."""


class InputError(HolotraceError):
    """The path, file or rank that was asked for cannot be used."""


class TraceFormatError(InputError):
    """A file is no trace at all; the message names the file, the byte offset and the reason."""


class MissingDataError(HolotraceError):
    """The trace was recorded without what a question needs; the message says what to record."""


class MissingExtraError(HolotraceError, ImportError):
    """An optional library is not installed; the message says which extra brings it."""


class UsageError(HolotraceError, ValueError):
    """An argument has a value it cannot have; the message lists what it can be."""


class PartialDataWarning(UserWarning):
    """An answer is of what could be read: a file is cut off or damaged, or a rank is missing; ``problems()`` tells all.

    ``warnings.simplefilter("error", holotrace.PartialDataWarning)`` makes it an exception.
    """


def require(module: str, *, extra: str) -> ModuleType:
    """The module, if the extra that brings it is installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"this needs {module}, which is not installed; get it with pip install 'holotrace[{extra}]'"
        ) from error
