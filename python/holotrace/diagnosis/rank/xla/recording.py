"""What recording costs hosts of XLA, and what devices wait for only as it begins."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import HOST_CALLS, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import device_time, host_time
from holotrace.derive.host_activities import FUNCTION
from holotrace.derive.names import distinct
from holotrace.diagnosis.rank import lead, recording
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.words import classes

_CALLS = HOST_CALLS.only("name", "tid", "start_ns")
_OPS = XLA_OPS.only("device", "line", "is_async", "step", "end_ns", "self_ns")
READS = (_OPS,)
# What writing down takes of a function, and of an operation, which has two events, as measured: docs/decisions/0019.
_FUNCTION_NS, OPERATION_NS = 500, 700
# What hosts do for each step, so that they are ahead of devices with it where these have more to do.
_AHEAD_ANYWAY = (classes.INPUT, classes.FUNCTION, classes.LAUNCH, classes.UPLOAD, classes.UNRECORDED, classes.LOGGING)
_LAUNCHING = (classes.LAUNCH, classes.UPLOAD)
# With one step nothing tells what is usual.
_SEVERAL = 2
# No more of what a device does is the recording's.
_MOST_RATIO = 0.9


def beyond_the_start(
    parts: pl.DataFrame, gaps: pl.DataFrame, begun_before: pl.DataFrame, rank: RankTrace
) -> pl.DataFrame:
    """The parts of gaps, those of the first no longer than they are in any other.

    A recording may begin with nothing launched ahead, so that devices wait for what their hosts do anyway; what
    hosts compile, save and evaluate they do where they are told. Nor does it tell why hosts that were on their way to a
    launch before it were not ahead: launching takes as long in every step.

    Args:
        parts: As of ``late_launches.laid_to_longest``.
        gaps: ``window`` and ``start_ns``.
        begun_before: Those of them whose hosts were on their way before the recording.
        rank: The rank.
    """
    idle = gaps.filter(pl.col("start_ns") <= xla_gaps.window(rank)["start_ns"].min())
    # Of what GPUs had been given before that nothing is recorded.
    is_told = rank[STEPS].height >= _SEVERAL or xla_gaps.are_on_gpus(rank[xla_gaps.RUNS])
    idle = idle if is_told else idle.clear()
    is_idle, is_begun = (pl.col("window").is_in(pl.lit(each["window"]).implode()) for each in (idle, begun_before))
    is_ahead = (is_idle & pl.col("cause").is_in(_AHEAD_ANYWAY)) | (is_begun & pl.col("cause").is_in(_LAUNCHING))
    later_ns = pl.col("share_ns").filter(~(is_idle | is_begun)).max().over("cause", "responsible").fill_null(0)
    usual_ns = pl.when(is_ahead).then(pl.min_horizontal("share_ns", later_ns)).otherwise("share_ns")
    return parts.with_columns(share_ns=usual_ns).filter(pl.col("share_ns") > 0)


def laid_to_functions(shares: pl.DataFrame, gaps: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """Lays what the host did in gaps to the recording, as far as writing down functions took its time.

    Args:
        shares: As of ``lead.laid_to_recording_by_itself``.
        gaps: ``window``, ``start_ns`` and ``end_ns``.
        rank: The rank.
    """
    if recording.measured_step_ns(rank) is not None:
        return shares
    taken_ns = _functions_ns(gaps, rank) / recording.PART
    dense = (taken_ns / (gaps["end_ns"] - gaps["start_ns"])).clip(upper_bound=1.0)
    ratios = gaps.select("window", dense.alias("dense_ratio"))
    return lead.laid_to_recording_by_itself(shares, ratios, recording.PART)


def without_functions(parts: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """What hosts do, ``share_ns`` of each between its start and end, without what writing down functions took of it."""
    if recording.measured_step_ns(rank) is not None or parts.is_empty():
        return parts
    taken_ns = _functions_ns(parts, rank).alias("taken_ns")
    most_ns = recording.PART * pl.col("share_ns")
    own_ns = pl.col("share_ns") - pl.min_horizontal(taken_ns, most_ns).round().cast(pl.Int64)
    return parts.with_columns(share_ns=own_ns)


def _functions_ns(spans: pl.DataFrame, rank: RankTrace) -> pl.Series:
    """How long writing down the functions took that began within each of the spans."""
    begun = rank.cached(_functions)
    first, after = (begun.search_sorted(spans[end]).cast(pl.Int64) for end in ("start_ns", "end_ns"))
    taken_ns: pl.Series = _FUNCTION_NS * (after - first)
    return taken_ns


def _functions(rank: RankTrace) -> pl.Series:
    """When functions in Python began on the threads with the steps."""
    names = distinct(rank[_CALLS.only("name")]["name"])
    functions = names.filter(names.cast(pl.String).str.starts_with(FUNCTION))
    calls = rank.where(_CALLS, pl.col("name").is_in(pl.lit(functions).implode()))
    threads = pl.lit(host_time.stepping_threads(rank)).implode()
    begun: pl.Series = calls.filter(pl.col("tid").cast(pl.String).is_in(threads))["start_ns"].sort()
    return begun


def of_operations(rank: RankTrace) -> pl.DataFrame:
    """What writing down operations takes of the device that has most of them: by step ``time_ns`` and ``at_ns``."""
    if not xla_gaps.is_on_host(rank) or recording.measured_step_ns(rank) is not None:
        return pl.DataFrame(schema=dict.fromkeys(("step", "at_ns", "time_ns", "count"), pl.Int64))
    sums = rank.summed(
        _OPS,
        device_time.IS_EXECUTED,
        ("step", "device"),
        count=pl.len().cast(pl.Int64),
        at_ns=pl.col("end_ns").max(),
        own_ns=pl.col("self_ns").sum(),
    )
    taken_ns = pl.min_horizontal(OPERATION_NS * pl.col("count"), (_MOST_RATIO * pl.col("own_ns")).cast(pl.Int64))
    most = sums.with_columns(time_ns=taken_ns).sort("time_ns", "device", descending=[True, False])
    return most.unique("step", keep="first", maintain_order=True).select("step", "at_ns", "time_ns", "count")
