"""Attention and optimizers computed by an operator for each of their steps, where one kernel would do them all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import polars as pl

from holotrace.core.plans import done, without
from holotrace.core.tables import CPU_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import launched_by, modelled_work, optimizer_ranges
from holotrace.derive.totals import total
from holotrace.diagnosis.rank import host, open_calls
from holotrace.diagnosis.words.classes import UNFUSED_ATTENTION, UNFUSED_OPTIMIZER
from holotrace.efficiency import arguments
from holotrace.efficiency.unknown import Unknown

_OPS = CPU_OPS.only("event_id", "pid", "tid", "start_ns")
READS = (*modelled_work.READS, _OPS, *optimizer_ranges.READS)
# What fused kernels reach of the device's limits: attention of all pairs of tokens, forward and backward, 0.49 of the
# peak on an H100, and AdamW 0.78 of the memory's speed. Less is assumed of attention, since sizes differ.
ATTENTION_RATIO, OPTIMIZER_RATIO = 0.4, 0.78
# The backward pass of attention has five products where the forward pass has two.
_BACKWARD_TIMES = 2.5
# Shorter calls are mostly start and end of a kernel.
LONG_NS = 20_000
# Kernels of tensors so small that their time is that of any kernel; the shortest of a rank, but for some by chance.
_TINY_NS, _SHORTEST_QUANTILE = 5_000, 0.05
# Smaller scores fill few tiles of a kernel.
_LEAST_TOKENS = _LEAST_WIDTH = 64
# Work that is further from the limits, or beyond them, was not measured on such a device.
_PLAUSIBLE = (0.2, 1.1)
_OWN_MATH = "_scaled_dot_product_attention_math"
_RANGE = r"^Optimizer\.step#(?:\w+\.)*?(?<kind>Adam|AdamW|SGD)\.step$"
_LISTS = "aten::_foreach_"
# How often a fused optimizer reads or writes each element: Adam parameter and two moments both, and the gradient once;
# SGD with momentum has one moment.
_PASSES = {"aten::addcdiv_": 7, "aten::mul_": 5, "aten::add_": 3}
# How often these operators do so themselves.
_OWN_PASSES = {"aten::addcdiv_": 4, "aten::mul_": 2, "aten::add_": 3}
_GIVEN = ("name", "input_dims", "input_types")
_RESULT = ("op_id", "time_ns", "cause", "name", "detail")
_NOTHING = pl.DataFrame(schema=dict(zip(_RESULT, (pl.UInt32, pl.Int64, *[pl.String] * 3), strict=True)))


class Scores(NamedTuple):
    """The products of all queries with all keys: of so many heads and sequences."""

    heads: int
    queries: int
    keys: int

    def fits(self, shape: list[int]) -> bool:
        pair = shape[-2:]
        return prod(shape) == prod(self) and pair in ([self.queries, self.keys], [self.keys, self.queries])


def attention(rank: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """Calls that read or write the scores of an attention, with what they take beyond a fused kernel, ``time_ns``.

    They are recognised by shapes: a softmax of what one batched product gives and another takes.
    """
    once = calls.lazy().unique("signature", keep="first", maintain_order=True)
    given = done(once.select("signature", pl.col("name", "input_dims").cast(pl.String), "is_matrix", "peak_flops"))
    rows = [(*row, _shapes(dims)) for *row, dims in given.select(pl.exclude("input_dims"), "input_dims").iter_rows()]
    found = [_of_scores(calls, rows, scores, dims) for scores, dims in _softmaxes(rows).items()]
    if not found:
        return nothing()
    told = pl.concat(found).unique("op_id", keep="first", maintain_order=True)
    own = launched_by.outermost(rank, launched_by.named(rank, _OWN_MATH)) if told.height else None
    if own is None or own.is_empty():
        return told
    math = own.select("op_id", pl.col("around").alias("math"))
    return told.join(math, on="op_id", how="left").select(
        *_RESULT[:3], pl.coalesce("math", "name").alias("name"), "detail"
    )


Row = tuple[Any, ...]


def _softmaxes(rows: list[Row]) -> dict[Scores, tuple[int, ...]]:
    """Scores that a softmax is taken of, and the shape that it has there."""
    found = ((_of(shapes), shapes) for _, name, *_, shapes in rows if _is_softmax(name))
    return {scores: tuple(shapes[0]) for scores, shapes in found if scores and min(scores[1:]) >= _LEAST_TOKENS}


def _of(shapes: list[list[int]]) -> Scores | None:
    """The scores that a softmax of such shapes is taken of."""
    return Scores(prod(shapes[0][:-2]), *shapes[0][-2:]) if shapes and len(shapes[0]) > 2 else None


def _is_softmax(name: str) -> bool:
    return "softmax" in name and "log_softmax" not in name


def _of_scores(calls: pl.DataFrame, rows: list[Row], scores: Scores, dims: tuple[int, ...]) -> pl.DataFrame:
    """The calls on scores of one shape."""
    heads, queries, keys = scores
    pairs = [
        (signature, peak, shapes[-2], shapes[-1])
        for signature, _, is_matrix, peak, shapes in rows
        if is_matrix and peak and len(shapes) > 1 and len(shapes[-2]) == len(shapes[-1]) == 3
    ]
    makes = {one: a[2] for one, _, a, b in pairs if (a[0], a[1], b[2]) == scores}
    takes = {one: b[2] for one, _, a, b in pairs if tuple(a) == scores}
    widths = {*makes.values(), *takes.values()}
    # Where a head is as wide as there are tokens, shapes do not tell scores from what they are made of.
    if not makes or not takes or widths & {queries, keys}:
        return nothing()
    on_scores = {signature for signature, *_, shapes in rows if any(map(scores.fits, shapes))} | {*makes}
    on = calls.filter(pl.col("signature").is_in(on_scores))
    counted = on.filter(is_plausible(), pl.col("span_ns") >= LONG_NS)
    softmaxes = {signature: name for signature, name, *_, shapes in rows if _is_softmax(name) and _of(shapes) == scores}
    times = sum(
        on.filter(signature=signature).height * (_BACKWARD_TIMES if "backward" in name else 1)
        for signature, name in softmaxes.items()
    )
    # Narrower heads take as long: exponentials limit them.
    width = sum(max(_LEAST_WIDTH, *found.values()) for found in (makes, takes))
    flops = 2 * heads * queries * keys * width * times
    peak = max(peak for one, peak, *_ in pairs if one in makes or one in takes)
    return beyond(counted, flops / (ATTENTION_RATIO * peak)).select(
        "op_id",
        "time_ns",
        cause=pl.lit(UNFUSED_ATTENTION),
        name=pl.lit(next(iter(sorted(softmaxes.values(), key=len)))),
        detail=pl.lit(json.dumps(dims)),
    )


def is_plausible() -> pl.Expr:
    """Calls whose work is known, and done in a time that a device may take for it."""
    least, most = _PLAUSIBLE
    ratio = pl.col("roof_ns") / pl.col("span_ns")
    return (pl.col("confidence") == "exact") & ratio.is_between(least, most)


def beyond(calls: pl.DataFrame, needed_ns: float) -> pl.DataFrame:
    """The calls with the part of each that is more than all of them need together, ``time_ns``."""
    took = total(calls["span_ns"])
    part = max(0.0, 1 - needed_ns / took) if took else 0.0
    return calls.with_columns(time_ns=(pl.col("span_ns") * part).round().cast(pl.Int64)).filter(pl.col("time_ns") > 0)


def nothing() -> pl.DataFrame:
    """No call at all."""
    return _NOTHING.clone()


def _shapes(dims: str | None) -> list[list[int]]:
    lists = (one for one in arguments.listed(dims) if isinstance(one, list))
    return [one for one in lists if _are_sizes(one)]


def optimizer(rank: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """Calls of an optimizer that is not fused, with what they take beyond a fused one, ``time_ns``."""
    every = rank.cached(optimizer_ranges.own).lazy().rename({"name": "range"})
    ranges = done(every.with_columns(kind=pl.col("range").str.extract(_RANGE)).drop_nulls("kind"))
    if ranges.is_empty():
        return nothing()
    places = open_calls.looked_up(rank[_OPS], calls["op_id"], "pid", "tid", "start_ns")
    steps = ranges.lazy().drop("has_closure").rename({"end_ns": "until_ns"}).sort("start_ns")
    within = done(
        places.lazy()
        .with_row_index("row")
        .drop_nulls("start_ns")
        .sort("start_ns")
        .join_asof(steps, on="start_ns", by=["pid", "tid"], check_sortedness=False)
        .filter(pl.col("start_ns") < pl.col("until_ns"))
        .select("row", "range", "kind")
    )
    inside = _with_pauses(rank, calls[within["row"]].hstack(without(within, "row")))
    found = [
        beyond(one, needed).select(
            "op_id", "time_ns", cause=pl.lit(UNFUSED_OPTIMIZER), name=pl.lit(str(name)), detail=pl.lit(None, pl.String)
        )
        for (name,), ops in inside.group_by("range", maintain_order=True)
        if not ops["name"].str.contains("_fused_").any()
        for one, needed in _of_optimizer(ops, is_adam=ops["kind"][0] != "SGD")
    ]
    return pl.concat([nothing(), *found])


def _with_pauses(rank: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """The calls, lasting from the end of the work before them where the device only went from that to theirs."""
    events = modelled_work.events(rank).lazy().sort("start_ns", "end_ns", "event_id")
    pause = pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1)
    pauses = events.select("op_id", pause_ns=pause).filter(pl.col("pause_ns").is_between(1, host.MIN_GAP_NS))
    of_calls = pauses.filter(pl.col("op_id").is_in(pl.lit(calls["op_id"]).implode()))
    longer = of_calls.group_by("op_id").agg(pl.col("pause_ns").sum())
    return done(
        calls.lazy()
        .with_columns(pl.col("name", "input_dims", "input_types").cast(pl.String))
        .join(longer, on="op_id", how="left", maintain_order="left")
        .with_columns(pl.col("span_ns") + pl.col("pause_ns").fill_null(0))
    )


def _of_optimizer(ops: pl.DataFrame, *, is_adam: bool) -> Iterator[tuple[pl.DataFrame, float]]:
    """Operators of an optimizer's steps, on single tensors and on lists, each with the time that a fused one needs."""
    of_lists = pl.col("name").str.starts_with(_LISTS)
    # No fused optimizer takes gradients that are sparse, such as those of embeddings.
    given = ops.select(pl.col("input_dims", "input_strides").cast(pl.String)).iter_rows()
    is_sparse = pl.Series([_is_sparse(dims, strides) for dims, strides in given], dtype=pl.Boolean)
    single, lists = ops.filter(~of_lists, ~is_sparse), ops.filter(of_lists)
    least, most = (ratio * total(single["span_ns"]) for ratio in _PLAUSIBLE)
    are_tiny = _where_half_of_the_time_is(single["span_ns"]) < _TINY_NS
    update = _update(single["name"], is_adam=is_adam)
    is_limited = 0 < least <= total(single["roof_ns"].drop_nulls()) <= most
    updated = single.filter(name=update).select(_GIVEN) if is_limited else single.select(_GIVEN).clear()
    if moved := sum(_fused_bytes(*given) for given in updated.iter_rows()):
        peak: Any = single["peak_bytes"].max()
        yield single, moved / (OPTIMIZER_RATIO * peak)
    elif not is_limited and are_tiny:
        # What they take beyond the shortest of them is their data's, which one kernel would read and write, too.
        shortest = single["span_ns"].quantile(_SHORTEST_QUANTILE, "lower") or 0.0
        yield single, single.select((pl.col("span_ns") - shortest).clip(lower_bound=0).sum()).item()
    elif update and (is_limited or single["roof_ns"].is_null().all()):
        # Memory limits all of them, so that where sizes are unknown, or those of the update are, they tell by their
        # time how long a fused one takes.
        yield single, total(single.filter(name=update)["span_ns"]) * _PASSES[update] / _OWN_PASSES[update]
    # Lists are recorded without their sizes: how often each operator reads or writes one. The second factor of an
    # addcmul_ is the first.
    is_square = pl.col("name").str.contains("addcmul").cast(pl.Int64)
    passes = lists.select((pl.col("input_types").str.count_matches("TensorList") + 1 - is_square).sum()).item()
    plain = lists["name"].str.replace(_LISTS, "aten::", literal=True)
    update = _update(plain, is_adam=is_adam)
    if update is None:
        return
    updates = lists.filter(plain == update)
    if passes:
        yield lists, total(lists["span_ns"]) * _PASSES[update] * updates.height / passes
    elif _where_half_of_the_time_is(lists["span_ns"]) >= _TINY_NS:
        # Without types nobody knows how many lists there were, but for those of the update.
        yield lists, total(updates["span_ns"]) * _PASSES[update] / _OWN_PASSES[update]


