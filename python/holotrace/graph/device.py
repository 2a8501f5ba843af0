"""What the queues of devices did, and what it and the host's calls waited for."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import SYNC, WORK
from holotrace.derive.step_graph import GraphRules
from holotrace.derive.unrecorded_waits import of_work
from holotrace.graph.engine import end_of, start_of

EVENTS_READ = DEVICE_EVENTS.only(
    *("event_id", "name", "kind", "device", "stream", "start_ns", "end_ns"),
    *("launch_id", "launch_ns", "wait_on_stream", "wait_on_record"),
)
READS = (EVENTS_READ,)
RULES = GraphRules()

# Where a queue tells nothing: from work to work, and from a launch to its work.
_TURN_NS, _LAUNCH_NS = 1_000, 4_000
# What takes at most so many times as long as usual is the queue's own.
_USUAL = 2
# From work to work of another queue, and until a call returns after its work; what takes longer is a delay.
_HANDED_NS, _RETURN_NS = 10_000, 100_000
# A call that takes longer than so much waited.
_WAITED_NS = 20_000
# So many works under way are a full queue, if launches wait for room so often.
_FULL, _FULL_TIMES = 256, 3
_NO_WAITS = pl.Schema(
    {
        "after": pl.UInt32(),
        "lag_ns": pl.Int64(),
        "activity": pl.UInt32(),
        "own_ns": pl.Int64(),
        "is_inferred": pl.Boolean(),
    }
)
_NO_PAIRS = pl.Schema({"after_id": pl.UInt32(), "holds_id": pl.UInt32()})


def works(rank: RankTrace) -> pl.DataFrame:
    """Kernels and copies in the order of their queues, with what their queue did before and when it was free."""
    found = rank[EVENTS_READ].filter(pl.col("kind").is_in(WORK)).with_columns(pl.col("device").fill_null(0))
    queue = pl.struct("device", "stream").rank("dense").cast(pl.UInt32)
    return (
        found.with_columns(queue=queue, name=pl.col("name").cast(pl.String))
        .sort("queue", "start_ns", "event_id")
        .with_row_index("activity")
        .with_columns(before_ns=pl.col("end_ns").shift(1).over("queue"))
    )


def syncs(rank: RankTrace) -> pl.DataFrame:
    """Synchronisations as the profiler recorded them."""
    return rank[EVENTS_READ].filter(pl.col("kind") == SYNC).with_columns(pl.col("name").cast(pl.String))


def queue_edges(work: pl.DataFrame) -> pl.DataFrame:
    """Work waits for the work before it in its queue."""
    gap = pl.col("start_ns") - pl.col("before_ns")
    waited = (pl.col("launch_ns") + _LAUNCH_NS < pl.col("before_ns")).fill_null(False)
    is_turn = waited & gap.is_between(0, _WAITED_NS)
    usual = pl.when(is_turn).then(gap).median().over("queue").fill_null(_TURN_NS)
    lag = pl.when(gap <= _USUAL * usual).then(gap).otherwise(usual.cast(pl.Int64))
    return (
        work.with_columns(lag_ns=lag.cast(pl.Int64))
        .filter(pl.col("before_ns").is_not_null())
        .select(
            from_point=end_of(pl.col("activity") - 1),
            to_point=start_of(pl.col("activity")),
            lag_ns="lag_ns",
            is_inferred=pl.lit(False),
        )
    )


def launch_edges(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Work waits for its launch, at least for as long as that takes at its quickest.

    Args:
        work: As of ``works``, ``activity`` numbered as in the whole graph.
        calls: As of ``host.Host``.
    """
    launched = work.join(
        calls.select("event_id", call_ns="start_ns", call_name="name", call="activity"),
        left_on="launch_id",
        right_on="event_id",
    )
    took = pl.col("start_ns") - pl.col("call_ns")
    is_prompt = (pl.col("before_ns") <= pl.col("call_ns")).fill_null(True) & took.is_between(0, _WAITED_NS)
    of_call = pl.when(is_prompt).then(took)
    usual = of_call.median().over("call_name").fill_null(_LAUNCH_NS)
    least = of_call.quantile(0.1).over("call_name").fill_null(_LAUNCH_NS)
    lag = pl.when(is_prompt & (took <= _USUAL * usual)).then(took).otherwise(pl.min_horizontal(least, took))
    return launched.select(
        from_point=start_of(pl.col("call")),
        to_point=start_of(pl.col("activity")),
        lag_ns=lag.cast(pl.Int64),
        is_inferred=pl.lit(False),
    )


