"""The graph of a job: those of its ranks, joined where they meet, to be replayed as it was or with changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import RLock

import polars as pl

from holotrace.core.on_demand import Rows
from holotrace.core.plans import constant
from holotrace.core.schema import empty
from holotrace.core.tables import RANK
from holotrace.core.trace import JobTrace, RankTrace
from holotrace.derive.kernel_kinds import COMMUNICATION
from holotrace.graph import meetings
from holotrace.graph import rank as of_rank
from holotrace.graph.engine import ACTIVITIES, UNCHANGED, Changes, Replay
from holotrace.graph.steps import only

READS = of_rank.READS
PART = (RANK, *of_rank.PART)
# Where the model is further than this from what was recorded, no gain is claimed by it.
TRUSTED_RATIO = 0.05

# The kind of the moment at which a step is over.
STEP = "step"
_POINT = pl.UInt32
_COLUMNS = (
    *("activity", "rank", "lane", "is_device", "device", "stream", "name", "kind", "start_ns", "end_ns", "own_ns"),
    *("step", "event_id", "crossing", "group", "group_ranks", "operation", "element_count"),
)


@dataclass(frozen=True)
class Counts:
    """What the trace lacks and what of the graph is a guess, in numbers."""

    # Collectives and messages whose other ranks are not there, or that could not be matched: they are cut.
    cut_count: int
    met_count: int
    # Kernels and copies whose launch was not recorded.
    unlaunched_count: int
    # Edges that are told by times or the order of calls only.
    inferred_count: int
    # Edges left out as they would close a circle, with negative lags, and contradicted by recorded times.
    circular_count: int
    negative_count: int
    contradicted_count: int
    # Ranks without collectives that tell their clock, though others have some.
    unclocked_count: int


@dataclass(frozen=True)
class Stretch:
    """What is known of the whole job where the graph is that of some of its steps."""

    # The first step of which something is told.
    first: int
    # As the attributes of the graph.
    began_ns: int | None
    sets: pl.DataFrame


class JobGraph:
    """What every lane of every rank did, what it waited for, and when all would happen with changes.

    Times are nanoseconds since 1970 (or the files' own 0) on the clock of the median rank. A lane is a thread of a host
    or a queue of a device. Points are twice the number of an activity for its start and one more for its end.

    Of a large job it may be that of a stretch of its steps, with the step before it; see ``Stretches``.

    Attributes:
        activities: A row per activity, in the order of numbers: activity, rank, lane, is_device, device, stream, name,
            kind (host, data_loading, compute, communication or memory; step for the moment when a step is over),
            start_ns, end_ns, own_ns (what it takes when all that it waits for is over; of a collective from when its
            last rank has come), step, event_id, crossing (the number of its collective, null for others), group,
            group_ranks, operation, element_count.
        rows: The same, without what many activities share: whoever needs some columns asks for those only.
        edges: A row per edge: from_point, to_point, lag_ns, is_inferred.
        steps: A row per rank and step, by rank and time: rank, step (null where a rank has none and is looked at as a
            whole), begin and over (points), recorded_ns. A step is over when the host is done and all that it launched
            has ended; it lasts from when the one before was over, the first from its begin on the host.
        told: The steps of which something is told.
        began_ns: When the first activity of the job began; null where there is none.
        sets: The lowest of the ranks that each meets, also by others: rank, first_rank.
    """

    def __init__(
        self,
        rows: Rows,
        edges: pl.DataFrame,
        steps: pl.DataFrame,
        unclocked: int = 0,
        stretch: Stretch | None = None,
    ) -> None:
        self.rows = rows
        self.edges = edges
        self.steps = steps
        self._unclocked = unclocked
        self._stretch = stretch
        # Held while something is made that several ask for: the replayer, and what path.of found.
        self.lock = RLock()
        self.recorded_path: Rows | None = None
        self._replayer: Replay | None = None

    @classmethod
    def of(cls, job: JobTrace, step: int | None = None, *, has_queries: bool = False) -> JobGraph:
        """The graph of all that was recorded of a job, or of what its hosts did and launched in one step.

        Calls that only ask the runtime for something it knows are time of the span around them, unless it
        ``has_queries``.
        """
        made = whole_numbered_part if has_queries else numbered_part
        return cls.from_parts(pl.concat([empty(PART), *job.compared(made, READS)]), step)

    @classmethod
    def from_parts(cls, rows: pl.DataFrame, step: int | None = None) -> JobGraph:
        """The graph of a job from the rows of all ranks (``PART``)."""
        kinds = of_rank.unpacked(rows.sort("rank", maintain_order=True))
        if step is not None:
            kept = (kinds[of_rank.ACTIVITY]["step"] == step).fill_null(value=False)
            kinds = only(kinds, kept, pl.col("step") == step)
        met, offsets = meetings.met(kinds[of_rank.COLLECTIVE])
        kinds = with_meetings(kinds, met)
        return joined(kinds, offsets)

    @property
    def activities(self) -> pl.DataFrame:
        """All columns of all activities."""
        return self.rows.select(*_COLUMNS)

    @property
    def ranks(self) -> pl.Series:
        """The ranks that did anything, in order."""
        ranks: pl.Series = self.rows.shared["place"]["rank"].drop_nulls().unique().sort()
        return ranks

    @property
    def is_whole(self) -> bool:
        """Whether it is of all steps of the job."""
        return self._stretch is None

    def tells(self, step: pl.Expr) -> pl.Expr:
        """Whether something is told of a step."""
        return pl.lit(value=True) if self._stretch is None else step >= self._stretch.first

    @property
    def is_told(self) -> pl.Series:
        """Whether something is told of each activity: what is in no step is told of with the last that had begun."""
        if self._stretch is None:
            return pl.repeat(value=True, n=self.rows.own.height, eager=True)
        begun = self.told.select("rank", first_ns=self.rows["start_ns"][self.told["begin"] // 2])
        first = _of_ranks(self.rows["rank"], begun.group_by("rank").agg(pl.col("first_ns").min()))
        at = self.rows.select("step", "start_ns")
        told: pl.Series = at.select(told=pl.coalesce(self.tells(pl.col("step")), pl.col("start_ns") >= first))["told"]
        return told

    @cached_property
    def told(self) -> pl.DataFrame:
        return self.steps.filter(self.tells(pl.col("step")))

    @cached_property
    def began_ns(self) -> int | None:
        began: int | None = self.rows.own.select(pl.col("start_ns").min()).item()
        return began if self._stretch is None else self._stretch.began_ns

    @cached_property
    def sets(self) -> pl.DataFrame:
        if self._stretch is not None:
            return self._stretch.sets
        return meetings.sets(self.ranks, self.rows.select("rank", "crossing").drop_nulls("crossing"))

    @property
    def replayer(self) -> Replay:
        """The graph in the core, to be replayed."""
        with self.lock:
            if self._replayer is None:
                self._replayer = Replay(self.rows.select(*ACTIVITIES), self.edges)
            return self._replayer

    @cached_property
    def counts(self) -> Counts:
        """What the trace lacks and what is a guess."""
        is_met = pl.col("crossing").is_not_null()
        activities = self.rows.select("activity", "kind", "is_device", "crossing")
        met, cut = activities.select(met=is_met.sum(), cut=((pl.col("kind") == COMMUNICATION) & ~is_met).sum()).row(0)
        work = activities.filter("is_device")
        starts = self.edges.join(self._of_host, left_on="from_point", right_on="point", how="semi")
        launched = starts.select(activity=pl.col("to_point") // 2).unique()
        return Counts(
            cut_count=int(cut),
            met_count=int(met),
            unlaunched_count=work.join(launched, on="activity", how="anti").height,
            inferred_count=int(self.edges["is_inferred"].sum()),
            circular_count=self.replayer.circular_count,
            negative_count=self.replayer.negative_count,
            contradicted_count=self.replayer.contradicted_count,
            unclocked_count=self._unclocked,
        )

    @property
    def _of_host(self) -> pl.DataFrame:
        """Starts of activities of the host."""
        activities = self.rows.select("activity", "is_device")
        return activities.filter(~pl.col("is_device")).select(point=(pl.col("activity") * 2).cast(_POINT))

    def replay(self, changes: Changes = UNCHANGED, *, has_delays: bool = False) -> pl.DataFrame:
        """When each activity starts and ends: start_ns, end_ns, in the order of ``activities``.

        Args:
            changes: Own times and lags that are other.
            has_delays: Keep what no edge explains of when things happened; unchanged, all is as recorded then.
        """
        return self.replayer.times(changes, has_delays=has_delays)

    def step_times(self, cases: Sequence[Changes] = (UNCHANGED,), *, has_delays: bool = False) -> pl.DataFrame:
        """How long each step takes on each rank in each case: case, rank, step, recorded_ns, replayed_ns.

        One pass serves eight cases. A step lasts from its begin to its end on the rank's host.

        Args:
            cases: What is other in each.
            has_delays: Whether what no edge explains of when things happened is kept.
        """
        return self._steps_of(self.replayer.cases(cases, self._ends_of_steps, has_delays=has_delays))

    def mixed_step_times(self, activities: pl.DataFrame, cases: Sequence[Sequence[int]]) -> pl.DataFrame:
        """The same for cases in which each activity takes one of two times; see ``Replay.mixed``."""
        return self._steps_of(self.replayer.mixed(activities, cases, self._ends_of_steps))

    @property
    def _ends_of_steps(self) -> pl.Series:
        return pl.concat([self.steps["begin"], self.steps["over"]])

    def _steps_of(self, times: pl.DataFrame) -> pl.DataFrame:
        """How long steps take, from the times of their ends in each case."""
        count = self.steps.height
        placed = times.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64).over("case"))
        begun = placed.filter(pl.col("place") < count).rename({"time_ns": "begin_ns"})
        over = placed.filter(pl.col("place") >= count).select("case", pl.col("place") - count, over_ns="time_ns")
        steps = self.steps.select("rank", "step", "recorded_ns").with_row_index("place").cast({"place": pl.Int64})
        last = pl.col("over_ns").cum_max()
        over_ns, before = (of.over("case", "rank", order_by="place") for of in (last, last.shift(1)))
        since = pl.coalesce(before, "begin_ns")
        return (
            begun.join(over, on=["case", "place"], maintain_order="left")
            .join(steps, on="place", maintain_order="left")
            .select("case", "rank", "step", "recorded_ns", replayed_ns=over_ns - since)
            .filter(self.tells(pl.col("step")))
        )


def numbered_part(rank: RankTrace) -> pl.DataFrame:
    """The graph of one rank as rows of ``PART``."""
    return _numbered(of_rank.part(rank), rank)


def whole_numbered_part(rank: RankTrace) -> pl.DataFrame:
    """The same with an activity for each call that only asks."""
    return _numbered(of_rank.whole_part(rank), rank)


def _numbered(rows: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    return rows.select(pl.lit(rank.rank, pl.Int32).alias("rank"), *rows.columns)


def with_meetings(kinds: Mapping[str, pl.DataFrame], met: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The rows of ranks, with the meeting of each collective and how long it moved data (``meetings.met``)."""
    calls = kinds[of_rank.COLLECTIVE].join(met, on=["rank", "activity"], how="left", maintain_order="left")
    return {**kinds, of_rank.COLLECTIVE: calls}


def joined(kinds: dict[str, pl.DataFrame], offsets: pl.DataFrame, stretch: Stretch | None = None) -> JobGraph:
    """The graph of a job from the rows of all ranks.

    Args:
        kinds: Rows with meetings, by rank; they are taken out of it.
        offsets: How far the clock of each rank is ahead: rank, offset_ns.
        stretch: What of the job they are; by default all.
    """
    # Each is let go as soon as nobody needs it: they are most of the memory.
    found, edges, calls = kinds.pop(of_rank.ACTIVITY), kinds.pop(of_rank.EDGE), kinds.pop(of_rank.COLLECTIVE)
    sizes = found.group_by("rank").agg(size=pl.len()).sort("rank")
    first = sizes.select("rank", first=(pl.col("size").cum_sum() - pl.col("size")).cast(pl.Int64))
    edges = _moved(edges, first).drop("rank")
    marks = _moved(kinds[of_rank.STEP], first).select("rank", "step", begin="from_point", end="to_point")
    rows = _rows(found, kinds[of_rank.LANE], _calls(calls, first), offsets)
    del found
    rows, edges, steps = _with_steps(rows, edges, marks)
    unclocked = max(sizes.height - offsets.height, 0) if calls.height and sizes.height > 1 else 0
    return JobGraph(rows, edges, steps, unclocked, stretch)


def _moved(frame: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """The frame with the numbers that points have in the job."""
    if first.height > 1:
        # A join of all columns would copy them.
        frame = frame.with_columns(pl.col("from_point", "to_point") + 2 * _of_ranks(frame["rank"], first))
    return frame.with_columns(pl.col("from_point", "to_point").cast(_POINT))


def _with_steps(rows: Rows, edges: pl.DataFrame, marks: pl.DataFrame) -> tuple[Rows, pl.DataFrame, pl.DataFrame]:
    """The graph with a moment at which each step is over, and the steps."""
    point = pl.col("activity") * 2
    activities = rows.select("activity", "rank", "lane", "is_device", "start_ns", "end_ns", "step")
    stepless = activities.join(marks, on="rank", how="anti")
    whole = (
        stepless.group_by("rank")
        .agg(begin=point.sort_by("start_ns").first(), end=(point + 1).sort_by("end_ns").last())
        .join(_kept_waiting(stepless, edges), on="rank", how="left")
        .with_columns(begin=pl.coalesce("first_work", "begin"))
        .select("rank", pl.lit(None, pl.Int64).alias("step"), *(pl.col(end).cast(_POINT) for end in ("begin", "end")))
    )
    at = activities.select("activity", "start_ns", "end_ns")
    begun = pl.concat([marks.select("rank", "step", "begin", "end"), whole])
    begun = _timed(_timed(begun, at, "begin"), at, "end").sort("rank", "begin_ns")
    begun = begun.with_row_index("number").with_columns(over=(pl.col("number") + activities.height).cast(_POINT))
    is_whole = pl.col("rank").is_in(pl.lit(whole["rank"]).implode())
    last = (
        activities.select(
            *("rank", "lane", "activity", "end_ns", "start_ns", "is_device"),
            pl.when(~is_whole).then("step").alias("step"),
        )
        .filter(pl.col("is_device") | is_whole)
        .group_by("rank", "step", "lane")
        .agg(pl.col("activity", "end_ns").sort_by("start_ns").last())
        .join(begun.select("rank", "step", "over"), on=["rank", "step"], nulls_equal=True)
    )
    last = last.filter(pl.col("step").is_not_null() | is_whole)
    ends = pl.concat(
        [
            begun.select("rank", "over", "end", "end_ns"),
            last.select("rank", "over", (point + 1).cast(_POINT).alias("end"), "end_ns"),
        ]
    )
    over_ns = ends.group_by("over").agg(over_ns=pl.col("end_ns").max())
    begun = begun.join(over_ns, on="over", maintain_order="left")
    # What a step launched may run on when that of the next is done, whose step takes no time then.
    over = pl.col("over_ns").cum_max().over("rank")
    since = pl.coalesce(pl.col("over_ns").cum_max().shift(1).over("rank"), "begin_ns")
    places = begun.select("rank").unique(maintain_order=True).with_columns(pl.lit(False).alias("is_device"))
    known = rows.shared["place"]
    numbers = places.select("rank", place=pl.int_range(pl.len(), dtype=_POINT) + known.height)
    moments = begun.join(numbers, on="rank", maintain_order="left").select(
        "place",
        "step",
        activity="over",
        kind=pl.lit(STEP, pl.Categorical),
        start_ns="over_ns",
        end_ns="over_ns",
        own_ns=pl.lit(0, pl.Int64),
    )
    reached = ends.select(from_point="end", to_point=pl.col("over") * 2, lag_ns=pl.lit(0), is_inferred=pl.lit(False))
    steps = begun.select("rank", "step", "begin", over=(pl.col("over") * 2 + 1).cast(_POINT), recorded_ns=over - since)
    shared = {**rows.shared, "place": pl.concat([known, places], how="diagonal")}
    return Rows(_appended(rows.own, moments), shared), _appended(edges, reached), steps


def _appended(frame: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """The rows of both, each column in one piece, which the core can share; column after column, as they are large."""
    missing = [pl.lit(None).alias(name) for name in frame.columns if name not in more.columns]
    last = more.with_columns(missing).select(pl.col(name).cast(dtype) for name, dtype in frame.schema.items())
    both = zip(frame.get_columns(), last.get_columns(), strict=True)
    return pl.DataFrame([pl.concat([column, end]).rechunk() for column, end in both])


def _kept_waiting(activities: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
    """The start of the first work of ranks whose devices were busy before with what was not recorded: rank, first_work.

    What hosts did meanwhile is no part of what was recorded.
    """
    works = activities.filter("is_device").sort("start_ns").unique("rank", keep="first", maintain_order=True)
    # Only the wait for unrecorded work is one for the end of a host's activity.
    first = works.select("rank", first_work=pl.col("activity") * 2)
    of_hosts = activities.filter(~pl.col("is_device")).select(from_point=pl.col("activity") * 2 + 1)
    waits = edges.filter("is_inferred").join(of_hosts, on="from_point", how="semi")
    return first.join(waits, left_on="first_work", right_on="to_point", how="semi")


def _timed(frame: pl.DataFrame, at: pl.DataFrame, name: str) -> pl.DataFrame:
    """The frame with the time of the points in a column."""
    times = at.rename({"activity": "of"})
    is_end = pl.col(name) % 2 == 1
    return (
        frame.with_columns(of=(pl.col(name) // 2).cast(_POINT))
        .join(times, on="of", maintain_order="left")
        .with_columns(pl.when(is_end).then("end_ns").otherwise("start_ns").alias(f"{name}_ns_of"))
        .drop("of", "start_ns", *(["end_ns"]))
        .rename({f"{name}_ns_of": f"{name}_ns"})
    )


def _calls(calls: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """Collectives and messages by activity: crossing, moved_ns, group, group_ranks, operation, element_count."""
    return calls.join(first, on="rank", maintain_order="left").select(
        (pl.col("activity") + pl.col("first")).cast(_POINT),
        pl.col("match").cast(_POINT).alias("crossing"),
        *("moved_ns", "group", "group_ranks", "operation", "element_count"),
    )


def _rows(found: pl.DataFrame, lanes: pl.DataFrame, calls: pl.DataFrame, offsets: pl.DataFrame) -> Rows:
    """Activities by rank, without what those of a lane and few calls share; on the clock of the median rank."""
    counts = lanes.group_by("rank").agg(count=pl.col("lane").max().cast(pl.Int64) + 1).sort("rank")
    before = counts.select("rank", before=pl.col("count").cum_sum() - pl.col("count"))
    place = (found["lane"] + _of_ranks(found["rank"], before)).cast(_POINT).alias("place")
    known = lanes.with_columns(place=(lanes["lane"] + _of_ranks(lanes["rank"], before)).cast(_POINT))
    numbers = pl.int_range(int(counts["count"].sum()), dtype=_POINT, eager=True).alias("place").to_frame()
    moved = calls.drop_nulls("moved_ns")
    call = constant("call", None, found.height, _POINT())
    offset = _of_ranks(found["rank"], offsets).fill_null(0)
    own = pl.DataFrame(
        [
            pl.int_range(found.height, dtype=_POINT, eager=True).alias("activity"),
            place,
            *found["name", "kind"],
            found["start_ns"] - offset,
            found["end_ns"] - offset,
            found["own_ns"].clone().scatter(moved["activity"], moved["moved_ns"]),
            *found["step", "event_id"],
            call.scatter(calls["activity"], pl.int_range(calls.height, dtype=_POINT, eager=True)),
        ]
    )
    shared = {"place": numbers.join(known, on="place", how="left", maintain_order="left").drop("place")}
    return Rows(own, {**shared, "call": calls.drop("activity", "moved_ns")})


def _of_ranks(ranks: pl.Series, of_rank: pl.DataFrame) -> pl.Series:
    """For each of the ranks what the second column tells of it."""
    if of_rank.height == 1 and ranks.n_unique() == 1 and of_rank["rank"][0] == ranks[0]:
        value: pl.Series = of_rank.to_series(1).new_from_index(0, len(ranks))
        return value
    return ranks.to_frame().join(of_rank, on="rank", how="left", maintain_order="left").to_series(1)
