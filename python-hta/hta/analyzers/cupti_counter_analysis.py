"""What hardware counters read for each kernel, with the operators that launched it, in HTA's tables."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

import numpy as np
import pandas as pd
import polars as pl

from hta import frame_tables
from hta.analyzers.device_job import asked, job_of
from hta.common.trace import Trace
from hta.common.trace_call_graph import CallGraph

log = logging.getLogger("hta")

# A fused operation multiplies and adds.
CUDA_SASS_INSTRUCTION_COUNTER_FLOPS = {
    f"smsp__sass_thread_inst_executed_op_{kind}{operation}_pred_on.sum": 2 if operation == "fma" else 1
    for kind in ("f", "h", "d")
    for operation in ("fma", "mul", "add")
}


class CuptiCounterAnalysis:
    """HTA's analyzer of counters that CUPTI's range profiler read."""

    @classmethod
    def get_counter_data_with_operators(cls, t: Trace, ranks: Sequence[int] | None = None) -> list[pd.DataFrame]:
        """A table of each rank that has counters, by default of rank 0."""
        if frame_tables.PROFILED not in t.symbol_table.sym_index:
            log.warning("no hardware counters were recorded; turn CUPTI's range profiler on")
            return []
        chosen = asked(t, ranks)
        launched = job_of(t, chosen, frame_tables.counted).operator_counters(each=True)
        # Its columns are among those that HTA returns.
        CallGraph(t, chosen)
        tables = []
        for rank in chosen:
            of_rank = launched.filter(pl.col("rank") == rank)
            if of_rank["launch_id"].null_count() == 0:
                tables.append(_table(t, rank, of_rank))
            else:
                log.error("rank %d is left out: it has not one launch for each kernel that was profiled", rank)
        return tables


def _table(t: Trace, rank: int, launched: pl.DataFrame) -> pd.DataFrame:
    table: pd.DataFrame = t.get_trace(rank).loc[launched["event_id"].to_numpy()].reset_index(drop=True)
    t.symbol_table.decode_df(table, create_new_columns=False)
    stacks = pd.Series([json.loads(text or "[]") for text in launched["operators"]], dtype=object)
    table["index_runtime"] = launched["launch_id"].to_numpy().astype(np.int64)
    table["op_stack"] = stacks
    table["top_level_op"] = launched["top_operator"].fill_null("").to_list()
    table["bottom_level_op"] = launched["operator"].fill_null("").to_list()
    return table
