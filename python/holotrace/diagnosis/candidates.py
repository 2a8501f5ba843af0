"""What may be the cause of lost time: each with what to remove from the job to see what it is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from holotrace.diagnosis import account
from holotrace.diagnosis.classes import COPY, FUNCTION, LAUNCH, PAUSE, SYNCHRONIZATION
from holotrace.diagnosis.meetings import Change

SLOW_DEVICE, MORE_WORK, UNEVEN_WORK = "slow-device", "more-work", "uneven-work"
SLOW_HOST, SLOW_LINK, EXPOSED = "slow-host", "slow-link", "exposed-transfer"
# Of these each name is a cause of its own.
_BY_NAME = (FUNCTION, PAUSE, COPY, SYNCHRONIZATION)
# Named ranks make up so much of what a cause costs.
NAMED_RATIO = 0.8
# A device is slow if kernels of so many of its kinds of work, by time, take longer by at least half of what all do.
_FAMILIES_RATIO = 0.7
# So much more than the median rank has is a rank's own.
_APART_RATIO = 0.25
# More than half, beyond doubt.
_MOSTLY_RATIO = 0.6
# Ranks that spend so much of their time in the same kernels do the same.
_COMMON_RATIO = 0.7
# Equal work of healthy devices differs by less.
_SLOW_RATIO = 1.02
# Host calls of a slow host take so much longer than those of others.
_SLOW_HOST_RATIO = 1.3
# Transfers of equal size take so much longer in the groups of a slow link.
_SLOW_LINK_RATIO = 1.4


@dataclass(frozen=True)
class Candidate:
    """One possible cause."""

    cause: str
    change: Change
    ranks: tuple[int, ...] = ()
    """The ranks it is seen on; empty: all."""
    steps: tuple[int, ...] = ()
    responsible: str | None = None
    detail: str | None = None
    event_rank: int | None = None
    event_id: int | None = None
    start_ns: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """What all ranks contribute, by kind of row."""

    rows: pl.DataFrame
    visits: pl.DataFrame
    ranks: tuple[int, ...]
    floor_ns: int

    def of(self, kind: str) -> pl.DataFrame:
        return self.rows.filter(pl.col("row") == kind)


def all_of(job: Job) -> Iterator[Candidate]:
    """Everything that may have cost the job time."""
    yield from _gaps(job)
    for ranks in _alike(job):
        yield from _work(ranks)
    yield from _links(job)
    yield from _transfers(job)


def _beyond(frame: pl.DataFrame, job: Job, by: tuple[str, ...]) -> pl.DataFrame:
    """``time_ns`` of each rank and step, and how much of it is more than the median rank's of that step, ``beyond_ns``.

    With one rank all of it is everybody's.
    """
    totals = frame.group_by(*by, "rank", "step").agg(pl.col("time_ns").sum())
    keys = totals.select(*by, "step").unique()
    every = keys.join(pl.DataFrame({"rank": job.ranks}, schema={"rank": totals.schema["rank"]}), how="cross")
    # Ranks that have none of it count too.
    full = every.join(totals, on=[*by, "rank", "step"], how="left", nulls_equal=True).with_columns(
        pl.col("time_ns").fill_null(0)
    )
    middle = pl.col("time_ns").quantile(0.5, "lower").over(*by, "step")
    return full.with_columns(beyond_ns=(pl.col("time_ns") - middle).clip(lower_bound=0) if len(job.ranks) > 1 else 0)


def _gaps(job: Job) -> Iterator[Candidate]:
    """Idle time by what the host did meanwhile: of ranks that have more of it than others, and of all."""
    gaps = job.of(account.GAP).with_columns(pl.col("name").fill_null(""))
    # Some classes are one thing, whatever names it has.
    gaps = gaps.with_columns(key=pl.when(pl.col("cause").is_in(_BY_NAME)).then("name").otherwise(pl.lit("")))
    by = ("cause", "key")
    beyond = _beyond(gaps, job, by)
    for (cause, key), table in beyond.group_by(*by, maintain_order=True):
        rows = gaps.filter(pl.col("cause") == cause, pl.col("key") == key)
        names = rows.group_by("name").agg(pl.col("time_ns").sum()).sort("time_ns", "name", descending=[True, False])
        name = str(names["name"][0]) or None
        usual = _lower_median(table.group_by("rank").agg(pl.col("time_ns").sum())["time_ns"])
        beyond_ns = _sum(table["beyond_ns"])
        # What most ranks have is everybody's, and so is what differs a little where all have much of it.
        is_local = (
            beyond_ns > max(job.floor_ns, _APART_RATIO * usual) and len(_who(table, "beyond_ns")) <= len(job.ranks) / 2
        )
        if is_local:
            yield _local(str(cause), name, rows, table, job)
        common = table.with_columns(left_ns=pl.col("time_ns") - (pl.col("beyond_ns") if is_local else 0))
        if _lower_median(common.group_by("rank").agg(pl.col("left_ns").sum())["left_ns"]) > job.floor_ns:
            yield _shared(str(cause), name, rows, common, job)


def _local(cause: str, name: str | None, rows: pl.DataFrame, table: pl.DataFrame, job: Job) -> Candidate:
    share = table.filter(pl.col("time_ns") > 0).select(
        "rank", "step", part_ratio=pl.col("beyond_ns") / pl.col("time_ns")
    )
    ranks, steps = _who(table, "beyond_ns"), _when(table, "beyond_ns")
    if cause == LAUNCH and (ratio := _host_ratio(job, ranks)) > _SLOW_HOST_RATIO:
        return _candidate(SLOW_HOST, None, rows, share, _Where(ranks, steps), host_ratio=ratio)
    return _candidate(cause, name, rows, share, _Where(ranks, steps))


def _shared(cause: str, name: str | None, rows: pl.DataFrame, table: pl.DataFrame, job: Job) -> Candidate:
    share = table.filter(pl.col("time_ns") > 0).select("rank", "step", part_ratio=pl.col("left_ns") / pl.col("time_ns"))
    ranks = job.ranks if len(job.ranks) == 1 else ()
    return _candidate(cause, name, rows, share, _Where(ranks, _when(table, "left_ns")))


@dataclass(frozen=True)
class _Where:
    """Which ranks and steps have something."""

    ranks: tuple[int, ...]
    steps: tuple[int, ...]


def _candidate(
    cause: str, name: str | None, rows: pl.DataFrame, share: pl.DataFrame, where: _Where, **evidence: Any
) -> Candidate:
    """Takes this part of the rows of each rank and step away."""
    parts = rows.join(share, on=["rank", "step"], nulls_equal=True).with_columns(
        part_ns=pl.col("time_ns") * pl.col("part_ratio")
    )
    worst = parts.sort("part_ns", descending=True).row(0, named=True)
    return Candidate(
        cause,
        Change(removed=_removed(parts)),
        where.ranks,
        where.steps,
        name,
        worst["detail"],
        worst["rank"],
        worst["event_id"],
        worst["start_ns"],
        {"time_ns": int(parts["part_ns"].sum()), "count": int(parts["count"].sum()), **evidence},
    )


def _sum(values: pl.Series) -> float:
    return float(sum(values.to_list()))


def _lower_median(values: pl.Series) -> float:
    found = sorted(values.to_list())
    return float(found[(len(found) - 1) // 2])


def _removed(parts: pl.DataFrame) -> dict[int, list[tuple[int, float]]]:
    removed: dict[int, list[tuple[int, float]]] = {}
    for rank, at, ns in parts.filter(pl.col("part_ns") > 0).select("rank", "at_ns", "part_ns").iter_rows():
        removed.setdefault(rank, []).append((at, ns))
    return removed


def _who(table: pl.DataFrame, column: str) -> tuple[int, ...]:
    """The fewest ranks that make up most of it, in order; those far above the others."""
    totals = table.group_by("rank").agg(pl.col(column).sum()).sort(column, "rank", descending=[True, False])
    most = NAMED_RATIO * _sum(totals[column])
    until = int(totals.select((pl.col(column).cum_sum() < most).sum()).item())
    # Ranks with as much as the last of these are as much to blame.
    least = totals[column][min(until, totals.height - 1)] * 0.5
    return tuple(sorted(totals.filter(pl.col(column) >= least)["rank"]))


def _when(table: pl.DataFrame, column: str) -> tuple[int, ...]:
    """The steps that have it: at least a quarter of what the worst has."""
    totals = table.drop_nulls("step").group_by("step").agg(pl.col(column).sum())
    if totals.is_empty():
        return ()
    return tuple(sorted(totals.filter(pl.col(column) >= 0.25 * pl.col(column).max())["step"]))


def _host_ratio(job: Job, ranks: tuple[int, ...]) -> float:
    """How much longer the calls of these ranks' hosts take than those of others; 1 where there are no others."""
    calls = job.of(account.CALL)
    mine = calls.filter(pl.col("rank").is_in(ranks)).group_by("name").agg(mine_ns=pl.col("time_ns").median())
    others = calls.filter(~pl.col("rank").is_in(ranks)).group_by("name").agg(others_ns=pl.col("time_ns").median())
    both = mine.join(others, on="name").filter(pl.col("others_ns") > 0)
    ratios = (both["mine_ns"] / both["others_ns"]).to_list()
    return _lower_median(pl.Series(ratios)) if ratios else 1.0


