"""Names and numbers as a finding says them."""

from __future__ import annotations

from collections.abc import Sequence

# More than these a sentence does not bear.
_NUMBERS, _NAMES = 6, 3


def in_words(noun: str, numbers: Sequence[int]) -> str:
    """A noun and its numbers: "step 3", "steps 3, 7 and 11", "12 steps"."""
    if len(numbers) > _NUMBERS:
        return f"{len(numbers)} {noun}s"
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    return f"{noun}s {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def lasting(ns: float) -> str:
    """A time in the unit that suits it: "3.36 s", "82.9 ms"."""
    return f"{ns / 1e9:.2f} s" if ns >= 1e9 else f"{ns / 1e6:.1f} ms"


def listed(names: Sequence[str]) -> str:
    """The first few names: "a", "a and b", "a, b, c and 4 more"."""
    shown = list(names[:_NAMES])
    if len(names) > _NAMES:
        return f"{', '.join(shown)} and {len(names) - _NAMES} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)
