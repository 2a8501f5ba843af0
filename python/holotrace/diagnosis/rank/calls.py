"""The calls of a rank's host, and which of them are within which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_

import polars as pl

from holotrace.core.plans import constant, done, not_null
from holotrace.core.tables import CALLS, DEVICE_EVENTS, HOST_CALLS, LAUNCHES, MODULES
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree, intervals
from holotrace.derive.names import are_in, distinct
from holotrace.diagnosis.rank import open_calls
from holotrace.diagnosis.words.classes import EVALUATION, STALLING, beside, named

_CALLS = CALLS.only(
    *("event_id", "name", "category", "pid", "tid", "start_ns", "end_ns", "on_device", "parent_id", "work_count")
).where_launched_singly()
_XLA_CALLS = HOST_CALLS.only("event_id", "name", "tid", "start_ns", "end_ns")
_PROGRAMS = MODULES.only("module", "device", "launch_id", "start_ns", "end_ns")
# What JAX puts before the name of the function that a program was compiled from.
_TRANSFORMED = re.compile(r"^(jit|pjit|pmap|xmap|shard_map)_+(?=\w)")
_LAUNCHED = DEVICE_EVENTS.only("launch_ns")
_THREADS = LAUNCHES.only("tid")
READS = (_CALLS, _XLA_CALLS, _PROGRAMS, _LAUNCHED, _THREADS)
# What is launched outside of what a recording is of is hardly anything.
_WHOLE_RATIO = 0.98
# As it begins, a recorder takes down one by one what is open; as it ends, all at once.
_PYTHON, _ONE_BY_ONE_NS = re.compile("^python_function$"), 100_000
# To compare a label with so many names takes less than to look it up among them.
_FEW_NAMES = 8


def host_calls(rank: RankTrace) -> pl.DataFrame:
    """The rank's calls on the host; none of a profile of XLA."""
    return call_tree.on_host(rank[_CALLS])


def call_names(rank: RankTrace) -> tuple[str, ...]:
    """The names that ``host_calls`` have."""
    return tuple(name for name in distinct(rank.cached(host_calls)["name"]) if name)


def on_launching_threads(rank: RankTrace) -> pl.Series:
    """Which of ``host_calls`` are on threads that launch work."""
    threads = not_null(distinct(rank[_THREADS]["tid"]))
    return are_in(rank.cached(host_calls)["tid"], threads)


def cut_off(rank: RankTrace) -> pl.Series:
    """Which of ``host_calls`` are Python's that were open as the recording began, or ended: what they called then, or
    had called, is not on record, but for the calls that began and ended within.
    """
    calls = rank.cached(host_calls)
    began = pl.col("start_ns") - pl.col("start_ns").min().over("tid") < _ONE_BY_ONE_NS
    ended = pl.col("end_ns").max().over("tid") - pl.col("end_ns") < _ONE_BY_ONE_NS
    is_cut: pl.Series = calls.select(began | ended).to_series() & matching(calls["category"], _PYTHON)
    return is_cut


def spans(rank: RankTrace) -> pl.DataFrame:
    """The same, or the spans of an XLA profile's host: ``event_id``, ``name``, ``pid``, ``tid`` and times."""
    calls = rank.cached(host_calls)
    return rank[_XLA_CALLS].with_columns(pid="tid") if calls.is_empty() else calls


def _names(rank: RankTrace) -> pl.Series:
    """The name of each of ``spans``."""
    calls = rank.cached(host_calls)
    return (rank[_XLA_CALLS.only("name")] if calls.is_empty() else calls)["name"]


def _kept(rank: RankTrace, column: str, is_kept: Callable[[pl.Series], pl.Series]) -> pl.DataFrame:
    """Those of ``spans`` that are kept by what they have in a column; those of XLA are many, so only these are made."""
    calls = rank.cached(host_calls)
    if calls.is_empty():
        return rank.where(_XLA_CALLS, is_kept(rank[_XLA_CALLS.only(column)][column])).with_columns(pid="tid")
    return calls.filter(is_kept(calls[column]))


def main_thread(rank: RankTrace) -> int:
    """The number of the thread that holds the steps, else of the one that made the most calls."""
    return open_calls.main_thread(rank.cached(host_calls))


def contexts(rank: RankTrace, launch_ids: pl.Series) -> dict[int, tuple[str, str]]:
    """Of launches within something whose name tells what goes on (see ``classes.named``): that, and the name."""
    return _within(rank, launch_ids, named)


def beside_the_step(rank: RankTrace, ran: pl.DataFrame) -> pl.DataFrame:
    """Of kernels that are no work of the step, such as an evaluation's, ``cause`` and ``name``; else nulls.

    Args:
        rank: The rank.
        ran: Its kernels: ``device``, ``start_ns`` and ``launch_id``.
    """
    launch_ids = launched_by_programs(rank, ran)
    return _of_each({**rank.cached(_of_programs), **_within(rank, launch_ids, beside)}, launch_ids)


def launched_by_programs(rank: RankTrace, ran: pl.DataFrame) -> pl.Series:
    """The launches of kernels, those of XLA's programs by the call that ran the program.

    With several GPUs threads of the runtime launch its kernels, and these are in nothing that the program named.
    """
    if not rank.count(_PROGRAMS):
        return ran["launch_id"]
    runs = rank[_PROGRAMS].select("device", "start_ns", run_id="launch_id", until_ns="end_ns").sort("start_ns")
    placed = ran.select("device", "start_ns", "launch_id").with_row_index("place").sort("start_ns")
    found = placed.join_asof(runs, on="start_ns", by="device", check_sortedness=False).sort("place")
    is_of_run = pl.col("start_ns") < pl.col("until_ns")
    return found.select(pl.coalesce(pl.when(is_of_run).then("run_id"), "launch_id")).to_series()


