"""Rows of HTA's frames by step, rank, time, name or device."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta import frames
from hta.common.trace_symbol_table import TraceSymbolTable

log = logging.getLogger("hta")


class Filter(ABC):
    """A choice of rows: called with a frame, it returns a new one."""

    @abstractmethod
    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        """The rows that are chosen."""


class IterationFilter(Filter):
    """Rows of some training steps."""

    def __init__(self, iterations: int | list[int]) -> None:
        self.iterations = _numbers(iterations, "Iterations")

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        return _where_in(df, "iteration", self.iterations)


class IterationIndexFilter(Filter):
    """Rows of the training steps at some places in their order, from 0; a frame without steps stays as it is."""

    def __init__(self, iteration_index: int | list[int]) -> None:
        self.iteration_index = _numbers(iteration_index, "iteration_index")

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        if "iteration" not in df:
            return df
        # Rows outside of steps have -1.
        steps = np.unique(df["iteration"].to_numpy())
        steps = steps[steps >= 0]
        if not len(steps):
            return df
        chosen = [steps[place] for place in self.iteration_index if 0 <= place < len(steps)]
        return kept(df, df["iteration"].isin(chosen)) if chosen else nothing()


class FirstIterationFilter(IterationIndexFilter):
    """Rows of the first training step."""

    def __init__(self) -> None:
        super().__init__(0)


class RankFilter(Filter):
    """Rows of some ranks, where there is a column ``rank``."""

    def __init__(self, ranks: int | list[int]) -> None:
        self.ranks = _numbers(ranks, "ranks")

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        return _where_in(df, "rank", self.ranks)


class TimeRangeFilter(Filter):
    """Rows that lie within a time range altogether."""

    def __init__(self, time_range: tuple[int, int]) -> None:
        is_range = isinstance(time_range, tuple) and len(time_range) == 2
        if not is_range or not all(isinstance(time, (int, np.integer)) for time in time_range):
            raise ValueError("time_range must be a tuple of two integers.")
        self.time_start, self.time_end = time_range
        if self.time_start > self.time_end:
            raise ValueError("Start time must be less than or equal to end time.")

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        if not {"ts", "dur"} <= set(df.columns):
            return df
        return kept(df, (df["ts"] >= self.time_start) & (df["ts"] + df["dur"] <= self.time_end))


class NameStringColumnFilter(Filter):
    """Rows whose name, in a column of strings, matches a regular expression from its start."""

    def __init__(self, name_pattern: str, name_column: str | None = None) -> None:
        self.name_pattern = name_pattern
        self.name_column = name_column

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        column = string_column(df, (self.name_column, "name", "s_name"))
        if column is None:
            log.warning("there is no column of names to look for %r in: no row is left out", self.name_pattern)
            return df
        matches = re.compile(self.name_pattern).match
        return kept(df, _mask(df[column], lambda name: matches(name) is not None))


class NameIdColumnFilter(Filter):
    """Rows whose name's symbol matches a regular expression from its start."""

    def __init__(self, name_pattern: str) -> None:
        self.name_pattern = name_pattern

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        if symbol_table is None or "name" not in df:
            log.warning("names cannot be told without a symbol table: no row is left out")
            return df
        matches = re.compile(self.name_pattern).match
        wanted = symbol_table.mask_where(lambda name: matches(name) is not None)
        return kept(df, df["name"].isin(np.flatnonzero(wanted)))


class NameFilter(Filter):
    """Rows whose name matches a regular expression from its start.

    Args:
        name_pattern: The regular expression.
        symbol_table: What names are looked up in; without one they are read from a column of strings.
        name_column: That column, if it is not ``name`` or ``s_name``.
    """

    def __init__(
        self, name_pattern: str, symbol_table: TraceSymbolTable | None = None, name_column: str | None = None
    ) -> None:
        self.name_pattern = name_pattern
        self.symbol_table = symbol_table
        self.name_column = name_column

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        if df.empty:
            return df
        symbols = symbol_table or self.symbol_table
        if symbols is not None and "name" in df and pd.api.types.is_integer_dtype(df["name"]):
            return NameIdColumnFilter(self.name_pattern)(df, symbols)
        return NameStringColumnFilter(self.name_pattern, self.name_column)(df)


