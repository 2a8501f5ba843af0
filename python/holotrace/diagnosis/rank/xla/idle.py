"""When no device of a rank of XLA had anything to do, and when one did what is not in the recording."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import HOST_CALLS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import device_time, host_time, intervals, skew
from holotrace.derive.collectives import BARRIER
from holotrace.derive.device_time import DEVICE, ON_HOST
from holotrace.derive.host_activities import INPUT_RANGES
from holotrace.derive.names import distinct
from holotrace.derive.steps import launched_in
from holotrace.diagnosis.rank import idle_windows
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.rank.xla import sent as xla_sent

# Between two programs a gap may be as short as what a device needs from one to the next.
_MIN_BETWEEN_NS = 4_000
# What launches programs on TPUs.
_LAUNCHING = r"^\S*LoadedExecutable(_|::)Execute$"
_CALLS = HOST_CALLS.only("event_id", "name", "start_ns")


def earlier(rank: RankTrace) -> pl.DataFrame:
    """When devices did what had been launched before the recording: ``start_ns`` and ``end_ns``, at most a row."""
    return rank.cached(_idle_and_earlier)[1].select("start_ns", "end_ns")


def times(rank: RankTrace) -> pl.DataFrame:
    """When the rank stood still: all of its devices did, as one that waits for another is busy in a collective.

    So is one that waits at a barrier: what keeps the others from coming is theirs.
    """
    return rank.cached(_idle_and_earlier)[0]


def _idle_and_earlier(rank: RankTrace) -> tuple[pl.DataFrame, pl.DataFrame]:
    runs, during = xla_gaps.program_runs(rank), xla_gaps.window(rank)
    ran = xla_gaps.executions(rank)
    ops, is_gpu = ran.join(rank.cached(xla_sent.copies), on="event_id", how="anti"), xla_gaps.are_on_gpus(ran)
    met = skew.shifted(rank.where(xla_gaps.BARRIERS, pl.col("name") == BARRIER), rank.cached(skew.shifts))
    busy = pl.concat([ops, runs.filter(pl.col("plane").cast(pl.String) == ON_HOST), met], how="diagonal_relaxed")
    as_one = busy.with_columns(
        device=pl.lit(0, pl.Int64), plane=pl.lit(None, pl.Categorical), stream=pl.lit(0, pl.Int64)
    )
    every = device_time.gaps(as_one, during, by=[*DEVICE, "stream"], min_gap_ns=_MIN_BETWEEN_NS)
    # Nothing tells of what a device had begun before the recording: no operation of whole programs, nor one of those
    # that had been launched by then, of which one may have gone on until the next.
    launched, is_first = pl.col("launch_ns").is_not_null(), pl.col("start_ns") <= during["start_ns"].min()
    is_of_before = pl.lit(xla_gaps.has_only_programs(rank)) | (~launched & launched.any())
    waits = pl.lit(_awaits_earlier(every, rank, is_gpu=is_gpu))
    # A program that is not over as the recording ends is not in it, but for the operations of it that are.
    is_last = pl.col("end_ns") >= during["end_ns"].max()
    is_waited_for = pl.col("start_ns") > pl.lit(rank.cached(_launched_later)["called_ns"].min(), pl.Int64)
    goes_on = is_last & (pl.lit(_is_in_a_program(ops, runs)) | is_waited_for.fill_null(value=False))
    # So it does in a program that had begun before, until the next operation of that.
    is_in_one = ~launched & (pl.col("end_ns") < pl.lit(runs["start_ns"].min(), pl.Int64)).fill_null(value=True)
    found = every.filter(~(is_first & (is_of_before | is_in_one | waits)), ~goes_on)
    # Where it seems to do nothing but copy, all else of what it does is of that.
    before = during if ops.is_empty() and is_gpu else every.filter(is_first & waits)
    length = pl.col("end_ns") - pl.col("start_ns")
    outside = intervals.uncovered_ns(found, intervals.union(runs))
    # Programs last a little longer than their operations.
    is_between = (2 * outside > length) & pl.lit(not runs.is_empty())
    told = _ended_by_programs(found.filter((length >= xla_gaps.MIN_GAP_NS) | is_between), runs)
    told = told if is_gpu else _ended_by_the_last(told, runs, rank)
    # Devices that are threads of the host begin when these have been woken.
    is_brief = pl.lit(xla_gaps.is_on_host(rank)) & (pl.col("lasted_ns") < length)
    return told.with_columns(is_brief=is_brief.fill_null(value=False)).drop("lasted_ns"), before


def _awaits_earlier(gaps: pl.DataFrame, rank: RankTrace, *, is_gpu: bool) -> pl.Series:
    """Whether what ends each waited in its queue for something else than inputs, if nothing comes before it.

    Of GPUs nothing is recorded that had been launched before, nor is of steps that not all ranks have recorded.
    """
    waited: pl.Series = gaps.select(idle_windows.has_waited().fill_null(value=False)).to_series()
    if is_gpu or not waited.any():
        return waited
    activities = host_time.activities(rank, INPUT_RANGES)
    return waited & (xla_gaps.sent_ns(gaps, activities, rank.cached(xla_sent.sent)) == 0)


def _is_in_a_program(ops: pl.DataFrame, runs: pl.DataFrame) -> bool:
    """Whether a device runs operations after all programs that were recorded as a whole."""
    over = runs.select(pl.col("end_ns").max() < pl.lit(ops["start_ns"].max(), pl.Int64))
    return runs.is_empty() or bool(over.item())


def _ended_by_programs(gaps: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The gaps, those that end as a program begins with when that was launched, and not the first kernel of it.

    Besides there is ``lasted_ns``, how long that ran.
    """
    lasted = pl.col("end_ns") - pl.col("start_ns")
    launched = runs.group_by(end_ns="start_ns").agg(program_ns=pl.col("launch_ns").min(), lasted_ns=lasted.max())
    told = gaps.join(launched, on="end_ns", how="left", maintain_order="left")
    return told.with_columns(launch_ns=pl.coalesce("program_ns", "launch_ns")).drop("program_ns")


