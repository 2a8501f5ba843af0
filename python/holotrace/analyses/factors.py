"""What part of a job's time its devices compute, as the product of one factor per reason why they do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Bar
from holotrace.core.schema import Column, Unit
from holotrace.derive import intervals
from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE, MEMORY
from holotrace.graph import job
from holotrace.graph import rank as of_rank
from holotrace.graph.engine import UNCHANGED, Changes
from holotrace.graph.job import TRUSTED_RATIO, JobGraph
from holotrace.graph.stretches import Stretches

# What the smallest factor is to be at least; otherwise it is said.
LEAST_RATIO = 0.9
_SAID = {
    "host_ratio": "devices wait for their hosts",
    "balance_ratio": "devices have unequal work",
    "copy_ratio": "devices copy data with nothing to do beside it",
    "communication_ratio": "communication is not hidden",
}


def _of_ranks(graph: JobGraph) -> pl.DataFrame:
    """Of each rank the time of its steps as recorded, as replayed and without communication, and of its devices.

    Returns rank, recorded_ns, replayed_ns, free_ns, met_count (collectives that met others), compute_ns, busiest_ns (of
    the device that computed longest), worked_ns (of the one that worked longest), and those of ``_without_steps``.
    """
    moved = graph.rows.select("activity", "rank", "kind", "crossing").filter(pl.col("kind") == COMMUNICATION)
    free = Changes(own=moved.select("activity", own_ns=pl.lit(0, pl.Int64)))
    times = graph.step_times([UNCHANGED, free])
    met = moved.group_by("rank").agg(met_count=pl.col("crossing").count())
    replayed = (
        times.filter(pl.col("case") == case).group_by("rank").agg(pl.col("replayed_ns", "recorded_ns").sum())
        for case in (0, 1)
    )
    as_it_was, without = replayed
    computed, worked = _covered(graph, (COMPUTE,)), _covered(graph, (COMPUTE, MEMORY))
    return (
        as_it_was.join(without.select("rank", free_ns="replayed_ns"), on="rank")
        .join(met, on="rank", how="left")
        .join(computed.rename({"covered_ns": "compute_ns", "most_ns": "busiest_ns"}), on="rank")
        .join(worked.select("rank", worked_ns="most_ns"), on="rank")
        .join(_without_steps(graph), on="rank", how="left")
        .with_columns(pl.col("met_count", "before_ns").fill_null(0))
    )


def _without_steps(graph: JobGraph) -> pl.DataFrame:
    """When the devices of each rank began and ended to work, on one clock, and how long it was recorded before that.

    What is recorded around steps is none of them; without steps it is what happened before there was work, once.
    Returns rank, from_ns, until_ns and before_ns; no row with steps.
    """
    whole = graph.told.filter(pl.col("step").is_null())
    times = dict.fromkeys(("from_ns", "until_ns", "before_ns"), pl.Int64())
    if whole.is_empty():
        return pl.DataFrame(schema={"rank": graph.told.schema["rank"], **times})
    lanes = graph.rows.shared["place"].select("rank", "is_device")
    work = graph.rows.own.select("place", "start_ns", "end_ns")
    of_devices = lanes[work["place"]].hstack(work.select("start_ns", "end_ns")).filter("is_device").group_by("rank")
    over_ns = graph.rows["end_ns"][whole["over"] // 2]
    begun = whole.select("rank", begin_ns=over_ns - pl.col("recorded_ns"))
    found = begun.join(of_devices.agg(from_ns=pl.col("start_ns").min(), until_ns=pl.col("end_ns").max()), on="rank")
    before_ns = (pl.col("from_ns") - pl.col("begin_ns")).clip(lower_bound=0)
    return found.select("rank", "from_ns", "until_ns", before_ns=before_ns)


def _covered(graph: JobGraph, kinds: Sequence[str]) -> pl.DataFrame:
    """How long devices of each rank did work of these kinds, on average and at most, from its first step to its last.

    What was launched before the first step counts as far as it runs in that time, as it does in the time of the steps.
    Returns rank, covered_ns and most_ns.
    """
    over_ns = graph.rows["end_ns"][graph.told["over"] // 2]
    spans = (
        graph.told.select("rank", over_ns=over_ns, begin_ns=over_ns - pl.col("recorded_ns"))
        .group_by("rank")
        .agg(pl.col("begin_ns").min(), pl.col("over_ns").max())
    )
    lanes = graph.rows.shared["place"].with_columns(of=pl.struct("rank", "device").rank("dense").cast(pl.UInt32))
    timed = lanes.join(spans, on="rank", how="left", maintain_order="left").select("of", "begin_ns", "over_ns")
    # Of a large job each column takes its time to sort.
    work = graph.rows.own.select("kind", "place", "start_ns", "end_ns").filter(pl.col("kind").is_in(kinds))
    within = (
        timed[work["place"]]
        .hstack(work.select("start_ns", "end_ns"))
        .drop_nulls("begin_ns")
        .select(
            "of",
            start_ns=pl.max_horizontal("start_ns", "begin_ns"),
            end_ns=pl.min_horizontal("end_ns", "over_ns"),
        )
        .sort("start_ns")
    )
    covered = intervals.covered_by_ns(within, ["of"]).join(lanes.select("rank", "of").unique(), on="of")
    devices = lanes.filter("is_device").group_by("rank").agg(device_count=pl.col("device").n_unique())
    return (
        spans.select("rank")
        .join(
            covered.group_by("rank").agg(pl.col("covered_ns").sum(), most_ns=pl.col("covered_ns").max()),
            on="rank",
            how="left",
        )
        .join(devices, on="rank", how="left")
        .select(
            *("rank", pl.col("most_ns").fill_null(0)),
            covered_ns=(pl.col("covered_ns") // pl.col("device_count")).fill_null(0),
        )
        .sort("rank")
    )


@per_job(
    part=of_rank.part,
    part_columns=of_rank.PART,
    joined=Stretches,
    each=_of_ranks,
    columns=(
        Column(
            "job_ns", Unit.NS, "Time of the job: all steps of the rank that takes longest; without steps since work"
        ),
        Column("compute_ns", Unit.NS, "Time in which a device of the rank computed, mean over its devices"),
        Column(
            "host_ratio",
            Unit.RATIO,
            "Longest time any device computed or copied / time of the job if communication took no time",
        ),
        Column("balance_ratio", Unit.RATIO, "Mean compute_ns of the ranks / longest time any device computed"),
        Column(
            "copy_ratio",
            Unit.RATIO,
            "Longest time any device computed / longest time in which a device computed or copied",
        ),
        Column("communication_ratio", Unit.RATIO, "Time of the job if communication took no time / job_ns"),
        Column("efficiency_ratio", Unit.RATIO, "host_ratio * balance_ratio * copy_ratio * communication_ratio"),
    ),
    reads=job.READS,
    chart=Bar(x="rank", y=("compute_ns",), title="Time a device of each rank computed"),
)
def factors(graphs: Stretches) -> pl.DataFrame:
    """What part of a job's time its devices compute, as the product of one factor per reason why they do not.

    The factors are those of POP's multiplicative model: how well hosts keep devices busy, how even the work of
    devices is, and how much of copies and communication is hidden. Their product is the mean computing time divided by
    the time of the job. The job is replayed as if communication took no time, also with ranks that were not recorded.
    A job without steps begins with the first work on a device: what hosts did before that was done once.
    There is no answer if the replay of the unchanged job differs by more than 5%, or if a factor would be more than 1.
    There is no answer either if no two ranks are known to have met: then the ranks are separate recordings, not one
    job; nor if, without steps, the devices of ranks began or ended to work at times that differ by more than that:
    then each rank was recorded doing something else.
    """
    # Without steps there is one graph, else none of these times.
    ends = ("from_ns", "until_ns")
    found = pl.concat(graphs.map(_of_ranks)).group_by("rank").agg(pl.col(ends).first(), pl.exclude(*ends, "rank").sum())
    found = found.sort("rank")
    if found.is_empty():
        return pl.DataFrame(schema=factors.nothing.schema)
    job_ns, replayed_ns, replayed_free_ns, met, worked_ns = found.select(
        pl.col("recorded_ns", "replayed_ns", "free_ns", "met_count", "worked_ns").max()
    ).row(0)
    # All ranks have waited for their first work so long.
    before_ns = found["before_ns"].min() or 0
    job_ns, replayed_ns, replayed_free_ns = (ns - before_ns for ns in (job_ns, replayed_ns, replayed_free_ns))
    # What the replay does not know keeps devices from computing in both cases.
    free_ns = replayed_free_ns + job_ns - replayed_ns
    computed = found.select("rank", "compute_ns")
    most, mean = found.select(most=pl.col("busiest_ns").max(), mean=pl.col("compute_ns").mean()).row(0)
    # Copies may run beside communication, which is no longer in free_ns.
    worked = min(worked_ns, free_ns)
    is_known = job_ns > 0 and abs(replayed_ns / job_ns - 1) <= TRUSTED_RATIO
    is_known = is_known and bool(most) and most <= free_ns <= job_ns
    is_known = is_known and (computed.height == 1 or met > 0)
    apart_ns = found.select(pl.sum_horizontal(pl.col(name).max() - pl.col(name).min() for name in ends)).item()
    is_known = is_known and apart_ns <= TRUSTED_RATIO * job_ns
    names = ("host_ratio", "balance_ratio", "copy_ratio", "communication_ratio", "efficiency_ratio")
    parts = (worked / free_ns, mean / most, most / worked, free_ns / job_ns, mean / job_ns) if is_known else ()
    values = parts or (None,) * len(names)
    return computed.with_columns(
        pl.lit(job_ns, pl.Int64).alias("job_ns"),
        *(pl.lit(value, pl.Float64).alias(name) for name, value in zip(names, values, strict=True)),
    ).select(column.name for column in factors.columns)


# What the job's time is lost to, from what goes first: each is a part of what those before it leave.
_LOST_TO = {
    "communication": "communication_ratio",
    "host": "host_ratio",
    "copies": "copy_ratio",
    "balance": "balance_ratio",
}
COMPUTING = "computing"


def time_ratios(table: pl.DataFrame) -> dict[str, float]:
    """What part of the job's time each factor of the ``table`` takes, and ``computing`` the rest; empty if unknown.

    The parts add up to 1: each is what the job would be shorter by without it and those before it.
    """
    left, parts = 1.0, {}
    for row in table.drop_nulls("efficiency_ratio").head(1).iter_rows(named=True):
        for name, ratio in _LOST_TO.items():
            parts[name] = left * (1 - row[ratio])
            left *= row[ratio]
        parts[COMPUTING] = left
    return parts


@factors.rule
def smallest_factor(table: pl.DataFrame) -> Iterator[Finding]:
    """One of the factors host, balance, copies and communication is below 0.9.

    Each factor is the useful part of the time if only this reason kept devices from computing, so the smallest factor
    is the largest loss.

    Host: fewer and longer launches, fewer synchronisations. Balance: even inputs. Copies: keep on the device
    what is needed again. Communication: start it earlier.
    """
    known = table.head(1).drop_nulls("efficiency_ratio")
    for row in known.to_dicts():
        name = min(_SAID, key=lambda name: float(row[name]))
        if row[name] < LEAST_RATIO:
            values = {"what": _SAID[name], "lost_ratio": 1 - row[name]}
            yield Finding("info", "{what:text}: {lost_ratio:percent} of the time is lost to that", values=values)
