"""Every collective of captures whose devices share a clock is compared, and none is left before all have come."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace.derive import arrivals, collectives
from xplane_files import FOUND, capture

COUNTS = {"jax_cpu_gaps": 40, "jax_cpu_multihost2x2": 40}
FOUND_COUNTS = {
    "ours/jax_cpu_basic": 40,
    "ours/jax_cpu_gaps": 40,
    "ours/torch_xla_cpu_spmd4": 888,
    "found/vllm_tpu": 262,
    "found/openxla_xprof/tpu_inference_2.xplane.pb": 12,
}


def compared(path: Path) -> pl.DataFrame:
    job = holotrace.open(path)
    parts = job.map(
        lambda rank: collectives.calls(rank).with_columns(rank=pl.lit(rank.rank, pl.Int32)), collectives.READS
    )
    return arrivals.of_ranks(pl.concat(parts))


@pytest.mark.parametrize("name", COUNTS)
def test_all_collectives_of_cpu_devices_are_compared(name: str, tmp_path: Path) -> None:
    found = compared(capture(name, tmp_path))
    assert found.height == COUNTS[name]
    assert found["waited_ns"].min() == 0


@pytest.mark.parametrize("name", FOUND_COUNTS)
def test_all_collectives_of_published_captures_are_compared(name: str) -> None:
    if not (FOUND / name).exists():
        pytest.skip(f"{name} is not there")
    assert compared(FOUND / name).height == FOUND_COUNTS[name]