def _ended_by_the_last(gaps: pl.DataFrame, runs: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The gaps, one that ends with a program that goes on as the recording ends with when that was launched.

    That is not in the recording: it was launched by the next call of those that launched the others, or by one that
    goes on as the recording ends, too.
    """
    over_ns = pl.lit(runs["end_ns"].max(), pl.Int64).fill_null(0)
    if gaps.filter(pl.col("launch_ns").is_null(), pl.col("end_ns") > over_ns).is_empty():
        return gaps
    later = rank.cached(_launched_later)
    told = gaps.sort("end_ns").join_asof(later, left_on="end_ns", right_on="called_ns", check_sortedness=False)
    is_it = pl.col("launch_ns").is_null() & (pl.col("end_ns") > over_ns)
    is_ended = pl.col("end_ns") < xla_gaps.window(rank)["end_ns"].max()
    going_on_ns = pl.when(is_ended & pl.lit(runs.height > 0)).then("end_ns")
    step = pl.Series(launched_in(told["called_ns"], rank[STEPS]))
    return told.with_columns(
        launch_ns=pl.when(is_it).then(pl.coalesce("called_ns", going_on_ns)).otherwise("launch_ns"),
        launch_id=pl.when(is_it).then("call_id").otherwise("launch_id"),
        step=pl.when(is_it).then(pl.lit(step)).otherwise("step"),
    ).select(gaps.columns)


def _launched_later(rank: RankTrace) -> pl.DataFrame:
    """``call_id`` and ``called_ns`` of calls that launched programs after all those whose runs were recorded."""
    runs = xla_gaps.program_runs(rank)
    launches = pl.col("event_id").is_in(pl.lit(runs["launch_id"].drop_nulls()).implode())
    names = distinct(rank.where(_CALLS, launches)["name"])
    if names.is_empty():
        every = distinct(rank[_CALLS.only("name")]["name"])
        names = every.filter(every.cast(pl.String).str.contains(_LAUNCHING))
    is_later = pl.col("name").is_in(pl.lit(names).implode())
    is_later &= pl.col("start_ns") > pl.lit(runs["launch_ns"].max(), pl.Int64).fill_null(0)
    return rank.where(_CALLS, is_later).select(call_id="event_id", called_ns="start_ns").sort("called_ns")