class QueryFilter:
    """Rows for which an expression of ``DataFrame.query`` holds."""

    def __init__(self, query_str: str) -> None:
        self.filter_query = query_str

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        rows: pd.DataFrame = df.query(self.filter_query)
        return rows


ZeroDurationFilter = QueryFilter("dur > 0")


class GPUKernelFilter(Filter):
    """Rows of the device: on a stream and with a correlation id; with a symbol table, waiting for events as well."""

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        if "stream" not in df:
            return df
        if symbol_table is None:
            return kept(df, (df["stream"] >= 0) & (df["correlation"] >= 0))
        return kept(df, frames.on_device(df, symbol_table))


class CPUOperatorFilter(Filter):
    """Rows of the host: all that are not the device's; without a symbol table, all on no stream."""

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        if "stream" not in df:
            return df
        return kept(df, df["stream"] == -1 if symbol_table is None else ~frames.on_device(df, symbol_table))


class CompositeFilter(Filter):
    """Rows that several filters leave, one after the other."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        if any(chosen is self for chosen in filters):
            raise ValueError("a CompositeFilter cannot be one of its own filters; make another one")
        if not all(isinstance(chosen, Filter) for chosen in filters):
            raise TypeError("All elements in 'filters' must be instances of Filter or its subclasses.")
        self.filters = list(filters)

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        for chosen in self.filters:
            df = chosen(df, symbol_table)
        return df


class MemCopyEventFilter(Filter):
    """Copies of one type, by their full name, e.g. ``Memcpy DtoH (Device -> Pinned)``."""

    def __init__(self, memory_copy_type: str, symbol_table: TraceSymbolTable | None = None) -> None:
        self.memory_copy_type = memory_copy_type
        self.symbol_table = symbol_table

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        symbols = (symbol_table or self.symbol_table or TraceSymbolTable()).sym_index
        if self.memory_copy_type not in symbols:
            return nothing()
        return kept(df, (df["name"] == symbols[self.memory_copy_type]) & (df["cat"] == symbols.get("gpu_memcpy", -1)))


def kept(df: pd.DataFrame, mask: pd.Series[bool] | npt.NDArray[np.bool_]) -> pd.DataFrame:
    """The rows for which ``mask`` is true."""
    rows: pd.DataFrame = df[mask]
    return rows


def nothing() -> pd.DataFrame:
    """HTA's sign for nothing found: a frame without rows and columns."""
    frame: pd.DataFrame = pd.DataFrame()
    return frame


def string_column(df: pd.DataFrame, names: Sequence[str | None]) -> str | None:
    """The first of these columns that is there and holds strings."""
    return next((name for name in names if name in df and not pd.api.types.is_numeric_dtype(df[name])), None)


def _where_in(df: pd.DataFrame, column: str, values: list[int]) -> pd.DataFrame:
    if column not in df:
        log.warning("there is no column %r: no row is left out", column)
        return df
    return kept(df, df[column].isin(values))


def _mask(values: pd.Series[Any], wanted: Callable[[str], bool]) -> np.ndarray:
    """For each row whether its string is wanted; each distinct string is looked at once."""
    codes, strings = pd.factorize(values)
    found = np.fromiter((wanted(str(string)) for string in strings), dtype=bool, count=len(strings))
    # Absent strings have code -1.
    return np.append(found, False)[codes]


def _numbers(given: int | list[int], what: str) -> list[int]:
    if isinstance(given, list):
        return given
    if isinstance(given, (int, np.integer)):
        return [int(given)]
    raise TypeError(f"{what} must be an integer or a list of integers.")