def _alike(job: Job) -> list[Job]:
    """The job's ranks by what they compute: stages of a pipeline run other kernels, and cannot be compared."""
    work = job.of(account.WORK).group_by("rank", "name").agg(pl.col("time_ns").sum()).sort("rank", "name")
    shares: dict[int, dict[str, float]] = {}
    for rank, name, share in work.with_columns(pl.col("time_ns") / pl.col("time_ns").sum().over("rank")).iter_rows():
        shares.setdefault(rank, {})[name] = share
    groups: list[list[int]] = []
    for rank, own in shares.items():
        group = next((group for group in groups if _common(own, shares[group[0]]) > _COMMON_RATIO), None)
        if group is None:
            groups.append([rank])
        else:
            group.append(rank)
    return [replace(job, ranks=tuple(g), rows=job.rows.filter(pl.col("rank").is_in(g))) for g in groups]


def _common(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """How much of their time two ranks spend in the same kernels."""
    return sum(min(share, other.get(name, 0.0)) for name, share in one.items())


def _work(job: Job) -> Iterator[Candidate]:
    """Ranks that compute longer than the others: at equal work slow devices, else more work."""
    segments = job.of(account.SEGMENT)
    if len(job.ranks) < 2 or segments.is_empty():
        return
    beyond = _beyond(segments, job, ())
    if _sum(beyond["beyond_ns"]) <= job.floor_ns:
        return
    share = beyond.filter(pl.col("time_ns") > 0).select(
        "rank", "step", part_ratio=pl.col("beyond_ns") / pl.col("time_ns")
    )
    kinds = _kinds(job)
    turns = _turns(beyond)
    if turns:
        (name, detail) = _largest(kinds, turns)
        yield _candidate(UNEVEN_WORK, name, segments, share, _Where((), _when(beyond, "beyond_ns")), kernel=detail)
        return
    slow: list[int] = []
    more: list[int] = []
    those = _who(beyond, "beyond_ns")
    if len(those) > len(job.ranks) / 2:
        return
    for rank in those:
        (slow if _is_slow(kinds.filter(pl.col("rank") == rank)) else more).append(rank)
    for cause, ranks in ((SLOW_DEVICE, tuple(slow)), (MORE_WORK, tuple(more))):
        if not ranks:
            continue
        table = beyond.filter(pl.col("rank").is_in(ranks))
        part = share.filter(pl.col("rank").is_in(ranks))
        (name, detail) = _largest(kinds, ranks)
        beyond_ns = _sum(table["beyond_ns"])
        ratio = 1 + beyond_ns / max(1.0, _sum(table["time_ns"]) - beyond_ns)
        evidence = {"time_ratio": round(ratio, 4)}
        responsible = name if cause == MORE_WORK else None
        where = _Where(ranks, _when(table, "beyond_ns"))
        yield _candidate(cause, responsible, segments, part, where, kernel=detail, **evidence)


def _turns(beyond: pl.DataFrame) -> tuple[int, ...]:
    """The ranks that take turns at being the slowest; none if it is mostly the same ones."""
    worst = (
        beyond.drop_nulls("step")
        .sort("beyond_ns", "rank", descending=[True, False])
        .unique("step", keep="first", maintain_order=True)
    )
    heavy = worst.filter(pl.col("beyond_ns") > 0.25 * pl.col("beyond_ns").max())
    if heavy.height < 3:
        return ()
    most = max(heavy.group_by("rank").agg(pl.col("beyond_ns").sum())["beyond_ns"].to_list())
    return tuple(heavy["rank"].unique().sort()) if most < _MOSTLY_RATIO * _sum(heavy["beyond_ns"]) else ()


def _kinds(job: Job) -> pl.DataFrame:
    """Work of each rank by kernel, grid, block and shapes, beside that of the median rank."""
    work = job.of(account.WORK)
    key = ["name", "detail", "operator"]
    by_rank = work.group_by("rank", *key).agg(pl.col("time_ns", "count").sum())
    keys = by_rank.select(key).unique()
    every = keys.join(pl.DataFrame({"rank": job.ranks}, schema={"rank": by_rank.schema["rank"]}), how="cross")
    full = every.join(by_rank, on=["rank", *key], how="left", nulls_equal=True).with_columns(
        pl.col("time_ns", "count").fill_null(0)
    )
    return full.with_columns(
        usual_ns=pl.col("time_ns").quantile(0.5, "lower").over(key),
        usual_count=pl.col("count").quantile(0.5, "lower").over(key),
    )


def _is_slow(kinds: pl.DataFrame) -> bool:
    """Whether a rank's excess is that of equal work, in most kinds of kernels alike."""
    equal = kinds.filter(pl.col("count") == pl.col("usual_count"), pl.col("usual_ns") > 0)
    if equal.is_empty():
        return False
    excess = _sum(kinds["time_ns"]) - _sum(kinds["usual_ns"])
    usual = _sum(equal["usual_ns"])
    of_equal = _sum(equal["time_ns"]) - usual
    longer = equal.filter(pl.col("time_ns") / pl.col("usual_ns") > 1 + 0.5 * of_equal / usual)
    families = _sum(longer["usual_ns"]) / usual
    return of_equal / usual > _SLOW_RATIO - 1 and of_equal > _MOSTLY_RATIO * excess and families > _FAMILIES_RATIO


def _largest(kinds: pl.DataFrame, ranks: tuple[int, ...]) -> tuple[str | None, str | None]:
    """The operator, and the kernel, with the largest excess on these ranks."""
    of_ranks = kinds.filter(pl.col("rank").is_in(ranks)).with_columns(
        excess_ns=pl.col("time_ns").cast(pl.Int64) - pl.col("usual_ns").cast(pl.Int64)
    )
    by_operator = of_ranks.group_by("operator").agg(pl.col("excess_ns").sum()).drop_nulls("operator")
    kernel = of_ranks.group_by("name").agg(pl.col("excess_ns").sum()).sort("excess_ns", descending=True)["name"].first()
    operator = by_operator.sort("excess_ns", descending=True)["operator"].first()
    return (str(operator) if operator else str(kernel) if kernel else None, str(kernel) if kernel else None)


def _transferred(job: Job) -> pl.DataFrame:
    """Each meeting with how long its data took once all had come, and how much of that was exposed."""
    come = pl.col("arrival_ns").max().over("match")
    return (
        job.visits.with_columns(transfer_ns=(pl.col("left_ns") - come).clip(lower_bound=0))
        .with_columns(exposed_transfer_ns=pl.min_horizontal("exposed_ns", "transfer_ns"))
        .group_by("match")
        .agg(
            pl.col("group_ranks", "collective", "element_count", "element_type", "step").first(),
            pl.col("transfer_ns").max(),
            pl.col("exposed_transfer_ns").min(),
            start_ns=pl.col("start_ns").min(),
            member_ranks=pl.col("rank").sort(),
        )
        .with_columns(pl.col("collective").cast(pl.String), pl.col("element_type").cast(pl.String))
    )


def _links(job: Job) -> Iterator[Candidate]:
    """Groups whose transfers take longer than those of equal size in other groups."""
    if job.visits.is_empty():
        return
    alike = ["collective", "element_count", "element_type", "size"]
    meetings = _transferred(job).with_columns(size=pl.col("member_ranks").list.len())
    groups = meetings.group_by(*alike, "member_ranks").agg(
        typical_ns=pl.col("transfer_ns").median(), matches=pl.col("match"), step=pl.col("step").drop_nulls().unique()
    )
    usual = pl.col("typical_ns").quantile(0.5, "lower").over(alike)
    slow = groups.with_columns(usual_ns=usual, others=pl.len().over(alike)).filter(
        pl.col("others") > 1, pl.col("typical_ns") > _SLOW_LINK_RATIO * pl.col("usual_ns")
    )
    for row in slow.sort("typical_ns", descending=True).iter_rows(named=True):
        ratio = row["typical_ns"] / max(1.0, row["usual_ns"])
        yield Candidate(
            SLOW_LINK,
            Change(transfer=dict.fromkeys(row["matches"], 1 / ratio)),
            tuple(row["member_ranks"]),
            tuple(sorted(row["step"])),
            row["collective"],
            evidence={"time_ratio": round(ratio, 3), "count": len(row["matches"])},
        )


def _transfers(job: Job) -> Iterator[Candidate]:
    """Collectives whose transfer nothing hides."""
    if job.visits.is_empty():
        return
    meetings = _transferred(job).filter(pl.col("exposed_transfer_ns") > 0)
    for (name, _), table in meetings.group_by("collective", "element_count", maintain_order=True):
        hidden = {
            match: 1 - exposed / transfer if transfer else 1.0
            for match, exposed, transfer in table.select("match", "exposed_transfer_ns", "transfer_ns").iter_rows()
        }
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
                "per_step_count": table.height / max(1, table["step"].n_unique()),
            },
        )
