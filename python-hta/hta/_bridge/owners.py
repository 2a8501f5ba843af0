"""Which other distributions have installed a package ``hta`` beside this one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

# HTA's names on PyPI. importlib.metadata.packages_distributions would find any, but reads the lists of files of all
# that is installed: 0.4 s with each import where 160 distributions are.
_HTA = ("HolisticTraceAnalysis", "traceinsight")


def other_owners() -> list[str]:
    """The installed distributions of HTA that hold a package ``hta``."""
    return [name for name in _HTA if _holds_hta(name)]


def _holds_hta(name: str) -> bool:
    try:
        files = distribution(name).files
    except PackageNotFoundError:
        return False
    return any(file.parts[0] == "hta" for file in files or ())
