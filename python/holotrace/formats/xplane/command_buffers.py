"""Which instruction each kernel of a command buffer is.

XLA records most of a program as a CUDA graph, a command buffer. Its profiler then writes the buffer's name as the
instruction of every kernel in it. The program still tells the order in which its instructions run, and a fusion's
kernel has the name of that fusion or of an equal one before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holotrace.formats.xplane.profile import Profile

_BUFFER = r"^command_buffer"
_NUMBER = r"[._]\d+$"
# Instructions that are no work of their own.
_IDLE = r"^(parameter|constant|tuple|get-tuple-element|bitcast|after-all|while|conditional|call)$|-done$"
# What is ordered by itself, and where in it an instruction is.
_SEQUENCE = ["program_id", "computation"]
_PLACE = [*_SEQUENCE, "is_fusion", "place"]


def resolved(own: pl.DataFrame, examples: pl.DataFrame, profile: Profile) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Operations and examples of their kinds, in which each instruction of a command buffer is a kind of its own.

    The examples get the column instruction, null outside of command buffers and where the order is not the program's.
    """
    columns = ["event_id", "hlo_op", "display", "program_id"]
    texts = profile.of_rows(columns, examples.select("event_id")).with_columns(
        pl.col("hlo_op", "display").cast(pl.String)
    )
    known = examples.select("kind", "event_id").join(texts, on="event_id")
    is_buffered = pl.col("hlo_op").str.contains(_BUFFER).fill_null(value=False)
    buffered = known.filter(is_buffered)
    none = examples.with_columns(instruction=pl.lit(None, pl.String))
    if buffered.is_empty():
        return own, none
    planned = _planned(profile, known.filter(~is_buffered))
    rows = own.select("kind", "start_ns", "correlation_id").with_row_index("row").join(buffered, on="kind")
    found = _instructions(rows.sort("correlation_id", "start_ns", "row"), planned).drop_nulls("instruction")
    kinds = found.select("kind", "instruction").unique(maintain_order=True).with_row_index("new", examples.height)
    found = found.join(kinds, on=["kind", "instruction"])
    own = own.with_columns(own["kind"].scatter(found["row"], found["new"]))
    added = kinds.join(examples, on="kind", maintain_order="left").with_columns(kind=pl.col("new").cast(pl.UInt32))
    return own, pl.concat([none, added.select(none.columns)])


def _planned(profile: Profile, others: pl.DataFrame) -> pl.DataFrame:
    """The work of each program in its order, without what is known to run outside of command buffers.

    Returns program_id, computation (the program itself, or the body of a loop in it), instruction, base, is_fusion,
    place (number of fusions up to it), nth and many (of the other instructions at one place).
    """
    columns = ["program", "computation", "name", "opcode", "is_fused", "place"]
    hlo = pl.DataFrame(profile.space.hlo(columns)).filter(~pl.col("is_fused"))
    # Where a program has no schedule, it is written in the order in which it runs.
    hlo = hlo.sort("program", "computation", "place", maintain_order=True).select(
        pl.col("computation", "opcode").cast(pl.String),
        program_id="program",
        instruction=pl.col("name").cast(pl.String),
    )
    work = hlo.filter(~pl.col("opcode").str.contains(_IDLE)).with_columns(
        is_fusion=pl.col("opcode") == "fusion", base=_base("instruction")
    )
    return _placed(_inside(work, others), _SEQUENCE)


