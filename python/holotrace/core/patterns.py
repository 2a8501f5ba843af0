"""Patterns that tell what something is, compiled when the first text is looked at, and not when they are imported."""

from __future__ import annotations

import re
from functools import cache


@cache
def compiled(rules: tuple[tuple[str, str], ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """What each of the rules tells, and its pattern."""
    return tuple((told, re.compile(pattern)) for told, pattern in rules)
