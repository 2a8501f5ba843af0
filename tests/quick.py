"""Which cases of a test `make test` takes: some of many that are alike. `make check` takes all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


# Any: cases are whatever a test takes, or pytest's own for those that are marked.
def every(nth: int, cases: Iterable[Any]) -> list[Any]:
    """All cases, of which only the first of every ``nth`` is quick."""
    return [case if n % nth == 0 else pytest.param(case, marks=pytest.mark.slow) for n, case in enumerate(cases)]
