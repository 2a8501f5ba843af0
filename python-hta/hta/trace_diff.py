"""What changed between two traces: which operators run more often, longer, or not at all."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import holotrace
from hta import figures, frame_tables, frames
from hta.common.trace import Trace
from hta.utils.utils import shorten_name

TraceDir = str

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
_NO_STEP = -1
_SIGNS = {1: "+", -1: "-", 0: "="}
_SUMMARY = ["cat", "name", "short_name", "counts", "total_duration", "cat_id", "name_id"]


class DeviceType(Enum):
    """Which side's operators count."""

    CPU = 1
    GPU = 2
    ALL = 3


class LabeledTrace:
    """A trace with a name for its columns in a comparison; all steps are there, and times are absolute.

    Args:
        label: The name; a random one by default.
        t: The trace. One that was read already stays as it is; its files are read again.
        trace_dir: Where the trace is, if ``t`` is not given.
    """

    def __init__(self, label: str | None = None, t: Trace | None = None, trace_dir: str | None = None) -> None:
        if t is None and not (trace_dir and Path(trace_dir).is_dir()):
            raise ValueError(
                f"either a trace object or a valid trace dir must be provided in LabeledTrace; {trace_dir!r} is none"
            )
        self.label = f"t{random.randint(0, 10)}" if label is None else label
        self.t: Trace = Trace(trace_dir=str(trace_dir)) if t is None else _unread(t)
        self.t.parse_traces()
        self.s_map: pd.Series[Any] = self.t.symbol_table.get_sym_index_series()
        self.s_tab: pd.Series[Any] = self.t.symbol_table.get_sym_table_series()
        found = [
            (symbol, number, int(step[1]))
            for symbol, number in self.t.symbol_table.sym_index.items()
            if (step := _STEP.match(symbol))
        ]
        self.iteration_df = pd.DataFrame(found, columns=["symbol", "id", "iteration"])

    def ranks(self) -> list[int]:
        """Ranks that are there, ascending."""
        return self.t.get_ranks()

    def iterations(self) -> list[int]:
        """Training steps that are there, ascending."""
        return sorted(self.iteration_df["iteration"].tolist())

    def extract_ops(
        self,
        rank: int | list[int] | None = None,
        iteration: int | list[int] | None = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> pd.DataFrame:
        """Rows of some ranks and training steps, by default of the first.

        A trace without steps counts as one. With several ranks, ``rank`` comes first.
        """
        rows = self._rows(rank, iteration, device_type)
        by_rank = {number: self.t.get_trace(number).take(chosen) for number, chosen in rows.items()}
        ops: pd.DataFrame = next(iter(by_rank.values()))
        if len(by_rank) > 1:
            ops = pd.concat(by_rank, names=["rank", "idx"]).reset_index()
        return ops

    def job(
        self, rank: int | list[int] | None, iteration: int | list[int] | None, device_type: DeviceType
    ) -> holotrace.Job:
        """The rows that ``extract_ops`` returns, as a job that holotrace can compare."""
        return holotrace.Job.from_ranks(
            {
                number: holotrace.RankTrace(
                    number, {"events": frame_tables.events(self.t.get_trace(number), self.t.symbol_table, rows)}
                )
                for number, rows in self._rows(rank, iteration, device_type).items()
            }
        )

    def _rows(
        self, rank: int | list[int] | None, iteration: int | list[int] | None, device_type: DeviceType
    ) -> dict[int, frames.Integers]:
        """Positions of the chosen rows of each rank."""
        ranks = self._chosen("rank", rank, self.ranks())
        # Without steps, all rows are outside of steps.
        steps = self._chosen("iteration", iteration, self.iterations() or [_NO_STEP])
        return {number: _of_steps(self.t.get_trace(number), steps, device_type) for number in ranks}

    def _chosen(self, what: str, chosen: int | list[int] | None, there: list[int]) -> list[int]:
        if not there:
            raise ValueError(f"Trace {self.label} doesn't have any {what}.")
        if chosen is None:
            return there[:1]
        if isinstance(chosen, (int, np.integer)):
            chosen = [int(chosen)]
            wrong: Any = chosen[0]
        elif isinstance(chosen, list):
            wrong = chosen
        else:
            raise ValueError(f"Invalid type for argument `{what}` {chosen}.")
        if not set(chosen) <= set(there):
            raise ValueError(f"Invalid argument {what}={wrong}; there are {there}.")
        return chosen

    def get_ops_summary(self, ops: pd.DataFrame) -> pd.DataFrame:
        """How often each category and name ran, and for how long altogether (µs)."""
        runs = ops.groupby(["cat", "name"])["dur"].agg(counts="count", total_duration="sum")
        summary = runs.reset_index().rename(columns={"cat": "cat_id", "name": "name_id"})
        symbols = self.t.symbol_table.sym_table
        names = [symbols[number] for number in summary["name_id"]]
        texts = {
            "cat": [symbols[number] for number in summary["cat_id"]],
            "name": names,
            "short_name": [shorten_name(name) for name in names],
        }
        columns: pd.DataFrame = summary.assign(**texts)[_SUMMARY]
        return columns


class TraceDiff:
    """What changed between a control trace and a test trace."""

    @classmethod
    def compare_traces(  # noqa: PLR0917  HTA's signature
        cls,
        control: LabeledTrace | Trace | str,
        test: LabeledTrace | Trace | str,
        control_rank: int | list[int] | None = None,
        test_rank: int | list[int] | None = None,
        control_iteration: int | list[int] | None = None,
        test_iteration: int | list[int] | None = None,
        device_type: DeviceType = DeviceType.ALL,
        use_short_name: bool = False,
    ) -> pd.DataFrame:
        """How often each operator ran in two traces and for how long (µs), and the differences.

        Names of the control come first, then those that only the test has, each in alphabetical order.

        Args:
            control: A trace, or the folder it is in.
            test: What is compared with it.
            control_rank: One rank or several of the control; its first by default.
            test_rank: Those of the test.
            control_iteration: One training step or several of the control; its first by default.
            test_iteration: Those of the test.
            device_type: Whether operators of the host, the device or both count.
            use_short_name: Count names as one that differ in template arguments and parameters only.
        """
        first, second = _trace_argument_adapter(control, "Control"), _trace_argument_adapter(test, "Test")
        labels = (first.label, second.label)
        if labels[0] == labels[1]:
            labels = (labels[0], f"{labels[0]}_control_test")
        table = holotrace.compare(
            first.job(control_rank, control_iteration, device_type),
            second.job(test_rank, test_iteration, device_type),
        )
        return _presented(table, labels, use_short_name)

    @classmethod
    def ops_diff(  # noqa: PLR0917  HTA's signature
        cls,
        control: LabeledTrace | Trace | str,
        test: LabeledTrace | Trace | str,
        control_rank: int | list[int] | None = None,
        test_rank: int | list[int] | None = None,
        control_iteration: int | list[int] | None = None,
        test_iteration: int | list[int] | None = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> dict[str, list[str]]:
        """Names of operators that were added, deleted, increased, decreased and unchanged, by how often they ran."""
        table = cls.compare_traces(
            control, test, control_rank, test_rank, control_iteration, test_iteration, device_type
        )
        was, became = table.iloc[:, 0], table.iloc[:, 2]
        changes = {
            "added": (was == 0) & (became > 0),
            "deleted": (was > 0) & (became == 0),
            "increased": (was > 0) & (became > was),
            "decreased": (became > 0) & (became < was),
            "unchanged": (became > 0) & (became == was),
        }
        return {change: table.index[rows].tolist() for change, rows in changes.items()}

    @classmethod
    def visualize_counts_diff(
        cls, df: pd.DataFrame, show_image: bool = True, export_image_path: str | None = None
    ) -> None:
        """Draw how often operators ran, from what ``compare_traces`` returned."""
        _draw(figures.counts_difference(df), show_image, export_image_path)

    @classmethod
    def visualize_duration_diff(
        cls, df: pd.DataFrame, show_image: bool = True, export_image_path: str | None = None
    ) -> None:
        """Draw how long operators ran, from what ``compare_traces`` returned."""
        _draw(figures.durations_difference(df), show_image, export_image_path)


def _unread(t: Trace) -> Trace:
    """``t``, or its files to be read anew: whoever reads it now has the times and steps it needs."""
    return Trace(t.trace_files, t.trace_path, t.parser_config) if t.is_parsed else t


def _trace_argument_adapter(trace: LabeledTrace | Trace | str, label: str) -> LabeledTrace:
    if isinstance(trace, LabeledTrace):
        return trace
    if isinstance(trace, Trace):
        return LabeledTrace(label, t=trace)
    if isinstance(trace, str):
        return LabeledTrace(label, trace_dir=trace)
    raise ValueError(f"Invalid argument type for ({trace}); give a folder, a Trace or a LabeledTrace.")


def _of_steps(frame: pd.DataFrame, steps: Sequence[int], device_type: DeviceType) -> frames.Integers:
    rows = np.isin(frame["iteration"].to_numpy(), steps)
    if device_type is not DeviceType.ALL:
        rows &= (frame["stream"].to_numpy() == -1) == (device_type is DeviceType.CPU)
    return np.flatnonzero(rows)


def _presented(table: pl.DataFrame, labels: Iterable[str], use_short_name: bool) -> pd.DataFrame:
    """The table as HTA shows it: a row per name, whatever its category."""
    key, name = ("short_name" if use_short_name else "name"), pl.col("name")
    if use_short_name:
        name = name.replace_strict({full: shorten_name(full) for full in table["name"]}, return_dtype=pl.String)
    sums = {
        column: pl.col(ours).sum() if column.endswith("counts") else frames.us(ours).sum()
        for label, side in zip(labels, ("before", "after"), strict=True)
        for column, ours in ((f"{label}_counts", f"{side}_count"), (f"{label}_total_duration", f"{side}_total_ns"))
    }
    was, became = (pl.col(column) for column in sums if column.endswith("_counts"))
    before, after = (pl.col(column) for column in sums if column.endswith("_total_duration"))
    rows = (
        table.group_by(name.alias(key))
        .agg(**sums)
        .with_columns(diff_counts=became - was, diff_duration=after - before)
        .with_columns(
            counts_change_categories=pl.col("diff_counts").sign().replace_strict(_SIGNS, return_dtype=pl.String)
        )
        .sort(was == 0, key)
    )
    # As in HTA, numbers are whole where every name ran on both sides.
    if not rows.filter((was == 0) | (became == 0)).is_empty():
        rows = rows.with_columns(pl.col(pl.Int64).cast(pl.Float64))
    presented: pd.DataFrame = frames.to_pandas(rows).set_index(key)
    return presented


def _draw(figure: Any, show_image: bool, export_image_path: str | None) -> None:
    if show_image:
        figure.show()
    if export_image_path:
        figure.write_image(export_image_path)
