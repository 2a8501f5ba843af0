"""Which modules of the model take the time, on the host and on devices, and how well they use the devices."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Tree
from holotrace.core.plans import done
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import CPU_OPS, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import modelled_work, module_calls, module_work
from holotrace.derive.steps import launched_in
from holotrace.efficiency.categories import COMMUNICATION

# Modules that are compared with each other, and how much longer one takes that is named.
ALIKE, SLOWER = 4, 0.1
# A finding is worth reading if it concerns this share of the busy time, and this much of it.
MUCH, NOTICED_NS = 0.02, 1_000_000
# Of a path the module and the one around it tell which it is.
_SHOWN = pl.col("module").str.extract(r"([^/]*/?[^/]*)$")
_TERA = 1000  # operations per nanosecond are thousandths of TFLOP/s
_STEPS = STEPS.only("step", "start_ns", "end_ns")
_INSTRUCTIONS = XLA_OPS.only("event_id")
_OF_WORK = ("event_count", "self_ns", "backward_ns", "computing_ns", "known_ns")
_OF_CALLS = ("flops", "held_flops", "at_peak_as", "shaped_count")
_SUMS = (*_OF_WORK, *_OF_CALLS)


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Step that launched the work; null where the recording is looked at as a whole"),
        Column("module", Unit.TEXT, "Path of the module, from the outermost; null for work outside of all modules"),
        Column("place", Unit.TEXT, "The same path, in which modules of one class are numbered within their parent"),
        Column(
            "module_class", Unit.TEXT, "Class of the module; null for named ranges and for work outside of all modules"
        ),
        Column("depth", Unit.NUMBER, "Number of modules around it"),
        Column("call_count", Unit.COUNT, "How often it was called; null for work outside of all modules"),
        Column("host_ns", Unit.NS, "Time of these calls on the host"),
        Column("host_self_ns", Unit.NS, "Part of host_ns outside of the modules inside it"),
        Column("event_count", Unit.COUNT, "Kernels and copies launched by it and the modules inside it"),
        Column(
            "self_ns", Unit.NS, "Busy time of the work that it launched itself; sums to the busy time over all rows"
        ),
        Column("total_ns", Unit.NS, "Busy time of the work launched by it and the modules inside it"),
        Column("backward_ns", Unit.NS, "Part of total_ns that belongs to the backward pass"),
        Column("share_ratio", Unit.RATIO, "total_ns / busy time of the device; null if that is 0"),
        Column(
            "flops",
            Unit.FLOAT,
            "Floating-point operations of matrix products, convolutions and attention in total_ns; null without shapes",
        ),
        Column("tflops", Unit.FLOAT, "flops / total_ns, in TFLOP/s"),
        Column("peak_ratio", Unit.RATIO, "Time that flops would take at the dense peak of the device / total_ns"),
        Column("modelled_ratio", Unit.RATIO, "Share of total_ns, without communication, whose work is known"),
    ),
    reads=(*module_work.READS, _STEPS),
    chart=Tree(x="module", y=("self_ns",), total="total_ns", rate="peak_ratio", title="Device time by module"),
    needs=(CPU_OPS,),
)
def modules(rank: RankTrace, *, by_class: bool = False, by_step: bool = False) -> pl.DataFrame:
    """Which modules of the model take the time of the host and of devices, forward and backward, and what they compute.

    A module is an `nn.Module` as it was called, so stacks must be recorded (`with_stack=True`). Without stacks, named
    ranges (`record_function`) and the graphs of `torch.compile` take the place of modules. Kernels and copies belong to
    the innermost module within which they were launched; those of the backward pass belong to the module of their
    forward operators, which autograd numbers. The wrappers of DDP, FSDP, `torch.compile` and checkpointing count as the
    module that they wrap. A row without a module holds work launched outside of all modules. XLA profiles have no rows
    here: the analysis scopes tells what their programs are made of, and the table `modules` holds the executions of
    these (`holotrace show modules-table`).

    Args:
        by_class: One row per class, not one per module; modules inside others of their class count once.
        by_step: One row for each step too.
    """
    # Of programs of XLA the scopes tell this: ranges are left before what was traced in them begins.
    if rank.count(_INSTRUCTIONS) or (places := module_calls.places(rank)).is_empty():
        return modules.nothing.drop("rank")
    whole = pl.lit(None, pl.Int64()).alias("step")
    work = rank.cached(_on_device).lazy().with_columns(pl.col("step") if by_step else whole)
    calls = module_calls.calls(rank)
    step = launched_in(calls["start_ns"], rank[_STEPS]) if by_step else whole
    own = (
        work.group_by("step", "path")
        .agg(pl.col(_SUMS).sum())
        .join(
            _on_host(calls.lazy().with_columns(step)), on=["step", "path"], how="full", coalesce=True, nulls_equal=True
        )
    )
    busy = work.group_by("step").agg(busy_ns=pl.col("self_ns").sum())
    groups = _groups(places, by_class=by_class)
    rows = _rated(_summed(done(own).lazy(), groups), rank.cached(modelled_work.device_of) is not None)
    shown = places.lazy().with_columns(module_class="class").rename({"path": "group"})
    if by_class:
        shown = shown.with_columns(module=pl.coalesce("class", "label"), place=None, depth=None)
    order = pl.col("total_ns") if by_class else pl.col("order")
    return done(
        rows.join(shown, on="group", how="left")
        .join(busy, on="step", how="left", nulls_equal=True)
        .with_columns(share_ratio=pl.when(pl.col("busy_ns") > 0).then(pl.col("total_ns") / pl.col("busy_ns")))
        .sort("step", pl.col("group").is_null(), order, "module", descending=[False, False, by_class, False])
        .select(column.name for column in modules.columns[1:])
    )


def _on_device(rank: RankTrace) -> pl.DataFrame:
    """Sums of kernels and copies by their step and module's ``path``, and of the figures of their operators' calls."""
    keys, share = ["step", "path"], pl.col("share_ns")
    of_calls = _figures(rank.cached(modelled_work.modelled).lazy())
    work = module_work.events(rank).lazy().select(*keys, "op_id", "kind", "is_backward", share)
    told = work.join(of_calls.select("op_id", "is_known", "is_held"), on="op_id", how="left", maintain_order="left")
    computes = (pl.col("kind") != COMMUNICATION) & pl.col("is_held").fill_null(value=True)
    events = told.group_by(keys).agg(
        event_count=pl.len().cast(pl.Int64),
        self_ns=share.sum(),
        backward_ns=share.filter("is_backward").sum(),
        computing_ns=share.filter(computes).sum(),
        known_ns=share.filter(computes & pl.col("is_known")).sum(),
    )
    # A call counts where its first kernel does.
    firsts = work.drop_nulls("op_id").select("op_id", *keys).unique("op_id", keep="first", maintain_order=True)
    calls = firsts.join(of_calls, on="op_id").group_by(keys).agg(pl.col(_OF_CALLS).sum())
    both = events.join(calls, on=keys, how="left", nulls_equal=True)
    return done(both.select(*keys, *_OF_WORK, pl.col(_OF_CALLS).fill_null(0)))


def _figures(calls: pl.LazyFrame) -> pl.LazyFrame:
    """What is summed of calls of operators, and what tells which of their kernels' time counts for what."""
    is_matrix = pl.when("is_matrix")
    flops = is_matrix.then(modelled_work.summable_flops())
    return calls.select(
        "op_id",
        is_known=modelled_work.is_known(),
        is_held=pl.col("category").cast(pl.String) != COMMUNICATION,
        flops=flops,
        held_flops=pl.when(pl.col("peak_flops").is_not_null()).then(flops),
        at_peak_as=is_matrix.then(modelled_work.at_peak_as()),
        shaped_count=pl.col("input_dims").is_not_null().cast(pl.Int64),
    )


