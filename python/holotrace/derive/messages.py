"""How much data collectives move."""

from __future__ import annotations

import polars as pl

# Bytes of element types whose name has no number of bits: PyTorch's, and a truth value of XLA.
_WORDS = {
    **dict.fromkeys(("byte", "char", "bool", "pred"), 1),
    **dict.fromkeys(("short", "half"), 2),
    **dict.fromkeys(("int", "float", "complexhalf"), 4),
    **dict.fromkeys(("long", "double", "complexfloat"), 8),
    "complexdouble": 16,
}
_PLAIN_NAME = pl.col("collective").cast(pl.String).str.to_lowercase().str.replace_all("[_-]", "")


def message_bytes() -> pl.Expr:
    """The size of a message: of a type's name the first number counts bits, e.g. 16 of ``c10::BFloat16``."""
    name = pl.col("element_type").cast(pl.String).str.to_lowercase().str.extract(r"(\w+)$")
    bits = name.str.extract(r"^[a-z]+(\d+)").cast(pl.Int64, strict=False)
    bits = pl.coalesce(bits, 8 * name.replace_strict(_WORDS, default=None, return_dtype=pl.Int64()))
    # Absurd numbers of a damaged trace have no size.
    count = pl.col("element_count")
    return pl.when(count.is_between(0, 2**50), bits <= 128).then(count * bits // 8)


def bus_factor() -> pl.Expr:
    """How many times its message a collective moves over the link of each rank, as nccl-tests count; null if unknown.

    Of collectives with the same product of both each rank moves as much.
    """
    others = (pl.col("group_size") - 1) / pl.col("group_size")
    return (
        pl.when(_PLAIN_NAME.str.contains("allreduce"))
        .then(2 * others)
        .when(_PLAIN_NAME.str.contains("allgather|reducescatter|alltoall|^gather|^scatter"))
        .then(others)
        .when(_PLAIN_NAME.str.contains("^(broadcast|reduce|send|recv|permute)"))
        .then(1.0)
    )
