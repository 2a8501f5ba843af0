"""Slow links: groups of ranks whose transfers take longer than the same ones of other groups."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from holotrace.core.problems import spelled
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import SLOW_LINK

# Transfers of equal size take so much longer in the groups of a slow link, ...
_SLOW_RATIO = 1.4
# ... or so much, if of so many of them hardly one is as short as the others' are.
_APART_RATIO, _FEWEST = 1.2, 8
# So much longer they take at least, where it is not known how long others take.
_LEAST_RATIO = 1.05
# Where others take next to no time, no more is said than that it takes at least so many times as long.
_MOST_TIMES = 100.0
# Of sizes that differ by more than this data are not sent at the same rate.
_SIZE_RATIO = 2
# Of amounts that follow from data hardly all are those of another group, too.
_SHARED_RATIO = 0.9
_EXCHANGE = r"(?i)all_?to_?all"
_KIND = ["collective", "element_type", "size", "node_count"]
# What the groups of some devices are compared with.
_THAN_DEVICES = "with equal size in other groups than that of devices {}"
# Devices of the same ranks may be several groups, as one of each host is.
MEMBERS = ["member_ranks", "group_ranks"]


def of_groups(meetings: pl.DataFrame) -> Iterator[Candidate]:
    """Groups whose transfers take longer than those of equal size in other groups.

    Args:
        meetings: Each with its ``member_ranks`` and devices (``group_ranks``), over how many nodes they are
            (``node_count``), what they sent and ``transfer_ns``; see ``transfers``.
    """
    compared = _compared(meetings)
    alike = [*_KIND, "sent"]
    groups = compared.group_by(*alike, *MEMBERS).agg(
        pl.col("absent").max(),
        least=pl.col("rate").quantile(0.25, "lower"),
        typical=pl.col("rate").median(),
        most=pl.col("rate").quantile(0.75, "higher"),
        matches=pl.col("match"),
        step=pl.col("step").drop_nulls().unique(),
    )
    usual = pl.col("typical").quantile(0.5, "lower").over(alike)
    beside = groups.with_columns(usual=usual, others=pl.len().over(alike))
    usual_most = pl.col("most").filter(pl.col("typical") <= pl.col("usual")).max().over(alike)
    is_apart = (pl.col("least") > usual_most) & (pl.col("matches").list.len() >= _FEWEST)
    ratio = pl.col("typical") / pl.col("usual")
    # What was not recorded may have come late.
    slow = beside.filter(
        pl.col("others") > 1,
        pl.col("absent") <= 0,
        (ratio > _SLOW_RATIO) | (is_apart & (ratio > _APART_RATIO)),
    )
    # A link is slow for transfers of all sizes and kinds.
    by_group = slow.sort("typical", "collective", descending=[True, False]).partition_by(
        "member_ranks", maintain_order=True
    )
    for link in by_group:
        ratios = link["typical"] / link["usual"]
        factors = {match: 1 / r for matches, r in zip(link["matches"], ratios, strict=True) for match in matches}
        yield _slow(link, factors, ratios[0], **_than_devices(link))


def awaited(meetings: pl.DataFrame) -> Iterator[Candidate]:
    """Groups whose ranks stand still in transfers when those of equal size in other groups are hidden, or nearly so.

    Programs of XLA on TPUs look for a transfer only when they need it: nothing tells how long one that is hidden took.
    One instruction of a program sends as much in each of its groups, whether or not its size is known. Groups of
    the same ranks are one: which of their devices stands still the longest is also by which of them comes first.
    """
    alike = [*_KIND, "element_count", "instruction"]
    known = meetings.with_columns(instruction=pl.when(pl.col("element_count").is_null()).then("group"))
    # Of those of one size in a step the first is exposed and others are not, or the last.
    place = pl.when(pl.col("step").is_not_null()).then(pl.int_range(pl.len()).over("step", "member_ranks", *alike))
    sized = known.filter(pl.any_horizontal(pl.col("element_count", "instruction").is_not_null()))
    placed = sized.sort("come_ns", "match").with_columns(place=place)
    # Programs of several sizes, as those of a server's prompts, may have the same name.
    exposed = pl.col("exposed_transfer_ns").mean()
    usual = pl.col("placed").quantile(0.5, "lower").over(*alike, "place")
    of_place = placed.group_by(*alike, "place", "member_ranks").agg(placed=exposed)
    usual_ns = of_place.with_columns(usual=usual).select(*alike, "place", "member_ranks", "usual")
    compared = placed.join(usual_ns, on=[*alike, "place", "member_ranks"], nulls_equal=True)
    groups = compared.group_by(*alike, "member_ranks").agg(
        pl.col("absent").max(),
        typical=pl.col("transfer_ns").median(),
        exposed=exposed,
        usual=pl.col("usual").mean(),
        match=pl.col("match"),
        hidden=pl.col("usual"),
        step=pl.col("step").drop_nulls().unique(),
    )
    beside = groups.filter(pl.len().over(alike) > 1)
    # What is hidden in other groups takes them no longer than what is hidden here and what they stand still for.
    most = (pl.col("typical") - pl.col("exposed") + pl.col("usual")).clip(lower_bound=1)
    beside = beside.with_columns(ratio=pl.col("typical") / most)
    slow = beside.filter(pl.col("absent") <= 0, pl.col("exposed") > _SLOW_RATIO * pl.col("usual"))
    slow = slow.filter(pl.col("ratio").max().over("member_ranks") > _LEAST_RATIO)
    by_group = slow.sort("exposed", "collective", descending=[True, False]).partition_by(
        "member_ranks", maintain_order=True
    )
    for link in by_group:
        own = link.select("hidden", "match").explode("hidden", "match").join(meetings, on="match")
        longer = (pl.col("exposed_transfer_ns") - pl.col("hidden")).clip(lower_bound=0)
        rest = own.select("match", ratio=1 - longer / pl.col("transfer_ns").clip(lower_bound=1))
        yield _slow(link, dict(rest.iter_rows()), min(_MOST_TIMES, max(link["ratio"])))


def _slow(link: pl.DataFrame, factors: dict[int, float], ratio: float, **than: str) -> Candidate:
    """The cause for the kinds of transfers of one group, those that take longest first."""
    return Candidate(
        SLOW_LINK,
        Change(transfer=factors),
        tuple(link["member_ranks"][0]),
        tuple(sorted(link["step"].explode().drop_nulls().unique())),
        link["collective"][0],
        evidence={"time_ratio": round(ratio, 3), "count": len(factors), **than},
    )


def _than_devices(link: pl.DataFrame) -> dict[str, str]:
    """What it is compared with, if the link is that of one group of devices, which are not the ranks themselves."""
    groups = link["group_ranks"].cast(pl.String).unique()
    text = groups[0] or ""
    devices = sorted(map(int, re.findall(r"\d+", text)))
    is_one = len(groups) == 1 and re.fullmatch(r"\[[\d, ]+\]", text) is not None
    are_ranks = devices == link["member_ranks"][0].to_list()
    return {"than": _THAN_DEVICES.format(spelled(devices))} if is_one and not are_ranks else {}


def nodes(job: Job) -> pl.DataFrame:
    """Over how many nodes each ``match`` goes, ``node_count``; null where that is not known.

    Links within a node are others than those between nodes. The ranks of a node are in a row, as its devices are, so
    that they are all as far beyond the number of theirs; where each rank sees its own device only, nobody knows.
    """
    windows = job.rows if job.rows.is_empty() else job.of(account.WINDOW)
    if "device" not in windows.columns:
        return job.visits.select("match", node_count=pl.lit(None, pl.UInt32)).unique("match")
    first = windows.select("rank", node=pl.col("rank") - pl.col("device")).unique("rank")
    placed = job.visits.select("match", "rank").join(first, on="rank", how="left")
    count = pl.when(pl.col("node").is_not_null().all()).then(pl.col("node").n_unique())
    return placed.group_by("match").agg(node_count=count)


def _compared(meetings: pl.DataFrame) -> pl.DataFrame:
    """Meetings by what they sent, ``sent``, with how long they took, ``rate``.

    Of exchanges that send another amount in each group, as of the tokens of experts, that is per element, where a small
    one need not be faster than a usual one. Of messages of unknown size nobody knows how long they should take.
    """
    known = meetings.drop_nulls("element_count").with_columns(
        members=pl.col("member_ranks").cast(pl.List(pl.String)).list.join(" "),
        elements=pl.col("element_count").cast(pl.Int64).clip(lower_bound=1),
    )
    is_shared = pl.col("members").n_unique().over(*_KIND, "element_count") > 1
    of_data = (is_shared.mean().over(_KIND) < _SHARED_RATIO) & pl.col("collective").str.contains(_EXCHANGE)
    usual = pl.col("elements").median().over(_KIND)
    sized = known.with_columns(of_data=of_data, usual=usual).filter(
        ~pl.col("of_data") | (pl.col("elements") / pl.col("usual")).is_between(1 / _SIZE_RATIO, _SIZE_RATIO)
    )
    took = pl.col("transfer_ns").clip(lower_bound=1)
    return sized.with_columns(
        sent=pl.when(~pl.col("of_data")).then("element_count"),
        rate=pl.when("of_data").then(took / pl.max_horizontal("elements", "usual")).otherwise(took),
    )