def _on_host(calls: pl.LazyFrame) -> pl.LazyFrame:
    """Calls and time of each path, a wrapper and what it runs as one."""
    is_outer = ~pl.col("is_inner")
    return calls.group_by("step", "path").agg(
        call_count=is_outer.sum().cast(pl.Int64),
        host_ns=(pl.col("end_ns") - pl.col("start_ns")).filter(is_outer).sum(),
        host_self_ns=pl.col("self_ns").sum(),
    )


def _groups(places: pl.DataFrame, *, by_class: bool) -> pl.LazyFrame:
    """For each path the groups that it is in, ``group``, each named by a path: its own and those of modules around it.

    ``is_own`` is true for its own group, ``is_outermost`` if no module around it is in that.
    """
    kind = pl.coalesce("class", "label") if by_class else pl.col("path")
    homes = places.lazy().select("path", group=pl.col("path").min().over(kind))
    above = places.lazy().select("path", "above").explode("above")
    return (
        above.join(homes.rename({"path": "above"}), on="above")
        .join(homes.rename({"group": "home"}), on="path")
        .group_by("path", "group")
        .agg(
            is_own=(pl.col("group") == pl.col("home")).first(),
            is_outermost=pl.len() == 1,
        )
    )


def _summed(own: pl.LazyFrame, groups: pl.LazyFrame) -> pl.LazyFrame:
    """Sums of each group, with what is inside of it; ``group`` is null for what is in none."""
    inside = own.join(groups, on="path")
    is_own = pl.col("is_own")
    of_groups = inside.group_by("step", "group").agg(
        pl.col("self_ns", "call_count", "host_self_ns").filter(is_own).sum(),
        pl.col("host_ns").filter(is_own & pl.col("is_outermost")).sum(),
        pl.col("self_ns").sum().alias("total_ns"),
        pl.col(name for name in _SUMS if name != "self_ns").sum(),
    )
    outside = own.filter(pl.col("path").is_null()).with_columns(pl.col("path").alias("group"), total_ns="self_ns")
    return pl.concat([of_groups, outside.drop("path")], how="diagonal")


