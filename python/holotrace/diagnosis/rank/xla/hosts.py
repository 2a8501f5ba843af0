"""What hosts of XLA did while their devices stood still, by classes of causes, and while these worked."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from holotrace.core.tables import HOST_CALLS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import callers, host_activities, host_time, intervals
from holotrace.derive.host_activities import (
    BACK_PRESSURE,
    COMPILATION,
    DISPATCH,
    FUNCTION,
    INPUT,
    INPUT_RANGES,
    PROGRAM,
    READ_BACK,
    TRACING,
    UPLOAD,
    WAIT,
)
from holotrace.derive.names import decided, distinct
from holotrace.derive.steps import launched_in
from holotrace.diagnosis.rank import lead, open_calls, rounds
from holotrace.diagnosis.rank.calls import around_all
from holotrace.diagnosis.rank.host_parts import QUEUED, UNATTRIBUTED
from holotrace.diagnosis.rank.xla import device_waits as xla_device_waits
from holotrace.diagnosis.rank.xla import first_way as xla_first_way
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.rank.xla import idle as xla_idle
from holotrace.diagnosis.rank.xla import late_launches as xla_late_launches
from holotrace.diagnosis.rank.xla import recording as xla_recording
from holotrace.diagnosis.rank.xla import saving as xla_saving
from holotrace.diagnosis.rank.xla import sent as xla_sent
from holotrace.diagnosis.rank.xla import steps as xla_steps_run
from holotrace.diagnosis.words import classes

# Rows of the account: when a host waited for its devices, and what it did between its launches and waits.
WAITED, SPENT = "waited", "spent"
# Between calls of functions at most so many times their own time is interpreting, and what is said then.
_MOST_BETWEEN, _CALLER = 4, pl.format("code that calls {}", "name")
# Programs of JAX record no code of their own by default: what is not recorded between a wait and a launch is that.
_AHEAD, _AHEAD_UNRECORDED = lead.AHEAD, (*lead.AHEAD, classes.UNRECORDED)
# What the program's own code does by its name, whatever is called below it.
_BY_NAME = (classes.CHECKPOINT, classes.EVALUATION, classes.LOGGING, classes.COLLECTION)
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


# So soon after a program begins its first operation does.
_SOON_NS = 1_000_000
_ClassOf = Callable[[str], "str | None"]
# Names of ranges, without the numbers in them.
_NUMBERS = r"\d+"


class Host(NamedTuple):
    """What the host of a rank did, and for how long devices stood still for it."""

    gaps: pl.DataFrame
    """Times in which none of the rank's devices worked, by what kept them; as ``host.gaps`` returns them.

    Besides there is ``launched_ns``, when what ended each had been launched.
    """
    launches: pl.DataFrame
    """``launched_ns`` of each launch, when the first of the devices began it, and for how long none had worked then.

    The latter are ``begun_ns`` and ``gap_ns``, 0 where it was launched in time.
    """
    waits: pl.DataFrame
    """``began_ns`` and ``returned_ns`` of waits for devices, and ``responsible``, what asked for them.

    Besides there are ``ready_ns``, when what they waited for was over, ``is_early``, whether that was all, and
    ``since_ns``, how long that was after what they could have read instead.
    """
    spent: pl.DataFrame
    """What it did between these, also while devices worked: as ``gaps``."""


def by_class(rank: RankTrace) -> pl.DataFrame:
    """Times in which none of the rank's devices worked, by what kept them."""
    return rank.cached(host).gaps


def ended_by(begun: pl.LazyFrame, gaps: pl.LazyFrame) -> pl.LazyFrame:
    """The gaps, ended by the first device that begins a program; its first operation may begin a little later."""
    found = gaps.sort("end_ns").join_asof(
        begun, left_on="end_ns", right_on="begun_ns", tolerance=_SOON_NS, check_sortedness=False
    )
    is_within = pl.col("begun_ns") > pl.col("start_ns")
    return found.with_columns(end_ns=pl.when(is_within).then("begun_ns").otherwise("end_ns")).drop("begun_ns")