def standing_in(rank: RankTrace, launch_ids: pl.Series) -> pl.DataFrame:
    """Of launches, or waits, within something that hosts stand still for, ``cause`` and ``name``; else nulls."""
    within = contexts(rank, launch_ids).items()
    return _of_each({launch: told for launch, told in within if told[0] in (*STALLING, EVALUATION)}, launch_ids)


def _of_each(found: Mapping[int, tuple[str, str]], launch_ids: pl.Series) -> pl.DataFrame:
    if not found:
        return pl.DataFrame([constant(name, None, len(launch_ids), pl.String()) for name in ("cause", "name")])
    rows = [found.get(launch, (None, None)) for launch in launch_ids]
    return pl.DataFrame(rows, {"cause": pl.String, "name": pl.String}, orient="row")


def around_all(rank: RankTrace) -> frozenset[str]:
    """Names that would tell a class, but that nearly all work is launched within: they say what the job is.

    So does the evaluation of a job that only evaluates, which keeps it from nothing else.
    """
    launched = not_null(rank[_LAUNCHED]["launch_ns"]).sort()
    told = [name for name in distinct(_names(rank)) if name and named(name)]
    if launched.is_empty() or not told:
        return frozenset()
    telling = _kept(rank, "name", lambda names: among(names, told))
    telling = telling.select(pl.col("name").cast(pl.String), "start_ns", "end_ns")
    lasted = pl.col("end_ns") - pl.col("start_ns")
    # Most of those names are of calls that take little.
    least_ns = (launched[-1] - launched[0]) // 2
    lasting = telling.group_by("name").agg(lasted.sum().alias("time_ns")).filter(pl.col("time_ns") > least_ns)
    return frozenset(
        name for name in lasting["name"] if part_within(launched, telling.filter(name=name)) >= _WHOLE_RATIO
    )


def telling_nothing(rank: RankTrace) -> pl.Series | None:
    """Which of ``host_calls`` are of ``around_all``; null where there are none of that kind."""
    names = rank.cached(around_all)
    return among(rank.cached(host_calls)["name"], names) if names else None


def part_within(times: pl.Series, calls: pl.DataFrame) -> float:
    """Which part of the times are in one of the calls."""
    union = intervals.union(calls)
    is_within = intervals.covered_before_ns(union, times + 1) > intervals.covered_before_ns(union, times)
    return int(is_within.sum()) / len(times)


def _of_programs(rank: RankTrace) -> dict[int, tuple[str, str]]:
    """Of launches of programs of XLA whose names tell that they are no work of the step, that class and the name."""
    if not rank.count(_PROGRAMS):
        return {}
    programs = rank[_PROGRAMS].select("module", "launch_id", time_ns=pl.col("end_ns") - pl.col("start_ns")).drop_nulls()
    if programs.is_empty():
        return {}
    told = {name: beside(_TRANSFORMED.sub("", name)) for name in distinct(programs["module"]) if name}
    causes = {name: cause for name, cause in told.items() if cause}
    chosen = programs.filter(among(programs["module"], causes))
    if int(chosen["time_ns"].sum()) >= _WHOLE_RATIO * int(programs["time_ns"].sum()):
        # That is what the job is.
        return {}
    launches = chosen.select(pl.col("module").cast(pl.String), "launch_id").unique()
    return {launch: (causes[name], name) for name, launch in launches.iter_rows()}


def _within(rank: RankTrace, launch_ids: pl.Series, telling: Callable[[str], str | None]) -> dict[int, tuple[str, str]]:
    """Of launches within something whose name tells a class, that class and the name of the outermost."""
    if not launch_ids.count():
        return {}
    around = rank.cached(around_all)
    told = {name: cause for name in distinct(_names(rank)) if name and (cause := telling(name)) and name not in around}
    if not told:
        return {}
    outer = _outermost(_kept(rank, "name", lambda names: among(names, told)))
    wanted = launch_ids.drop_nulls().unique()
    launches = _kept(rank, "event_id", lambda ids: ids.is_in(wanted.implode()))
    # Wherever a thread is within one, the last that began is the one, as none is within another.
    found = launches.lazy().sort("start_ns")
    found = found.join_asof(outer.lazy(), on="start_ns", by=["pid", "tid"], check_sortedness=False)
    within = done(found.filter(pl.col("end_ns") <= pl.col("outer_end_ns")).select("event_id", "outer_name"))
    return {launch: (told[name], name) for launch, name in within.iter_rows()}


def _outermost(calls: pl.DataFrame) -> pl.DataFrame:
    """Those of these calls that are within no other of them."""
    before = pl.col("end_ns").cum_max().shift(1).over("pid", "tid")
    ordered = calls.lazy().sort("start_ns", -pl.col("end_ns"), "event_id")
    outer = ordered.filter((pl.col("end_ns") > before).fill_null(True))
    names = pl.col("name").cast(pl.String)
    return done(outer.select("pid", "tid", "start_ns", outer_end_ns="end_ns", outer_name=names))


def among(labels: pl.Series, chosen: Iterable[str]) -> pl.Series:
    """Which labels are among those that were chosen; compared as numbers, since there are many."""
    names = list(chosen)
    if not names:
        return constant(labels.name, False, len(labels))
    if len(names) > _FEW_NAMES:
        return are_in(labels, pl.Series(names, dtype=labels.dtype))
    return reduce(or_, (labels == name for name in names))


def matching(labels: pl.Series, pattern: re.Pattern[str]) -> pl.Series:
    """Which labels a pattern is found in; each label is looked at once."""
    return among(labels, [name for name in distinct(labels) if name and pattern.search(name)])