def _rated(rows: pl.LazyFrame, has_device: bool) -> pl.LazyFrame:
    has_shapes = pl.col("shaped_count") > 0
    peak, flops = modelled_work.peak_of_sums(), pl.col("flops").cast(pl.Float64)
    rate = flops / pl.col("total_ns")
    return rows.with_columns(
        flops=pl.when(has_shapes).then(flops),
        tflops=_finite(pl.when(has_shapes).then(rate / _TERA)),
        peak_ratio=_finite(pl.when(has_shapes & has_device).then((rate / peak).clip(upper_bound=1))),
        modelled_ratio=_finite(pl.col("known_ns") / pl.col("computing_ns")),
    )


def _finite(rate: pl.Expr) -> pl.Expr:
    return pl.when(rate.is_finite()).then(rate)


@modules.rule
def modules_slower_than_their_like(table: pl.DataFrame) -> Iterator[Finding]:
    """Some modules take a tenth longer than others of their class that do the same work.

    Layers of a model that have the same shapes and launch as many kernels take as long as each other. One that takes
    longer runs while something else uses the device (a collective, a copy), or other kernels were chosen for it. The
    cost is the time beyond the median of the class, on the rank where it is most; nothing is said where the work is not
    known.

    Look at the timeline of the modules that are named: move what overlaps with them, or pin the kernels that the others
    use.
    """
    key = ["rank", "module_class", "depth", "flops", "call_count", "event_count"]
    whole = table.filter(pl.col("step").is_null())
    alike = whole.filter(pl.col("flops") > 0).drop_nulls(["module", "module_class"])
    usual, longest = pl.col("total_ns").median().over(key), (1 + SLOWER) * pl.col("total_ns").median().over(key)
    slow = alike.with_columns(lost_ns=pl.col("total_ns") - usual, shown=_SHOWN).filter(
        pl.len().over(key) >= ALIKE, pl.col("total_ns") > longest
    )
    beyond = (
        slow.group_by("rank", "module_class")
        .agg(pl.col("shown").sort_by("lost_ns", descending=True), pl.col("lost_ns").sum().round().cast(pl.Int64()))
        .join(whole.group_by("rank").agg(busy_ns=pl.col("self_ns").sum()), on="rank")
        .filter(pl.col("lost_ns") >= NOTICED_NS, pl.col("lost_ns") > MUCH * pl.col("busy_ns"))
        .sort("lost_ns", "rank", "module_class", descending=[True, False, False])
    )
    # A slow layer is slow as its parts are: what loses most says it for all.
    for worst in beyond.head(1).iter_rows(named=True):
        ranks = beyond.filter(pl.col("module_class") == worst["module_class"])["rank"].sort()
        values = {"modules": worst["shown"], "class": worst["module_class"]}
        message = "most modules of the class {class:name} take less time for the same work than {modules:names}"
        yield Finding("info", message, tuple(ranks), worst["lost_ns"], values=values)
