"""Every analysis, in the order the report shows them."""

from __future__ import annotations

from typing import Any

from holotrace.analyses.kernels import kernels
from holotrace.analyses.overlap import overlap
from holotrace.analyses.time_breakdown import time_breakdown
from holotrace.analysis import Analysis

__all__ = ["ALL", "Analyses"]


class Analyses:
    """Inherited by Job, so each line below is also a method, a command and a page."""

    time_breakdown = time_breakdown
    overlap = overlap
    kernels = kernels


ALL: tuple[Analysis[Any], ...] = tuple(value for value in vars(Analyses).values() if isinstance(value, Analysis))
