"""Operations of XLA that two jobs have, by what tells of each which it is: its scope, and its number where that stays.

Compilers number operations anew: a program that is compiled from other code has other numbers, and PyTorch/XLA numbers
whole graphs. Where both jobs have the same numbers, of one scope or of one program without scopes, these are the same
operations. Others are the same by their scopes, and what is neither is compared as all operations of one name.
"""

from __future__ import annotations

import polars as pl

from holotrace.derive.names import NUMBERED

# What is around all of a program says nothing of its operations.
_ENTRY = r"^(jit|pjit)\([^)]*\)/"
# A TPU adds the operator.
_OPERATOR = r":[^/]*$"
_ONE = ["module", "plain", "category", "scope"]
# Stands for no name, which equals itself.
_NONE = ""


def named(before: pl.DataFrame, after: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of both jobs, those of the same operations with the same ``name``, and ``plain``, all of one name.

    Args:
        before: ``name``, ``category``, ``module`` and ``scope`` of operations, and whatever else.
        after: The same of the other job.
    """
    sides = [
        own.with_columns(
            plain=pl.col("name").str.replace(NUMBERED, ""),
            scope=pl.col("scope").str.replace(_OPERATOR, "").str.replace(_ENTRY, "").fill_null(_NONE),
        )
        for own in with_programs(before, after)
    ]
    numbers = [
        own.group_by(_ONE).agg(pl.col("name").drop_nulls().unique().sort().str.join("\n").alias("numbers"))
        for own in sides
    ]
    both = numbers[0].join(numbers[1], on=_ONE, how="full", coalesce=True, nulls_equal=True, suffix="_after")
    is_gone, is_new = pl.col("numbers_after").is_null(), pl.col("numbers").is_null()
    # What is gone may be what is new under another scope.
    is_either = (is_gone | is_new) & (is_gone.any() & is_new.any()).over("module", "plain", "category")
    told = both.select(
        *_ONE, is_one=(pl.col("numbers") == pl.col("numbers_after")).fill_null(value=False), is_either=is_either
    )
    first, second = (_named(own, told) for own in sides)
    return first, second


def with_programs(before: pl.DataFrame, after: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of both jobs, their ``module`` without its number unless both jobs have the same ones."""
    plain = pl.col("module").str.replace(NUMBERED, "")
    numbers = [
        own.group_by(plain=plain).agg(pl.col("module").drop_nulls().unique().sort().str.join("\n").alias("numbers"))
        for own in (before, after)
    ]
    same = numbers[0].join(numbers[1], on=["plain", "numbers"], how="semi", nulls_equal=True)["plain"]
    is_same = plain.is_in(same.implode()).fill_null(value=True)
    first, second = (
        own.with_columns(module=pl.when(is_same).then("module").otherwise(plain)) for own in (before, after)
    )
    return first, second


def _named(own: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    known = own.join(told, on=_ONE, how="left", nulls_equal=True, maintain_order="left")
    scope = pl.when(pl.col("scope") != _NONE).then(pl.format(" ({})", "scope")).otherwise(pl.lit(""))
    number = pl.when("is_one").then("name").otherwise("plain")
    name = pl.when("is_either").then("plain").otherwise(pl.concat_str(number, scope))
    return known.with_columns(name=name).drop("is_one", "is_either")
