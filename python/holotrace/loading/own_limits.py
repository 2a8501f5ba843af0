"""Models of operators and peaks of devices of the user's own, for all that is said of efficiency."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from holotrace.derive.modelled_work import MODELS, PEAKS
from holotrace.discovery import Survey
from holotrace.efficiency.devices import known
from holotrace.efficiency.model import OperatorModel

# A table of peaks.
PeaksFile = str | os.PathLike[str] | None


def with_limits(found: Survey, models: Sequence[OperatorModel] = (), peaks: PeaksFile = None) -> Survey:
    """The job, of whose ranks these models and peaks are asked before those of holotrace."""
    own: dict[str, object] = {}
    if models:
        own[MODELS] = tuple(models)
    if peaks is not None:
        own[PEAKS] = known(Path(peaks))
    if not own:
        return found
    return replace(found, sources=tuple(replace(source, settings=own) for source in found.sources))
