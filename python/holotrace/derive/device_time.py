"""When the devices of an XLA profile were busy, and the time in which they could have been."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holotrace.derive import intervals

# What names a device: a SparseCore has the number of the chip it is on.
DEVICE = ("device", "plane")
# The plane of devices whose operations run on threads of the host: what a program of theirs hands to others is not
# recorded.
ON_HOST = "/host:CPU"
# Where a TPU notes what its cores wait for, and the stages of a kernel: beside its operations, and part of none.
_NOTES = "XLA TraceMe"

IS_WAIT = pl.col("is_wait").fill_null(False)
# The one definition of what operations take: their own time, by whether they do something or only wait.
WORK_AND_WAIT = {
    "work_ns": pl.col("self_ns").filter(~IS_WAIT).sum(),
    "wait_ns": pl.col("self_ns").filter(IS_WAIT).sum(),
}


# Whether a device executed an operation: others only span or accompany what it did.
IS_EXECUTED = ~pl.col("is_async").fill_null(False) & (pl.col("line") != _NOTES).fill_null(True)


def executions(ops: pl.DataFrame) -> pl.DataFrame:
    """The operations that a device executed, without what only spans or accompanies them."""
    is_executed = ops.select(IS_EXECUTED).to_series()
    # To filter copies, and most devices have nothing else.
    return ops if is_executed.all() else ops.filter(is_executed)


def on_device(ops: pl.DataFrame) -> pl.DataFrame:
    """All that occupied a device: what it executed, and what it noted of its waiting meanwhile."""
    return ops.filter(~pl.col("is_async").fill_null(False) & (~_is_note() | pl.col("is_wait")))


def own_ps() -> pl.Expr:
    """The time of a run, to less than a nanosecond where the device measured it: some operations take no longer."""
    is_leaf = ~pl.col("is_container").fill_null(value=False)
    return pl.coalesce(pl.when(is_leaf).then("device_ps"), pl.col("self_ns") * 1000)


def _is_note() -> pl.Expr:
    return (pl.col("line") == _NOTES).fill_null(False)


def with_programs(ops: pl.DataFrame, modules: pl.DataFrame) -> pl.DataFrame:
    """The operations, and of devices whose operations were not recorded the runs of programs: ``is_program``."""
    executed = executions(ops).select(DEVICE).unique()
    alone = modules.join(executed, on=DEVICE, how="anti", nulls_equal=True).filter(
        pl.col("end_ns") > pl.col("start_ns")
    )
    runs = alone.select(name for name in modules.columns if name in ops.columns)
    runs = runs.with_columns(is_wait=pl.lit(value=False), is_async=pl.lit(value=False), is_program=pl.lit(value=True))
    return pl.concat([ops.with_columns(is_program=pl.lit(value=False)), runs], how="diagonal")


def window(ops: pl.DataFrame, modules: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The time looked at, in which all devices of a rank could have worked: one span, or none without any work.

    From the first step, program or op to the last end of one: all that devices noted, waiting before an op too.
    """
    work = pl.concat([frame.select("start_ns", "end_ns") for frame in (on_device(ops), modules)])
    if work.is_empty():
        return work
    both = pl.concat([work, steps.select("start_ns", "end_ns")])
    return both.select(pl.col("start_ns").min(), pl.col("end_ns").max())


def waits(ops: pl.DataFrame) -> pl.DataFrame:
    """The time in which a device did nothing but wait, of executions of one device."""
    # What contains other operations says nothing of what the device did inside it.
    leaves = ops.filter(~pl.col("is_container").fill_null(False))
    waiting = pl.col("is_wait").fill_null(False)
    return intervals.subtract(leaves.filter(waiting), leaves.filter(~waiting))


def gaps(ops: pl.DataFrame, during: pl.DataFrame, *, by: Sequence[str], min_gap_ns: int) -> pl.DataFrame:
    """The parts of ``during`` in which none of ``ops`` ran, for each group that ``by`` names.

    A gap has the ``step``, ``launch_id`` and ``launch_ns`` of the operation that ended it; null where none did.
    """
    idle = [
        intervals.subtract(during, group)
        .filter(pl.col("end_ns") - pl.col("start_ns") >= min_gap_ns)
        .join(group.select(by).head(1), how="cross")
        for group in ops.select("start_ns", "end_ns", *by).partition_by(by, maintain_order=True)
    ]
    found = pl.concat([ops.select("start_ns", "end_ns", *by).clear(), *idle])
    ending = ops.filter(pl.col("start_ns").is_in(pl.lit(found["end_ns"]).implode()))
    ended = ending.sort("event_id").unique([*by, "start_ns"], keep="first", maintain_order=True)
    return found.join(
        ended.select(*by, "step", "launch_id", "launch_ns", end_ns="start_ns"),
        on=[*by, "end_ns"],
        how="left",
        nulls_equal=True,
    ).sort(*by, "start_ns")