def event_edges(work: pl.DataFrame, recorded: pl.DataFrame, called: pl.DataFrame) -> pl.DataFrame:
    """Work waits for work of another queue.

    Args:
        work: As of ``works``.
        recorded: after_id, holds_id: what the profiler recorded.
        called: The same, told by the order of calls.
    """
    inferred = [called.select(after_id="after_id", held_id="holds_id")]
    if recorded.is_empty():
        inferred.append(of_work(work).select("after_id", "held_id"))
    known = recorded.select("after_id", held_id="holds_id").drop_nulls().with_columns(is_inferred=pl.lit(False))
    pairs = pl.concat([known, *(frame.with_columns(is_inferred=pl.lit(True)) for frame in inferred)])
    held = work.select(held_id="event_id", held="activity", held_ns="start_ns", held_queue="queue")
    after = work.select(after_id="event_id", after="activity", after_ns="end_ns", after_queue="queue")
    gap = pl.col("held_ns") - pl.col("after_ns")
    return (
        pairs.unique(["after_id", "held_id"], keep="first", maintain_order=True)
        .join(held, on="held_id")
        .join(after, on="after_id")
        # What began before it was over did not wait for it, whatever the calls say.
        .filter(gap >= 0, pl.col("held_queue") != pl.col("after_queue"))
        .select(
            from_point=end_of(pl.col("after")),
            to_point=start_of(pl.col("held")),
            lag_ns=pl.when(gap <= _HANDED_NS).then(gap).otherwise(_TURN_NS),
            is_inferred="is_inferred",
        )
    )


