"""What a rank was doing, lane by lane: phases of the host, work of each kind, and why its devices stood still."""

from __future__ import annotations

import polars as pl

from holotrace.analyses.gaps import gaps as gaps_of_xla
from holotrace.core.plans import done
from holotrace.core.tables import DEVICE_EVENTS, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree, host_time
from holotrace.derive.host_activities import INPUT_RANGES
from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE, MEMORY
from holotrace.diagnosis.rank import host
from holotrace.diagnosis.rank.calls import among, host_calls

STEP, HOST, IDLE, COPY = "step", "host", "idle", "copy"
LANES = (STEP, HOST, COMPUTE, COMMUNICATION, COPY, IDLE)
KINDS = {COMPUTE: COMPUTE, COMMUNICATION: COMMUNICATION, MEMORY: COPY}
WORK = DEVICE_EVENTS.only("event_id", "name", "kind", "stream", "start_ns", "end_ns")
READS = (WORK, *host.READS, *gaps_of_xla.reads)
# What the engine of autograd calls has the name of an operator; that it is the backward pass says more.
_BACKWARD = r"^autograd::engine::.*"
_PHASES = ("user_annotation", "cpu_op")
_SPAN = ("start_ns", "end_ns", "name")
# A range that is longer than the longest step by as much holds the whole program, and tells nothing of it.
_WHOLE_RATIO = 1.5


def is_xla(rank: RankTrace) -> bool:
    """Whether the rank's trace is a profile of XLA, whose hosts have names of their own."""
    return not rank[XLA_OPS.only("event_id")].is_empty()


def lanes(rank: RankTrace) -> dict[str, pl.DataFrame]:
    """The spans of each lane but the steps: ``start_ns``, ``end_ns``, ``name`` (a Categorical)."""
    work = rank[WORK]
    of_kinds = {lane: work.filter(pl.col("kind") == kind).select(_SPAN) for kind, lane in KINDS.items()}
    return {HOST: phases(rank), **of_kinds, IDLE: rank.cached(idle).select(_SPAN)}


def phases(rank: RankTrace) -> pl.DataFrame:
    """What the host was at: the outermost of its ranges and operators on each thread."""
    if is_xla(rank):
        spans = host_time.activities(rank, INPUT_RANGES).select("tid", "start_ns", "end_ns", name="activity")
        spans = spans.filter(_is_part(rank))
    else:
        spans = _outermost(rank)
    reached = pl.col("end_ns").cum_max().shift(1).over("tid")
    ordered = spans.lazy().sort("start_ns", "end_ns", descending=[False, True], maintain_order=True)
    outermost = ordered.filter(reached.is_null() | (pl.col("start_ns") >= reached))
    named = pl.col("name").cast(pl.String).str.replace(_BACKWARD, "backward")
    return done(outermost.select("start_ns", "end_ns", named.cast(pl.Categorical)))


def _is_part(rank: RankTrace) -> pl.Expr:
    """Whether a span is not longer than any step."""
    longest = rank[STEPS].select((pl.col("end_ns") - pl.col("start_ns")).max()).item()
    return pl.lit(value=True) if longest is None else pl.col("end_ns") - pl.col("start_ns") <= _WHOLE_RATIO * longest


def _outermost(rank: RankTrace) -> pl.DataFrame:
    """The ranges and operators of the host that are within no other; where calls overlap in part, also some more."""
    calls = rank.cached(host_calls)
    if calls.is_empty():
        return host_time.ranges(rank).select("tid", "start_ns", "end_ns", "name").filter(_is_part(rank))
    marked = rank[STEPS]
    is_step = pl.col("event_id").is_in(pl.lit(marked["event_id"]).implode()) & pl.col("start_ns").is_in(
        pl.lit(marked["start_ns"]).implode()
    )
    is_phase = among(calls["category"], _PHASES) & calls.select(_is_part(rank) & ~is_step).to_series()
    around = call_tree.outermost(calls, is_phase.fill_null(value=False))
    return calls.select("tid", "start_ns", "end_ns", "name").filter(
        (around == calls["event_id"]).fill_null(value=False)
    )


def idle(rank: RankTrace) -> pl.DataFrame:
    """Times in which the devices had nothing to do, each with its largest cause, ``cause``, and that's ``share_ns``."""
    if is_xla(rank):
        found = gaps_of_xla.source(rank).select(
            "start_ns",
            "cause",
            end_ns=pl.col("start_ns") + pl.col("idle_ns"),
            responsible="detail",
            share_ns="idle_ns",
        )
    else:
        found = rank.cached(host.gaps)
    # Devices that have nothing to do from one time on, for as long, may have causes of their own.
    ordered = found.lazy().sort("share_ns", "cause", "responsible", descending=[True, False, False])
    of_each = ordered.unique("start_ns", keep="first", maintain_order=True)
    said = pl.concat_str("cause", pl.coalesce(pl.lit(": ") + pl.col("responsible"), pl.lit("")))
    name = said.cast(pl.Categorical)
    return done(of_each.select("start_ns", "end_ns", "cause", "share_ns", name=name).sort("start_ns", "end_ns"))
