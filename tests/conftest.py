"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A machine that others use too may take any time for an example; slowness is what benchmarks are for.
settings.register_profile("holotrace", deadline=None)
settings.load_profile("holotrace")
