"""Names and categories of events, and the numbers that stand for them in frames."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hta.common.constants import LAUNCHES
from hta.common.types import (
    CPU_EVENTS_CATEGORY_PATTERN,
    KERNEL_CATEGORY_PATTERN,
    KERNEL_LAUNCH_CATEGORY_PATTERN,
    GroupingPattern,
    ProfilerStepGroupingPattern,
)
from hta.utils.utils import is_memory_kernel, shorten_name

_SYMBOL_COLUMNS = ("name", "cat")
_HOST_CATEGORIES = ("cpu_op", "cuda_runtime", "cuda_driver")


class TraceSymbolTable:
    """The strings of a trace; each has the number of its place, in order of insertion."""

    # Stands for no symbol.
    NULL = -128

    def __init__(self) -> None:
        self.sym_table: list[str] = []
        self.sym_index: dict[str, int] = {}

    def is_empty(self) -> bool:
        """Whether there is no symbol."""
        return not self.sym_table

    def add_symbols(self, symbols: Iterable[str]) -> None:
        """Number the symbols that are new."""
        for symbol in symbols:
            if symbol not in self.sym_index:
                self.sym_index[symbol] = len(self.sym_table)
                self.sym_table.append(symbol)

    def add_symbols_mp(self, symbols_list: Iterable[Iterable[str]]) -> None:
        """Number the symbols of several lists that are new."""
        for symbols in symbols_list:
            self.add_symbols(symbols)

    def get_sym_index(self) -> dict[str, int]:
        """The number of each symbol."""
        return self.sym_index

    get_sym_id_map = get_sym_index

    def get_sym_table(self) -> list[str]:
        """The symbols by number."""
        return self.sym_table

    def get_sym_index_series(self) -> pd.Series:
        """The number of each symbol, as a series whose index are the symbols."""
        numbers: pd.Series = pd.Series(self.sym_index, dtype="int64")
        return numbers

    def get_sym_table_series(self) -> pd.Series:
        """The symbols by number, as a series."""
        return pd.Series(self.sym_table, dtype=None if self.sym_table else object)

    def get_symbol_names(self, symbol_ids: Iterable[int]) -> dict[int, str]:
        """The symbol of each number there is one for."""
        return {number: self.sym_table[number] for number in symbol_ids if 0 <= number < len(self.sym_table)}

    def get_symbol_ids(self, symbol_pattern: GroupingPattern) -> dict[str, int]:
        """The number of each symbol that belongs to a group."""
        return {symbol: number for symbol, number in self.sym_index.items() if symbol_pattern.match(symbol)}

    def find_matched_symbols(self, patterns: Sequence[str]) -> list[str]:
        """Symbols that contain any of ``patterns``, taken literally."""
        if not patterns:
            return []
        wanted = re.compile("|".join(re.escape(pattern) for pattern in patterns))
        return [symbol for symbol in self.sym_table if wanted.search(symbol)]

    def find_matches(self, patterns: Sequence[str]) -> list[int]:
        """Numbers of the symbols that contain any of ``patterns``, taken literally."""
        return [self.sym_index[symbol] for symbol in self.find_matched_symbols(patterns)]

    def get_profiler_step_ids(self) -> list[int]:
        """Numbers of the names of training steps."""
        return self._numbers(ProfilerStepGroupingPattern)

    def get_cpu_event_cat_ids(self) -> list[int]:
        """Numbers of the host's categories."""
        return self._numbers(CPU_EVENTS_CATEGORY_PATTERN)

    def get_gpu_kernel_cat_ids(self) -> list[int]:
        """Numbers of the categories of device work."""
        return self._numbers(KERNEL_CATEGORY_PATTERN)

    def get_memory_name_ids(self) -> list[int]:
        """Numbers of the names of copies and fills."""
        return [number for symbol, number in self.sym_index.items() if is_memory_kernel(symbol)]

    def get_kernel_launch_ids(self) -> list[int]:
        """Numbers of the names of calls that launch kernels."""
        return self._numbers(KERNEL_LAUNCH_CATEGORY_PATTERN)

    def _numbers(self, group: GroupingPattern) -> list[int]:
        return list(self.get_symbol_ids(group).values())

    def get_events_mask(self, df: pd.DataFrame, events: Collection[str] | None) -> pd.Series:
        """Which rows have one of these names."""
        return df["name"].isin([self.sym_index[name] for name in events or () if name in self.sym_index])

    def get_operator_or_cuda_runtime_mask(self, df: pd.DataFrame) -> pd.Series:
        """Which rows are operators or calls of the runtime or driver."""
        return df["cat"].isin([self.sym_index[cat] for cat in _HOST_CATEGORIES if cat in self.sym_index])

    def get_runtime_launch_events_mask(self, df: pd.DataFrame) -> pd.Series:
        """Which rows are calls that put work on a device's queue."""
        return self.get_events_mask(df, LAUNCHES) & (df["index_correlation"] > 0)

    def mask_where(self, wanted: Callable[[str], bool]) -> np.ndarray:
        """For each number whether its symbol is ``wanted``: a mask to be indexed by symbol columns."""
        return np.fromiter((wanted(symbol) for symbol in self.sym_table), dtype=bool, count=len(self.sym_table))

    def encode_df(self, df: pd.DataFrame) -> None:
        """Replace the strings of ``name`` and ``cat`` by their numbers, NULL for unknown ones."""
        for column in _SYMBOL_COLUMNS:
            df[column] = df[column].map(self.sym_index).fillna(self.NULL).astype("int64")

    def decode_df(self, df: pd.DataFrame, create_new_columns: bool = True) -> None:
        """Add the strings of ``name`` and ``cat`` as ``s_name`` and ``s_cat``, or put them in their place."""
        for column in _SYMBOL_COLUMNS:
            df[f"s_{column}" if create_new_columns else column] = _taken(self.sym_table, df[column])

    def update_encoded_df(self, df: pd.DataFrame, old_symbol_table: TraceSymbolTable) -> None:
        """Replace the numbers of another table in ``name`` and ``cat`` by those of this one, NULL for unknown ones."""
        numbers = {
            number: self.sym_index.get(symbol, self.NULL) for symbol, number in old_symbol_table.sym_index.items()
        }
        for column in _SYMBOL_COLUMNS:
            df[column] = df[column].map(numbers).fillna(self.NULL).astype("int64")

    def add_symbols_to_trace_df(self, trace_df: pd.DataFrame, col: str) -> None:
        """Replace the numbers of a column by their strings, "" for unknown ones."""
        trace_df[col] = _taken(self.sym_table, trace_df[col])

    def _to_csv_file(self, file_path: str) -> None:
        """Write the symbols to a file; in HTA others call this too."""
        pd.DataFrame({"symbol": self.sym_table}).to_csv(file_path)

    @staticmethod
    def from_csv_file(file_path: str) -> TraceSymbolTable:
        """A table of the column ``symbol`` of a file."""
        if not Path(file_path).is_file():
            raise FileNotFoundError(f"File {file_path} does not exist; give a csv file with a column 'symbol'")
        # A symbol may be called NA.
        rows = pd.read_csv(file_path, keep_default_na=False, dtype=str)
        if "symbol" not in rows:
            raise ValueError(f"{file_path}: expect a column 'symbol' in the csv")
        table = TraceSymbolTable()
        table.add_symbols(rows["symbol"].tolist())
        return table

    @staticmethod
    def clone(symbol_table: TraceSymbolTable) -> TraceSymbolTable:
        """An independent table with the same numbers."""
        return TraceSymbolTable.combine_symbol_tables([symbol_table])

    @staticmethod
    def combine_symbol_tables(tables: Iterable[TraceSymbolTable]) -> TraceSymbolTable:
        """A table of the symbols of all; those of the first keep their numbers."""
        combined = TraceSymbolTable()
        for table in tables:
            combined.add_symbols(table.sym_table)
        return combined

    @staticmethod
    def create_from_df(df: pd.DataFrame) -> TraceSymbolTable:
        """A table of the strings in ``name`` and ``cat``."""
        table = TraceSymbolTable()
        for column in _SYMBOL_COLUMNS:
            symbols = df[column].unique().tolist() if column in df else None
            if symbols is None or not all(isinstance(symbol, str) for symbol in symbols):
                raise ValueError(f"column {column!r} does not hold strings; decode the frame first")
            table.add_symbols(symbols)
        return table

    @staticmethod
    def create_from_symbol_id_map(symbol_id_map: dict[str, int]) -> TraceSymbolTable:
        """A table with the given numbers; gaps are filled with ``Undefined-<number>``."""
        by_number = {number: symbol for symbol, number in symbol_id_map.items()}
        table = TraceSymbolTable()
        table.add_symbols(by_number.get(n, f"Undefined-{n}") for n in range(max(by_number, default=-1) + 1))
        return table


def decode_symbol_id_to_symbol_name(df: pd.DataFrame, symbol_table: TraceSymbolTable, use_shorten_name: bool) -> None:
    """Add the strings of ``name``, ``cat`` and, where it is there, ``user_annotation`` as columns ``s_…``."""
    symbols = symbol_table.sym_table
    names = symbols
    if use_shorten_name:
        # A trace has far more symbols than a part of its rows.
        used = {number for column in ("name", "user_annotation") if column in df for number in df[column].unique()}
        names = [shorten_name(symbol) if number in used else "" for number, symbol in enumerate(symbols)]
    df["s_name"] = _taken(names, df["name"])
    df["s_cat"] = _taken(symbols, df["cat"])
    if "user_annotation" in df:
        df["s_user_annotation"] = _taken(names, df["user_annotation"])


def _taken(texts: Sequence[str], numbers: pd.Series) -> pd.Series:
    """The text of each number; "" where there is none."""
    known = numbers.between(0, len(texts) - 1)
    # The strings are made once; rows only refer to them.
    rows = numbers.where(known, len(texts)).astype("int64")
    taken: pd.Series = pd.Series([*texts, ""]).take(rows).set_axis(numbers.index)
    return taken
