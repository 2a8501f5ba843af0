"""Which work of ranks is equal, and may tell that a device is slow."""

from __future__ import annotations

import polars as pl

from holotrace.diagnosis.job import equal_work
from holotrace.diagnosis.job.candidates import Job


def test_tokens_of_experts_that_few_ranks_have_are_no_witness_against_a_slow_device() -> None:
    """The median of such work was the slow device's own, so that it seemed as fast as others, and had more work."""
    # By rank how much slower it is, and the grid and number of the products of its experts.
    ranks = {0: (1.0, "39", 6), 1: (1.0, "41", 12), 2: (1.1, "41", 6), 3: (1.1, "41", 6)}
    work = [
        {"row": "work", "rank": rank, "name": name, "operator": name, "cause": None, "count": count}
        | {"detail": grid, "time_ns": round(ratio * time_ns)}
        for rank, (ratio, of_experts, calls) in ranks.items()
        for name, grid, count, time_ns in (
            ("mm", of_experts, calls, 150 * calls),
            ("attention", "64", 6, 800),
            ("norm", "64", 6, 300),
        )
    ]
    job = Job(pl.DataFrame(work, schema_overrides={"cause": pl.String}), pl.DataFrame(), tuple(ranks), 0)
    kinds = equal_work.by_kind(job)
    told = {rank: equal_work.is_slow(equal_work.with_others_pooled(kinds, rank), 0.1) for rank in ranks}
    assert told == {0: False, 1: False, 2: True, 3: True}


def test_one_kernel_that_is_slow_at_all_shapes_of_products_tells_of_the_device() -> None:
    """A model in fp8 may have one kernel for all of its layers: its rank was told to have other data."""
    products = {"name": "nvjet_qqtst_256x128_128x6_2x1_h_bz_coopA_TNT", "operator": "aten::_scaled_mm"}
    others = {"name": "add", "operator": "aten::add"}
    counts = {"count": 4, "usual_count": 4.0, "usual_ns": 1000.0}
    kinds = [{**products, **counts, "detail": shape, "time_ns": 1150} for shape in ("[[64, 64]]", "[[64, 128]]")]
    memory = {**others, **counts, "detail": "[[64]]", "usual_ns": 3000.0, "time_ns": 3001}
    assert equal_work.is_slow_at_some(pl.DataFrame([*kinds, memory]))
    # One at a single shape may have its own reason.
    assert not equal_work.is_slow_at_some(pl.DataFrame([kinds[0], memory]))
