"""Many small kernels in a row, which a host takes far longer to launch than its device to compute."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals, optimizer_ranges
from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE
from holotrace.derive.steps import launched_in
from holotrace.diagnosis.rank import device_waits, host, open_calls, recording, recovered, rounds
from holotrace.diagnosis.rank.calls import contexts, host_calls
from holotrace.diagnosis.words.classes import QUEUED, RECORDING, is_container

# A kernel is small if its device has done it in so much of the time until the next one is launched. So many in a row
# are worth a graph, or one kernel.
_SMALL_RATIO, _MANY = 0.5, 24
# A kernel that takes no longer does next to nothing: it takes as long as any kernel does.
_TINY_NS = 5_000
# The cause of time in which the device is busy with one such kernel over and over.
REPEATED = "repeated"
# Functions around kernels that are looked at, from the inside out.
_LEVELS = 16
_MOST = 512
_SCHEMA = {
    **dict.fromkeys(("cause", "responsible"), pl.String()),
    **dict.fromkeys(("start_ns", "end_ns", "share_ns"), pl.Int64()),
    "event_id": pl.UInt32(),
}


def chains(rank: RankTrace) -> pl.DataFrame:
    """Small kernels that one thread launches in a row, without waiting: a graph of them would take one launch.

    Returns ``began_ns`` and ``returned_ns``, when the first and the last were launched, ``first_ns`` and ``last_ns``,
    when they began, ``event_id`` of the first's launch, ``count``, ``is_repeated``, whether they are one tiny kernel
    over and over, and ``responsible``, the innermost call around all, or of these the operator that launches each.
    """
    found = _in_a_row(rank)
    if found.is_empty():
        return found.with_columns(responsible=pl.lit(None, pl.String))
    waits = rank.cached(host.of_launching_threads)["returned_ns"].sort()
    is_awaited = waits.search_sorted(found["began_ns"]) < waits.search_sorted(found["returned_ns"])
    found = found.filter(~is_awaited)
    # Compiling and evaluating, for example, are told by themselves.
    telling = pl.Series([*contexts(rank, found["event_id"])], dtype=found.schema["event_id"])
    found = found.filter(~pl.col("event_id").is_in(pl.lit(telling).implode()))
    found = found.hstack([_around(found, rank)])
    return found.top_k(_MOST, by=pl.col("returned_ns") - pl.col("began_ns")).sort("began_ns")


def rows(rank: RankTrace) -> pl.DataFrame:
    """Parts of gaps that would be gone if each of the ``chains`` took one launch, with the ``cause`` of each gap.

    These are the gaps between its kernels, and what the host would have hidden of later ones: it would have been
    further ahead until it waits for its device again. Of one kernel over and over it is all the time between the first
    and the last of them, with ``REPEATED`` as the cause of what is no gap. Other columns as of ``recovered.rows``.
    """
    found = rank.cached(chains)
    parts = rank.cached(host.gaps).select("cause", "start_ns", "end_ns", "share_ns").sort("end_ns")
    spans = found.select("first_ns", "last_ns", "responsible", "event_id")
    known = parts.join_asof(
        spans, left_on="end_ns", right_on="first_ns", allow_exact_matches=False, check_sortedness=False
    )
    is_within = (pl.col("end_ns") <= pl.col("last_ns")).fill_null(value=False)
    # Between them hosts do nothing else, whatever that is laid to.
    within = known.filter(is_within, ~pl.col("cause").is_in((QUEUED, RECORDING)))
    others = known.filter(~is_within, pl.col("cause").is_in((*recovered.LATE, *recovered.STANDING)))
    launching = found.select(start_ns="began_ns", end_ns="returned_ns")
    own = found.with_columns(won_ns=intervals.uncovered_ns(launching, rank.cached(host.of_all_devices).found))
    if rank.cached(recording.dense).height:
        own = own.with_columns((pl.col("won_ns") * (1 - recording.PART)).cast(pl.Int64))
    # What frees memory waits, too.
    waits = (rank.cached(host.of_launching_threads), device_waits.freeing(rank))
    again = pl.concat([frame["returned_ns"] for frame in waits]).sort()
    later = recovered.hidden(own, others, again).rename({"kind": "cause"})
    told = later.join(found.select("event_id", "responsible"), on="event_id", maintain_order="left")
    return pl.concat([frame.select(*_SCHEMA) for frame in (within, _repeated(found, known.filter(is_within)), told)])


def _repeated(found: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The time of chains of one kernel over and over, but for the ``gaps`` between them that are told anyway."""
    told = gaps.filter(pl.col("cause") != QUEUED).group_by("event_id").agg(told_ns=pl.col("share_ns").sum())
    known = found.filter("is_repeated").join(told, on="event_id", how="left", maintain_order="left")
    took_ns = pl.col("last_ns") - pl.col("first_ns") - pl.col("told_ns").fill_null(0)
    return known.select(
        *(pl.lit(REPEATED).alias("cause"), "responsible", pl.col("first_ns").alias("start_ns")),
        *(pl.col("last_ns").alias("end_ns"), took_ns.alias("share_ns"), "event_id"),
    ).filter(pl.col("share_ns") > 0)


