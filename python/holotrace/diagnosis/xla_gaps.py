"""When devices of XLA had nothing to do, and what the host did meanwhile, by the names of its spans."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import HOST_CALLS, MODULES, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import callers, device_time, host_time, intervals, skew
from holotrace.derive.collectives import BARRIER
from holotrace.derive.compilations import compilations
from holotrace.derive.device_time import DEVICE, ON_HOST
from holotrace.derive.host_activities import (
    BACK_PRESSURE,
    COMPILATION,
    DISPATCH,
    INPUT,
    INPUT_RANGES,
    PROGRAM,
    READ_BACK,
    TRACING,
    UPLOAD,
    WAIT,
)
from holotrace.derive.names import decided
from holotrace.derive.steps import launched_in
from holotrace.diagnosis import classes, lead, open_calls, xla_chains
from holotrace.diagnosis.host_parts import ALLOCATION, PARTS, QUEUED, UNATTRIBUTED

RUNS = MODULES.only("device", "plane", "start_ns", "end_ns", "launch_id", "launch_ns", "step")
OPS = XLA_OPS.only(
    *("event_id", "device", "plane", "stream", "line", "start_ns", "end_ns"),
    *("is_wait", "is_async", "step", "launch_id", "launch_ns"),
)
_BARRIERS = XLA_OPS.only("name", *(column.name for column in OPS.columns))
_TIMES = OPS.only("device", "plane", "line", "start_ns", "end_ns", "is_wait", "is_async")
READS = (OPS, RUNS, _BARRIERS, *callers.READS, *skew.READS)
# Shorter gaps lie between the operations of a program, where no host could help ...
MIN_GAP_NS = 100_000
# ... but for those between two programs, down to what a device needs from one to the next.
_MIN_BETWEEN_NS = 4_000
# Between calls of functions at most so many times their own time is interpreting, and what is said then.
_MOST_BETWEEN, _CALLER = 4, pl.format("code that calls {}", "name")
# What is traced and lowered, to be looked up in a cache.
_FROM_CACHE = "{} (read from the compilation cache)"
# What the program's own code does by its name, whatever is called below it.
_BY_NAME = (classes.CHECKPOINT, classes.EVALUATION, classes.LOGGING, classes.COLLECTION)
# ... all of whose reading back is part of it.
_READING = (classes.CHECKPOINT, classes.EVALUATION)
# A program begins so soon after the last of its inputs is there.
_HANDED_NS = 1_000_000
# How the profiler of JAX begins the name of a Python function.
_FRAME = "$"
_PARTS = tuple(part for part in PARTS if part != ALLOCATION)
# The class of the diagnosis that each part of a gap belongs to.
_CLASSES = {
    COMPILATION: classes.COMPILATION,
    READ_BACK: classes.SYNCHRONIZATION,
    UPLOAD: classes.UPLOAD,
    INPUT: classes.INPUT,
    TRACING: classes.LAUNCH,
    DISPATCH: classes.LAUNCH,
    PROGRAM: classes.LAUNCH,
    BACK_PRESSURE: classes.QUEUED,
    QUEUED: classes.QUEUED,
    WAIT: classes.UNRECORDED,
    UNATTRIBUTED: classes.UNRECORDED,
}


def is_xla(rank: RankTrace) -> bool:
    """Whether the rank's trace is a profile of XLA, whose hosts have names of their own."""
    return bool(rank.count(OPS) or rank.count(RUNS))


def window(rank: RankTrace) -> pl.DataFrame:
    """The time in which gaps are looked for, as of ``device_time.window``."""
    return rank.cached(_window)


def _window(rank: RankTrace) -> pl.DataFrame:
    noted = skew.shifted(device_time.with_programs(rank[_TIMES], rank[RUNS]), rank.cached(skew.shifts))
    return device_time.window(noted, _runs(rank), rank[STEPS])


def is_on_host(rank: RankTrace) -> bool:
    """Whether the rank's devices are threads of its host."""
    return rank[RUNS].height > 0 and bool((rank[RUNS]["plane"].cast(pl.String) == ON_HOST).all())


