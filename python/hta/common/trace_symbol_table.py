"""Names and categories of events, and the numbers that stand for them in frames."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from hta.utils.utils import shorten_name

_SYMBOL_COLUMNS = ("name", "cat")


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
        """The symbol of each number."""
        return {symbol: self.sym_table[symbol] for symbol in symbol_ids}

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
        return [number for number, symbol in enumerate(self.sym_table) if symbol.startswith("ProfilerStep")]

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

    def add_symbols_to_trace_df(self, trace_df: pd.DataFrame, col: str) -> None:
        """Replace the numbers of a column by their strings, "" for unknown ones."""
        trace_df[col] = _taken(self.sym_table, trace_df[col])

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
    names = [shorten_name(symbol) for symbol in symbols] if use_shorten_name else symbols
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
