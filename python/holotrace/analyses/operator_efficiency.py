"""What work operators did for each shape, and how close that came to what the device could do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Roofline
from holotrace.core.plans import done
from holotrace.core.schema import Column, Unit, empty
from holotrace.core.trace import RankTrace
from holotrace.derive import modelled_work, pooled
from holotrace.derive.modelled_work import OUTSIDE
from holotrace.efficiency import arguments
from holotrace.efficiency.product_sizes import PRODUCTS, ProductSizes, sizes_of

# Operations per nanosecond are thousandths of TFLOP/s; bytes per nanosecond are GB/s.
_TERA = 1000
# Calls shorter than these are mostly start and end of a kernel.
LONG_NS = 20_000
NAMED = 3  # shapes in a finding
NAMED_SHAPES = 2  # of its inputs
# A finding is worth reading if it concerns this share of the busy time, and this much of it.
MUCH, NOTICED_NS = 0.02, 1_000_000
OF_ITS_KIND = 0.02
FP32_TIMES = 3
EMPTY = 0.1
MANY, LITTLE, OF_LONG_ONES = 100, 0.1, 0.5
CHAINS = 1 / 3
RANKS, SLOWER = 3, 0.05
# How far a rank lies from the median, in deviations that are typical of its peers, before it is another device.
DEVIATIONS = 4.5
_GIVEN = ("input_dims", "input_types", "input_strides", "scalars")


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Step that launched it; null where the recording is looked at as a whole"),
        Column("name", Unit.TEXT, "Operator; if no operator launched the work, the kernel"),
        Column("category", Unit.TEXT, "Kind of work, e.g. gemm, attention, elementwise"),
        Column("input_dims", Unit.TEXT, "Shapes of its inputs, JSON as recorded"),
        Column("input_types", Unit.TEXT, "Types of its inputs, JSON as recorded"),
        Column("input_strides", Unit.TEXT, "Strides of its inputs, JSON as recorded"),
        Column("scalars", Unit.TEXT, "Inputs that are not tensors, JSON as recorded"),
        Column("call_count", Unit.COUNT, "Calls that launched work themselves"),
        Column("work_ns", Unit.NS, "Sum of the times of their kernels and copies, which count in full if they overlap"),
        Column("union_ns", Unit.NS, "Their part of the device's busy time, which all rows of a rank sum to"),
        Column("mean_ns", Unit.NS, "Time in which kernels of a call ran: mean over calls"),
        Column("std_ns", Unit.NS, "Standard deviation of that time over calls; null for a single call"),
        Column("min_ns", Unit.NS, "Time in which kernels of a call ran: shortest call"),
        Column("p50_ns", Unit.NS, "Time in which kernels of a call ran: median over calls"),
        Column("max_ns", Unit.NS, "Time in which kernels of a call ran: longest call"),
        Column("flops", Unit.NUMBER, "Floating-point operations of a call; null if unknown"),
        Column("moved_bytes", Unit.BYTES, "Fewest bytes that a call has to move to and from device memory"),
        Column("confidence", Unit.TEXT, "exact or estimate; null if its work is unknown"),
        Column("assumed", Unit.TEXT, "Assumption of the model of its work, or why its work is unknown"),
        Column("tflops", Unit.FLOAT, "Operations per second achieved, in TFLOP/s"),
        Column("gbps", Unit.FLOAT, "Bytes per second achieved, in GB/s of 10^9 bytes"),
        Column("intensity", Unit.FLOAT, "Floating-point operations for each byte"),
        Column("peak_tflops", Unit.FLOAT, "Dense peak of the device in the type it computes in, in TFLOP/s"),
        Column("peak_gbps", Unit.FLOAT, "Peak bandwidth of the device's memory, in GB/s"),
        Column("bound_by", Unit.TEXT, "Which limit is reached first: compute or memory"),
        Column("roofline_ratio", Unit.RATIO, "Shortest time that the limit allows / mean_ns; 1 if the call is faster"),
        Column("above_roofline_ns", Unit.NS, "Time of all calls minus the shortest time that the limit allows"),
        Column("rank_count", Unit.COUNT, "Number of ranks whose calls the row counts"),
        Column("rank_std_ns", Unit.NS, "Standard deviation of their mean_ns; null for a single rank"),
        Column("worst_rank", Unit.RANK, "Rank whose mean_ns is the longest; null for a single rank"),
    ),
    reads=modelled_work.READS,
    pooled=pooled.operators,
    chart=Roofline(
        x="intensity", y=("tflops",), size="work_ns", by="category", peak="peak_tflops", bandwidth="peak_gbps",
        title="Work per byte and speed by shape, below what the device could do",
    ),
    named_by=("name", "category", "input_dims", "input_types", "input_strides"),
)  # fmt: skip
def operator_efficiency(
    rank: RankTrace,
    *,
    by_operator: bool = False,
    by_step: bool = False,
    over_ranks: bool = False,  # rows of ranks are put together once all are there
) -> pl.DataFrame:
    """How much work operators did for each shape, how fast, and how close that is to the device's limits.

    Work is what the operator's definition asks for: an addition and a multiplication are two operations; each distinct
    element of inputs and outputs moves once, so that bytes are the least there can be. Of operators inside each other
    the innermost counts. Peaks are dense, in the type that is computed in.

    Args:
        by_operator: One row per operator, not one per shape: with rates of all its calls, and no work of a single one.
        by_step: One row for each step too.
        over_ranks: One row for all ranks together, with how much they differ and which is the slowest.
    """
    modelled = rank.cached(modelled_work.modelled).lazy()
    calls = modelled.rename({"concrete_inputs": "scalars"}).with_columns(modelled_work.limits())
    step = pl.col("step") if by_step else pl.lit(None, pl.Int64()).alias("step")
    keys = ["step", "name"] if by_operator else ["step", "signature", "assumed"]
    of_calls = calls.with_columns(step).group_by(keys).agg(
        *_texts(by_operator=by_operator), *_figures(by_operator=by_operator), *_times(), *_sums()
    )  # fmt: skip
    alone = rank.cached(modelled_work.outside).lazy().with_columns(span_ns="work_ns")
    of_others = (alone.group_by("step", "name") if by_step else alone.group_by("name")).agg(
        pl.col("category").first(), *_times()
    )
    of_others = of_others.with_columns(step, assumed=pl.lit(OUTSIDE))
    parts = [done(_rated(of_calls)), done(of_others.with_columns(_as_text("name"), _as_text("category")))]
    rows = pl.concat(parts, how="diagonal_relaxed")
    nothing = empty(operator_efficiency.columns[1:])
    known = [name for name in nothing.columns if name in rows.columns]
    found = pl.concat([nothing, rows[known]], how="diagonal_relaxed").with_columns(rank_count=pl.lit(1))
    return found.sort("step", "work_ns", "name", *_GIVEN, descending=[False, True, *[False] * 5])


def _as_text(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.String)


def _texts(*, by_operator: bool) -> list[pl.Expr]:
    names = [] if by_operator else list(_GIVEN)
    name = [] if by_operator else [_as_text("name").first()]
    return [*name, pl.col("category").mode().sort().first(), *(_as_text(column).first() for column in names)]


def _figures(*, by_operator: bool) -> list[pl.Expr]:
    """Figures of a single call; calls of an operator with several shapes have none in common."""
    if by_operator:
        return [pl.when(pl.col("bound_by").n_unique() == 1).then(pl.col("bound_by").first()).alias("bound_by")]
    return [pl.col("flops", "moved_bytes", "confidence", "bound_by").first()]


def _times() -> list[pl.Expr]:
    calls = pl.col("span_ns")
    return [
        pl.len().alias("call_count"),
        pl.col("work_ns").sum(),
        pl.col("share_ns").sum().alias("union_ns"),
        calls.mean().round().cast(pl.Int64).alias("mean_ns"),
        calls.std().round().cast(pl.Int64).alias("std_ns"),
        calls.min().alias("min_ns"),
        calls.median().round().cast(pl.Int64).alias("p50_ns"),
        calls.max().alias("max_ns"),
    ]


def _sums() -> list[pl.Expr]:
    """Work and limits of all calls, each with the time of those calls of which it is known."""
    both = pl.col("counted_flops").is_not_null() & pl.col("counted_bytes").is_not_null()
    return [
        *(
            part
            for name in ("counted_flops", "counted_bytes", "roof_ns")
            for part in (
                pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()),
                pl.col("span_ns").filter(pl.col(name).is_not_null()).sum().alias(f"{name}_in"),
            )
        ),
        (pl.col("counted_flops").filter(both).sum() / pl.col("counted_bytes").filter(both).sum()).alias("intensity"),
        (pl.col("peak_flops").max() / _TERA).alias("peak_tflops"),
        pl.col("peak_bytes").max().alias("peak_gbps"),
    ]


def _rated(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.with_columns(
        _as_text("name"),
        tflops=_finite(pl.col("counted_flops") / pl.col("counted_flops_in") / _TERA),
        gbps=_finite(pl.col("counted_bytes") / pl.col("counted_bytes_in")),
        intensity=_finite(pl.col("intensity")),
        roofline_ratio=_finite(pl.col("roof_ns") / pl.col("roof_ns_in")).clip(upper_bound=1),
        above_roofline_ns=(pl.col("roof_ns_in") - pl.col("roof_ns")).clip(lower_bound=0).round().cast(pl.Int64),
    )


def _finite(rate: pl.Expr) -> pl.Expr:
    return pl.when(rate.is_finite()).then(rate)


@operator_efficiency.rule
def time_above_the_limits(table: pl.DataFrame) -> Iterator[Finding]:
    """Shapes are further from the device's limits than the best shape of their kind.

    Kernels of one kind differ in how well they use the device: small or odd shapes, layouts that have to be turned, or
    a library without a good kernel for them. The cost is what would be saved if each reached the best of its kind on
    that rank, with the same limit, of calls of 20 µs and more whose work is known exactly. A shape that is faster than
    the limit is no measure: its data come from a cache.

    Look at the shapes that are named: pad or batch them, change their layout, tune the library (`torch.compile` with
    `mode="max-autotune"`, `TunableOp` on AMD), or update it.
    """
    rows = _certain(table).filter(pl.col("mean_ns") >= LONG_NS, pl.col("roofline_ratio") > 0)
    kind = ["rank", "category", "bound_by"]
    best = pl.when(pl.col("roofline_ratio") < 1).then("roofline_ratio").max().over(kind)
    # A shape that takes little of its kind's time is no measure for the others.
    rows = rows.filter(pl.col("work_ns") >= OF_ITS_KIND * pl.col("work_ns").sum().over(kind))
    below = (1 - pl.col("roofline_ratio") / best).clip(lower_bound=0)
    saved = (pl.col("union_ns") * below).fill_null(0).round().cast(pl.Int64)
    yield from _worst(
        table, rows.with_columns(cost_ns=saved), "reach less of the device's limits than others of their kind"
    )


@operator_efficiency.rule
def products_in_fp32(table: pl.DataFrame) -> Iterator[Finding]:
    """Products of matrices are computed in fp32 without TF32, among others in 16 bits.

    Units for fp32 do a third to a thirtieth of what the units for narrow types do. A layer left out of mixed precision,
    or one whose input is a float, costs as much as several others. Told by types and the names of kernels.

    Put the layer under autocast, or allow TF32: `torch.set_float32_matmul_precision("high")`.
    """
    products = _certain(table).filter(pl.col("category") == "gemm", pl.col("peak_tflops").is_not_null())
    narrow = pl.col("input_types").str.contains("BFloat16|Half").any().over("rank")
    wide = ~pl.col("input_types").str.contains("BFloat16|Half|Float8|char")
    slow = wide & (pl.col("peak_tflops") * FP32_TIMES <= pl.col("peak_tflops").max().over("rank"))
    yield from _worst(
        table, products.filter(narrow & slow).with_columns(cost_ns=None), "are products in fp32 without TF32"
    )


@operator_efficiency.rule
def unaligned_products(table: pl.DataFrame) -> Iterator[Finding]:
    """Products of matrices have sizes that leave much of a kernel's tiles empty, or that need slower kernels.

    Kernels compute tiles of 64 by 64 elements or larger; what a matrix leaves of the last ones is computed and thrown
    away. The cost is the share of tiles of 64 by 64 that is empty, where the device's speed limits the product. Kernels
    load 16 bytes at once: if rows do not begin at multiples of that, such as those of a vocabulary of 50257, slower
    kernels have to be taken. The cost is then what would be saved if the product came as near to the limits as the
    products of the rank that are aligned and no larger.

    Pad vocabulary, heads and hidden sizes to multiples of 64 or 128, or choose a batch that fills the tiles.
    """
    products = _certain(table).filter(pl.col("name").is_in(PRODUCTS), pl.col("bound_by") == "compute")
    products = products.filter(pl.col("roofline_ratio") > 0)
    given = products.select("name", "input_dims", "input_types", "input_strides").iter_rows()
    sizes = [sizes_of(*row) for row in given]
    others = _ratios_of_aligned(products, sizes)
    took = products.select("rank", "union_ns", "roofline_ratio").iter_rows()
    cost = [
        own_ns * max(1 - own.filled_ratio, 1 - ratio / (others(rank, own) or ratio)) if own else None
        for own, (rank, own_ns, ratio) in zip(sizes, took, strict=True)
    ]
    cost_ns = pl.Series("cost_ns", cost, dtype=pl.Float64()).round().cast(pl.Int64())
    rows = products.with_columns(cost_ns).filter(pl.col("cost_ns") > EMPTY * pl.col("union_ns"))
    yield from _worst(table, rows, "are products whose sizes leave tiles partly empty or need slower kernels")


def _ratios_of_aligned(
    products: pl.DataFrame, sizes: Sequence[ProductSizes | None]
) -> Callable[[int, ProductSizes], float]:
    """How near to the limits aligned products that are no larger come on a rank, by time; 0 for one that is aligned."""
    by_rank: dict[int, list[tuple[ProductSizes, float, int]]] = {}
    took = products.select("rank", "roofline_ratio", "union_ns", "mean_ns").iter_rows()
    for one, (rank, ratio, union_ns, mean_ns) in zip(sizes, took, strict=True):
        if one and one.is_aligned and mean_ns >= LONG_NS:
            by_rank.setdefault(rank, []).append((one, ratio, union_ns))

    def usual(rank: int, own: ProductSizes) -> float:
        if own.is_aligned:
            return 0.0
        known = [(ratio, ns) for other, ratio, ns in by_rank.get(rank, ()) if own.is_at_least(other)]
        total = sum(ns for _, ns in known)
        return sum(ratio * ns for ratio, ns in known) / total if total else 0.0

    return usual


@operator_efficiency.rule
def many_small_products(table: pl.DataFrame) -> Iterator[Finding]:
    """Many products of matrices are too small to fill the device.

    A kernel takes some microseconds to start and end, and a small one leaves most multiprocessors idle meanwhile. Many
    of the same shape take longer than one product of all of them. Named are shapes with 100 calls and more, of less
    than 20 µs each, that reach less than a tenth of the limits, or less than half of what the rank's long products
    reach. The cost is what would be saved if they reached as much as these, or else the limits.

    Batch them (`torch.bmm`, `torch.vmap`), group them (`torch._grouped_mm`), or capture them in a CUDA graph.
    """
    products = _certain(table).filter(pl.col("category") == "gemm")
    long_ns = pl.when(pl.col("mean_ns") >= LONG_NS).then("union_ns")
    usual = (pl.col("roofline_ratio") * long_ns).sum().over("rank") / long_ns.sum().over("rank")
    products = products.with_columns(usual=pl.when(usual.is_finite()).then(usual))
    little = pl.max_horizontal(pl.lit(LITTLE), OF_LONG_ONES * pl.col("usual"))
    rows = products.filter(pl.col("call_count") >= MANY, pl.col("mean_ns") < LONG_NS, pl.col("roofline_ratio") < little)
    below = (1 - pl.col("roofline_ratio") / pl.col("usual")).clip(lower_bound=0)
    saved = pl.coalesce((pl.col("union_ns") * below).round().cast(pl.Int64), "above_roofline_ns")
    yield from _worst(table, rows.with_columns(cost_ns=saved), "are products too small to fill the device")


@operator_efficiency.rule
def chains_that_memory_limits(table: pl.DataFrame) -> Iterator[Finding]:
    """A third of the time goes to elementwise operators and norms that only the memory's speed limits.

    Each of them reads what the one before wrote, and writes it again. Fused, what is between them would not leave the
    chip: of a chain of several, only the first input and the last output would move. The message says how many bytes
    they move; what a fusion would save depends on which follow each other.

    Compile the model (`torch.compile`), or use fused operators for norms, activations, dropout and rotary embeddings.
    """
    chained = _certain(table).filter(
        pl.col("category").is_in(["elementwise", "norm"]),
        pl.col("bound_by") == "memory",
        ~pl.col("name").str.starts_with("triton_"),
    )
    moved = chained.group_by("rank").agg(
        pl.col("union_ns").sum(), bytes=(pl.col("moved_bytes").cast(pl.Float64) * pl.col("call_count")).sum()
    )
    busy = table.group_by("rank").agg(busy_ns=pl.col("union_ns").sum())
    found = (
        moved.join(busy, on="rank")
        .filter(pl.col("union_ns") > CHAINS * pl.col("busy_ns"), pl.col("union_ns") > NOTICED_NS)
        .sort("rank")
    )
    if found.height:
        values = {"moved_bytes": float(found["bytes"].max() or 0)}  # type: ignore[arg-type]  # a column of floats
        message = (
            "elementwise operators and norms move up to {moved_bytes:size} a rank, part of which fusions keep on chip"
        )
        yield Finding("info", message, tuple(found["rank"]), values=values)


@operator_efficiency.rule
def optimizer_not_fused(table: pl.DataFrame) -> Iterator[Finding]:
    """The optimizer runs several kernels for each parameter, or for each list of them.

    Each of its operations reads and writes all parameters or states once more. A fused one reads and writes each once,
    in a single kernel for all parameters.

    Pass `fused=True` to the optimizer, or `foreach=True` where there is no fused one.
    """
    # Averages of weights are made of the other operations of optimizers, too.
    parts = ["aten::addcdiv_", "aten::_foreach_addcdiv_"]
    fused = pl.col("name").str.contains("_fused_(adam|sgd|adagrad)")
    rows = table.filter(pl.col("name").is_in(parts) & ~fused.any().over("rank"))
    single = rows.filter(pl.col("name") == "aten::addcdiv_")
    of_each = single.group_by("rank").agg(pl.col("call_count").sum()).filter(pl.col("call_count") >= MANY).sort("rank")
    lists = rows.filter(pl.col("name") != "aten::addcdiv_").join(of_each, on="rank", how="anti")
    if of_each.height:
        message = "the optimizer runs {name:name} for each single parameter"
        yield Finding("warning", message, tuple(of_each["rank"]), values={"name": parts[0]})
    if lists.height:
        ranks = tuple(lists["rank"].unique().sort())
        message = "the optimizer runs {name:name} and others over all parameters where a fused one runs one kernel"
        yield Finding("info", message, ranks, values={"name": parts[1]})


@operator_efficiency.rule
def ranks_slower_at_equal_shapes(table: pl.DataFrame) -> Iterator[Finding]:
    """A rank takes longer than the others for the same operators with the same shapes.

    The work is equal, so the device is not: it runs at a lower clock, hot or capped in power, shares its memory with
    another process, or is another model. The cost is how much longer it took than the median rank, over all operators
    whose work is known exactly and that it shares with at least two others. There is no finding if the other ranks
    differ from each other about as much.

    Compare clocks, temperature and power (`nvidia-smi -q -d CLOCK,PERFORMANCE`, `rocm-smi`), and swap the device.
    """
    same = ["name", *_GIVEN]
    # How long others take, e.g. sorting and choosing rows, depends on what is in their tensors.
    shared = table.filter(
        pl.col("confidence") == "exact", pl.col("step").is_null(), pl.col("category") != "communication"
    )
    typical = pl.col("mean_ns").median().over(same)
    compared = shared.filter(pl.col("rank").n_unique().over(same) >= RANKS).with_columns(typical_ns=typical)
    of_ranks = compared.group_by("rank").agg(
        pl.col("work_ns").sum(),
        beyond_ns=((pl.col("mean_ns") - pl.col("typical_ns")) * pl.col("call_count")).sum().round().cast(pl.Int64),
    )
    longer = pl.col("beyond_ns") / (pl.col("work_ns") - pl.col("beyond_ns"))
    away = pl.col("longer_ratio") - pl.col("longer_ratio").median()
    slow = (
        of_ranks.with_columns(longer_ratio=longer)
        .with_columns(away=away, usual=away.abs().median())
        .filter(pl.col("beyond_ns") > SLOWER * pl.col("work_ns"), pl.col("away") > DEVIATIONS * pl.col("usual"))
        .sort("rank")
    )
    for rank, beyond_ns, longer_ratio in slow.select("rank", "beyond_ns", "longer_ratio").iter_rows():
        message = "this rank takes {longer_ratio:percent} longer than the others for the same operators and shapes"
        yield Finding("warning", message, (rank,), beyond_ns, values={"longer_ratio": longer_ratio})


def _certain(table: pl.DataFrame) -> pl.DataFrame:
    """Rows of whole recordings whose work is known exactly, and the limit with it."""
    return table.filter(
        pl.col("confidence") == "exact", pl.col("roofline_ratio").is_not_null(), pl.col("step").is_null()
    )


def _worst(table: pl.DataFrame, rows: pl.DataFrame, what: str) -> Iterator[Finding]:
    """One finding of all ranks on which ``rows`` cost much, or take much where the cost is unknown."""
    busy = table.filter(pl.col("step").is_null()).group_by("rank").agg(busy_ns=pl.col("union_ns").sum())
    at_stake = pl.coalesce(pl.col("cost_ns"), pl.col("union_ns"))
    on = (
        rows.group_by("rank")
        .agg(
            pl.col("cost_ns").cast(pl.Int64).sum(),
            at_stake=at_stake.sum(),
            has_cost=pl.col("cost_ns").is_not_null().any(),
        )
        .join(busy, on="rank")
        .filter(pl.col("at_stake") > MUCH * pl.col("busy_ns"), pl.col("at_stake") > NOTICED_NS)
        .sort("rank")
    )
    if on.is_empty():
        return
    named = (
        rows.filter(at_stake > 0)
        .join(on, on="rank", how="semi")
        .group_by("name", "input_dims")
        .agg(at_stake.sum().alias("at_stake"))
        .sort("at_stake", "name", "input_dims", descending=[True, False, False])
        .head(NAMED)
    )
    names = ", ".join(f"{name} of {_legible(dims)}" for name, dims in named.select("name", "input_dims").iter_rows())
    cost = int(on["cost_ns"].max()) if on["has_cost"].all() else None  # type: ignore[arg-type]  # a column of numbers
    values = {"names": names, "what": what}
    yield Finding("info", "{names:text} {what:text}", tuple(on["rank"]), cost, values=values)


def _legible(dims: str) -> str:
    """The shapes of the first two tensors, e.g. 128x64, 64x32; exact work has legible ones.

    A bias before two matrices does not tell how much there is to multiply.
    """
    given = (shape for shape in arguments.listed(dims) if isinstance(shape, list))
    shapes = [shape for shape in given if shape and all(isinstance(size, int) for size in shape)]
    wide = [shape for shape in shapes if len(shape) > 1]
    shown = wide if len(wide) >= NAMED_SHAPES else shapes
    return ", ".join("x".join(map(str, shape)) for shape in shown[:NAMED_SHAPES])
