"""Communication as a cause: slow links, and transfers that nothing hides."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.diagnosis.candidates import Candidate, Job
from holotrace.diagnosis.classes import EXPOSED, SLOW_LINK
from holotrace.diagnosis.meetings import Change

# Transfers of equal size take so much longer in the groups of a slow link.
_SLOW_LINK_RATIO = 1.4
# A transfer of which so much is exposed is not hidden.
_MOSTLY_RATIO = 0.5


def causes(job: Job) -> Iterator[Candidate]:
    """Slow links, and exposed transfers."""
    if job.visits.is_empty():
        return
    meetings = _transferred(job)
    links = list(_links(meetings))
    yield from links
    # What a slow link costs is no matter of hiding transfers.
    slow = [(match, ratio) for link in links for match, ratio in link.change.transfer.items()]
    ratios = pl.DataFrame(slow, schema={"match": meetings.schema["match"], "usual_ratio": pl.Float64}, orient="row")
    beside = meetings.join(ratios, on="match", how="left").with_columns(pl.col("usual_ratio").fill_null(1.0))
    yield from _exposed(beside.with_columns(pl.col("exposed_transfer_ns") * pl.col("usual_ratio")).sort("match"))


def _transferred(job: Job) -> pl.DataFrame:
    """Each meeting with how long its data took once all had come, and how much of that was exposed."""
    come = pl.col("arrival_ns").max().over("match")
    return (
        job.visits.with_columns(transfer_ns=(pl.col("left_ns") - come).clip(lower_bound=0))
        .with_columns(exposed_transfer_ns=pl.min_horizontal("exposed_ns", "transfer_ns"))
        .group_by("match")
        .agg(
            pl.col("group_ranks", "collective", "element_count", "element_type", "step", "group_size").first(),
            pl.col("transfer_ns").max(),
            pl.col("exposed_transfer_ns").min(),
            start_ns=pl.col("start_ns").min(),
            member_ranks=pl.col("rank").sort(),
        )
        .with_columns(
            pl.col("collective").cast(pl.String),
            pl.col("element_type").cast(pl.String),
            # Members may be missing from the recording.
            size=pl.coalesce(pl.col("group_size").cast(pl.UInt32), pl.col("member_ranks").list.len()),
        )
        .sort("match")
    )


def _links(meetings: pl.DataFrame) -> Iterator[Candidate]:
    """Groups whose transfers take longer than those of equal size in other groups."""
    alike = ["collective", "element_count", "element_type", "size"]
    groups = meetings.group_by(*alike, "member_ranks").agg(
        typical_ns=pl.col("transfer_ns").median(), matches=pl.col("match"), step=pl.col("step").drop_nulls().unique()
    )
    usual = pl.col("typical_ns").quantile(0.5, "lower").over(alike)
    slow = groups.with_columns(usual_ns=usual, others=pl.len().over(alike)).filter(
        pl.col("others") > 1, pl.col("typical_ns") > _SLOW_LINK_RATIO * pl.col("usual_ns")
    )
    # A link is slow for transfers of all sizes and kinds.
    links = slow.sort("typical_ns", "collective", descending=[True, False]).partition_by(
        "member_ranks", maintain_order=True
    )
    for link in links:
        ratios = link["typical_ns"] / link["usual_ns"].clip(lower_bound=1)
        factors = {match: 1 / r for matches, r in zip(link["matches"], ratios, strict=True) for match in matches}
        yield Candidate(
            SLOW_LINK,
            Change(transfer=factors),
            tuple(link["member_ranks"][0]),
            tuple(sorted(link["step"].explode().drop_nulls().unique())),
            link["collective"][0],
            evidence={"time_ratio": round(ratios[0], 3), "count": len(factors)},
        )


def _exposed(meetings: pl.DataFrame) -> Iterator[Candidate]:
    """Collectives whose transfer nothing hides."""
    # Gathers of other sizes are of other parameters, which may be prefetched where these are not.
    is_gather = pl.col("collective").str.contains("gather")
    sized = meetings.with_columns(size=pl.when(is_gather).then("element_count"))
    for (name, _), every in sized.group_by("collective", "size", maintain_order=True):
        table = every.filter(pl.col("exposed_transfer_ns") > 0)
        if table.is_empty():
            continue
        hidden = {
            match: 1 - exposed / transfer if transfer else 1.0
            for match, exposed, transfer in table.select("match", "exposed_transfer_ns", "transfer_ns").iter_rows()
        }
        mostly = every.filter(pl.col("exposed_transfer_ns") > _MOSTLY_RATIO * pl.col("transfer_ns"))
        yield Candidate(
            EXPOSED,
            Change(transfer=hidden),
            (),
            tuple(sorted(table["step"].drop_nulls().unique())),
            str(name),
            start_ns=table.sort("exposed_transfer_ns")["start_ns"][-1],
            evidence={
                "time_ns": int(table["exposed_transfer_ns"].sum()),
                "count": table.height,
                "per_step_count": every.height / max(1, every["step"].n_unique()),
                "exposed_ratio": round(mostly.height / every.height, 3),
            },
        )