def _where_half_of_the_time_is(spans_ns: pl.Series) -> float:
    """The time of a call up to which calls take half of the time of all: most are short, on small parameters."""
    ordered = spans_ns.sort()
    place = ordered.cum_sum().search_sorted(total(ordered) / 2)
    return float(ordered[place]) if len(ordered) else 0.0


def _is_sparse(dims: str | None, strides: str | None) -> bool:
    """Whether one of the tensors has sizes and no strides."""
    pairs = zip(arguments.listed(dims), arguments.listed(strides), strict=False)
    return any(stride == [] and isinstance(sizes, list) and _are_sizes(sizes) for sizes, stride in pairs)


def _are_sizes(sizes: list[object]) -> bool:
    return bool(sizes) and all(isinstance(size, int) for size in sizes)


def _update(names: pl.Series, *, is_adam: bool) -> str | None:
    """The operator that an optimizer without a fused kernel calls once for each parameter, or for each list of them."""
    known = ("aten::addcdiv_",) if is_adam else ("aten::mul_", "aten::add_")
    return next((name for name in known if name in names), None)


def _fused_bytes(name: str, dims: str, types: str) -> int:
    """Bytes that a fused optimizer moves for a parameter, by what the operator above is given for it."""
    try:
        given = arguments.read(name, dims, types)
        first = given.tensor(0)
        if name != "aten::addcdiv_":
            return _PASSES[name] * first.bytes
        # The gradient has the type of the parameter, and each moment its own.
        return 3 * first.bytes + 2 * given.tensor(1).bytes + 2 * given.tensor(2).bytes
    except Unknown:
        return 0
