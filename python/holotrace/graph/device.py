"""What the queues of devices did, and what it and the host's calls waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import columns, constant, done, not_null
from holotrace.core.tables import DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import unrecorded_waits
from holotrace.derive.kernel_kinds import IS_WORK, SYNC
from holotrace.derive.names import distinct
from holotrace.derive.step_graph import GraphRules
from holotrace.graph.host import Host

EVENTS_READ = DEVICE_EVENTS.only(
    *("event_id", "name", "kind", "device", "stream", "start_ns", "end_ns"),
    *("launch_id", "launch_ns", "step", "wait_on_stream", "wait_on_record"),
)
READS = (EVENTS_READ,)
RULES = GraphRules()

# What is usual, in ns and works; the core says what each is for.
USUAL = {
    "turn_ns": 1_000,
    "launch_ns": 4_000,
    "handed_ns": 10_000,
    "returned_ns": 100_000,
    "waited_ns": unrecorded_waits.WAITED_NS,
    "full_count": 256,
    "full_times": 3,
}
# What calls are to the core: they return when work is over, mark how far a queue is, or make one wait for a mark.
_WAITS, _RECORDS, _HOLDS = 1, 2, 4
_NOBODY, _UNKNOWN = 2**32 - 1, -(2**63)


def works(rank: RankTrace) -> pl.DataFrame:
    """Kernels and copies in the order of their queues."""
    found = rank[EVENTS_READ].lazy().filter(IS_WORK).with_columns(pl.col("device").fill_null(0))
    queue = pl.struct("device", "stream").rank("dense").cast(pl.UInt32)
    return done(found.with_columns(queue=queue).sort("queue", "start_ns", "event_id").with_row_index("activity"))


def waits(work: pl.DataFrame) -> pl.DataFrame:
    """Works of which the second waited for the first, as their times tell: after_id, waits_id."""
    return columns(unrecorded_waits.of_work(work), "after_id", waits_id="held_id")


def syncs(rank: RankTrace) -> pl.DataFrame:
    """Synchronisations as the profiler recorded them."""
    found = rank[EVENTS_READ].filter(pl.col("kind") == SYNC)
    return found.with_columns(found["name"].cast(pl.String))


def joined(
    work: pl.DataFrame,
    on_host: Host,
    held: pl.DataFrame,
    times: pl.DataFrame,
    returned: pl.DataFrame,
    *,
    usual: Mapping[str, int],
    can_wait: Callable[[str], bool],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What waits for what, and what takes less time where it need not wait.

    Returns all edges by to_point and from_point: from_point, to_point, lag_ns, is_inferred; and of activities of calls
    that waited for a device what they take by themselves: activity, own_ns.

    Args:
        work: As of ``works``; its activities come after those of the host.
        on_host: The host's part of the graph, with its edges.
        held: after_id, waits_id: works of which the second waited for the first, as the profiler recorded.
        times: after_id, waits_id: the same as their times tell.
        returned: after_id, waits_id: the same for calls that waited for works.
        usual: What is usual, in ns and works.
        can_wait: Whether calls of a name return when work is over.
    """
    of_work = work.select(
        *("event_id", "device", "queue", "start_ns", "end_ns"),
        pl.col("launch_id").fill_null(_NOBODY),
        pl.col("launch_ns").fill_null(_UNKNOWN),
    )
    calls = on_host.calls
    of_calls = calls.select(
        *("event_id", "thread", "start_ns", "end_ns", "activity"),
        name=pl.col("name").to_physical().fill_null(_NOBODY).cast(pl.UInt32),
        traits=_traits(calls["name"], can_wait),
    )
    edges, own = native.device_graph(
        *(of_work, of_calls, held, times, returned, on_host.edges), first=on_host.activities.height, usual=dict(usual)
    )
    return pl.DataFrame(edges), pl.DataFrame(own)


def _traits(names: pl.Series, can_wait: Callable[[str], bool]) -> pl.Series:
    known = not_null(distinct(names))
    codes, traits = known.to_physical(), [_trait(name, waits=can_wait(name)) for name in known]
    if not any(traits):
        return constant("traits", 0, len(names), pl.UInt8())
    found: pl.Series = names.to_physical().replace_strict(codes, traits, default=0, return_dtype=pl.UInt8())
    return found


def can_wait(name: str) -> bool:
    """Whether a call of CUDA's, HIP's or another vendor's runtime returns when work is over."""
    return (name in RULES.waiting and not ("Async" in name or "Query" in name)) or name.endswith("Free")


def _trait(name: str, *, waits: bool) -> int:
    return (
        (_WAITS if waits else 0)
        | (_RECORDS if name in RULES.recording else 0)
        | (_HOLDS if "StreamWaitEvent" in name else 0)
    )