def launching(rank: RankTrace) -> pl.DataFrame:
    """How long the host takes to launch each of the ``chains``, ``time_ns`` since ``start_ns``; some REPEATED."""
    found = rank.cached(chains)
    return found.select(
        "count",
        "event_id",
        step=launched_in(found["began_ns"], rank.cached(rounds.steps)),
        at_ns="returned_ns",
        start_ns="began_ns",
        time_ns=pl.col("returned_ns") - pl.col("began_ns"),
        name="responsible",
        cause=pl.when("is_repeated").then(pl.lit(REPEATED)),
    )


def _in_a_row(rank: RankTrace) -> pl.DataFrame:
    events = rank[host.WORK_EVENTS]
    columns = ["kind", "name", "device", "stream", "start_ns", "end_ns", "launch_ns", "launch_id"]
    is_launched = pl.col("launch_ns").is_not_null() & (pl.col("kind") != COMMUNICATION)
    work = done(events[columns].lazy().filter(is_launched).sort("launch_ns"))
    took_ns, until_next_ns = pl.col("end_ns") - pl.col("start_ns"), pl.col("launch_ns").diff().shift(-1)
    is_computed = (pl.col("kind") == COMPUTE) & (until_next_ns < open_calls.LONG_LAUNCH_NS)
    is_small = is_computed & (took_ns < _SMALL_RATIO * until_next_ns)
    # One kernel over and over is a chain by itself, whatever small ones come before it and after.
    is_tiny = is_computed & (took_ns <= _TINY_NS)
    alike = work.select(small=is_small, tiny=is_tiny, same=pl.struct("name", "device", "stream", is_tiny).rle_id())
    is_repeated = pl.col("tiny") & (pl.len().over("same") >= _MANY)
    run = pl.struct(is_small=pl.col("small") | is_repeated, repeated=pl.when(is_repeated).then("same")).rle()
    every = alike.lazy().select(run=run)
    every = every.unnest("run").unnest("value")
    runs = done(
        every.with_columns(begin=pl.col("len").cum_sum() - pl.col("len"), end=pl.col("len").cum_sum() - 1).filter(
            "is_small", pl.col("len") >= _MANY
        )
    )
    first, last = (work[runs[name]] for name in ("begin", "end"))
    found: pl.DataFrame = first.select(
        began_ns="launch_ns",
        returned_ns=last["launch_ns"],
        first_ns="start_ns",
        last_ns=last["start_ns"],
        event_id="launch_id",
        count=runs["len"].cast(pl.Int64),
        is_repeated=runs["repeated"].is_not_null(),
    )
    return found


def _around(found: pl.DataFrame, rank: RankTrace) -> pl.Series:
    """The innermost call around each of the chains, ``responsible``; null if that is no more than the step.

    What an optimizer launches is its, whichever of its functions does so, but for what its closure does. Nothing else
    being around one kernel over and over, it is the operator that launches it.
    """
    calls = rank.cached(host_calls)
    ids = found["event_id"]
    names: list[pl.DataFrame] = []
    for _ in range(_LEVELS):
        level = open_calls.looked_up(calls, ids, "name", "end_ns", "parent_id")
        is_around = pl.Series(level["end_ns"] > found["returned_ns"])
        names.append(level.select(pl.when(is_around).then(pl.col("name").cast(pl.String)).alias(str(len(names)))))
        ids = level["parent_id"]
    around = pl.concat(names, how="horizontal")
    in_closure = [optimizer_ranges.in_closure(rank, around[name], found["began_ns"]) for name in around.columns]
    around = around.with_columns(pl.when(~inside).then(inside.name) for inside in in_closure)
    optimizers = (pl.when(pl.col(name).str.starts_with(optimizer_ranges.PREFIX)).then(name) for name in around.columns)
    inner = around.select(pl.coalesce(*optimizers, pl.all())).to_series()
    told = pl.Series([None if name and is_container(name) else name for name in inner], dtype=pl.String)
    launch = open_calls.looked_up(calls, found["event_id"], "parent_id")["parent_id"]
    operator = open_calls.looked_up(calls, launch, "name")["name"].cast(pl.String)
    of_one = pl.when(found["is_repeated"] & operator.is_not_null()).then(operator)
    return pl.select(responsible=pl.coalesce(told, of_one)).to_series()
