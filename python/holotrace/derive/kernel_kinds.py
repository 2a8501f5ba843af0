"""What kind of work a device event is: the one place that decides it, from its category and name.

Rules are tried in order and the first that fits decides: a user's own rules, then those of ``vendors``. Whatever fits
none is compute, since names of compute kernels are beyond counting and a device runs them for most of the time.
``other`` is only for rows of the device's timeline that are no work at all. A name is looked at without its template
arguments and parameters, which repeat names of types and operators (``ReduceScatter`` as a functor, ``ncclDevComm*`` as
a parameter) without saying what the kernel does.
"""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl

from holotrace.core.kinds import COMMUNICATION, COMPUTE, MEMORY, OTHER, SYNC, WORK, KindRule
from holotrace.derive.vendors import RULES

__all__ = [
    "COMMUNICATION",
    "COMPUTE",
    "IS_WORK",
    "MEMORY",
    "OTHER",
    "SYNC",
    "WORK",
    "decide",
    "kind_of",
    "kinds",
    "rule_of",
]

# Whether a device event is work of any kind.
IS_WORK = pl.col("kind").is_in(WORK)

_NAMED = ["category", "name"]
# Stripped, in this order: where a function is declared, its return type, template arguments and parameters.
_QUALIFIER = re.compile(r"\(anonymous namespace\)::|<unnamed>::")
_RETURN_TYPE = re.compile(r"^(static |inline |__global__ )*(void|auto) ")
_ARGUMENTS = re.compile(r"[<(].*$", re.DOTALL)


def kinds(events: pl.DataFrame, rules: tuple[KindRule, ...] = ()) -> pl.Series:
    """The kind of each of ``events``, which need ``category`` and ``name``; ``rules`` are the user's own."""
    # A trace has some thousand names and some million events: decide each name once.
    named = events[:, _NAMED]
    names = named.unique()
    decided = names.with_columns(kind=decide(names["category"], names["name"], rules).cast(pl.Categorical()))
    return named.join(decided, on=_NAMED, how="left", nulls_equal=True, maintain_order="left")["kind"]


def decide(category: pl.Series, name: pl.Series, rules: tuple[KindRule, ...] = ()) -> pl.Series:
    """The kind of each pair of category and name, as text."""
    pairs = zip(category.cast(pl.String()), name.cast(pl.String()), strict=True)
    return pl.Series("kind", [kind_of(category or "", name or "", rules) for category, name in pairs], pl.String())


def kind_of(category: str, name: str, rules: tuple[KindRule, ...] = ()) -> str:
    """The kind of device events of one category and name."""
    rule = rule_of(category, name, rules)
    return COMPUTE if rule is None else rule.kind


# The ranks of a job run the same kernels, so nearly every name is decided once for all of them.
@lru_cache(maxsize=1 << 16)
def rule_of(category: str, name: str, rules: tuple[KindRule, ...] = ()) -> KindRule | None:
    """The rule that decides the kind of device events of one category and name; None where none fits."""
    bare = _ARGUMENTS.sub("", _RETURN_TYPE.sub("", _QUALIFIER.sub("", name)))
    return next((rule for rule in (*rules, *RULES) if rule.fits(category, bare)), None)