def host(rank: RankTrace) -> Host:
    """What the host did, by classes of causes, and the gaps of the devices."""
    class_of = rank.cached(_class_of)
    every = xla_sent.with_copies(host_time.activities(rank, INPUT_RANGES), rank)
    activities, saving = xla_saving.apart(every, class_of)
    found = xla_gaps.with_parts(xla_idle.times(rank), activities, host_time.everywhere(activities), rank)
    gaps = _interpreted(found, activities, rank).with_row_index("window")
    gaps = gaps.join(_begun_by_devices(rank), on="step", how="left", maintain_order="left")
    named, asked = _with_callers(rank, xla_gaps.named(rank, activities))
    known = _explained(gaps, named, class_of, rank.cached(_seldom))
    reads = asked.filter(pl.col("tid").is_in(pl.lit(host_time.stepping_threads(rank)).implode()))
    waits = host_time.outermost(reads.with_columns(activity=pl.lit(READ_BACK))).select(
        began_ns="start_ns",
        returned_ns="end_ns",
        responsible=pl.col("name").cast(pl.String),
        event_id=pl.lit(None, pl.UInt32),
    )
    waits = xla_device_waits.in_a_row(rank, waits)
    saved = xla_saving.waits(saving, host_time.stepping_threads(rank))
    held = xla_device_waits.held_back(rank, activities, pl.concat([waits, saved], how="diagonal"))
    launches, spent = _launches(rank, gaps), known.clear()
    # Where devices are threads of the host, what it does beside them is no matter of launching in time.
    asked_for = pl.concat([waits, saved], how="diagonal")
    stops = pl.concat([_lasting_launches(rank), xla_device_waits.losing(asked_for)["returned_ns"]])
    unknown = xla_first_way.not_recorded(rank, gaps, asked_for)
    is_unknown = pl.col("window").is_in(pl.lit(unknown["window"]).implode())
    known = xla_first_way.as_unrecorded(known, unknown)
    if not xla_gaps.is_on_host(rank) and not launches.is_empty():
        own = _own(rank, named)
        done_ns = xla_gaps.program_runs(rank)["end_ns"]
        lasting = xla_device_waits.lasting(own)
        ways = xla_late_launches.begun(gaps.filter(~is_unknown), stops, lasting, asked_for, done_ns)
        late = gaps.filter(pl.col("window").is_in(pl.lit(ways["window"]).implode())).select(
            "window", "start_ns", "end_ns"
        )
        stops = pl.concat([own["start_ns"].sort().head(1), launches["launched_ns"]])
        inside, before, spent = _did(rank, own, late, ways, xla_late_launches.between(stops, waits, saved, held))
        known = xla_late_launches.laid_to_longest(xla_late_launches.by_function(known, inside), before)
    known = xla_sent.beside_copies(known, activities, rank)
    # What is on its way when the program has been launched is late whatever the host waits for.
    in_time = gaps.filter(pl.col("launch_ns") <= pl.col("start_ns"))["window"].implode()
    # So is what takes long to send, as input that takes long to load.
    is_late = pl.col("window").is_in(in_time) | (pl.col("share_ns") >= open_calls.LONG_NS)
    is_sent = (pl.col("cause") == classes.UPLOAD) & is_late
    waits = waits.hstack([xla_device_waits.early(rank, waits)])
    # What code that saves or evaluates waits for exposes as much.
    both = pl.concat([waits, saved.hstack([xla_device_waits.early(rank, saved)])], how="diagonal")
    early = both.filter("is_early").with_columns(
        cause=pl.col("saving").fill_null(classes.SYNCHRONIZATION),
        when_ns=pl.when(pl.col("saving").is_not_null()).then(pl.col("returned_ns") - 1),
    )
    # What no launch ends is late for nothing, and threads of the host that are devices would do nothing meanwhile. What
    # has a name is the rest of a wait.
    is_apart = pl.col("window").is_in(gaps.filter(pl.col("launch_ns").is_null())["window"].implode()) | is_unknown
    is_apart |= pl.lit(xla_gaps.is_on_host(rank)) | pl.col("responsible").is_not_null()
    is_kept = is_sent | ((pl.col("cause") == classes.UNRECORDED) & is_apart)
    has_functions = any(name.startswith(FUNCTION) for name in distinct(activities["name"].cast(pl.Categorical)))
    causes = _AHEAD if has_functions else _AHEAD_UNRECORDED
    ahead = lead.laid_to_waits(known.filter(~is_kept), gaps, early, causes=causes)
    laid = pl.concat([ahead, known.filter(is_kept)])
    laid = xla_recording.beyond_the_start(laid, gaps, xla_first_way.begun_before(rank, gaps, asked_for), rank)
    laid, spent = xla_recording.laid_to_functions(laid, gaps, rank), xla_recording.without_functions(spent, rank)
    launched_ns = pl.when(_awaits_inputs()).then("end_ns").otherwise("launch_ns")
    launched = laid.join(gaps.select("window", launched_ns=launched_ns), on="window", how="left", maintain_order="left")
    waited = xla_device_waits.with_ready(rank, pl.concat([waits, saved, held], how="diagonal"), gaps)
    # A launch in which no program was over did not wait for the one before.
    waited = waited.filter(pl.col("responsible").is_not_null() | (pl.col("ready_ns") >= pl.col("began_ns")))
    return Host(_in_order(launched), launches, waited, _in_order(spent))


