"""Compiled programs: which were variants of one module, and in what their inputs differ."""

from __future__ import annotations

import polars as pl

KEY = ("module", "program")
_SHOWN = 3  # inputs that differ, in a sentence
_LINKS = 8  # programs that have lines in common with the next, one after the other


def first_runs(modules: pl.DataFrame) -> pl.DataFrame:
    """Each program that ran: ``module``, ``program``, when it was first launched, ``first_ns``, and ran, ``ran_ns``.

    A host that runs ahead compiles the next program before the last one begins. ``first_ns`` is ``ran_ns`` where no
    launch is known.
    """
    return (
        modules.drop_nulls(list(KEY))
        .group_by(pl.col("module").cast(pl.String()), "program")
        .agg(first_ns=pl.coalesce("launch_ns", "start_ns").min(), ran_ns=pl.col("start_ns").min())
        .sort("first_ns", *KEY)
    )


def by_function(ran: pl.DataFrame, hlo: pl.DataFrame) -> pl.DataFrame:
    """The programs that ran, as from ``first_runs``, with ``function``, a number within their module.

    Functions of one name, as lambdas have it, make programs of one name. Those of one function were made of lines of
    which some are the same; where a program does not say, all of that name are taken for one function's.
    """
    several = ran.filter(pl.len().over("module") > 1).select(KEY)
    lines = (
        hlo.select(pl.col("module", "source").cast(pl.String()), "program")
        .drop_nulls()
        .unique()
        .join(several, on=KEY, how="semi")
        .with_columns(function="program")
    )
    for _ in range(_LINKS):
        of_line = lines.select(*KEY, "source", pl.col("function").min().over("module", "source"))
        linked = of_line.with_columns(pl.col("function").min().over(KEY))
        if linked["function"].equals(lines["function"]):
            break
        lines = linked
    found = ran.join(lines.select(*KEY, "function").unique(KEY, keep="any"), on=KEY, how="left", maintain_order="left")
    is_told = pl.col("function").is_not_null().all().over("module")
    return found.with_columns(pl.when(is_told).then("function").otherwise(0))


def inputs(hlo: pl.DataFrame) -> pl.DataFrame:
    """Inputs of each program: ``module``, ``program``, ``name``, ``shape``.

    They are the parameters of its entry computation. Where nothing says which that is, it is the one with most of them.
    """
    parameters = hlo.select(
        pl.col("module", "name", "opcode", "computation", "shape").cast(pl.String()), "program", "is_entry"
    ).filter(opcode="parameter")
    entry = (
        parameters.group_by(*KEY, "computation")
        .agg(count=pl.len(), is_entry=pl.col("is_entry").fill_null(value=False).any())
        .sort("is_entry", "count", "computation", descending=[True, True, False])
        .group_by(KEY, maintain_order=True)
        .agg(pl.col("computation").first())
    )
    return parameters.join(entry, on=[*KEY, "computation"]).select(*KEY, "name", "shape")


def differences(pairs: pl.DataFrame, inputs: pl.DataFrame) -> pl.Series:
    """In which inputs ``program`` differs from the one ``before`` it: "s64[16,32] became s64[16,48]"; null if in none.

    Args:
        pairs: Rows of ``module``, ``before`` and ``program``.
        inputs: As from ``inputs``.
    """
    changed = (
        pairs.with_row_index("pair")
        .join(inputs, on=KEY)
        .join(
            inputs.rename({"program": "before", "shape": "shape_before"}), on=["module", "before", "name"], how="inner"
        )
        .filter(pl.col("shape") != pl.col("shape_before"))
        # Inputs that follow each other often change alike.
        .unique(["pair", "shape", "shape_before"], keep="first", maintain_order=True)
    )
    said = pl.col("shape_before") + " became " + pl.col("shape")
    told = (
        changed.group_by("pair")
        .agg(said.head(_SHOWN).str.join(", "), count=pl.len())
        .select(
            "pair",
            change=pl.when(pl.col("count") > _SHOWN).then(pl.col("shape_before") + ", …").otherwise("shape_before"),
        )
    )
    return pairs.with_row_index("pair").join(told, on="pair", how="left", maintain_order="left")["change"]
