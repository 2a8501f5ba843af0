"""Which whole numbers an option can be."""

from __future__ import annotations

from holotrace.errors import UsageError

_MOST = 2**63 - 1  # what a column of whole numbers holds


def check_whole(least: int, **options: int) -> None:
    """Raise UsageError for an option that is less, or more than any column holds."""
    for name, value in options.items():
        if not least <= value <= _MOST:
            raise UsageError(f"{name} is {value}; it can be any whole number from {least} to {_MOST}")
