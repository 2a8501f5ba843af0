"""Tokens of experts: which ranks get more than others, and what would be left to do with even shares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.equal_work import KIND, lower

# Tokens that a rank of experts gets beyond the others' show in its all-to-all by at least this.
_MORE_TOKENS_RATIO = 1.1
# Tables that are spread over ranks are no experts, and a lookup is no product.
_LOOKUP = "(?i)embedding"
# Kinds that ranks have in different numbers.
_DIFFERS = (pl.col("count") != pl.col("usual_count")).any().over(*KIND)


def are_of(operator: str | None) -> bool:
    """Whether what takes some ranks longer than others may be what experts do with their tokens."""
    return not re.search(_LOOKUP, operator or "")


def are_more(job: Job, ranks: tuple[int, ...], *, in_turns: bool) -> bool:
    """Whether ranks get more through an all-to-all than others, in sum or, in turns, in some of them."""
    exchanged = _exchanged(job)
    if exchanged["element_count"].n_unique() < 2:
        return False
    by = ["rank", "match"] if in_turns else ["rank"]
    got = exchanged.group_by(by).agg(pl.col("element_count").cast(pl.Int64).sum())
    usual = pl.col("element_count").quantile(0.5, "lower").over("match") if in_turns else lower(got["element_count"])
    return not got.filter(pl.col("rank").is_in(ranks), pl.col("element_count") > _MORE_TOKENS_RATIO * usual).is_empty()


def beyond_even(job: Job, kinds: pl.DataFrame, ranks: Sequence[int], operator: str | None) -> float:
    """How much of what ranks of experts compute beyond others they would not if tokens were spread evenly.

    What they have too much others may lack: then these would get some of it. An even share is what each rank sends.
    """
    exchanged = _exchanged(job)
    got = exchanged.group_by("rank").agg(pl.col("element_count").cast(pl.Int64).sum())
    theirs = pl.col("rank").is_in(ranks)
    sent = lower(got["element_count"])
    # Experts compute in other shapes on each rank, if shapes are known; the rest of the model does not.
    work = kinds.filter(pl.col("operator") == operator).with_columns(differs=_DIFFERS)
    times = work.filter(pl.col("differs") | ~pl.col("differs").any()).group_by("rank").agg(pl.col("time_ns").sum())
    most, usual_ns = times.filter(theirs)["time_ns"].max(), lower(times["time_ns"])
    most_tokens = got.filter(theirs)["element_count"].max()
    if not (most and usual_ns and most_tokens and sent):
        return 1.0
    ratio = float(most_tokens) / sent  # type: ignore[arg-type]  # a column of integers
    of_others = ratio * usual_ns / float(most)  # type: ignore[arg-type]  # a column of integers
    return (ratio - 1) / (ratio - of_others) if of_others < 1 < ratio else 1.0


def with_exchanges(found: Candidate, job: Job) -> Candidate:
    """The cause with what exchanges take longer, as each lasts until the rank has its tokens that gets the most."""
    return replace(found, change=replace(found.change, transfer=even_ratios(job)))


def even_ratios(job: Job) -> dict[int, float]:
    """Of each all-to-all in which ranks get more than others, how long it would take with even shares."""
    most, even = pl.col("element_count").max(), pl.col("element_count").quantile(0.5, "lower")
    ratios = _exchanged(job).group_by("match").agg(most=most, even=even)
    uneven = ratios.filter(pl.col("even") > 0, pl.col("most") > _MORE_TOKENS_RATIO * pl.col("even"))
    return dict(uneven.sort("match").select("match", pl.col("even") / pl.col("most")).iter_rows())


def level(segments: pl.DataFrame) -> pl.DataFrame:
    """Segments with what each rank has beyond the mean of all from one meeting to the next, ``part_ns``.

    Tokens are spread anew in each layer, so that a rank with the most in one may have the least in the next.
    """
    own = segments.group_by("rank", "step", "match").agg(own_ns=pl.col("time_ns").sum())
    beyond_ns = (pl.col("own_ns") - pl.col("own_ns").mean().over("step", "match")).clip(lower_bound=0)
    share = own.filter(pl.col("own_ns") > 0).with_columns(part_ratio=beyond_ns / pl.col("own_ns"))
    spread = segments.join(share, on=["rank", "step", "match"], nulls_equal=True)
    return spread.with_columns(part_ns=pl.col("time_ns") * pl.col("part_ratio"))


def _exchanged(job: Job) -> pl.DataFrame:
    """What ranks sent or received in each all-to-all, whichever was more."""
    return job.visits.filter(
        pl.col("collective").cast(pl.String).str.to_lowercase().str.contains("all_?to_?all"),
        pl.col("rank").is_in(job.ranks),
    ).drop_nulls("element_count")