def _in_order(parts: pl.DataFrame) -> pl.DataFrame:
    return parts.drop("window").sort("start_ns", "share_ns", "cause", descending=[False, True, False])


def _launches(rank: RankTrace, gaps: pl.DataFrame) -> pl.DataFrame:
    runs = xla_gaps.program_runs(rank).drop_nulls("launch_ns")
    if xla_gaps.is_on_host(rank):
        runs = runs.clear()
    calls = rank.where(
        HOST_CALLS.only("event_id", "end_ns"), pl.col("event_id").is_in(pl.lit(runs["launch_id"]).implode())
    )
    runs = runs.join(calls.select(launch_id="event_id", returned_ns="end_ns"), on="launch_id", how="left")
    first = pl.col("start_ns").min()
    # A graph of many kernels begins before the call that launches it is over: until then the host works for it.
    launched_ns = pl.when(pl.col("returned_ns").max() > first).then(first).otherwise(pl.col("launch_ns").first())
    begun = (
        runs.group_by("launch_ns")
        .agg(first_ns=first, begun_ns=first, launched_ns=launched_ns)
        .sort("first_ns", "launch_ns")
    )
    # What is copied to devices before a program, while these have nothing else to do, is launched too late, too.
    ended = xla_gaps.program_runs(rank).select(ended_ns="end_ns").sort("ended_ns")
    # Of what began before the recording only operations tell when it was over.
    stood = gaps.group_by(first_ns="end_ns").agg(
        stood_ns=pl.col("start_ns").min(), sent_ns=pl.col("end_ns").filter(_awaits_inputs()).first()
    )
    known = (
        begun.join_asof(ended, left_on="first_ns", right_on="ended_ns", check_sortedness=False)
        .join(stood, on="first_ns", how="left", maintain_order="left")
        .with_columns(pl.coalesce("ended_ns", "stood_ns"))
    )
    is_late = (pl.col("launch_ns") > pl.col("ended_ns")) | pl.col("sent_ns").is_not_null()
    gap_ns = pl.when(is_late).then(pl.col("begun_ns") - pl.col("ended_ns")).fill_null(0)
    # A recording may begin with nothing launched ahead.
    is_first = (pl.col("ended_ns") <= xla_gaps.window(rank)["start_ns"].min()).fill_null(value=False)
    usual_ns = gap_ns.filter(~is_first).max().fill_null(gap_ns)
    stood_ns = pl.when(is_first).then(pl.min_horizontal(gap_ns, usual_ns)).otherwise(gap_ns)
    return known.select("begun_ns", launched_ns=pl.coalesce("sent_ns", "launched_ns"), gap_ns=stood_ns).sort(
        "launched_ns"
    )


def _awaits_inputs() -> pl.Expr:
    """Which gaps end with what waited for its inputs: it is as late as they are, however early it was launched."""
    return (pl.col("launch_ns") <= pl.col("start_ns")) & (pl.col("upload_ns") > 0)


def _lasting_launches(rank: RankTrace) -> pl.Series:
    """When programs were launched that kept devices busy: hosts are on their way to the next of them."""
    runs = rank[xla_gaps.RUNS].drop_nulls("launch_ns")
    lasting = runs.filter(pl.col("end_ns") - pl.col("start_ns") >= xla_gaps.MIN_GAP_NS)
    return (lasting if lasting.height else runs)["launch_ns"]


