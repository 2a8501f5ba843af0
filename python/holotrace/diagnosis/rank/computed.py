"""What devices of a rank computed: between meetings with others, by kernel, and beside its steps."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done, without
from holotrace.core.tables import CPU_OPS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals
from holotrace.derive.names import distinct
from holotrace.diagnosis.rank import kernels
from holotrace.diagnosis.rank.calls import beside_the_step, launched_by_programs
from holotrace.diagnosis.rank.xla import forced as xla_forced
from holotrace.diagnosis.rank.xla import gaps as xla_gaps

OPERATORS = CPU_OPS.only("name", "external", "input_dims")
_BEFORE_TURNS = -1
# Recordings of ranks begin, and end, within so many meetings of each other.
MOST_PIECES = 256


def between_meetings(rank: RankTrace, edges: pl.Series, parts_at: pl.Series) -> pl.DataFrame:
    """How long the device computed between two meetings, by step, and by the parts that ``by_kernel`` tells apart."""
    computing = kernels.computing(rank, "device", "step", "start_ns", "end_ns")
    spans = intervals.subtract(_of_longest(computing), rank.cached(beside_the_steps))
    if spans.is_empty():
        return spans.clear()
    # What comes before or after it, such as of a step that the recording ends in, cannot be compared either.
    ran = kernels.comparable(rank, "start_ns", "end_ns", "step")
    since = pl.max_horizontal("start_ns", pl.lit(ran["start_ns"].min(), pl.Int64))
    until = pl.min_horizontal("end_ns", pl.lit(ran["end_ns"].max(), pl.Int64))
    spans = spans.with_columns(start_ns=since, end_ns=until).filter(pl.col("start_ns") < pl.col("end_ns"))
    if spans.is_empty():
        return spans.clear()
    ends = pl.Series([spans["start_ns"].min(), spans["end_ns"].max()], dtype=pl.Int64)
    bounds = distinct(pl.concat([edges, _bounds_of_steps(ran), ends, _ends_of(rank, parts_at)])).sort()
    computed = intervals.covered_between_ns(spans, bounds)
    return pl.DataFrame({"start_ns": bounds[:-1], "at_ns": _ended(spans, bounds), "time_ns": computed}).with_columns(
        step=_steps_of_work(rank, bounds), count=1
    )


def before_launches(rank: RankTrace, edges: pl.Series) -> pl.DataFrame:
    """The same of what had been launched before the recording, where nothing marks steps.

    Of XLA, whose hosts are ahead by whole steps, it is that also where they are marked, and what devices had begun as
    the recording ended.
    """
    spans = intervals.union(_of_longest(kernels.computing(rank, "device", "step", "start_ns", "end_ns")))
    ran, is_xla = kernels.comparable(rank, "start_ns", "end_ns"), xla_gaps.is_xla(rank)
    if ran.is_empty() or not (is_xla or rank[STEPS].is_empty()):
        return spans.clear()
    since_ns, until_ns = pl.lit(ran["end_ns"].max(), pl.Int64), pl.lit(ran["start_ns"].min(), pl.Int64)
    before = spans.with_columns(pl.min_horizontal("end_ns", until_ns))
    after = spans.with_columns(pl.max_horizontal("start_ns", since_ns)) if is_xla else spans.clear()
    outside = pl.concat([before, after]).filter(pl.col("start_ns") < pl.col("end_ns"))
    if outside.is_empty():
        return outside
    first, last = outside["start_ns"].min(), outside["end_ns"].max()
    ends = pl.Series([first, ran["start_ns"].min(), ran["end_ns"].max(), last], dtype=pl.Int64)
    ends = ends.filter(ends.is_between(first, last))
    is_outside = (edges < ran["start_ns"].min()) | ((edges > ran["end_ns"].max()) & is_xla)
    bounds = distinct(pl.concat([edges.filter(is_outside), ends])).sort()
    computed = intervals.covered_between_ns(outside, bounds)
    return pl.DataFrame({"start_ns": bounds[:-1], "at_ns": _ended(outside, bounds), "time_ns": computed, "count": 1})


def _bounds_of_steps(ran: pl.DataFrame) -> pl.Series:
    """Where a step's work is told from the next one's, also where nobody is met in between.

    A batch may be got ready in one queue while another has work of the step before, which is told from the next step's
    where it ends.
    """
    steps = ran.group_by("step").agg(pl.col("start_ns").min(), pl.col("end_ns").max()).sort("start_ns")
    lasted = steps.filter(pl.col("end_ns") > pl.col("start_ns").shift(-1))["end_ns"]
    return pl.concat([steps["start_ns"], lasted])


def _of_longest(ran: pl.DataFrame) -> pl.DataFrame:
    """The kernels of the device that computes for longest in each step: the others of a rank wait for it."""
    if ran["device"].n_unique() <= 1:
        return ran
    sums = ran.group_by("step", "device").agg(time_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    longest = sums.sort("time_ns", "device", descending=[True, False]).unique("step", maintain_order=True)
    return ran.join(longest, on=["step", "device"], how="semi", nulls_equal=True, maintain_order="left")


def _ended(spans: pl.DataFrame, bounds: pl.Series) -> pl.Series:
    """When computing ended between each two bounds: what the host waits for is over then, and not at the second."""
    last = pl.lit(spans["start_ns"]).search_sorted(pl.col("until_ns")).cast(pl.Int64) - 1
    until = pl.min_horizontal(pl.lit(spans["end_ns"]).gather(last.clip(lower_bound=0)), "until_ns")
    between = pl.DataFrame({"since_ns": bounds[:-1], "until_ns": bounds[1:]})
    return between.select(pl.when(until > pl.col("since_ns")).then(until).otherwise("until_ns")).to_series()


def _steps_of_work(rank: RankTrace, bounds: pl.Series) -> pl.Series:
    """The step that the device worked for most from each of the times to the next, by the kernels that begin there.

    Some of the next step may begin on another queue before the last ones of a step.
    """
    ran = kernels.comparable(rank, "start_ns", "end_ns", "step")
    place = pl.lit(bounds).search_sorted(pl.col("start_ns"), side="right") - 1
    most = done(
        ran.lazy()
        .group_by("step", place=place.cast(pl.Int64))
        .agg(time_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort("time_ns", "step", descending=[True, False])
        .unique("place", keep="first")
        .select("place", "step")
    )
    every = pl.DataFrame({"place": range(len(bounds) - 1)}, schema={"place": pl.Int64})
    # Where none begins, it is for that of the next; what is before the first turn of a recording is a part of one.
    if rank[STEPS].is_empty():
        most = most.with_columns(pl.col("step").fill_null(_BEFORE_TURNS))
    filled_up = every.join(most, on="place", how="left", maintain_order="left")["step"].backward_fill()
    steps: pl.Series = filled_up.replace(_BEFORE_TURNS, None)
    return steps


def _ends_of(rank: RankTrace, parts_at: pl.Series) -> pl.Series:
    """Where nothing marks steps, the parts at both ends of the recording: another may begin or end there.

    Of turns another rank may have recorded too few to tell them.
    """
    if not rank[STEPS].is_empty():
        return parts_at.clear()
    ends: pl.Series = pl.concat([parts_at.head(MOST_PIECES), parts_at.tail(MOST_PIECES)]).unique().sort()
    return ends


def by_kernel(rank: RankTrace, parts_at: pl.Series) -> pl.DataFrame:
    """Kernels by what was launched how: those of equal name, grid, block and shapes do equal work.

    Where nothing marks steps, those of each part at both ends of the recording, which begin at ``parts_at``,
    are apart from others.
    """
    ran = kernels.comparable(rank, "event_id", "device", "name", "start_ns", "end_ns", "step", *kernels.HOW)
    ran = _of_longest(ran).drop("device")
    ends = pl.lit(_ends_of(rank, parts_at))
    ran = ran.with_columns(piece=ends.search_sorted(pl.col("start_ns"), side="right").cast(pl.UInt32))
    beside = rank.cached(beside_the_steps)["event_id"]
    if len(beside):
        ran = ran.filter(~pl.col("event_id").is_in(pl.lit(beside).implode()))
    ran = ran.hstack([kernels.beside_ns(ran, rank)])
    operators = (
        rank[OPERATORS]
        .lazy()
        .join(ran.lazy(), on="external", how="semi")
        .unique("external")
        .select("external", operator="name", dims="input_dims")
    )
    text = [pl.col(name).cast(pl.String).fill_null("") for name in ("grid", "block", "dims")]
    labels = ("name", "grid", "block", "operator", "dims")
    return done(
        ran.lazy()
        .join(operators, on="external", how="left", maintain_order="left")
        .with_columns(time_ns=pl.col("end_ns") - pl.col("start_ns"))
        .select("step", "piece", "start_ns", "event_id", *labels, "beside_ns", "time_ns")
        .group_by("step", "piece", *labels)
        .agg(
            pl.col("time_ns", "beside_ns").sum(),
            pl.col("start_ns", "event_id").min(),
            count=pl.len(),
            beside_count=(pl.col("beside_ns") > 0).sum(),
        )
        # Labels are numbers until there are few of them.
        .with_columns(pl.col("operator").cast(pl.String))
        .sort("step", "piece", "name", "grid", "block", "operator", "dims")
        .select(
            "step",
            *("time_ns", "count", "beside_ns", "beside_count", "start_ns", "event_id", "operator"),
            pl.col("name").cast(pl.String),
            detail=pl.concat_str(text, separator="|"),
        )
    )


def beside_the_steps(rank: RankTrace) -> pl.DataFrame:
    """Kernels that are no work of the step, each with the ``cause`` and the ``name`` of what launched it."""
    ran = kernels.computing(rank, "event_id", "device", "start_ns", "end_ns", "launch_id", "step")
    beside = without(ran, "device", "launch_id").hstack(beside_the_step(rank, ran))
    forced = xla_forced.runs(rank) if xla_gaps.is_xla(rank) else pl.DataFrame()
    if not forced.is_empty():
        launched = launched_by_programs(rank, ran).alias("launch_id").to_frame()
        told = launched.join(forced, on="launch_id", how="left", maintain_order="left")
        beside = beside.with_columns(pl.coalesce(name, told[name]).alias(name) for name in ("cause", "name"))
    return beside.clear() if beside["cause"].null_count() == beside.height else beside.drop_nulls("cause")