def of_programs(rank: RankTrace, *, min_gap_ns: int, by_stream: bool, input_ranges: str) -> pl.DataFrame:
    """The gaps of each device, or of each of its queues, the longest first; as ``host_parts.of_gaps`` returns them.

    Besides there are ``plane``, ``idle_ns`` and ``after_ns``, since the rank's window began.
    """
    if (min_gap_ns, by_stream, input_ranges) == (MIN_GAP_NS, False, INPUT_RANGES):
        # Several analyses ask for these.
        return rank.cached(_by_default)
    return _of_programs(rank, min_gap_ns, by_stream=by_stream, input_ranges=input_ranges)


def _by_default(rank: RankTrace) -> pl.DataFrame:
    return _of_programs(rank, MIN_GAP_NS, by_stream=False, input_ranges=INPUT_RANGES)


def _of_programs(rank: RankTrace, min_gap_ns: int, *, by_stream: bool, input_ranges: str) -> pl.DataFrame:
    ops, during = _executions(rank), window(rank)
    if not by_stream:
        ops = ops.with_columns(stream=pl.lit(None, pl.Int64()))
    found = device_time.gaps(ops, during, by=[*DEVICE, "stream"], min_gap_ns=min_gap_ns)
    activities = host_time.activities(rank, input_ranges)
    # The longest are what one looks for.
    explained = _with_parts(found, activities, rank).sort(
        pl.col("end_ns") - pl.col("start_ns"), *DEVICE, "stream", "start_ns", descending=[True, *[False] * 4]
    )
    return explained.select(
        "device",
        pl.col("plane").cast(pl.String()),
        "stream",
        "start_ns",
        "cause",
        *(f"{part}_ns" for part in _PARTS),
        step=pl.coalesce("step", launched_in(explained["end_ns"] - 1, rank[STEPS])),
        after_ns=pl.col("start_ns") - during["start_ns"].first(),
        idle_ns=pl.col("end_ns") - pl.col("start_ns"),
        detail=host_time.details(explained, _named(rank, activities)),
        allocation_ns=pl.lit(0, pl.Int64),
    ).hstack(open_calls.nothing(explained))


def by_class(rank: RankTrace) -> pl.DataFrame:
    """Times in which none of the rank's devices worked, by what kept them; as ``host.gaps`` returns them.

    Besides there is ``since_ns``, since when the host was on its way to the launch that ends each, if that is known.
    """
    activities = _without_saving(host_time.activities(rank, INPUT_RANGES))
    gaps = _interpreted(_with_parts(_idle(rank), activities, rank), activities, rank).with_row_index("window")
    gaps = gaps.join(_begun_by_devices(rank), on="step", how="left", maintain_order="left")
    named = _with_callers(rank, _named(rank, activities))
    known = _explained(gaps, named)
    reads = named.filter(pl.col("tid").is_in(host_time.stepping_threads(rank).implode()), activity=READ_BACK)
    waits = host_time.outermost(reads).select(
        began_ns="start_ns",
        returned_ns="end_ns",
        responsible=pl.col("name").cast(pl.String),
        event_id=pl.lit(None, pl.UInt32),
    )
    # Where devices are threads of the host, what it does beside them is no matter of launching in time.
    ways, launches = gaps.select("window", "start_ns", "end_ns").clear(), rank[RUNS]["launch_ns"].drop_nulls()
    if not is_on_host(rank) and not launches.is_empty():
        own = _own(rank, named)
        ways = xla_chains.begun(gaps, pl.concat([launches, waits["returned_ns"]]), _lasting(own))
        known = xla_chains.laid_to_longest(known, _before(rank, ways, own))
    # What is on its way when the program has been launched is late whatever the host waits for.
    in_time = gaps.filter(pl.col("launch_ns") <= pl.col("start_ns"))["window"].implode()
    is_sent = (pl.col("cause") == classes.UPLOAD) & pl.col("window").is_in(in_time)
    laid = pl.concat([lead.laid_to_waits(known.filter(~is_sent), gaps, waits), known.filter(is_sent)])
    since = laid.join(ways.select("window", since_ns="start_ns"), on="window", how="left", maintain_order="left")
    return since.drop("window").sort("start_ns", "share_ns", "cause", descending=[False, True, False])