def _explained(gaps: pl.DataFrame, named: pl.DataFrame, class_of: _ClassOf, seldom: pl.Series) -> pl.DataFrame:
    """What the host did in each of the gaps, of which the parts are known: a row for each part."""
    index = ["window", "start_ns", "end_ns", "is_between_calls", "begun_ns", "launch_ns", "is_brief"]
    parts = (
        gaps.drop("cause")
        .unpivot([f"{part}_ns" for part in xla_gaps.PARTS], index=index, value_name="share_ns")
        .filter(pl.col("share_ns") > 0)
        .with_columns(cause=pl.col("variable").str.strip_suffix("_ns"))
    )
    telling, others = _telling(named, class_of)
    by_name, rest = _by_name(parts, telling, others, class_of)
    told = rest.hstack(host_time.told(rest, others))
    # Where graphs are collected, running the program's own code is part of that, unless few steps do.
    collects = TRACING in named["activity"]
    is_own = pl.lit(not collects) | pl.col("name").is_in(pl.lit(seldom).implode()).fill_null(value=False)
    is_function = (pl.col("cause") == PROGRAM) & is_own & (pl.col("share_ns") >= open_calls.LONG_NS)
    is_function &= pl.col("name").is_not_null()
    # What a device takes from one program to the next is less where there are fewer of them, and so is what their
    # constants take to be sent.
    is_switch = (pl.col("cause") == QUEUED) & (pl.col("end_ns") - pl.col("start_ns") < xla_gaps.MIN_GAP_NS)
    of_brief = pl.col("cause").is_in((QUEUED, WAIT)) | (
        (pl.col("cause") == UPLOAD) & (pl.col("share_ns") < xla_gaps.MIN_GAP_NS)
    )
    is_switch |= pl.col("is_brief") & of_brief
    is_caller = is_function & pl.col("name").str.contains(host_time.BUILT_IN)
    usual = told.with_columns(
        cause=pl.when(is_function)
        .then(pl.lit(classes.FUNCTION))
        .when(is_switch)
        .then(pl.lit(classes.LAUNCH))
        .otherwise(pl.col("cause").replace_strict(_CLASSES)),
        # What no call of the host sends meanwhile, a device copies.
        name=pl.when(is_caller)
        .then(_CALLER)
        .when(pl.col("cause") == UPLOAD)
        .then(pl.col("name").fill_null(xla_sent.TO_DEVICE))
        .otherwise("name"),
    )
    launched_ns = pl.min_horizontal("end_ns", pl.max_horizontal("start_ns", "launch_ns") + 1)
    # Starting programs is one cause, whatever is started.
    return pl.concat([by_name, usual]).select(
        *("window", "start_ns", "end_ns", "share_ns", "cause"),
        responsible="name",
        where=pl.lit(None, pl.String),
        event_id=pl.lit(None, pl.UInt32),
        # What is done last in a gap is done for the step that comes next, which ends it.
        when_ns=pl.coalesce("begun_ns", pl.coalesce("until_ns", launched_ns) - 1),
    )


def _seldom(rank: RankTrace) -> pl.Series:
    """Names of ranges of the program that are in fewer than half of its steps: a graph is collected in each of them.

    Those that only wait for results are no code that takes time by itself.
    """
    ranges, steps = host_time.ranges(rank), rank[STEPS].height
    ranges = ranges.filter(~xla_device_waits.are_waits(ranges, host_time.activities(rank, INPUT_RANGES)))
    counted = ranges.select(name=pl.col("name").cast(pl.String)).with_columns(
        count=pl.len().over(pl.col("name").str.replace_all(_NUMBERS, ""))
    )
    found: pl.Series = counted.filter(2 * pl.col("count") < steps)["name"].unique()
    return found


def _own(rank: RankTrace, named: pl.DataFrame) -> pl.DataFrame:
    """What the threads with the steps did; compilations are told by their programs, whatever thread they go on in."""
    threads = host_time.stepping_threads(rank)
    own = named.filter(pl.col("tid").is_in(pl.lit(threads).implode()) | (pl.col("activity") == COMPILATION))
    return pl.concat([own, xla_sent.in_launches(named, threads)])


def _did(rank: RankTrace, every: pl.DataFrame, *spans: pl.DataFrame) -> list[pl.DataFrame]:
    """What the host did in each of several sorts of spans, as ``_explained`` tells it of gaps.

    All at once, as each look at what it did takes as long for few spans as for many.
    """
    sort = [pl.lit(place).alias("sort") for place in range(len(spans))]
    both = pl.concat([each.with_columns(sort[place]) for place, each in enumerate(spans)]).with_row_index("span")
    found = _parts(rank, both.select("start_ns", "end_ns", window="span"), every)
    known = found.rename({"window": "span"}).join(
        both.select("span", "window", "sort"), on="span", maintain_order="left"
    )
    return [known.filter(sort=place).select(found.columns) for place in range(len(spans))]


