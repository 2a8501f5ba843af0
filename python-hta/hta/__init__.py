"""holotrace's drop-in replacement of Holistic Trace Analysis (HTA): its names, its figures, read much faster.

It is made by the authors of holotrace, not by those of HTA, and stands in the place of HTA's own package of this name
(on PyPI: HolisticTraceAnalysis, traceinsight). Where it differs, and why, is in docs/differences-from-hta.md.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import holotrace
from hta._bridge.owners import other_owners

if find_spec("pandas") is None:
    raise holotrace.MissingExtraError("hta needs pandas, which is not installed; run pip install 'holotrace[hta]'")

if _others := other_owners():
    warnings.warn(
        f"The package hta was installed by holotrace-hta and by {' and '.join(_others)}: each has overwritten files of "
        f"the other. Keep one: pip uninstall {' '.join(_others)}, then pip install --force-reinstall --no-deps "
        "holotrace-hta.",
        stacklevel=2,
    )


def __getattr__(name: str) -> str:
    if name == "__version__":
        return holotrace.__version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
