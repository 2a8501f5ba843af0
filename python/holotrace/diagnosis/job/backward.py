"""How much of what ranks compute in a step can hide the reduction of its gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.rank import account
from holotrace.efficiency import categories

OF_GROUP = ("step", "group_ranks")
# A bucket of gradients, and one of them, if they are as most are: DistributedDataParallel's buckets, 16 bits.
BUCKET_BYTES, ELEMENT_BYTES = 25 << 20, 2
# The backward pass, which alone can hide gradients, takes twice as long as the forward pass.
_BACKWARD_RATIO = 2 / 3
_LOSS, _BACKWARD = r"(?i)loss|log_softmax|cross_?entropy", r"(?i)backward"
# A forward pass takes more than a pass both ways by this; it is a third of it.
_FORWARDS = 4
# A layer has a gradient of its weights and one of its input.
_PRODUCTS = 2
_DENSE = (categories.GEMM, categories.CONVOLUTION)


def computed(
    job: Job, reductions: pl.DataFrame | None = None, until: Callable[[pl.Expr], pl.Expr] = pl.Expr.max
) -> pl.DataFrame:
    """How long ranks compute in each step; only until the last, or first, of its ``reductions`` if these are given.

    Returns ``step`` and ``computed_ns``.
    """
    segments = job.rows if job.rows.is_empty() else job.of(account.SEGMENT)
    if segments.is_empty():
        return pl.DataFrame(schema={"step": pl.Int64(), "computed_ns": pl.Float64()})
    if reductions is not None:
        came = job.visits.filter(pl.col("match").is_in(pl.lit(reductions["match"]).implode()))
        at_ns = until(pl.col("arrival_ns") + pl.col("clock_offset_ns"))
        of_rank = came.group_by("rank", "step").agg(until_ns=at_ns)
        beside = segments.join(of_rank, on=["rank", "step"], how="left", nulls_equal=True)
        segments = beside.filter((pl.col("at_ns") <= pl.col("until_ns")).fill_null(value=True))
    of_rank = segments.group_by("rank", "step").agg(pl.col("time_ns").sum())
    return of_rank.group_by("step").agg(computed_ns=pl.col("time_ns").quantile(0.5, "lower"))


@dataclass(frozen=True)
class Backward:
    """The backward passes of a job, by what they reduce."""

    job: Job
    reductions: pl.DataFrame

    def room(self) -> pl.DataFrame:
        """How long ranks compute in each step while gradients are reduced, if each is as soon as it is there.

        Returns ``step`` and ``computed_ns``: the last backward pass, without what comes before its first gradient.
        """
        backward = _BACKWARD_RATIO * pl.col("computed_ns") / self._passes()
        first = self._first_ns()
        before = backward / _pieces(self.reductions)
        # Of what is only seen later, since forward passes have the same, it is not known when it began.
        before = before if first is None else pl.max_horizontal(before, pl.min_horizontal(first, backward / 2))
        return self._until_last.with_columns(computed_ns=(backward - before).clip(lower_bound=0))

    def before_ratio(self) -> float:
        """How much of what ranks compute until the last reduction of a step comes before the first: the forward pass.

        Activations are reduced in that, too.
        """
        first = computed(self.job, self.reductions, pl.Expr.min)
        both = first.join(self._until_last, on="step", nulls_equal=True, suffix="_of_all")
        both = both.filter(pl.col("computed_ns_of_all") > 0)
        ratio = (both["computed_ns"] / both["computed_ns_of_all"]).median()
        return ratio if isinstance(ratio, float) else 0.0

    @cached_property
    def _until_last(self) -> pl.DataFrame:
        """What ranks compute in each step until its last reduction, which the optimizer follows."""
        return computed(self.job, self.reductions)

    def _work(self) -> pl.DataFrame:
        return self.job.rows if self.job.rows.is_empty() else self.job.of(account.WORK)

    def _losses(self) -> int:
        """How often ranks compute a loss in each step, which they do for each part of the batch."""
        if self._work().is_empty():
            return 1
        losses = self._work().filter(_is_of_loss())
        often = losses.group_by("rank", "step", "operator", "name").agg(pl.col("count").sum())
        usual = often.group_by("operator", "name").agg(pl.col("count").median())["count"]
        return max(1, round(min(usual.to_list(), default=1)))

    def _passes(self) -> int:
        """How many backward passes a step has of which only the last hides reductions: none is reduced in the others.

        Where gradients are reduced in each pass, a forward pass is between the reductions of one and of the next.
        """
        losses = self._losses()
        if losses == 1:
            return 1
        ordered = self.reductions.sort("come_ns").join(computed(self.job), on="step", how="left", nulls_equal=True)
        apart = pl.col("come_ns") - pl.col("left_ns").shift(1).over(OF_GROUP)
        is_forward = apart > pl.col("computed_ns") / (_FORWARDS * losses)
        forwards = ordered.group_by(*OF_GROUP).agg(is_forward.sum())["come_ns"].median()
        return 1 if isinstance(forwards, float) and forwards >= losses - 1 else losses

    def _first_ns(self) -> float | None:
        """How long ranks compute from the loss's gradient until the last layer's products; null if none is known.

        Before that there is nothing to reduce; the last layer may have much of a model's weights.
        """
        if self._work().is_empty():
            return None
        once_ns = pl.col("time_ns") / pl.col("count")
        work = self._work().select("rank", "step", "start_ns", "name", until_ns=pl.col("start_ns") + once_ns)
        of_loss = self._work().filter(_is_of_loss(), pl.col("operator").str.contains(_BACKWARD))
        begun = of_loss.group_by("rank", "step").agg(begun_ns=pl.col("start_ns").min())
        after = work.join(begun, on=["rank", "step"], nulls_equal=True).filter(pl.col("start_ns") > pl.col("begun_ns"))
        names = after.select(pl.col("name").unique())
        dense = [name for name in names["name"] if categories.of_kernel(name or "") in _DENSE]
        products = after.filter(pl.col("name").is_in(dense)).sort("start_ns")
        first = products.group_by("rank", "step").head(_PRODUCTS)
        lasted = first.group_by("rank", "step").agg(ns=(pl.col("until_ns") - pl.col("begun_ns")).max())
        usual = lasted["ns"].median()
        return usual if isinstance(usual, float) else None


def _is_of_loss() -> pl.Expr:
    return pl.any_horizontal(pl.col("operator", "name").fill_null("").str.contains(_LOSS))


def _pieces(reductions: pl.DataFrame) -> float:
    """In how many pieces the gradients of a step are reduced: the first waits for part of the backward pass.

    What is reduced as a whole could be in buckets of the usual size.
    """
    size = pl.col("element_count").cast(pl.Float64) * ELEMENT_BYTES
    could = (size / BUCKET_BYTES).fill_null(1.0).sum()
    pieces = pl.when(pl.len() > 1).then(pl.len().cast(pl.Float64)).otherwise(could)
    most = reductions.group_by(*OF_GROUP).agg(pieces=pieces)["pieces"].median()
    return max(2.0, most) if isinstance(most, float) else 2.0
