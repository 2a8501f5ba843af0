"""Whether the work of a rank is larger than that of others, as far as kernels tell."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest

from holotrace.diagnosis.job import equal_work, sizes


def kinds(*kernels: tuple[str, Mapping[int, tuple[str, int]]]) -> pl.DataFrame:
    """Three ranks with one call of each kernel: its operator, and by rank its grid and shapes, and its time."""
    rows = [
        {"rank": rank, "name": f"kernel of {operator}", "operator": operator, "detail": detail, "time_ns": time_ns}
        for operator, of_rank in kernels
        for rank, (detail, time_ns) in of_rank.items()
    ]
    keys = ["name", "operator", "detail"]
    own = pl.DataFrame(rows).with_columns(count=1, cause=pl.lit(None, pl.String))
    every = own.select(keys).unique().join(pl.DataFrame({"rank": [0, 1, 2]}), how="cross")
    full = every.join(own, on=["rank", *keys], how="left").with_columns(pl.col("time_ns", "count").fill_null(0))
    usual = pl.col("time_ns", "count").quantile(0.5, "lower").over(keys).name.prefix("usual_")
    return full.with_columns(usual).rename({"usual_time_ns": "usual_ns"})


@pytest.mark.parametrize("shapes", ["", "[[2048, 4096]]"])
def test_more_rows_make_larger_grids_but_not_for_gradients_of_weights(shapes: str) -> None:
    """Without shapes, products of gradients, whose grids are those of the weights, made more work a slow device."""
    small, large = "[64, 8, 1]|[128, 1, 1]|", "[73, 8, 1]|[128, 1, 1]|"
    found = kinds(
        ("forward", {0: (small + shapes, 100), 1: (small + shapes, 100), 2: (large + shapes, 115)}),
        ("backward", {0: (small + shapes, 100), 1: (small + shapes, 100), 2: (small + shapes, 115)}),
    )
    # Shapes tell equal work from other work by themselves.
    assert [sizes.has_larger_grids(found, rank) for rank in range(3)] == [False, False, not shapes]


def test_of_a_batch_that_is_larger_all_is_and_of_tokens_of_experts_only_their_products_are() -> None:
    """Ranks with larger batches get more through an all-to-all, too, and were told as experts that are imbalanced."""
    experts = kinds(
        ("attention", {0: ("a", 500), 1: ("a", 501), 2: ("a", 502)}),
        ("experts", {0: ("b", 100), 1: ("c", 101), 2: ("d", 190)}),
    )
    batches = kinds(
        ("attention", {0: ("a", 500), 1: ("a", 501), 2: ("e", 950)}),
        ("aten::_fused_adamw_", {0: ("b", 100), 1: ("b", 101), 2: ("b", 100)}),
    )
    assert [sizes.has_equal_work(found.filter(rank=2)) for found in (experts, batches)] == [True, False]


def test_lookups_of_other_data_are_no_witness_of_a_slow_device() -> None:
    """Embeddings have one grid for any number of rows: a rank that looked up more of them had a slow device."""
    found = kinds(
        ("embedding_backward", {0: ("a", 1_000), 1: ("a", 1_000), 2: ("a", 1_150)}),
        ("aten::_fused_adamw_", {0: ("b", 100), 1: ("b", 100), 2: ("b", 100)}),
        ("aten::mm", {0: ("c", 1_000), 1: ("c", 1_000), 2: ("d", 1_150)}),
    )
    assert not equal_work.is_slow(found.filter(rank=2), 0.14)
