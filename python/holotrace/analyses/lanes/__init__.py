"""The timeline of a job: what each rank was doing, lane by lane, on one clock."""

from __future__ import annotations

from typing import Any

from holotrace.analyses.lanes.path_parts import path_parts
from holotrace.analyses.lanes.timeline import timeline
from holotrace.core.analysis import Analysis

__all__ = ["DRAWN"]

# What pages draw beside all analyses.
DRAWN: tuple[Analysis[Any], ...] = (timeline, path_parts)
