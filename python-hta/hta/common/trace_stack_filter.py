"""Rows of HTA's frames that ran under, after or before an operator."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

import pandas as pd

from hta.common.trace_df import find_op_occurrence
from hta.common.trace_filter import Filter, FirstIterationFilter, kept, nothing, string_column
from hta.common.trace_symbol_table import TraceSymbolTable

log = logging.getLogger("hta")

_LAUNCHING = ("cuda_runtime", "cuda_driver")


def get_matching_kernels(df_ops: pd.DataFrame, df_both: pd.DataFrame, cat_column: str) -> pd.DataFrame:
    """Rows of ``df_both`` that calls of the runtime in ``df_ops`` launched."""
    calls = df_ops.loc[df_ops[cat_column].isin(_LAUNCHING), "index"]
    return kept(df_both, df_both["index_correlation"].isin(calls))


class OperatorFilterMethod(Enum):
    """How rows lie to the operator."""

    Under = 0
    After = 1
    Before = 2
    Ancestors = 3
    Stack = 4


class OperatorFilter(Filter):
    """Rows of an operator's stream that ran under, after or before it; the frame must have decoded names.

    Args:
        op_name: The operator's whole name.
        position: Which of its runs, in order of time: from 0, or from the end if negative.
        method: Under, After or Before.
        include_gpu_kernels: Add what the rows launched.
        name_column: Where names are, if not in ``s_name`` or ``name``.
    """

    def __init__(
        self,
        op_name: str,
        position: int,
        method: OperatorFilterMethod,
        include_gpu_kernels: bool = False,
        name_column: str | None = None,
    ) -> None:
        self.op_name = op_name
        self.position = position
        self.method = method
        self.include_gpu_kernels = include_gpu_kernels
        self.name_column = name_column or ""

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        columns = _text_columns(df, self.name_column)
        if columns is None:
            return df
        name_column, cat_column = columns
        found, op = find_op_occurrence(df, self.op_name, self.position, name_column)
        if not found:
            return nothing()
        ops = kept(df, self._lies(df, op) & (df["stream"] == op["stream"]))
        if not self.include_gpu_kernels:
            return ops
        return kept(df, df.index.isin(ops.index.union(get_matching_kernels(ops, df, cat_column).index)))

    def _lies(self, df: pd.DataFrame, op: pd.Series[Any]) -> pd.Series[bool]:
        lies: pd.Series[bool]
        if self.method is OperatorFilterMethod.Under:
            lies = (df["ts"] >= op["ts"]) & (df["end"] <= op["end"])
        elif self.method is OperatorFilterMethod.After:
            lies = df["ts"] >= op["end"]
        elif self.method is OperatorFilterMethod.Before:
            lies = df["end"] <= op["ts"]
        else:
            raise NotImplementedError(f"Operator method {self.method} is not supported; use Under, After or Before")
        return lies


class UnderOperatorFilter(OperatorFilter):
    """Rows of an operator's stream that ran while it ran, itself among them."""

    def __init__(
        self, op_name: str, position: int, include_gpu_kernels: bool = False, name_column: str | None = None
    ) -> None:
        super().__init__(op_name, position, OperatorFilterMethod.Under, include_gpu_kernels, name_column)


class AfterOperatorFilter(OperatorFilter):
    """Rows of an operator's stream that began after it."""

    def __init__(
        self, op_name: str, position: int, include_gpu_kernels: bool = False, name_column: str | None = None
    ) -> None:
        super().__init__(op_name, position, OperatorFilterMethod.After, include_gpu_kernels, name_column)


class BeforeOperatorFilter(OperatorFilter):
    """Rows of an operator's stream that ended before it."""

    def __init__(
        self, op_name: str, position: int, include_gpu_kernels: bool = False, name_column: str | None = None
    ) -> None:
        super().__init__(op_name, position, OperatorFilterMethod.Before, include_gpu_kernels, name_column)


class CombinedOperatorFilter(Filter):
    """Rows of the first training step under one operator, after the last run of another and before a third.

    Operators that did not run bound nothing.

    Args:
        root_op_name: Rows lie under its first run,
        preceding_op_name: after its last run there,
        following_op_name: and before its first run after that.
        include_gpu_kernels: Add what the rows launched.
        stack_depths: Of the host's rows only those with one of these values of ``depth``.
    """

    def __init__(
        self,
        root_op_name: str,
        preceding_op_name: str,
        following_op_name: str,
        include_gpu_kernels: bool = False,
        stack_depths: list[int] | None = None,
    ) -> None:
        self.root_op_name = root_op_name
        self.preceding_op_name = preceding_op_name
        self.following_op_name = following_op_name
        self.include_gpu_kernels = include_gpu_kernels
        self.stack_depths = stack_depths or []

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        step = FirstIterationFilter()(df)
        columns = _text_columns(step, "")
        if columns is None:
            return df
        ops = step
        for bound in (
            UnderOperatorFilter(self.root_op_name, 0),
            AfterOperatorFilter(self.preceding_op_name, -1),
            BeforeOperatorFilter(self.following_op_name, 0),
        ):
            # An operator that did not run leaves all rows.
            if find_op_occurrence(ops, bound.op_name, bound.position, columns[0])[0]:
                ops = bound(ops)
        kernels = get_matching_kernels(ops, step, columns[1]).index if self.include_gpu_kernels else ops.index[:0]
        if self.stack_depths and "depth" in ops:
            ops = kept(ops, ops["depth"].isin(self.stack_depths))
        return kept(step, step.index.isin(ops.index.union(kernels)))


def _text_columns(df: pd.DataFrame, name_column: str) -> tuple[str, str] | None:
    """The columns of decoded names and categories."""
    name, cat = string_column(df, (name_column, "s_name", "name")), string_column(df, ("s_cat", "cat"))
    if name is None or cat is None:
        log.error("names are not decoded, so no row is left out; call decode_symbol_ids first")
        return None
    return name, cat
