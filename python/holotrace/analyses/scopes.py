"""Which parts of the program, by the scopes they are written in, take the device time."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import scopes as names

# Fusions take the name of one of their operations, so some work always bears a wrong scope, but little bears none.
UNSCOPED_RATIO = 0.5


@per_rank(
    columns=(
        Column("scope", Unit.TEXT, "Scope, as a path from the outermost; null for operations outside of all scopes"),
        Column("depth", Unit.NUMBER, "Number of scopes around it"),
        Column("op_count", Unit.COUNT, "Operations executed in it and in the scopes inside it, on all devices"),
        Column("self_ns", Unit.NS, "Time of operations directly in it, without operations that only wait"),
        Column(
            "total_ns",
            Unit.NS,
            "Time of operations in it and in the scopes inside it, without operations that only wait",
        ),
        Column(
            "wait_ns",
            Unit.NS,
            "Time of operations in it and in the scopes inside it that only wait for something under way",
        ),
        Column("share_ratio", Unit.RATIO, "total_ns / time of all operations; null if that is 0"),
        Column("backward_ns", Unit.NS, "Part of total_ns that belongs to the backward pass"),
    ),
    reads=(XLA_OPS.only("device", "plane", "line", "module", "scope", "self_ns", "is_wait", "is_async"),),
    chart=Ranking(x="scope", y=("self_ns",), title="Device time by scope"),
    needs=(XLA_OPS,),
)
def scopes(rank: RankTrace) -> pl.DataFrame:
    """Which parts of the program, by the scopes they are written in, take the device time.

    A scope is a name that `jax.named_scope`, a Flax module, `xp.Trace` or a TensorFlow name scope puts around the code.
    The marks of JAX transformations (jit, jvp, transpose, vmap), and the numbers by which PyTorch/XLA distinguishes
    equal scopes, are removed, so the forward and backward pass of a layer are in one row. Times of all devices of the
    rank are added; the time of an operation that contains others does not include theirs. Waiting (copy-done,
    all-gather-done) is counted separately, as in the analysis phases.
    """
    ops = rank.cached(names.summed)
    spent = (
        ops.with_columns(path=names.paths(ops["scope"]), phase=names.phases(ops))
        .group_by("path")
        .agg(
            own_count=pl.col("op_count").sum(),
            own_ns=pl.col("work_ns").sum(),
            wait_ns=pl.col("wait_ns").sum(),
            own_backward_ns=pl.col("work_ns").filter(phase=names.BACKWARD).sum(),
        )
    )
    # Not in a thread of Polars, where it would wait for the interpreter while others wait for that thread.
    nested = pl.Series(
        "scope", [None if path is None else _around(path) for path in spent["path"]], pl.List(pl.String())
    )
    around = spent.with_columns(nested).explode("scope")
    total_ns = int(spent["own_ns"].sum())
    return (
        around.group_by("scope")
        .agg(
            op_count=pl.col("own_count").sum(),
            self_ns=pl.col("own_ns").filter(pl.col("path").eq_missing(pl.col("scope"))).sum(),
            total_ns=pl.col("own_ns").sum(),
            wait_ns=pl.col("wait_ns").sum(),
            backward_ns=pl.col("own_backward_ns").sum(),
        )
        .with_columns(
            depth=pl.col("scope").str.count_matches("/").fill_null(0),
            share_ratio=pl.when(pl.lit(total_ns) > 0).then(pl.col("total_ns") / total_ns),
        )
        # As a tree: what is inside a scope follows it.
        .sort(pl.col("scope").str.split("/"), nulls_last=True)
    )


def _around(path: str) -> list[str]:
    """A path and those of the scopes around it."""
    parts = path.split("/")
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


@scopes.rule
def unscoped_work(table: pl.DataFrame) -> Iterator[Finding]:
    """More than half of the device time is in no scope.

    The profile then does not show which layer or function that work belongs to. PyTorch/XLA records scopes only when
    told to, and gives the backward pass none; JAX has those the program names; a profile without HLO has none at all.

    For PyTorch/XLA set `XLA_HLO_DEBUG=1` and `XLA_IR_DEBUG=1` and put `xp.Trace` around layers; for JAX put
    `jax.named_scope` around them (Flax does), and record the profile with HLO (`enable_hlo_proto`).
    """
    ranks = (
        table.filter(depth=0)
        .group_by("rank")
        .agg(all_ns=pl.col("total_ns").sum(), none_ns=pl.col("total_ns").filter(pl.col("scope").is_null()).sum())
        .filter(pl.col("none_ns") > UNSCOPED_RATIO * pl.col("all_ns"))
        .sort("rank")
    )
    if not ranks.is_empty():
        ratio = ranks.select(pl.col("none_ns").sum() / pl.col("all_ns").sum()).item()
        message = "{ratio:percent} of the device time is in no scope"
        yield Finding("info", message, tuple(ranks["rank"]), values={"ratio": ratio})
