"""Small questions to one of HTA's frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta.common.trace_symbol_table import TraceSymbolTable


def get_iterations(df: pd.DataFrame) -> list[int]:
    """The training steps of a frame, ascending."""
    if "iteration" not in df:
        raise TypeError("The input DataFrame doesn't contain the `iteration` column.")
    if not pd.api.types.is_integer_dtype(df["iteration"]):
        raise TypeError("The data type of `iteration` column in the input DataFrame is not integer.")
    return [int(step) for step in np.unique(df["iteration"].to_numpy()) if step >= 0]


def find_op_occurrence(
    df: pd.DataFrame, op_name: str, position: int, name_column: str = "s_name"
) -> tuple[bool, pd.Series[Any]]:
    """Whether an operator ran that often, and the row of that run.

    Args:
        df: A frame with decoded names.
        op_name: The operator's whole name.
        position: Which run, in order of time: from 0, or from the end if negative.
        name_column: Where names are.
    """
    runs = df[df[name_column] == op_name].sort_values("ts", kind="stable") if name_column in df else df.iloc[:0]
    if not -len(runs) <= position < len(runs):
        return False, pd.Series(dtype=object)
    return True, runs.iloc[position]


def find_events_by_name_patterns_using_symbol_table(
    df: pd.DataFrame, list_name_patterns: Sequence[str], symbol_table: TraceSymbolTable
) -> pd.Series[Any]:
    """Labels of the rows whose symbol's start matches any of some regular expressions."""
    matches = _matcher(list_name_patterns)
    wanted = symbol_table.mask_where(lambda name: matches.match(name) is not None)
    labels: pd.Series[Any] = df.index[df["name"].isin(np.flatnonzero(wanted))].to_series()
    return labels


def find_events_by_name_patterns_using_decoded_names(
    df: pd.DataFrame, list_name_patterns: Sequence[str], name_column: str = "s_name"
) -> pd.Series[Any]:
    """Labels of the rows whose name's start matches any of some regular expressions."""
    matches = _matcher(list_name_patterns)
    # The engine that pandas has for Arrow's strings knows fewer patterns than Python.
    wanted = [name for name in df[name_column].dropna().unique() if matches.match(name)]
    labels: pd.Series[Any] = df.index[df[name_column].isin(wanted)].to_series()
    return labels


def _matcher(patterns: Sequence[str]) -> re.Pattern[str]:
    """What any of the patterns matches; nothing if there is none."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)")
