"""What the time of the devices is made of: products of matrices, attention, norms, copies and so on."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Stacked
from holotrace.core.plans import done
from holotrace.core.schema import Column, Unit
from holotrace.core.trace import RankTrace
from holotrace.derive import modelled_work
from holotrace.efficiency.categories import CATEGORIES, OTHER

COPIES, NOTICED_NS = 0.1, 1_000_000
_MEANINGS = {
    "gemm": "products of matrices",
    "attention": "attention",
    "convolution": "convolutions",
    "norm": "norms of layers, batches and groups",
    "elementwise": "calculations on each element",
    "reduction": "sums, extremes, softmax, losses, pooling",
    "copy": "copies, casts, fills and joins",
    "embedding": "embeddings, gather, scatter and index",
    "moe": "experts and their choice",
    "optimizer": "optimizers",
    "communication": "communication that nothing computed meanwhile hides",
    "rng": "random numbers",
    "sort": "sorting and the largest elements",
    "fft": "Fourier transforms",
    "linalg": "factorizations, linear systems, eigenvalues and singular values",
    "other": "all else",
}
_SUMS = tuple(pl.col("share_ns").filter(pl.col("category") == name).sum().alias(f"{name}_ns") for name in CATEGORIES)


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Step that launched it; null where the recording is looked at as a whole"),
        Column("busy_ns", Unit.NS, "Time in which a kernel or copy ran: the sum of all parts"),
        *(Column(f"{name}_ns", Unit.NS, f"Part of it in {_MEANINGS[name]}") for name in CATEGORIES),
    ),
    reads=modelled_work.READS,
    chart=Stacked(
        x="rank", y=tuple(f"{name}_ns" for name in CATEGORIES), title="What the devices' busy time is made of"
    ),
)
def work_categories(rank: RankTrace, *, by_step: bool = False) -> pl.DataFrame:
    """What the busy time of the devices is made of: products of matrices, attention, norms, copies and so on.

    A kernel has the category of the operator that launched it, or else, as in compiled regions, the one that its own
    name shows. Time in which
    several kernels ran is counted once: for computing first, then for communication, then for copies, and within one
    kind for the kernel that began first.

    Args:
        by_step: One row for each step; by default one for the whole recording.
    """
    keys = ["category", "step"] if by_step else ["category"]
    rows = rank.cached(modelled_work.parts).lazy().group_by(keys).agg(pl.col("share_ns").sum())
    rows = rows if by_step else rows.with_columns(step=pl.lit(None, pl.Int64()))
    named = pl.when(pl.col("category").is_in(CATEGORIES)).then("category").otherwise(pl.lit(OTHER))
    sums = rows.with_columns(category=named).group_by("step").agg(pl.col("share_ns").sum().alias("busy_ns"), *_SUMS)
    return done(sums.sort("step"))


@work_categories.rule
def much_copying(table: pl.DataFrame) -> Iterator[Finding]:
    """More than a tenth of the devices' busy time goes to copies, casts and fills.

    They compute nothing: tensors are made contiguous, cast to another type, joined, or set to zero. Many come from
    layouts that the next operator does not take, or from casts of weights in each step. The cost is all of their time
    that nothing hides, on the average rank concerned.

    Find out who asks for them with `operator_efficiency`; keep one layout and type through the model, cast weights
    once, use `set_to_none=True` and views in place of copies.
    """
    ranks = (
        table.filter(pl.col("step").is_null(), pl.col("copy_ns") > COPIES * pl.col("busy_ns"))
        .filter(
            pl.col("copy_ns") > NOTICED_NS, pl.col("gemm_ns") + pl.col("attention_ns") + pl.col("convolution_ns") > 0
        )
        .sort("rank")
    )
    if ranks.height:
        share = float(ranks.select((pl.col("copy_ns") / pl.col("busy_ns")).max()).item())
        cost = int(ranks["copy_ns"].sum()) // ranks.height
        message = "copies, casts and fills take up to {share_ratio:percent} of the busy time"
        yield Finding("info", message, tuple(ranks["rank"]), cost, values={"share_ratio": share})
