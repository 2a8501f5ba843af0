"""Which instruction each kernel of a command buffer is.

XLA records most of a program as a CUDA graph, a command buffer. Its profiler then writes the buffer's name as the
instruction of every kernel in it. The program still tells the order in which its instructions run, and a fusion's
kernel has the name of that fusion or of an equal one before it.
"""

from __future__ import annotations

import polars as pl

from holotrace.formats.xplane.profile import Profile

_BUFFER = r"^command_buffer"
_NUMBER = r"[._]\d+$"
# Instructions that are no work of their own.
_IDLE = r"^(parameter|constant|tuple|get-tuple-element|bitcast|after-all)$|-done$"
_PLACE = ["program_id", "is_fusion", "place"]


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

    Returns program_id, instruction, base, is_fusion, place (number of fusions up to it), nth and many (of the other
    instructions at one place).
    """
    hlo = pl.DataFrame(profile.space.hlo(["program", "name", "opcode", "is_entry", "place"])).filter("is_entry")
    # Where a program has no schedule, it is written in the order in which it runs.
    hlo = hlo.sort("program", "place", maintain_order=True)
    hlo = hlo.select(
        program_id="program", instruction=pl.col("name").cast(pl.String), opcode=pl.col("opcode").cast(pl.String)
    )
    outside = others.select("program_id", instruction="hlo_op")
    work = hlo.filter(~pl.col("opcode").str.contains(_IDLE)).join(
        outside, on=["program_id", "instruction"], how="anti", maintain_order="left"
    )
    return _placed(work.with_columns(is_fusion=pl.col("opcode") == "fusion", base=_base("instruction")), "program_id")


def _base(name: str) -> pl.Expr:
    return pl.col(name).str.replace(_NUMBER, "").str.replace_all(r"[.-]", "_")


def _placed(rows: pl.DataFrame, of: str) -> pl.DataFrame:
    """With place, nth and many; ``of`` is what is counted by itself."""
    at = rows.with_columns(place=pl.col("is_fusion").cast(pl.Int64).cum_sum().over(of))
    alike = (of, "is_fusion", "place")
    return at.with_columns(nth=pl.int_range(pl.len()).over(alike), many=pl.len().over(alike))


def _instructions(rows: pl.DataFrame, planned: pl.DataFrame) -> pl.DataFrame:
    """row, kind and instruction of the work in ``rows``, which are in the order in which they began."""
    fusions = planned.filter("is_fusion").select("program_id", "base", is_fusion=True).unique()
    rows = rows.with_columns(base=_base("display"))
    rows = rows.join(fusions, on=["program_id", "base"], how="left", maintain_order="left")
    rows = rows.with_columns(pl.col("is_fusion").fill_null(value=False))
    # Memory is set for what comes next.
    is_set = pl.col("display").str.starts_with("Memset")
    kernels = _placed(rows.filter(~is_set), "correlation_id").join(_offsets(rows, planned), on=["program_id", "hlo_op"])
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
    """program_id, hlo_op and offset (the fusions before that buffer), of programs whose fusions all ran."""
    of_program = pl.col("fusions").sum().over("program_id")
    all_of_them = planned.filter("is_fusion").group_by("program_id").agg(planned=pl.len())
    return (
        rows.group_by("program_id", "hlo_op", "correlation_id")
        .agg(fusions=pl.col("is_fusion").sum().cast(pl.Int64), begin_ns=pl.col("start_ns").min())
        .sort("begin_ns")
        .unique(["program_id", "hlo_op"], keep="first", maintain_order=True)
        .join(all_of_them, on="program_id")
        .filter(of_program == pl.col("planned"))
        .select("program_id", "hlo_op", offset=(pl.col("fusions").cum_sum() - pl.col("fusions")).over("program_id"))
    )
