"""Device work by the operator call that launched it, with what the call was given: one row per call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import polars as pl

from holotrace.core.plans import done, without
from holotrace.core.tables import CPU_OPS, DEVICE_EVENTS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import copies, groups, intervals, launched_by, serving_steps
from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE, IS_WORK, MEMORY
from holotrace.derive.names import distinct
from holotrace.efficiency import categories, devices, element_types
from holotrace.efficiency.devices import Device
from holotrace.efficiency.model import OperatorModel
from holotrace.efficiency.work import OperatorWork, operator_work

# What a call was given, as recorded.
SIGNATURE = ("input_dims", "input_types", "input_strides", "concrete_inputs")
_OPS = CPU_OPS.only("event_id", *SIGNATURE)
_EVENTS = DEVICE_EVENTS.only("event_id", "kind", "name", "start_ns", "end_ns", "device_ps", "step")
_INSTRUCTIONS = XLA_OPS.only("name", "kind", "opcode", "category", "scope", "target", "inside", "product_type")
READS = (*launched_by.READS, *serving_steps.READS, _OPS, _EVENTS, XLA_OPS.only("event_id"), _INSTRUCTIONS)
# Names under which a rank holds what the user gave for this.
MODELS, PEAKS = "models", "peaks"
OUTSIDE = "launched outside of operators"
INSIDE = "an operator inside it does the work"
# What of a rank's busy time is whose, where work overlaps: computing before communication before copies.
_PRIORITY = (COMPUTE, COMMUNICATION, MEMORY)


def events(rank: RankTrace) -> pl.DataFrame:
    """Every kernel and copy with the call that launched it, ``op_id``, and its part of the busy time, ``share_ns``.

    Parts add up to the time in which at least one kernel or copy ran. Where several ran at once, the time belongs to
    computing before communication before copies, and of one kind to what began first.
    """
    owned = rank.cached(_owned)
    return rank.rows(_EVENTS, owned["row"]).hstack(owned[:, ["share_ns", "op_id"]])


def _owned(rank: RankTrace) -> pl.DataFrame:
    """The ``row`` of each of ``events`` among those of devices, with what is made here: all else is there already."""
    placed = rank[_EVENTS.only("event_id", "kind", "start_ns", "end_ns")].lazy().with_row_index("row")
    work = done(placed.filter(IS_WORK))
    launched = rank.cached(launched_by.work)[:, ["event_id", "op_id"]].lazy().unique("event_id", keep="first")
    owned = _shared(work)[:, ["row", "event_id", "share_ns"]].lazy()
    return done(owned.join(launched, on="event_id", how="left").drop("event_id"))


def _shared(work: pl.DataFrame) -> pl.DataFrame:
    shared, above = [], work[:, ["start_ns", "end_ns"]].clear()
    for kind in _PRIORITY:
        begun = pl.col("end_ns").cum_max().shift(1, fill_value=pl.col("start_ns").first())
        of_kind = work.filter(pl.col("kind") == kind)
        if of_kind.is_empty():
            continue
        rows = groups.ordered(of_kind, ["start_ns", "end_ns", "event_id"])
        rows = rows.with_columns(own_ns=pl.max_horizontal("start_ns", pl.min_horizontal(begun, "end_ns")))
        own = pl.DataFrame([rows["own_ns"].alias("start_ns"), rows["end_ns"]])
        shared.append(rows[:, work.columns].hstack([_free(own, above)]))
        above = pl.concat([above, rows[:, ["start_ns", "end_ns"]]])
    return pl.concat(shared) if shared else work.with_columns(share_ns=pl.lit(0, pl.Int64()))


def _free(spans: pl.DataFrame, others: pl.DataFrame) -> pl.Series:
    """How long each span lasts outside of ``others``."""
    if others.is_empty():
        lasted: pl.Series = (spans["end_ns"] - spans["start_ns"]).alias("share_ns")
        return lasted
    free: pl.Series = intervals.uncovered_ns(spans, intervals.union(others)).alias("share_ns")
    return free


def calls(rank: RankTrace) -> pl.DataFrame:
    """Every call of an operator that launched work itself.

    It has ``op_id``, ``step``, ``name``, what it was given, ``signature`` (the same for calls that were given the
    same), ``work_ns``, of that ``communication_ns``, ``share_ns``, and ``span_ns``, the time in which at least one of
    its kernels ran.
    """
    work = events(rank).drop_nulls("op_id")
    lasts = pl.col("end_ns") - pl.col("start_ns")
    of_calls = work.group_by("op_id", maintain_order=True).agg(
        pl.col("step").first(),
        pl.col("share_ns").sum(),
        work_ns=lasts.sum(),
        communication_ns=lasts.filter(pl.col("kind") == COMMUNICATION).sum(),
        is_memory=(pl.col("kind") == MEMORY).all(),
    )
    spans = launched_by.covered_at(work, "op_id")[of_calls["op_id"]].alias("span_ns")
    is_one = pl.col("event_id").is_in(pl.lit(of_calls["op_id"]).implode())
    ops = rank.where(CPU_OPS.only("event_id", "name", *SIGNATURE), is_one).lazy().rename({"event_id": "op_id"})
    known = done(of_calls.hstack([spans]).lazy().join(ops, on="op_id"))
    keys = [pl.col(name).to_physical().alias(name) for name in ("name", *SIGNATURE)]
    numbered = known.lazy().select(keys).select(signature=pl.struct("name", *SIGNATURE).rank("dense"))
    return known.hstack(done(numbered))


def device_of(rank: RankTrace) -> Device | None:
    """The device that a rank's work ran on, and its peaks; None if it is not known.

    No trace names the CPU of a host that computes: its peaks are those that the user gives for ``CPU``.
    """
    if rank.computes_on_host:
        return devices.device(devices.HOST, table=rank.settings.get(PEAKS))
    listed = rank.metadata.get("deviceProperties")
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if not found:
        return None
    names = {str(one.get("name") or "") for one in found}
    # Which of several different devices a rank used is not told by its list.
    return devices.device(names.pop(), found[0], rank.settings.get(PEAKS)) if len(names) == 1 else None


def signatures(rank: RankTrace) -> pl.DataFrame:
    """What calls were given, once each, with the work of one call and the peaks that it is held against.

    It has ``signature``, ``name``, what was given, ``kernel`` (that takes most of the time), ``category``, ``flops``,
    ``moved_bytes``, ``confidence``, ``assumed``, ``is_matrix``, ``is_partial``, ``computed_in``, ``is_of_kernels``, and
    in operations and bytes per nanosecond ``peak_flops`` and ``peak_bytes``.
    """
    of_calls = rank.cached(calls)
    given = of_calls.group_by("signature", maintain_order=True).agg(pl.col("name", *SIGNATURE, "is_memory").first())
    given = given.join(_longest_kernel(events(rank), of_calls), on="signature", how="left", maintain_order="left")
    found = _works(rank, given)
    texts = given.select(pl.col("name", "kernel").cast(pl.String), "kernels").rows()
    told = pl.DataFrame(
        [_told(work, name or "", *kernels) for work, (name, *kernels) in zip(found, texts, strict=True)],
        schema=_TOLD,
        orient="row",
    )
    return _limited(without(given, "kernels").hstack(told), rank.cached(device_of))


_TOLD = {
    "flops": pl.Int64(),
    "moved_bytes": pl.Int64(),
    "confidence": pl.String(),
    "assumed": pl.String(),
    "is_matrix": pl.Boolean(),
    "is_partial": pl.Boolean(),
    "computed_in": pl.String(),
    "category": pl.String(),
    "is_of_kernels": pl.Boolean(),
}


def _told(work: OperatorWork, name: str, kernel: str | None, kernels: str | None) -> tuple[object, ...]:
    # The kernel that takes longest may be one that sums up what the others multiplied.
    kind = devices.computed_in(element_types.short(work.type) if work.type else None, kernels)
    return (
        work.flops,
        work.moved_bytes,
        work.confidence,
        work.reason if work.confidence is None else work.assumed,
        work.is_matrix,
        work.is_partial,
        kind,
        categories.of_operator(name, work.category, kernel),
        categories.is_of_kernels(name, work.category),
    )


def _longest_kernel(work: pl.DataFrame, of_calls: pl.DataFrame) -> pl.DataFrame:
    """The kernel that takes most of the time of each signature, of those that take as long the first by name.

    ``kernels`` are the names of all of them as one text.
    """
    lasts = pl.col("end_ns") - pl.col("start_ns")
    return done(
        work.lazy()
        .drop_nulls("op_id")
        .select("op_id", kernel="name", lasts_ns=lasts)
        .join(of_calls.lazy().select("op_id", "signature"), on="op_id")
        .group_by("signature", "kernel")
        .agg(pl.col("lasts_ns").sum())
        .sort("lasts_ns", pl.col("kernel").cast(pl.String), descending=[True, False])
        .group_by("signature", maintain_order=True)
        .agg(pl.col("kernel").first(), kernels=pl.col("kernel").cast(pl.String).str.join(" "))
    )


def _limited(rows: pl.DataFrame, device: Device | None) -> pl.DataFrame:
    """The rows with the peaks of the device: per nanosecond, null where they are unknown or do not apply."""
    # What a copy between host and device or ranks send is not held against the device's memory.
    is_held = (pl.col("category") != categories.COMMUNICATION) & ~_leaves_device()
    if device is None:
        return rows.with_columns(peak_flops=pl.lit(None, pl.Float64()), peak_bytes=pl.lit(None, pl.Float64()))
    pairs = {(kind, on_matrix) for kind, on_matrix in rows[:, ["computed_in", "is_matrix"]].unique().iter_rows()}
    peaks = pl.DataFrame(
        [(kind, matrix, _per_ns(device.peak(kind, is_matrix=matrix))) for kind, matrix in pairs],
        schema={"computed_in": pl.String(), "is_matrix": pl.Boolean(), "peak_flops": pl.Float64()},
        orient="row",
    )
    return rows.join(
        peaks, on=["computed_in", "is_matrix"], how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(
        peak_flops=pl.when(is_held).then("peak_flops"),
        peak_bytes=pl.when(is_held).then(pl.lit(_per_ns(device.memory), pl.Float64())),
    )


def _leaves_device() -> pl.Expr:
    leaves = rf"(?i)memcpy.*({copies.LINK}|PtoP|Host)"
    return pl.col("kernel").cast(pl.String).str.contains(leaves).fill_null(value=False)


def _per_ns(per_second: float | None) -> float | None:
    return None if per_second is None else per_second / 1e9


def _works(rank: RankTrace, given: pl.DataFrame) -> list[OperatorWork]:
    models: Sequence[OperatorModel] = rank.settings.get(MODELS, ())
    rows = given.select(pl.col("name", *SIGNATURE).cast(pl.String)).iter_rows()
    if models:
        return [operator_work(name or "", *arguments, models=models) for name, *arguments in rows]
    return [_work(name or "", *arguments) for name, *arguments in rows]


# The ranks of a job call operators with the same arguments: each is looked at once for all of them.
@lru_cache(maxsize=1 << 16)
def _work(name: str, dims: str | None, types: str | None, strides: str | None, scalars: str | None) -> OperatorWork:
    return operator_work(name, dims, types, strides, scalars)


def modelled(rank: RankTrace) -> pl.DataFrame:
    """Every call with the work it did itself: that of calls is left out in which another operator does it."""
    rows = rank.cached(calls).join(
        without(rank.cached(signatures), "name", *SIGNATURE, "is_memory"), on="signature", maintain_order="left"
    )
    rows = serving_steps.with_attention(rank, rows)
    doing = rows.filter("is_matrix", pl.col("flops").is_not_null() | pl.col("moved_bytes").is_not_null())
    if doing.is_empty():
        return rows
    outer = launched_by.around(rank, doing["op_id"])
    contains = pl.col("op_id").is_in(pl.lit(outer).implode()) & pl.col("is_matrix")
    return rows.with_columns(
        *(pl.when(~contains).then(name).alias(name) for name in ("flops", "moved_bytes", "confidence")),
        assumed=pl.when(contains).then(pl.lit(INSIDE)).otherwise("assumed"),
    )


# What fractions add up to depends on their order, which threads change; whole numbers add up to one sum.
_EXACT = pl.Int128()


def summable_flops() -> pl.Expr:
    """Operations of a call, as they are to be summed."""
    return pl.col("flops").cast(_EXACT)


def at_peak_as() -> pl.Expr:
    """How long a call's operations would take at the peak, in attoseconds: one may take less than a femtosecond."""
    times = (pl.col("flops") / pl.col("peak_flops") * 1e9).round()
    return times.cast(_EXACT, strict=False).alias("at_peak_as")


