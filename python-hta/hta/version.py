"""The version of this package, which is holotrace's."""

from __future__ import annotations

import re

import holotrace

__version__ = holotrace.__version__
__version_tuple__ = tuple(int(number) for number in re.findall(r"\d+", __version__)[:3])
