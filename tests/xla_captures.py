"""Real XPlane captures, where they are there, opened as jobs."""

from __future__ import annotations

from functools import cache

import pytest

import holotrace
from holotrace import Job
from trace_files import REAL_TRACES

CAPTURES = REAL_TRACES.parent / "xla"
needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason="no real captures: point HOLOTRACE_REAL_TRACES at a folder with xla/ in it"
)
JAX, TORCH, HOSTS = "ours/jax_cpu_gaps", "ours/torch_xla_cpu_gaps", "ours/jax_cpu_multihost2x2"
TPU, GPU = "found/openxla_xprof/tpu_inference_2.xplane.pb", "found/mi300_jax08_attention"


@cache
def capture(name: str) -> Job:
    """The job of a capture; it keeps its results, so tests share them."""
    return holotrace.open(CAPTURES / name)


def ms(ns: int) -> float:
    """As milliseconds, to the microsecond."""
    return round(ns / 1e6, 3)
