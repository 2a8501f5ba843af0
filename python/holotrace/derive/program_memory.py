"""What each compiled program keeps in memory, by the compiler's own assignment of memory."""

from __future__ import annotations

import polars as pl

PROGRAM = ("module", "program", "memory")
INPUT, REUSED, OUTPUT, CONSTANT, TEMPORARY = "input", "input and output", "output", "constant", "temporary"


def assigned(buffers: pl.DataFrame) -> pl.DataFrame:
    """Buffers of the device, each with the ``role`` of its memory; what threads of the host keep is left out."""
    role = (
        pl.when(pl.col("is_parameter") & pl.col("is_output"))
        .then(pl.lit(REUSED))
        .when("is_parameter")
        .then(pl.lit(INPUT))
        .when("is_output")
        .then(pl.lit(OUTPUT))
        .when("is_constant")
        .then(pl.lit(CONSTANT))
        .otherwise(pl.lit(TEMPORARY))
    )
    labels = ("module", "name", "opcode", "scope", "source")
    texts = [pl.col(name).cast(pl.String) for name in labels if name in buffers.columns]
    return buffers.filter(~pl.col("is_thread_local")).with_columns(*texts, role=role)


def padding_bytes() -> pl.Expr:
    """What of a buffer's size its elements do not need; none where that is unknown, as of tuples."""
    return (pl.col("peak_bytes") - pl.col("data_bytes").fill_null(pl.col("peak_bytes"))).clip(lower_bound=0)


def reusable(buffers: pl.DataFrame) -> pl.DataFrame:
    """Inputs whose memory an output of the same type, shape and size could take: PROGRAM, input_count, reusable_bytes.

    As many as there are such outputs which have memory of their own.
    """
    keys = [*PROGRAM, "shape", "allocation_bytes"]
    held = buffers.filter(pl.col("shape").is_not_null(), ~pl.col("shape").str.starts_with("("))
    pieces = held.unique([*PROGRAM, "allocation", "shape"])

    def counted(role: str) -> pl.DataFrame:
        return pieces.filter(role=role).group_by(keys).agg(pl.len().alias(role).cast(pl.Int64))

    # An output is the last that its memory holds, but what that is nobody says.
    both = counted(INPUT).join(counted(OUTPUT), on=keys)
    fits = both.with_columns(count=pl.min_horizontal(INPUT, OUTPUT))
    return fits.group_by(PROGRAM).agg(
        input_count=pl.col("count").sum(), reusable_bytes=(pl.col("count") * pl.col("allocation_bytes")).sum()
    )
