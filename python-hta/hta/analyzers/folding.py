"""Statistics of the times of each name, of which those that matter least are folded into one, as HTA does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from hta.frames import NS_PER_US

FOLDED = "others"

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Times:
    """How long each of some names took, in nanoseconds: a value per name in each array.

    Args:
        name: The names, each once, as objects.
        count: How often it ran.
        sum: Time of all its runs.
        min: Its shortest run.
        max: Its longest run.
        squares: The sum of the squares of what its runs differ from their mean.
    """

    name: Array
    count: Array
    sum: Array
    min: Array
    max: Array
    squares: Array

    @classmethod
    def of_runs(cls, name: Sequence[str], number: Integers, duration_ns: Integers) -> Times:
        """Of runs, each with the number of its name."""
        order = np.argsort(number, kind="stable")
        number, duration_ns = number[order], duration_ns[order]
        begin = np.flatnonzero(np.diff(number, prepend=-1))
        count = np.diff(begin, append=len(number))
        if not len(begin):
            return _NONE
        total = np.add.reduceat(duration_ns, begin)
        differences = duration_ns - np.repeat(total / count, count)
        return cls(
            np.array([name[first] for first in number[begin]], dtype=object),
            count,
            total,
            np.minimum.reduceat(duration_ns, begin),
            np.maximum.reduceat(duration_ns, begin),
            np.add.reduceat(differences**2, begin),
        )

    @classmethod
    def of_names(cls, kernels: pl.DataFrame) -> Times:
        """Of a table with ``name``, ``count``, ``sum_ns``, ``min_ns``, ``max_ns``, ``std_ns``."""
        spread = pl.col("std_ns").fill_null(0).cast(pl.Float64) ** 2
        columns = kernels.select("count", "sum_ns", "min_ns", "max_ns", squares=(pl.col("count") - 1) * spread)
        return cls(np.array(kernels["name"].to_list(), dtype=object), *(column.to_numpy() for column in columns))

    def take(self, places: Array) -> Times:
        """Those at these places."""
        return Times(*(values[places] for values in vars(self).values()))

    def together(self) -> Times:
        """All as one name."""
        count, total = self.count.sum(), self.sum.sum()
        # Squares within each name and between the names' means.
        squares = (self.squares + self.count * (self.sum / self.count - total / count) ** 2).sum()
        values = (count, total, self.min.min(), self.max.max(), squares)
        return Times(np.array([FOLDED], dtype=object), *(np.array([value]) for value in values))


_NONE = Times(np.empty(0, dtype=object), *[np.empty(0, dtype=np.int64)] * 5)


def folded(times: Times, duration_ratio: float, most_names: int, allowlist: Sequence[str] = ()) -> Times:
    """The times in the order of names, those that matter least as one.

    Args:
        times: Of each name of a group.
        duration_ratio: Names are folded that lie beyond this quantile of the running sum of times.
        most_names: So many names are never folded; of more, those beyond are.
        allowlist: Names that contain one of these are never folded.
    """
    by_name = times.take(np.argsort(times.name, kind="stable"))
    if len(by_name.name) <= most_names:
        return by_name
    ranked = by_name.take(np.argsort(-by_name.sum, kind="stable"))
    running = ranked.sum.cumsum()
    is_folded = (running > np.quantile(running, duration_ratio)) | (np.arange(len(running)) >= most_names)
    is_folded &= [not any(part in name for part in allowlist) for name in ranked.name]
    if not is_folded.any():
        return by_name
    # A name may be the one that others are folded into.
    is_folded |= ranked.name == FOLDED
    both = _one_after_the_other(ranked.take(~is_folded), ranked.take(is_folded).together())
    return both.take(np.argsort(both.name, kind="stable"))


def table_of(groups: Sequence[Times], labels: Mapping[str, Array]) -> pd.DataFrame:
    """HTA's columns of the times of some groups, in microseconds, one group below the other; then columns of labels.

    Args:
        groups: In the order in which they shall stand.
        labels: For each further column what it says of each group.
    """
    times = _one_after_the_other(_NONE, *groups)
    count = [len(group.name) for group in groups]
    table: pd.DataFrame = pd.DataFrame(
        {
            "name": times.name,
            "sum (us)": times.sum / NS_PER_US,
            "max (us)": times.max / NS_PER_US,
            "min (us)": times.min / NS_PER_US,
            # Of a single run it is 0.
            "stddev": np.sqrt(times.squares / np.maximum(times.count - 1, 1)) / NS_PER_US,
            "mean (us)": times.sum / times.count / NS_PER_US,
            **{name: np.repeat(values, count) for name, values in labels.items()},
        }
    )
    return table


def _one_after_the_other(*groups: Times) -> Times:
    return Times(*(np.concatenate(values) for values in zip(*(vars(group).values() for group in groups), strict=True)))
