"""What kinds of device work there are, and the form of a rule that decides one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from holotrace.errors import UsageError

COMPUTE, COMMUNICATION, MEMORY, SYNC, OTHER = "compute", "communication", "memory", "sync", "other"
KINDS = (COMPUTE, COMMUNICATION, MEMORY, SYNC, OTHER)
# Kinds that keep a device busy; the others are waiting or bookkeeping.
WORK = (COMPUTE, COMMUNICATION, MEMORY)


LOOKED_AT = 1 << 16  # characters of a name; a damaged file may have one of many millions, which would take minutes


@dataclass(frozen=True)
class KindRule:
    """Device events whose category and name match are of this kind; capital letters count as small ones."""

    kind: str
    name: str = ""
    """Regular expression for the name; empty matches all."""
    category: str = ""
    """Regular expression for the category; empty matches all."""
    examples: tuple[str, ...] = ()
    """Names, or categories where ``name`` is empty, that profilers really write."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"{self.kind!r} is no kind of device work; there are {', '.join(KINDS)}")
        if not (self.name or self.category):
            raise UsageError("a rule for kinds needs a name or a category, both regular expressions")
        for pattern in (self.name, self.category):
            try:
                re.compile(pattern)
            except re.error as error:
                raise UsageError(f"{pattern!r} is no regular expression ({error}); correct it") from None

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        return re.compile(self.category, re.IGNORECASE), re.compile(self.name, re.IGNORECASE)

    def fits(self, category: str, name: str) -> bool:
        """Whether a category and a name match."""
        in_category, in_name = self._patterns
        return bool(in_category.search(category, 0, LOOKED_AT) and in_name.search(name, 0, LOOKED_AT))