def _parts(rank: RankTrace, spans: pl.DataFrame, every: pl.DataFrame) -> pl.DataFrame:
    own = xla_device_waits.lasting(every)
    spans = xla_late_launches.cut(spans, host_time.outermost(own.filter(activity=PROGRAM)))
    parts = host_time.shares(spans, every, host_time.everywhere(every), host_time.stepping_threads(rank))
    # Without code of the program nothing tells of what is not recorded whether it is more than usual.
    is_coded = bool((every["activity"] == PROGRAM).any())
    told = parts.with_columns(
        unattributed_ns=intervals.uncovered_ns(spans, intervals.union(every)) * is_coded,
        queued_ns=pl.lit(0, pl.Int64),
        wait_ns=pl.lit(0, pl.Int64),
        is_between_calls=pl.lit(value=False),
        is_brief=pl.lit(value=False),
        # What nothing names is done for what is launched as it ends.
        launch_ns="end_ns",
        begun_ns=pl.lit(None, pl.Int64),
        cause=pl.lit(None, pl.String),
    )
    return _explained(told, own, rank.cached(_class_of), rank.cached(_seldom))


def _begun_by_devices(rank: RankTrace) -> pl.DataFrame:
    """The steps that begin with a program, and when each does, ``begun_ns``; none where hosts mark them."""
    steps = rank[STEPS].select("step", begun_ns="start_ns")
    return steps if host_time.begin_with_programs(rank) else steps.clear()