def _explained(gaps: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """What the host did in each of the gaps, of which the parts are known: a row for each part."""
    index = ["window", "start_ns", "end_ns", "is_between_calls", "begun_ns"]
    parts = (
        gaps.drop("cause")
        .unpivot([f"{part}_ns" for part in _PARTS], index=index, value_name="share_ns")
        .filter(pl.col("share_ns") > 0)
        .with_columns(cause=pl.col("variable").str.strip_suffix("_ns"))
    )
    telling, others = _telling(named)
    by_name, rest = _by_name(parts, telling, others)
    told = rest.hstack(host_time.told(rest, others))
    # Where graphs are collected, running the program's own code is part of that.
    collects = TRACING in named["activity"]
    is_function = (pl.col("cause") == PROGRAM) & pl.lit(not collects) & (pl.col("share_ns") >= open_calls.LONG_NS)
    is_function &= pl.col("name").is_not_null()
    # What a device takes from one program to the next is less where there are fewer of them.
    is_switch = (pl.col("cause") == QUEUED) & (pl.col("end_ns") - pl.col("start_ns") < MIN_GAP_NS)
    is_caller = is_function & pl.col("is_between_calls") & pl.col("name").str.contains(host_time.BUILT_IN)
    usual = told.with_columns(
        cause=pl.when(is_function)
        .then(pl.lit(classes.FUNCTION))
        .when(is_switch)
        .then(pl.lit(classes.LAUNCH))
        .otherwise(pl.col("cause").replace_strict(_CLASSES)),
        name=pl.when(is_caller).then(_CALLER).otherwise("name"),
    )
    # Starting programs is one cause, whatever is started.
    return pl.concat([by_name, usual]).select(
        *("window", "start_ns", "end_ns", "share_ns", "cause"),
        responsible="name",
        where=pl.lit(None, pl.String),
        event_id=pl.lit(None, pl.UInt32),
        # What is done last in a gap is done for the step that comes next.
        when_ns=pl.coalesce("begun_ns", pl.coalesce("until_ns", "end_ns") - 1),
    )


def _own(rank: RankTrace, named: pl.DataFrame) -> pl.DataFrame:
    """What the threads with the steps did; compilations are told by their programs, whatever thread they go on in."""
    threads = host_time.stepping_threads(rank)
    return named.filter(pl.col("tid").is_in(threads.implode()) | (pl.col("activity") == COMPILATION))


def _lasting(own: pl.DataFrame) -> pl.DataFrame:
    """What takes less than a gap has to last is never what took longest."""
    return own.filter(pl.col("end_ns") - pl.col("start_ns") >= MIN_GAP_NS)


def _before(rank: RankTrace, spans: pl.DataFrame, every: pl.DataFrame) -> pl.DataFrame:
    """What the host did on its way to the launches that end gaps, as ``_explained`` tells it of the gaps."""
    own = _lasting(every)
    parts = host_time.shares(spans, own, host_time.everywhere(own), host_time.stepping_threads(rank))
    # Without code of the program nothing tells of what is not recorded whether it is more than usual.
    is_coded = bool((every["activity"] == PROGRAM).any())
    told = parts.with_columns(
        unattributed_ns=intervals.uncovered_ns(spans, intervals.union(every)) * is_coded,
        queued_ns=pl.lit(0, pl.Int64),
        wait_ns=pl.lit(0, pl.Int64),
        is_between_calls=pl.lit(value=False),
        begun_ns=pl.lit(None, pl.Int64),
        cause=pl.lit(None, pl.String),
    )
    return _explained(told, own)


def _begun_by_devices(rank: RankTrace) -> pl.DataFrame:
    """The steps that begin with a program, and when each does, ``begun_ns``; none where hosts mark them."""
    steps = rank[STEPS].select("step", begun_ns="start_ns")
    return steps if host_time.begin_with_programs(rank) else steps.clear()


def _idle(rank: RankTrace) -> pl.DataFrame:
    """When the rank stood still: all of its devices did, as one that waits for another is busy in a collective.

    So is one that waits at a barrier: what keeps the others from coming is theirs.
    """
    ops, runs, during = _executions(rank), _runs(rank), window(rank)
    met = skew.shifted(rank.where(_BARRIERS, pl.col("name") == BARRIER), rank.cached(skew.shifts))
    busy = pl.concat([ops, runs.filter(pl.col("plane").cast(pl.String) == ON_HOST), met], how="diagonal_relaxed")
    as_one = busy.with_columns(
        device=pl.lit(0, pl.Int64), plane=pl.lit(None, pl.Categorical), stream=pl.lit(0, pl.Int64)
    )
    found = device_time.gaps(as_one, during, by=[*DEVICE, "stream"], min_gap_ns=_MIN_BETWEEN_NS)
    length = pl.col("end_ns") - pl.col("start_ns")
    outside = intervals.uncovered_ns(found, intervals.union(runs))
    is_between = (length == outside) & pl.lit(not runs.is_empty())
    return found.filter((length >= MIN_GAP_NS) | is_between)


def _interpreted(gaps: pl.DataFrame, activities: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The gaps, those full of short calls of functions as code of the program: between these it is interpreted.

    A function that began before the recording did, such as the loop over steps, is not recorded itself.
    """
    own = activities.filter(pl.col("tid").is_in(host_time.stepping_threads(rank).implode()), activity=PROGRAM)
    functions = own.filter(decided(own["name"], lambda name: _FRAME if name.startswith(_FRAME) else None).is_not_null())
    calls = intervals.union(functions)
    called_ns = gaps["end_ns"] - gaps["start_ns"] - intervals.uncovered_ns(gaps, calls)
    first, after = (calls["start_ns"].search_sorted(gaps[end]).cast(pl.Int64) for end in ("start_ns", "end_ns"))
    is_between = (pl.col("unattributed_ns") > 0) & (_MOST_BETWEEN * called_ns >= pl.col("unattributed_ns"))
    # Between two calls it stands still for longer than interpreting takes.
    is_between &= pl.col("unattributed_ns") <= open_calls.LONG_NS * (1 + after - first)
    return gaps.with_columns(is_between_calls=is_between).with_columns(
        program_ns=pl.col("program_ns") + pl.when("is_between_calls").then("unattributed_ns").otherwise(0),
        unattributed_ns=pl.when("is_between_calls").then(0).otherwise("unattributed_ns"),
    )


def _telling(activities: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Code of the program whose name tells what it does, and what goes on outside of it."""
    is_program = activities["activity"] == PROGRAM
    tells = decided(activities["name"], _class_of).is_not_null() & is_program
    telling = activities.filter(tells)
    is_inside = intervals.uncovered_ns(activities, intervals.union(telling)) == 0
    return telling, activities.filter(~(is_inside & is_program))


def _by_name(parts: pl.DataFrame, telling: pl.DataFrame, others: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What code of the program takes whose name tells what it does, and the parts without that."""
    found = parts.hstack(host_time.told(parts, telling))
    # What it waits for in other calls is no time of its own.
    own = intervals.subtract(telling, others.filter(pl.col("activity") != PROGRAM))
    found = found.with_columns(own_ns=pl.col("end_ns") - pl.col("start_ns") - intervals.uncovered_ns(found, own))
    taken = pl.min_horizontal(pl.col("took_ns").fill_null(0), "share_ns", "own_ns")
    rest = parts.with_columns(found.select(share_ns=pl.col("share_ns") - taken))
    told = found.with_columns(share_ns=taken).filter(pl.col("share_ns") > 0).drop("own_ns")
    return told.with_columns(cause=decided(told["name"], _class_of)), rest.filter(pl.col("share_ns") > 0)


def _without_saving(activities: pl.DataFrame) -> pl.DataFrame:
    """The activities without the reading back within code of the program that saves, or evaluates."""
    is_program = activities["activity"] == PROGRAM
    saving = activities.filter(decided(activities["name"], _class_of).is_in(_READING) & is_program)
    is_inside = intervals.uncovered_ns(activities, intervals.union(saving)) == 0
    return activities.filter(~(is_inside & (activities["activity"] == READ_BACK)))


def _class_of(name: str) -> str | None:
    told = classes.named(name)
    return told if told in _BY_NAME else None


def _executions(rank: RankTrace) -> pl.DataFrame:
    """What ran on devices, on the clock of the host; it is most of the memory, and so never kept."""
    ran = device_time.with_programs(rank.where(OPS, device_time.IS_EXECUTED), rank[RUNS])
    return skew.shifted(ran.drop("line", "is_wait", "is_async", "is_program"), rank.cached(skew.shifts))


def _runs(rank: RankTrace) -> pl.DataFrame:
    """The runs of programs, on the clock of the host."""
    return skew.shifted(rank[RUNS], rank.cached(skew.shifts))


def _named(rank: RankTrace, activities: pl.DataFrame) -> pl.DataFrame:
    """The activities, compilations by their programs: those say more than the call that compiled them."""
    name = pl.when("is_cached").then(pl.format(_FROM_CACHE, "module")).otherwise("module")
    programs = rank.cached(_compilations).select(
        "start_ns",
        "end_ns",
        name=name.cast(pl.Categorical),
        activity=pl.lit(COMPILATION),
        tid=pl.lit(""),
    )
    return pl.concat([programs, activities.filter(pl.col("activity") != COMPILATION)], how="diagonal")


def _compilations(rank: RankTrace) -> pl.DataFrame:
    return compilations(host_time.calls(rank))


def _with_callers(rank: RankTrace, activities: pl.DataFrame) -> pl.DataFrame:
    """The activities, reading back by the range and line that asked for it."""
    reads = activities.filter(activity=READ_BACK)
    who = callers.around(rank, reads.select("tid", at_ns="start_ns"))
    named = reads.with_columns(name=pl.coalesce(who.cast(pl.Categorical), "name"))
    return pl.concat([activities.filter(pl.col("activity") != READ_BACK), named])


def _with_parts(found: pl.DataFrame, activities: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The gaps with their parts, seen from the threads that hold the steps or launch what ends each, and the cause."""
    launches = found["launch_id"].unique().implode()
    calls = rank.where(HOST_CALLS.only("event_id", "tid"), pl.col("event_id").is_in(launches))
    threads = calls.select(launch_id="event_id", tid=pl.col("tid").cast(pl.String()))
    stepping = host_time.stepping_threads(rank)
    launched = found.join(threads, on="launch_id", how="left").sort(*DEVICE, "stream", "start_ns")
    anywhere = host_time.everywhere(activities)
    shared = [
        host_time.shares(group, activities, anywhere, pl.concat([stepping, group["tid"].head(1)]))
        for group in [launched.clear(), *launched.partition_by("tid", maintain_order=True)]
    ]
    in_time = (pl.col("launch_ns") <= pl.col("start_ns")).fill_null(False)
    host = [f"{cause}_ns" for cause in _PARTS if cause != QUEUED]
    parts = pl.concat(shared).sort(*DEVICE, "stream", "start_ns")
    return (
        parts.with_columns(_sent_ns(parts, activities))
        .with_columns(pl.when(in_time).then(0).otherwise(pl.col(part)).alias(part) for part in host)
        .with_columns(upload_ns=pl.when(in_time).then("sent_ns").otherwise("upload_ns"))
        .with_columns(queued_ns=pl.col("end_ns") - pl.col("start_ns") - pl.sum_horizontal(host))
        .with_columns(
            cause=pl.concat_list(f"{cause}_ns" for cause in _PARTS)
            .list.arg_max()
            .replace_strict(range(len(_PARTS)), _PARTS, return_dtype=pl.String())
        )
    )


def _sent_ns(gaps: pl.DataFrame, activities: pl.DataFrame) -> pl.Series:
    """How long data was on its way to the device in gaps that end when it is there: programs wait for their inputs."""
    sent = activities.filter(activity=UPLOAD).select("start_ns", "end_ns")
    ended = sent.select(sent_ns="end_ns").sort("sent_ns")
    last = (
        gaps.with_row_index("place")
        .sort("end_ns")
        .join_asof(ended, left_on="end_ns", right_on="sent_ns", check_sortedness=False)
    )
    is_awaited = last.sort("place")["sent_ns"] > gaps["end_ns"] - _HANDED_NS
    under_way = gaps["end_ns"] - gaps["start_ns"] - intervals.uncovered_ns(gaps, intervals.union(sent))
    sent_ns: pl.Series = under_way * is_awaited.fill_null(value=False).cast(pl.Int64)
    return sent_ns.alias("sent_ns")
