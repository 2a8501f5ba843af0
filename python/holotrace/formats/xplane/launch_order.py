"""Which calls execute programs of TPUs where nothing leads back to them: exported profiles have no arrows."""

from __future__ import annotations

import polars as pl

from holotrace.formats.xplane.profile import Profile

# Host calls that execute a program on some devices, or have another thread do that.
_CALLS = r"^(ScheduleSyncTensorsGraph|PJRT_LoadedExecutable_Execute( linkage)?|(Tfrt)?TpuLoadedExecutable::Execute)$"


def launched(profile: Profile, modules: pl.DataFrame) -> pl.DataFrame:
    """The programs with the calls that executed them as their launches, if those are known by their order.

    Devices are handed over programs in the order of the calls. One that was handed over as many as there are calls
    tells which is whose; others run fewer of the programs, and the n-th run of each is one with the n-th run there.

    Args:
        profile: Their profile.
        modules: With ``through`` and ``launch_id``, which are one if nothing leads back further.
    """
    if modules["through"].null_count() == modules.height or (modules["through"] != modules["launch_id"]).any():
        return modules
    handed = _handed(profile, modules)
    ways = [_in_order(calls, own) for calls in _outermost(profile) for own in handed.partition_by("plane")]
    known = [way for way in ways if not way.is_empty()]
    if not known:
        return modules
    # The thread of the program's own code hands over to others.
    told = min(known, key=lambda way: (-way.height, int(way["call_ns"].sum())))
    place = pl.int_range(pl.len()).over("program", "plane")
    ran = handed.with_columns(place=place, count=pl.len().over("program", "plane"))
    reference = ran.join(told, on="module_id").select("program", "place", "count", "call_id", "call_ns")
    found = ran.join(reference, on=["program", "place", "count"], nulls_equal=True)
    found = found.filter(pl.col("call_ns") <= pl.col("handed_ns")).select("module_id", "call_id", "call_ns")
    return (
        modules.join(found, on="module_id", how="left", maintain_order="left")
        .with_columns(launch_id=pl.coalesce("call_id", "launch_id"), launch_ns=pl.coalesce("call_ns", "launch_ns"))
        .drop("call_id", "call_ns")
    )


def _handed(profile: Profile, modules: pl.DataFrame) -> pl.DataFrame:
    """When each program was handed over to its device: module_id, plane, program, handed_ns; in that order."""
    through = modules.select("module_id", "plane", program="program_id", event_id="through").drop_nulls("event_id")
    times = profile.of_rows(["event_id", "start_ns"], through.select("event_id").unique())
    return through.join(times.rename({"start_ns": "handed_ns"}), on="event_id").sort("handed_ns", "module_id")


def _outermost(profile: Profile) -> list[pl.DataFrame]:
    """The calls that execute programs, of each thread: call_id, call_ns."""
    calls = profile.of_rows(["event_id", "line", "start_ns", "end_ns"], profile.named(_CALLS)).sort(
        "start_ns", "end_ns", descending=[False, True]
    )
    before_ns = pl.col("end_ns").cum_max().shift(1).over("line")
    outermost = calls.filter((pl.col("start_ns") >= before_ns).fill_null(value=True))
    return outermost.select("line", call_id="event_id", call_ns="start_ns").partition_by("line", include_key=False)


def _in_order(calls: pl.DataFrame, handed: pl.DataFrame) -> pl.DataFrame:
    """The programs of a device with the calls of a thread, module_id, call_id, call_ns; none if they may be others'.

    What was handed over before the first call was launched before the recording, and of the last calls the programs
    may not have been handed over when that ended.
    """
    own = handed.filter(pl.col("handed_ns") >= calls["call_ns"].min())
    made = calls.filter(pl.col("call_ns") <= own["handed_ns"].max())
    if own.height != made.height or (own["handed_ns"] < made["call_ns"]).any():
        return calls.clear().with_columns(module_id=pl.lit(None, handed.schema["module_id"]))
    return own.select("module_id").hstack(made)
