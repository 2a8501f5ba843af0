"""How far a device's clock is from its host's: no run begins before its launch, or goes on after its completion."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import HOST_CALLS, MODULES
from holotrace.core.trace import RankTrace
from holotrace.derive.device_time import DEVICE

READS = (
    MODULES.only("device", "plane", "run", "start_ns", "end_ns", "launch_ns"),
    HOST_CALLS.only("name", "run", "device", "start_ns"),
)
# Where a TPU's host hands a run to its device, later than the call that launched it on all, and hears of its end.
_ENQUEUED, _COMPLETED = "DoEnqueueProgram", "CompleteCallbacks"
# Of the id of a run, hosts of TPUs write the lower bits only.
_RUN_BITS = (1 << 28) - 1


def bounds(modules: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Per device, what may be added to its times: ``least_shift_ns`` to ``most_shift_ns``, and ``shift_ns``.

    The shift is the smallest that no run contradicts; null where each is contradicted, and 0 where there is no bound.
    """
    # A device that is made of threads of the host has the host's clock.
    own = modules.filter(pl.col("plane").cast(pl.String()).str.starts_with("/device:"))
    runs = own.sort("start_ns").with_columns(key=pl.col("run") & _RUN_BITS)
    # An id may come again once all its values have been used.
    runs = runs.with_columns(number=pl.int_range(pl.len()).over(*DEVICE, "key"))
    for name, column in ((_ENQUEUED, "enqueued_ns"), (_COMPLETED, "completed_ns")):
        runs = runs.join(_numbered(calls, name, column), on=["device", "key", "number"], how="left")
    least, most = pl.col("least_shift_ns"), pl.col("most_shift_ns")
    return (
        runs.group_by(DEVICE)
        .agg(
            run_count=pl.len(),
            least_shift_ns=(pl.coalesce("enqueued_ns", "launch_ns") - pl.col("start_ns")).max(),
            most_shift_ns=(pl.col("completed_ns") - pl.col("end_ns")).min(),
        )
        .with_columns(
            shift_ns=pl.when((least > most).fill_null(False))
            .then(None)
            .when((least > 0).fill_null(False))
            .then(least)
            .when((most < 0).fill_null(False))
            .then(most)
            .otherwise(0)
        )
        .sort("plane", "device")
    )


def _numbered(calls: pl.DataFrame, name: str, column: str) -> pl.DataFrame:
    """When calls of that name began, by device, the lower bits of their run, and how often these came before."""
    named = calls.filter(pl.col("name") == name, pl.col("run").is_not_null())
    return (
        named.sort("start_ns")
        .select("device", key=pl.col("run") & _RUN_BITS, start=pl.col("start_ns"))
        .with_columns(number=pl.int_range(pl.len()).over("device", "key"))
        .rename({"start": column})
    )


def shifts(rank: RankTrace) -> pl.DataFrame:
    """The bounds of a rank's devices."""
    # Calls of the host are many, and few of these.
    modules, calls = READS
    return bounds(rank[modules], rank.where(calls, pl.col("name").is_in([_ENQUEUED, _COMPLETED])))


def shifted(ops: pl.DataFrame, shifts: pl.DataFrame) -> pl.DataFrame:
    """The operations on the clock of the host, as far as one shift of their device's times can put them there."""
    if shifts.is_empty():
        return ops
    shifts = shifts.select(*DEVICE, "shift_ns")
    by = pl.col("shift_ns").fill_null(0)
    joined = ops.join(shifts, on=DEVICE, how="left", maintain_order="left")
    return joined.with_columns(pl.col("start_ns", "end_ns") + by).drop("shift_ns")