def peak_of_sums() -> pl.Expr:
    """The peak of the types that operations were in, each as much as it counts, per nanosecond.

    It is of the sums ``held_flops`` of operations that have a peak, and ``at_peak_as``.
    """
    return pl.col("held_flops").cast(pl.Float64) / pl.col("at_peak_as").cast(pl.Float64) * 1e9


@lru_cache
def is_known() -> pl.Expr:
    """Whether the work of a call is known: on matrix units its operations, which its bytes do not tell."""
    has_bytes = pl.col("moved_bytes").is_not_null() & ~pl.col("is_matrix")
    return (pl.col("flops").is_not_null() | has_bytes) & ~pl.col("is_partial")


@lru_cache
def limits() -> tuple[pl.Expr, ...]:
    """Of each call the time that the device's limits allow, and its work as far as rates follow from it."""
    is_known = ~pl.col("is_partial") & pl.col("confidence").is_not_null()
    computing, moving = pl.col("flops") / pl.col("peak_flops"), pl.col("moved_bytes") / pl.col("peak_bytes")
    # What runs on matrix units is not held against the memory alone.
    is_told = is_known & moving.is_not_null() & (computing.is_not_null() | ~pl.col("is_matrix"))
    by = pl.when(computing.fill_null(0) > moving).then(pl.lit("compute")).otherwise(pl.lit("memory"))
    return (
        pl.when(is_told).then(pl.max_horizontal(computing, moving)).alias("roof_ns"),
        pl.when(is_told).then(by).alias("bound_by"),
        pl.when(is_known).then(pl.col("flops").cast(pl.Float64)).alias("counted_flops"),
        pl.when(is_known).then(pl.col("moved_bytes").cast(pl.Float64)).alias("counted_bytes"),
    )


