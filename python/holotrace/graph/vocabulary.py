"""Changes of a job in its own words: what is scaled, made like the other ranks, hidden, or free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import polars as pl

from holotrace.core.native import native
from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE, MEMORY
from holotrace.derive.names import distinct
from holotrace.efficiency.categories import of_kernel
from holotrace.graph.engine import NONE, Changes
from holotrace.graph.job import STEP, JobGraph

# What activities can be bound by, and edges: until work starts after its launch, and after the work before it.
HOST, LOADING = "host", "data_loading"
LAUNCH, DELAY = "launch", "kernel_delay"
KINDS = (HOST, LOADING, COMPUTE, COMMUNICATION, MEMORY)
BOUNDS = (*KINDS, LAUNCH, DELAY)
# An own time of more than this, in ns, is no time: the sum of a graph's stays within 64 bits.
_MOST_NS = 2.0**53


@dataclass(frozen=True)
class Within:
    """Which work changes: what is of all that are given; without any, all of it."""

    ranks: tuple[int, ...] = ()
    """Of these ranks; those of a node, say."""
    groups: tuple[str, ...] = ()
    """Collectives of process groups with these names."""
    collectives: tuple[str, ...] = ()
    """Collectives with these operations, as all_reduce."""
    categories: tuple[str, ...] = ()
    """Kernels of these categories of work, as gemm or attention."""
    modules: tuple[str, ...] = ()
    """Kernels and copies launched in modules whose path one of these regular expressions matches."""

    def __str__(self) -> str:
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return " and ".join(f"of {name} {', '.join(map(str, values))}" for name, values in given if values) or "there"


def chosen(graph: JobGraph, within: Within, modules: pl.DataFrame | None = None) -> pl.Series:
    """Whether each activity changes.

    Args:
        graph: Of the job.
        within: What it is of.
        modules: rank, event_id and path of kernels, where modules are asked for.
    """
    rows = graph.activities
    tests = [pl.col("kind") != STEP]
    if within.ranks:
        tests.append(pl.col("rank").is_in(within.ranks))
    if within.groups:
        tests.append(pl.col("group").cast(pl.String).is_in(within.groups))
    if within.collectives:
        tests.append(_plain(pl.col("operation")).is_in([_spelled(name) for name in within.collectives]))
    if within.categories:
        names = rows.filter("is_device")["name"].unique().drop_nulls()
        fitting = [name for name in names if of_kernel(name) in within.categories]
        tests.append(pl.col("is_device") & pl.col("name").is_in(fitting))
    if within.modules and modules is not None:
        inside = modules.filter(pl.any_horizontal(pl.col("path").str.contains(one) for one in within.modules))
        rows = rows.join(
            inside.select("rank", "event_id", is_inside=pl.lit(True)).unique(["rank", "event_id"]),
            on=["rank", "event_id"],
            how="left",
            maintain_order="left",
        )
        tests.append(pl.col("is_device") & pl.col("is_inside").fill_null(value=False))
    return rows.select(fits=pl.all_horizontal(test.fill_null(value=False) for test in tests))["fits"]


def _plain(name: pl.Expr) -> pl.Expr:
    return name.cast(pl.String).str.to_lowercase().str.replace_all("[^a-z0-9]", "")


def _spelled(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def fits(of: str) -> pl.Expr:
    """Whether an activity is of the kind, or has a name that the regular expression matches."""
    return (
        pl.col("kind") == of if of in KINDS else pl.col("name").cast(pl.String).str.contains(of).fill_null(value=False)
    )


@dataclass(frozen=True)
class Draft:
    """Own times of all activities and lags of all edges, as they become change by change."""

    graph: JobGraph
    within: pl.Series
    own: pl.Series
    lag: pl.Series

    @classmethod
    def of(cls, graph: JobGraph, within: pl.Series) -> Draft:
        """All as it is; only what is ``within`` changes."""
        return cls(graph, within, graph.rows["own_ns"].cast(pl.Float64), graph.edges["lag_ns"])

    def scaled(self, factors: Mapping[str, float]) -> Draft:
        """Times multiplied by factors: by what they are bound by (``BOUNDS``), or by names; all that fit count."""
        draft = self
        for of, factor in factors.items():
            draft = draft.scaled_lags(of, factor) if of in {LAUNCH, DELAY} else draft.scaled_own(fits(of), factor)
        return draft

    def scaled_own(self, which: pl.Expr, factor: float | pl.Expr) -> Draft:
        rows = self.graph.activities.with_columns(self.own.alias("_own"), self.within.alias("_within"))
        time = pl.col("_own") * factor
        return self._with(rows.select(own=pl.when(which & pl.col("_within")).then(time).otherwise("_own"))["own"])

    def scaled_lags(self, of: str, factor: float) -> Draft:
        """Time until work starts: after its launch, or after the work before it."""
        edges = self.graph.edges
        starts, ends = edges["from_point"] // 2, edges["to_point"] // 2
        is_device = self.graph.rows["is_device"]
        after = is_device[starts] if of == DELAY else ~is_device[starts]
        which = after & is_device[ends] & self.within[ends] & (self.lag > 0)
        lag = pl.select(pl.when(which).then(self.lag * factor).otherwise(self.lag).round().cast(pl.Int64))
        return replace(self, lag=lag.to_series())

    def like_median(self) -> Draft:
        """Every activity takes as long as the same one of the median rank.

        The same are those with one kind, name and number among these in the step, on devices and on threads that do
        the same. What half of the ranks have at most stays as it is.
        """
        usual = usual_own(self.graph)
        rows = self.graph.rows.select("activity").with_columns(own=self.own, within=self.within)
        rows = rows.join(usual, on="activity", how="left", maintain_order="left")
        usually = pl.when("within").then(pl.coalesce("usual_ns", "own")).otherwise("own")
        return self._with(rows.select(own=usually)["own"])

    def balanced(self) -> Draft:
        """Every rank computes for as long as the mean rank does, step by step."""
        is_compute = pl.col("kind") == COMPUTE
        own = pl.col("_own").filter(is_compute).sum()
        mean = own.over("step") / pl.col("rank").filter(is_compute).n_unique().over("step")
        return self.scaled_own(is_compute, (mean / own.over("rank", "step")).fill_nan(1.0))

    def launches_free(self) -> Draft:
        """Calls that launch work take no time, and work starts at once."""
        edges = self.graph.edges
        is_device = self.graph.rows["is_device"]
        launch = ~is_device[edges["from_point"] // 2] & is_device[edges["to_point"] // 2]
        calls = (edges.filter(launch)["from_point"] // 2).unique()
        return self.scaled_own(pl.col("activity").is_in(pl.lit(calls).implode()), 0).scaled_lags(LAUNCH, 0)

    def _with(self, own: pl.Series) -> Draft:
        return replace(self, own=own.clip(upper_bound=_MOST_NS))

    def changes(self) -> Changes:
        """What is other than in the graph."""
        own = self.own.round().cast(pl.Int64)
        activities = self.graph.rows.select("activity", "own_ns")
        edges = self.graph.edges.with_row_index("edge")
        changed, moved = own != activities["own_ns"], self.lag != edges["lag_ns"]
        return Changes(
            own=activities.select("activity", own_ns=own).filter(changed),
            lags=edges.select("edge", lag_ns=self.lag).filter(moved),
        )


def numbered(graph: JobGraph) -> pl.DataFrame:
    """The activities but for moments, with ``same``: a number that those have in common that are the same.

    The same are those with one kind, name and number among these in a rank's step, on devices and on threads that do
    the same. Threads have other numbers on other ranks, and a watchdog that sleeps is not to be taken for a thread that
    computes: a thread is told by what it does most.
    """
    columns = ("activity", "rank", "lane", "is_device", "step", "name", "kind", "start_ns", "own_ns")
    rows = graph.rows.select(*columns).filter(pl.col("kind") != STEP)
    code = pl.UInt32()
    told = rows.select(
        "start_ns",
        pl.col("rank", "lane").cast(code),
        pl.col("kind").to_physical().cast(code).fill_null(NONE),
        pl.col("name").to_physical().cast(code).fill_null(NONE),
        pl.col("step").fill_null(-(2**63)),
        pl.col("is_device").cast(pl.UInt8),
    )
    names = distinct(rows["name"]).drop_nulls().sort()
    same = native.same_activities(told, names.to_physical().cast(code).to_frame("name"))
    return rows.hstack(pl.DataFrame(same))


def usual_own(graph: JobGraph) -> pl.DataFrame:
    """What each activity takes on the median rank, where more than half of the ranks have it: activity, usual_ns."""
    key, rows = ["step", "same"], numbered(graph)
    world = len(graph.ranks)
    usual = (
        rows.group_by(key)
        .agg(usual_ns=pl.col("own_ns").median(), member_count=pl.col("rank").n_unique())
        .filter(2 * pl.col("member_count") > world)
    )
    return rows.join(usual, on=key, nulls_equal=True).select("activity", "usual_ns")


def alone(graph: JobGraph) -> Changes:
    """Kernels that ran while their rank communicated take as long as the same ones that did not.

    What runs beside communication shares the device with it; without that it takes the median time of kernels with the
    same name on the rank that ran alone, if that is less.
    """
    place = ["rank", "device"]
    columns = ("activity", "own_ns", "start_ns", "end_ns", "name", "kind", "is_device", *place)
    work = graph.rows.select(*columns).filter("is_device")
    moving = (
        work.filter(pl.col("kind") == COMMUNICATION)
        .sort("start_ns")
        .select(*place, from_ns="start_ns", until_ns=pl.col("end_ns").cum_max().over(place))
    )
    computing = (
        work.filter(pl.col("kind") == COMPUTE)
        .sort("end_ns")
        .join_asof(
            moving,
            left_on="end_ns",
            right_on="from_ns",
            by=place,
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .with_columns(is_shared=(pl.col("until_ns") > pl.col("start_ns")).fill_null(value=False))
    )
    usual = pl.col("own_ns").filter(~pl.col("is_shared")).median().over("rank", "name")
    return Changes(
        own=computing.with_columns(usual_ns=usual)
        .filter(pl.col("is_shared"), pl.col("usual_ns") < pl.col("own_ns"))
        .select("activity", own_ns=pl.col("usual_ns").round().cast(pl.Int64))
        .sort("activity")
    )


def together(*changes: Changes) -> Changes:
    """All of several changes; of those of one activity or edge the last counts."""
    return Changes(own=pl.concat([one.own for one in changes]), lags=pl.concat([one.lags for one in changes]))
