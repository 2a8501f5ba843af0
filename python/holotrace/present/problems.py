"""What to say beside an answer that comes from damaged or incomplete input."""

from __future__ import annotations

import polars as pl

from holotrace.core.problems import MISSING
from holotrace.present import format as fmt

# Kinds of problems that are named in one line.
_NAMED = 3
# What was read in full although it was written in an odd way.
_WITHOUT_LOSS = (
    "byte order mark",
    "comma missing between events",
    "digits below a nanosecond",
    "number written as text",
    "steps not marked",
)
# Of a file that holotrace itself wrote beside the traces.
_OURS = "a timeline of several ranks"


def in_words(problems: pl.DataFrame) -> str:
    """What may be missing or wrong, in one line, e.g. ``file cut off (rank 3)``; empty where nothing is."""
    own = pl.col("example").str.contains(_OURS, literal=True).fill_null(False)
    partial = problems.filter(~pl.col("problem").is_in(_WITHOUT_LOSS), ~own)
    if partial.is_empty():
        return ""
    kinds = (
        partial.group_by("problem", maintain_order=True)
        .agg(
            pl.col("count").sum(), ranks=pl.col("rank").drop_nulls().unique().sort(), example=pl.col("example").first()
        )
        .iter_rows(named=True)
    )
    said = [_kind(**kind) for kind in kinds]
    more = f"; and {fmt.plural(len(said) - _NAMED, 'more kind')} of problems" if len(said) > _NAMED else ""
    return fmt.printable(f"not everything could be read as it was recorded: {'; '.join(said[:_NAMED])}{more}")


def _kind(problem: str, count: int, ranks: list[int], example: str | None) -> str:
    times = f"{fmt.number(count)} times" if count > max(len(ranks), 1) and problem != MISSING else ""
    who = f"rank{'s' if len(ranks) > 1 else ''} {fmt.ranks(ranks)}" if ranks else ""
    # What concerns the job as a whole has no rank to name.
    what = "" if ranks else fmt.middle(example or "", 80)
    details = ", ".join(detail for detail in (who, what, times) if detail)
    return f"{problem} ({details})" if details else problem