def outside(rank: RankTrace) -> pl.DataFrame:
    """Kernels and copies that no operator launched: ``step``, ``name``, ``category``, ``share_ns``, ``work_ns``."""
    alone = events(rank).filter(pl.col("op_id").is_null())
    of_programs = _instructions(rank)
    # By the clock of the device, where that is known: the host's stretches it.
    own = pl.coalesce(pl.col("device_ps") // 1000, pl.col("end_ns") - pl.col("start_ns"))
    return done(
        _by_kernel(alone)
        .lazy()
        .join(of_programs.lazy(), on="event_id", how="left", maintain_order="left")
        .with_columns(category=pl.coalesce("of_program", "category"))
        .select("step", "name", "category", "share_ns", work_ns=own)
    )


def parts(rank: RankTrace) -> pl.DataFrame:
    """What the busy time is made of, by ``step`` and ``category``: ``share_ns``; of compiled regions by kernel."""
    known = rank.cached(modelled)
    regions = known["op_id"].filter(known["is_of_kernels"])
    told = [known.filter(~pl.col("is_of_kernels")), rank.cached(outside)]
    if len(regions):
        work = events(rank)
        told.append(_by_kernel(work.filter(pl.col("op_id").is_in(pl.lit(regions).implode()))))
    keys = ["step", "category"]
    named = (part.select("step", pl.col("category").cast(pl.Categorical), "share_ns") for part in told)
    sums = (part.group_by(keys).agg(pl.col("share_ns").sum()) if part.height else part for part in named)
    return pl.concat(sums).group_by(keys).agg(pl.col("share_ns").sum()).cast({"category": pl.String})


def _by_kernel(work: pl.DataFrame) -> pl.DataFrame:
    """The work with its ``category``, by the name of each kernel."""
    names = distinct(work["name"])
    texts = names.cast(pl.String).to_list()
    told = pl.Series("category", [categories.of_kernel(text or "") for text in texts], dtype=pl.Categorical())
    of_kind = pl.when(pl.col("kind") == COMMUNICATION).then(pl.lit(COMMUNICATION, pl.Categorical()))
    return work.join(
        pl.DataFrame([names, told]), on="name", how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(category=pl.coalesce(of_kind, "category"))


def _instructions(rank: RankTrace) -> pl.DataFrame:
    """The categories of the instructions of XLA's programs that devices ran: ``event_id``, ``of_program``."""
    of_program = rank.follows(_INSTRUCTIONS, _of_program).alias("of_program")
    return pl.DataFrame([rank[XLA_OPS.only("event_id")].to_series(), of_program])


def _of_program(ran: pl.DataFrame) -> pl.Series:
    """The category of each of these instructions; null of what no program tells."""
    if ran.is_empty():
        return pl.Series(dtype=pl.Categorical())
    described = ("name", "kind", "scope", "target", "inside", "has_product")
    told = ran.select(
        pl.col("name", "scope", "target", "inside"),
        kind=pl.coalesce(pl.col("category", "opcode")),
        has_product=pl.col("product_type").is_not_null(),
    )
    kinds = told.select(described).unique()
    texts = kinds.select(pl.col(described[:-1]).cast(pl.String).fill_null(""), "has_product")
    found = [categories.of_instruction(*row[:-1], has_product=row[-1]) for row in texts.iter_rows()]
    by_kind = kinds.with_columns(pl.Series("of_program", found, dtype=pl.Categorical()))
    named = told.join(by_kind, on=described, how="left", nulls_equal=True, maintain_order="left")
    moved = (ran["kind"] == COMMUNICATION).fill_null(value=False)
    category = pl.when(moved).then(pl.lit(COMMUNICATION, pl.Categorical())).otherwise("of_program")
    return named.select(pl.when(pl.col("kind").is_not_null()).then(category)).to_series()
