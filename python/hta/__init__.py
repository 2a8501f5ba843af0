"""holotrace's drop-in replacement of Holistic Trace Analysis (HTA): its names, its figures, read much faster.

It is made by the authors of holotrace, not by those of HTA, and stands in the place of HTA's own package of this name
(on PyPI: HolisticTraceAnalysis, traceinsight). Where it differs, and why, is in docs/differences-from-hta.md.
"""

from __future__ import annotations

from importlib.util import find_spec

import holotrace

if find_spec("pandas") is None:
    raise holotrace.MissingExtraError("hta needs pandas, which is not installed; run pip install 'holotrace[hta]'")


def __getattr__(name: str) -> str:
    if name == "__version__":
        return holotrace.__version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