def _interpreted(gaps: pl.DataFrame, activities: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The gaps, those full of short calls of functions as code of the program: between these it is interpreted.

    A function that began before the recording did, such as the loop over steps, is not recorded itself.
    """
    own = activities.filter(pl.col("tid").is_in(pl.lit(host_time.stepping_threads(rank)).implode()), activity=PROGRAM)
    functions = own.filter(
        decided(own["name"], lambda name: FUNCTION if name.startswith(FUNCTION) else None).is_not_null()
    )
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


def _telling(activities: pl.DataFrame, class_of: _ClassOf) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Code of the program whose name tells what it does, and what goes on outside of it."""
    is_program = activities["activity"] == PROGRAM
    tells = decided(activities["name"], class_of).is_not_null() & is_program
    telling = activities.filter(tells)
    is_inside = intervals.uncovered_ns(activities, intervals.union(telling)) == 0
    beside = activities.filter(pl.col("activity").is_in((COMPILATION, INPUT)))
    told = intervals.union(pl.concat([telling, xla_device_waits.lasting(beside)]))
    own_ns = intervals.uncovered_ns(activities, told)
    is_around = is_program & (own_ns > 0) & (own_ns < activities["end_ns"] - activities["start_ns"])
    # What calls it is told by what else that does.
    around = activities.filter(is_around).with_row_index("window")
    pieces = xla_late_launches.cut(around, told).join(
        around.drop("start_ns", "end_ns"), on="window", maintain_order="left"
    )
    pieces = pieces.filter(intervals.uncovered_ns(pieces, told) > 0).select(activities.columns)
    is_outside = ~is_program | ~(is_inside | is_around)
    return telling, pl.concat([activities.filter(is_outside), pieces])


def _by_name(
    parts: pl.DataFrame, telling: pl.DataFrame, others: pl.DataFrame, class_of: _ClassOf
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What code of the program takes whose name tells what it does, and the parts without that."""
    of_classes = _by_class(telling, class_of)
    # The program's own code calls that of libraries.
    outermost = [host_time.outermost(each).select(telling.columns) for each in of_classes.values()]
    first = parts.hstack(host_time.told(parts, pl.concat([telling.clear(), *outermost])))
    first = first.with_columns(cause=decided(first["name"], class_of))
    # What it waits for in other calls is no time of its own.
    waiting = others.filter(pl.col("activity") != PROGRAM).select("start_ns", "end_ns")
    found, rest = [first.clear()], parts
    for cause, of_cause in of_classes.items():
        known = first.with_columns(share_ns=rest["share_ns"]).with_row_index("part").filter(cause=cause)
        found, rest = _taken(found, rest, known, intervals.subtract(of_cause, waiting))
    for cause, of_cause in of_classes.items() if len(of_classes) > 1 else ():
        # What is of another class at another time is told beside it.
        beside = [each.select("start_ns", "end_ns") for other, each in of_classes.items() if other != cause]
        told = rest.hstack(host_time.told(rest, of_cause)).with_columns(cause=pl.lit(cause)).with_row_index("part")
        known = told.filter(first["cause"].ne_missing(pl.Series([cause])), pl.col("name").is_not_null())
        found, rest = _taken(found, rest, known, intervals.subtract(of_cause, pl.concat([waiting, *beside])))
    return pl.concat(found), rest.filter(pl.col("share_ns") > 0)


def _taken(
    found: list[pl.DataFrame], rest: pl.DataFrame, known: pl.DataFrame, own: pl.DataFrame
) -> tuple[list[pl.DataFrame], pl.DataFrame]:
    """What is found, with what of ``known`` parts is in spans of its ``own``, and the rest without that."""
    inside_ns = pl.col("end_ns") - pl.col("start_ns") - intervals.uncovered_ns(known, own)
    told = known.with_columns(share_ns=pl.min_horizontal("share_ns", inside_ns)).filter(pl.col("share_ns") > 0)
    taken = pl.zeros(rest.height, dtype=pl.Int64, eager=True).scatter(told["part"], told["share_ns"])
    return [*found, told.drop("part")], rest.with_columns(pl.col("share_ns") - taken)


def _by_class(telling: pl.DataFrame, class_of: _ClassOf) -> dict[str, pl.DataFrame]:
    marked = telling.with_columns(decided(telling["name"], class_of).alias("cause"))
    return {str(cause): own for (cause,), own in marked.partition_by("cause", as_dict=True).items()}


def _class_of(rank: RankTrace) -> _ClassOf:
    """What tells the class of code of the rank's program that has one by its name."""
    around = rank.cached(around_all)

    def class_of(name: str) -> str | None:
        told = classes.named(name)
        return told if told in _BY_NAME and name not in around else None

    return class_of


def _with_callers(rank: RankTrace, activities: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The activities, and those of them in which the program asked for results, by the range and line that did.

    What other threads do meanwhile, to copy these, is part of that.
    """
    is_asked = host_activities.asks_for_results(activities)
    asked = activities.filter(is_asked)
    is_own = asked["tid"].is_in(host_time.stepping_threads(rank).implode())
    asked = asked.filter(is_own | (intervals.uncovered_ns(asked, intervals.union(asked.filter(is_own))) > 0))
    who = callers.of_reads(rank, asked.select("tid", at_ns="start_ns"))
    named = asked.with_columns(name=pl.coalesce(who.cast(pl.Categorical), "name"))
    return pl.concat([activities.filter(~is_asked), named]), named


def _done_for(when_ns: pl.Series, rank: RankTrace) -> pl.Series:
    """The step that the host did something for: the one that it was in, or of the program that it launched next.

    Where steps begin with programs, hosts that are ahead do what is for the next while devices run one of the last.
    """
    if not host_time.begin_with_programs(rank):
        return launched_in(when_ns, rank.cached(rounds.steps))
    runs = rank[xla_gaps.RUNS].drop_nulls(["launch_ns", "step"]).select("step", when_ns="launch_ns").sort("when_ns")
    done = when_ns.to_frame("when_ns").with_row_index("place").sort("when_ns")
    told = done.join_asof(runs, on="when_ns", strategy="forward", check_sortedness=False)
    step: pl.Series = told.sort("place")["step"]
    return step


def rows(rank: RankTrace, late: str) -> pl.DataFrame:
    """Launches, which are ``late``, waits, what else the host did, and steps of devices, as ``account`` has them."""
    if not xla_gaps.is_xla(rank):
        return pl.DataFrame(schema={"row": pl.String()})
    found = rank.cached(host)
    launched = pl.col("launched_ns")
    parts = {
        late: found.launches.select(launched.alias("start_ns"), at_ns="begun_ns", time_ns="gap_ns", end_ns=launched),
        WAITED: found.waits.select(
            at_ns="returned_ns",
            start_ns="began_ns",
            end_ns="ready_ns",
            time_ns="since_ns",
            name="responsible",
            cause=pl.coalesce("saving", pl.when("is_early").then(pl.lit(classes.SYNCHRONIZATION))),
        ),
        SPENT: found.spent.select("cause", "start_ns", at_ns="end_ns", time_ns="share_ns", name="responsible").hstack(
            [_done_for(found.spent["when_ns"], rank).alias("step")]
        ),
    }
    told = [part.with_columns(row=pl.lit(row), count=1) for row, part in parts.items()]
    return pl.concat([*told, xla_steps_run.rows(rank)], how="diagonal_relaxed")