def called_waits(calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """What waits for what by the order of calls: after_id, holds_id.

    A call that makes a queue wait for an event holds up what its thread launches next; the event is the one that was
    recorded last behind work of another queue.
    """
    name = pl.col("name").cast(pl.String)
    waits = calls.filter(name.str.contains("StreamWaitEvent", literal=True)).sort("start_ns")
    if waits.is_empty():
        return _NO_PAIRS.to_frame()
    launched = work.join(calls.select("thread", launch_id="event_id", call_ns="start_ns"), on="launch_id").sort(
        "call_ns", "event_id"
    )
    records = calls.filter(name.is_in(list(RULES.recording))).sort("start_ns")
    recorded = records.join_asof(
        launched.select("thread", "call_ns", "queue", after_id="event_id"),
        left_on="start_ns",
        right_on="call_ns",
        by="thread",
        check_sortedness=False,
    ).select(record_ns="start_ns", record_queue="queue", after_id="after_id")
    held = (
        waits.join_asof(
            launched.select("thread", "call_ns", "queue", holds_id="event_id"),
            left_on="start_ns",
            right_on="call_ns",
            by="thread",
            strategy="forward",
            check_sortedness=False,
        )
        .select("start_ns", "queue", "holds_id")
        .drop_nulls()
    )
    queues = recorded["record_queue"].drop_nulls().unique()
    # For each queue that is held up, the last record of any other queue.
    pairs = [
        held.filter(pl.col("queue") == queue).join_asof(
            recorded.drop_nulls().filter(pl.col("record_queue") != queue),
            left_on="start_ns",
            right_on="record_ns",
            check_sortedness=False,
        )
        for queue in held["queue"].unique().sort()
        if len(queues)
    ]
    return pl.concat([_NO_PAIRS.to_frame(), *(pair.select("after_id", "holds_id").drop_nulls() for pair in pairs)])


def call_waits(calls: pl.DataFrame, work: pl.DataFrame, recorded: pl.DataFrame) -> pl.DataFrame:
    """Which calls waited for which work: call (an activity), after (an activity), lag_ns, own_ns, is_inferred.

    ``own_ns`` is what the call takes when it need not wait, where it did wait.

    Args:
        calls: As of ``host.Host``.
        work: As of ``works``.
        recorded: call_id, after_id: what the profiler recorded.
    """
    ends = work.select("event_id", "launch_ns", "launch_id", after="activity", after_ns="end_ns")
    of_own = calls.join(ends, left_on="event_id", right_on="launch_id").filter(pl.col("after_ns") <= pl.col("end_ns"))
    known = calls.join(recorded.drop_nulls(), left_on="event_id", right_on="call_id").join(
        ends.rename({"event_id": "after_id"}), on="after_id"
    )
    name = pl.col("name").cast(pl.String)
    can_wait = name.is_in(list(RULES.waiting)) & ~name.str.contains("Async|Query") | name.str.contains("Free$")
    rest = calls.filter(can_wait).join(
        pl.concat([of_own["event_id"], known["event_id"]]).to_frame(), on="event_id", how="anti"
    )
    # Whatever it waited for, it was over when the call returned, and launched before it began.
    last = rest.sort("end_ns").join_asof(
        ends.drop("event_id", "launch_id").sort("after_ns"),
        left_on="end_ns",
        right_on="after_ns",
        check_sortedness=False,
    )
    last = last.filter(pl.col("launch_ns") <= pl.col("start_ns"))
    columns = ["event_id", "name", "start_ns", "end_ns", "activity", "after", "after_ns"]
    found = pl.concat(
        [
            of_own.select(*columns, is_inferred=pl.lit(False)),
            known.select(*columns, is_inferred=pl.lit(False)),
            last.select(*columns, is_inferred=pl.lit(True)),
        ]
    ).filter(pl.col("after_ns") <= pl.col("end_ns"))
    waited = pl.col("after_ns") > pl.col("start_ns")
    took = pl.col("end_ns") - pl.col("after_ns")
    # What a call takes that need not wait, also where all calls of its name did: at most what is left of it then.
    lasted = pl.col("end_ns") - pl.col("start_ns")
    left = found.select("name", left_ns=pl.min_horizontal(took, lasted))
    ever = pl.concat([calls.select("name", left_ns=lasted), left])
    least = ever.group_by("name").agg(least_ns=pl.col("left_ns").min())
    return (
        found.join(least, on="name")
        .with_columns(
            lag_ns=pl.when(took <= _RETURN_NS).then(took).otherwise(0),
            own_ns=pl.when(waited & (took <= _RETURN_NS)).then(
                pl.min_horizontal("least_ns", pl.col("end_ns") - pl.col("start_ns"))
            ),
        )
        # A call that returned long after the work did not wait for that.
        .filter(took <= _RETURN_NS)
        .select("activity", "after", "lag_ns", "own_ns", "is_inferred")
    )


def full_queue(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Launches that waited for room in a queue: as of ``call_waits``, for the start of ``after``.

    How much a queue holds is the most that was ever under way in it, if launches often waited when so much was.
    """
    took = pl.col("call_end") - pl.col("call_ns")
    lasted = pl.col("end_ns") - pl.col("start_ns")
    waiting = calls.filter(lasted > _WAITED_NS)["event_id"]
    slow_count = work["launch_id"].is_in(waiting.implode()).sum() if work.height > _FULL else 0
    if slow_count < _FULL_TIMES:
        return _NO_WAITS.to_frame()
    launched = (
        work.join(
            calls.select(
                *("thread", "activity", "name"), launch_id="event_id", call_ns="start_ns", call_end="end_ns"
            ).rename({"activity": "call", "name": "call_name"}),
            on="launch_id",
        )
        .sort("queue", "call_ns", "activity")
        .with_columns(number=pl.int_range(pl.len(), dtype=pl.Int64).over("queue"))
    )
    started = launched.select("queue", "start_ns", begun="number").sort("start_ns")
    under_way = launched.sort("call_ns", maintain_order=True).join_asof(
        started, left_on="call_ns", right_on="start_ns", by="queue", check_sortedness=False, suffix="_before"
    )
    depth = pl.col("number") - pl.col("begun").fill_null(-1)
    slow = under_way.with_columns(depth=depth, usual_ns=took.median().over("call_name")).filter(
        depth >= _FULL, took > _WAITED_NS
    )
    limit = slow.select("queue", "depth").group_by("queue").agg(limit=pl.col("depth").median(), times=pl.len())
    full = slow.join(limit.filter(pl.col("times") >= _FULL_TIMES), on="queue").filter(
        (pl.col("depth") - pl.col("limit")).abs() <= 0.02 * pl.col("limit")
    )
    room = launched.select("queue", "number", after="activity", room_ns="start_ns")
    return (
        full.with_columns(number=pl.col("number") - pl.col("limit").cast(pl.Int64))
        .join(room, on=["queue", "number"])
        .with_columns(lag_ns=(pl.col("call_end") - pl.col("room_ns")).clip(0, _RETURN_NS))
        .filter(pl.col("room_ns").is_between(pl.col("call_ns"), pl.col("call_end")))
        .select(
            "after",
            "lag_ns",
            activity="call",
            own_ns=pl.col("usual_ns").cast(pl.Int64),
            is_inferred=pl.lit(True),
        )
    )
