"""Devices of one host that the others of it wait for: a slow one, or one with more work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from holotrace.derive import intervals
from holotrace.derive.totals import total
from holotrace.diagnosis.job import equal_work
from holotrace.diagnosis.job.candidates import IS_EQUAL, NAMED_RATIO, Candidate, Job, when
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import MORE_WORK, PIPELINE, SLOW_DEVICE, UNEVEN_WORK

# A device is named if it computes longer by so much of the time that it is late.
_EXPLAINED_RATIO = 0.5
# Ranks, or devices, that compute longer; ranks are told as a whole if that costs so many times what their latest
# devices do.
LONGER, _WHOLE_TIMES = (SLOW_DEVICE, MORE_WORK, PIPELINE), 1.5
# What more devices of a rank are late for is nobody's fault.
_MOST_DEVICES = 2
# Under which the evidence has the number of the device, or of how many it is that take turns.
DEVICE, DEVICES = "device", "devices"


def causes(job: Job, come: pl.DataFrame, *, go_apart: bool = False) -> Iterator[Candidate]:
    """Devices that come last to what the devices of their rank do together, since they compute longer.

    Where devices ``go_apart`` as the job is held again, it is known who waits for how long without what a device
    computes beyond the others; else it is what the others of its rank stand still for, so long as that is.

    Args:
        job: What all ranks contribute.
        come: When each device came to each collective, as of ``arrivals.of_ranks``.
        go_apart: Whether each device goes its own way between meetings.
    """
    computed = job.of(account.CORE)
    for (rank,), of_rank in late(come).group_by("rank", maintain_order=True):
        yield from _of_rank(computed.filter(rank=rank), of_rank, replace(job, ranks=(rank,)), go_apart=go_apart)


def are_told(candidate: Candidate) -> bool:
    """Whether a cause is told of devices, and not of their ranks."""
    return not {DEVICE, DEVICES}.isdisjoint(candidate.evidence)


def told_once(kept: list[tuple[Candidate, int]]) -> list[tuple[Candidate, int]]:
    """The causes, ranks that compute longer than others told by their devices, unless most of their devices do.

    So are ranks that do so in turns, which each device that is told makes late at another time.

    Args:
        kept: Causes of any class, each with its cost.
    """
    kept = _told_in_turns(kept)
    longer = [pair for pair in kept if pair[0].cause in LONGER and pair[0].ranks]
    of_devices: dict[int, list[tuple[Candidate, int]]] = {}
    for one, cost in longer:
        if DEVICE in one.evidence:
            of_devices.setdefault(one.ranks[0], []).append((one, cost))
    left_out: list[Candidate] = []
    for whole, cost in [*longer, *(pair for pair in kept if pair[0].cause == UNEVEN_WORK)]:
        if are_told(whole):
            continue
        parts = [device for rank in whole.ranks or of_devices for device in of_devices.get(rank, ())]
        is_of_devices = _WHOLE_TIMES * sum(of_device for _, of_device in parts) >= cost
        if is_of_devices:
            left_out.append(whole)
        elif whole.cause != UNEVEN_WORK:
            left_out += [device for device, _ in parts]
    return [(candidate, cost) for candidate, cost in kept if not any(candidate is one for one in left_out)]


def _told_in_turns(kept: list[tuple[Candidate, int]]) -> list[tuple[Candidate, int]]:
    """The causes, what devices have in turns told once: ranks, or single devices, have more of it in sum by chance."""
    in_turns = next((pair for pair in kept if DEVICES in pair[0].evidence), None)
    if in_turns is None:
        return kept
    more = [pair for pair in kept if pair[0].cause in (MORE_WORK, UNEVEN_WORK) and pair is not in_turns]
    is_of_devices = _WHOLE_TIMES * in_turns[1] >= max((cost for _, cost in more), default=0)
    left_out = more if is_of_devices else [in_turns]
    return [pair for pair in kept if not any(pair is one for one in left_out)]


def late(come: pl.DataFrame) -> pl.DataFrame:
    """The last device of each rank at each collective, with how long its others stood still for it, ``time_ns``."""
    # What a device computes while it waits would hide the transfer if that began as it comes.
    beside_ns = pl.col("left_ns") - pl.col("arrival_ns") - pl.col("exposed_ns")
    moved_ns = pl.col("left_ns") - pl.col("come_ns") - beside_ns.clip(lower_bound=0)
    standing_ns = (pl.col("exposed_ns") - moved_ns.clip(lower_bound=0)).clip(lower_bound=0)
    # What is under way at once is exposed at once, too: a device stands still for one of these after the other.
    come = come.with_columns(standing_ns=pl.min_horizontal(standing_ns, _stood_ns(come)))
    last = (
        come.sort("match", "rank", "arrival_ns", "device", descending=[False, False, True, False])
        .group_by("rank", "match", maintain_order=True)
        .agg(
            pl.col("device", "step", "event_id", "clock_offset_ns").first(),
            come_ns=pl.col("arrival_ns").first(),
            # When the last device to compute had done so.
            done_ns=pl.min_horizontal(pl.col("arrival_ns").first(), pl.col("left_ns").min() - pl.col("time_ns").max()),
            late_ns=pl.col("arrival_ns").first() - pl.col("arrival_ns").slice(1).max(),
            # Without the last one they would go on together with the one that came before it.
            standing_ns=pl.col("standing_ns").slice(1).first(),
            left_ns=pl.col("left_ns").min(),
        )
        .drop_nulls("late_ns")
        .with_columns(late_ns=pl.min_horizontal("late_ns", "standing_ns"))
    )
    last = last.with_columns(_own_late(last, come))
    # They stand still until they leave, whatever they come to meanwhile; where several groups do so at once, it is the
    # last of them to leave that keeps the rank.
    begun_ns = pl.col("left_ns") - pl.col("late_ns")
    ordered = last.sort("left_ns", "come_ns", "match", descending=True)
    free_until_ns = begun_ns.cum_min().shift(1).over("rank").fill_null(pl.col("left_ns"))
    free_ns = pl.min_horizontal("left_ns", free_until_ns) - begun_ns
    return ordered.with_columns(time_ns=free_ns.clip(lower_bound=0)).sort("left_ns", "come_ns", "match")


def _stood_ns(come: pl.DataFrame) -> pl.Series:
    """For how long at most each device stood still until it left: since it came to another collective, or left one.

    Kernels of GPUs come to theirs in queues of their own, whatever their device does.
    """
    came = come.filter(pl.col("queue").is_null()).select("rank", "device", at_ns="arrival_ns")
    went = pl.concat([came, come.select("rank", "device", at_ns="left_ns")]).sort("at_ns")
    left = come.select("rank", "device", "left_ns").with_row_index("place").sort("left_ns")
    since = left.join_asof(
        went.with_columns(since_ns="at_ns"),
        left_on="left_ns",
        right_on="at_ns",
        by=["rank", "device"],
        allow_exact_matches=False,
        check_sortedness=False,
    ).sort("place")
    return since.select(stood_ns=pl.col("left_ns") - pl.col("since_ns")).to_series()


def _own_late(last: pl.DataFrame, come: pl.DataFrame) -> pl.Series:
    """How long others stood still for each last device, without the time in which it stood still for another itself."""
    stood = come.filter(pl.col("standing_ns") > 0).select(
        "rank", "device", start_ns=pl.col("come_ns") - pl.col("standing_ns"), end_ns="come_ns"
    )
    late = last.select("rank", "device", start_ns=pl.col("come_ns") - pl.col("late_ns"), end_ns="come_ns")
    # Each device has a stretch of its own, so that all are looked at at once.
    both = pl.concat([late, stood])
    first_ns = pl.col("start_ns").min()
    stretch = pl.struct("rank", "device").rank("dense").cast(pl.Int64) * (pl.col("end_ns").max() - first_ns + 1)
    placed = both.select(pl.col("start_ns", "end_ns") - first_ns + stretch)
    own_ns: pl.Series = intervals.uncovered_ns(placed.head(late.height), placed.tail(stood.height))
    return own_ns.alias("late_ns")


def _of_rank(computed: pl.DataFrame, late: pl.DataFrame, job: Job, *, go_apart: bool) -> Iterator[Candidate]:
    """The devices of a rank that nearly all of the standing still of its others is for, each by what it computes."""
    by_device = late.group_by("device").agg(pl.col("time_ns").sum()).sort("time_ns", "device", descending=[True, False])
    late_ns, dearest = total(by_device["time_ns"]), by_device.head(_MOST_DEVICES)
    if late_ns <= job.floor_ns or total(dearest["time_ns"]) < NAMED_RATIO * late_ns:
        return
    # What ranks are to a job, devices are to their rank.
    peers = computed.with_columns(row=pl.lit(account.WORK), rank=pl.col("device").cast(pl.Int64))
    kinds = equal_work.by_kind(replace(job, rows=peers, ranks=tuple(peers["rank"].unique().sort())))
    for device, own_late_ns in dearest.filter(pl.col("time_ns") > job.floor_ns).iter_rows():
        if found := _of_device(device, own_late_ns, kinds, late, job, go_apart=go_apart):
            yield found


def _of_device(
    device: int, late_ns: int, kinds: pl.DataFrame, late: pl.DataFrame, job: Job, *, go_apart: bool
) -> Candidate | None:
    """The device, if it computes longer than the others of its rank by enough of what it is late."""
    sums = dict(kinds.group_by("rank").agg(pl.col("time_ns").sum()).iter_rows())
    own_ns = sums.get(device, 0)
    beyond_ns = own_ns - equal_work.lower(pl.Series(list(sums.values()), dtype=pl.Float64))
    if beyond_ns < _EXPLAINED_RATIO * late_ns:
        return None
    mine = late.filter(pl.col("device") == device, pl.col("time_ns") > 0)
    ratio = beyond_ns / max(1.0, own_ns - beyond_ns)
    if not equal_work.is_apart(kinds, (device,), ratio):
        return None
    is_slow = equal_work.is_slow(kinds.filter(rank=device), ratio)
    name, kernel = equal_work.largest(kinds, (device,))
    is_equal = not is_slow and equal_work.is_equal(kinds, (device,))
    worst = mine.sort("time_ns", "come_ns", descending=[True, False]).row(0, named=True)
    share = beyond_ns / max(1, total(mine["time_ns"])) if go_apart else 1.0
    own_clock = mine.select(pl.col("done_ns") + pl.col("clock_offset_ns"), pl.col("time_ns") * share)
    return Candidate(
        SLOW_DEVICE if is_slow else MORE_WORK,
        Change(of_devices={(job.ranks[0], device): [(at, float(ns)) for at, ns in own_clock.iter_rows()]}),
        job.ranks,
        when(mine, "time_ns"),
        None if is_slow else name,
        event_rank=job.ranks[0],
        event_id=worst["event_id"],
        start_ns=worst["come_ns"] + worst["clock_offset_ns"] - worst["time_ns"],
        evidence={
            "time_ns": int(mine["time_ns"].sum()),
            "count": mine.height,
            DEVICE: device,
            "kernel": kernel,
            "time_ratio": round(1 + ratio, 4),
            **({IS_EQUAL: True} if is_equal else {}),
        },
    )