def _inside(work: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """The work without what runs outside of command buffers, unless what is beside it does so, too.

    The first runs of a program have no command buffers.
    """
    outside = others.select("program_id", instruction="hlo_op").unique().with_columns(is_outside=pl.lit(value=True))
    known = work.join(outside, on=["program_id", "instruction"], how="left", maintain_order="left").with_columns(
        pl.col("is_outside").fill_null(value=False),
        beside=pl.col("is_fusion").cum_sum().clip(lower_bound=1).over(_SEQUENCE),
    )
    fusion_is_outside = (pl.col("is_outside") & pl.col("is_fusion")).any().over(*_SEQUENCE, "beside")
    return known.filter(~pl.col("is_outside") | pl.col("is_fusion") | fusion_is_outside).select(work.columns)


def _base(name: str) -> pl.Expr:
    return pl.col(name).str.replace(_NUMBER, "").str.replace_all(r"[.-]", "_")


def _placed(rows: pl.DataFrame, of: Sequence[str]) -> pl.DataFrame:
    """With place, nth and many; ``of`` is what is counted by itself."""
    at = rows.with_columns(place=pl.col("is_fusion").cast(pl.Int64).cum_sum().over(of))
    alike = (*of, "is_fusion", "place")
    return at.with_columns(nth=pl.int_range(pl.len()).over(alike), many=pl.len().over(alike))


def _instructions(rows: pl.DataFrame, planned: pl.DataFrame) -> pl.DataFrame:
    """row, kind and instruction of the work in ``rows``, which are in the order in which they began."""
    fusions = planned.filter("is_fusion").select("program_id", "base", is_fusion=True).unique()
    rows = rows.with_columns(base=_base("display"))
    rows = rows.join(fusions, on=["program_id", "base"], how="left", maintain_order="left")
    rows = rows.with_columns(pl.col("is_fusion").fill_null(value=False))
    # Memory is set for what comes next.
    is_set = pl.col("display").str.starts_with("Memset")
    kernels = _placed(rows.filter(~is_set), ["correlation_id"]).join(
        _offsets(rows, planned), on=["program_id", "hlo_op"]
    )
    kernels = kernels.with_columns(pl.col("place") + pl.col("offset"))
    at = planned.select(*_PLACE, "nth", "instruction", meant="base")
    several = planned.select(*_PLACE, of="many").unique()
    nth = pl.when(pl.col("of") == 1).then(0).when(pl.col("of") == pl.col("many")).then("nth")
    kernels = (
        kernels.join(several, on=_PLACE, how="left")
        .with_columns(nth=nth)
        .join(at, on=[*_PLACE, "nth"], how="left")
        .with_columns(is_other=pl.col("is_fusion") & (pl.col("meant") != pl.col("base")).fill_null(value=True))
        .filter(~pl.col("is_other").any().over("correlation_id"))
    )
    named = rows.join(kernels.select("row", "instruction"), on="row", how="left", maintain_order="left")
    following = pl.when(is_set).then(pl.col("instruction").backward_fill().over("correlation_id"))
    return named.select("row", "kind", instruction=pl.coalesce("instruction", following))


def _offsets(rows: pl.DataFrame, planned: pl.DataFrame) -> pl.DataFrame:
    """program_id, hlo_op, computation and offset (the fusions of that before the buffer).

    A buffer is a row of instructions that follow each other. It is left out where its fusions do so in several places.
    """
    order = pl.format("<{}>", "base")
    fusions, buffer = pl.col("is_fusion").sum(), ["program_id", "hlo_op"]
    of_buffers = (
        rows.group_by(*buffer, "correlation_id", maintain_order=True)
        .agg(order.filter("is_fusion").str.join("").alias("own"), fusions=fusions)
        # Of one that began before the recording only the end is known.
        .sort("fusions", descending=True, maintain_order=True)
        .unique(buffer, keep="first", maintain_order=True)
        .filter(pl.col("fusions") > 0)
    )
    of_sequences = planned.filter("is_fusion").group_by(_SEQUENCE).agg(order.str.join("").alias("whole"))
    after = pl.col("whole").str.slice(pl.col("at") + 1)
    return (
        of_buffers.join(of_sequences, on="program_id")
        .with_columns(at=pl.col("whole").str.find(pl.col("own"), literal=True))
        .drop_nulls("at")
        .filter(after.str.find(pl.col("own"), literal=True).is_null(), pl.len().over(buffer) == 1)
        .with_columns(offset=pl.col("whole").str.head(pl.col("at")).str.count_matches("<", literal=True).cast(pl.Int64))
        .select(*buffer, "computation", "offset")
    )
