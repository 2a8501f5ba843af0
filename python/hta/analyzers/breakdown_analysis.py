"""Where a device's time goes: by type of kernel, and by kernel."""

from __future__ import annotations

from itertools import combinations

import pandas as pd
import polars as pl

from hta import figures, frames
from hta.analyzers.device_job import device_job
from hta.common.trace import Trace

_TYPES = ("COMPUTATION", "COMMUNICATION", "MEMORY")
# holotrace's kinds, in the order in which its time breakdown counts them.
_KINDS = ("compute", "communication", "memory")
_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns")
_TOGETHER = " overlapping "
_FOLDED = "others"


class BreakdownAnalysis:
    """Questions about where time goes."""

    @classmethod
    def get_temporal_breakdown(cls, t: Trace, visualize: bool = True) -> pd.DataFrame:
        """How long each rank's device was idle, computed, or did only something else: time and percent.

        The time of a rank is from the start of its first device row to the end of its last.
        """
        # Whatever else stands on a stream, waiting too, keeps it from being idle.
        job = device_job(t, {**dict(zip(_TYPES, _KINDS, strict=True)), "OTHER": "memory"})
        times = {
            "idle": pl.col("idle_ns"),
            "compute": pl.col("compute_ns"),
            "non_compute": pl.sum_horizontal(_PARTS[1:]),
        }
        table = job.time_breakdown().select("rank", "total_ns", **times)
        result = frames.to_pandas(
            table.select(
                "rank",
                *(frames.us(part).alias(f"{part}_time(us)") for part in times),
                frames.us("total_ns").alias("kernel_time(us)"),
                *((100 * pl.col(part) / pl.col("total_ns")).round(2).alias(f"{part}_time_pctg") for part in times),
            )
        )
        if visualize:
            figures.temporal_breakdown(result).show()
        return result

    @classmethod
    def get_gpu_kernel_breakdown(  # noqa: PLR0917  HTA's signature
        cls,
        t: Trace,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = False,
        image_renderer: str = "notebook",
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Time by the kernel types that ran together, over all ranks; and by kernel name, type and rank."""
        if not 0 <= duration_ratio <= 1:
            raise ValueError(f"duration_ratio is {duration_ratio}; it can be anything from 0 to 1")
        types = _TYPES if include_memory_kernels else _TYPES[:2]
        by_type = frames.to_pandas(_time_by_types(t, types))
        by_name = frames.to_pandas(_time_by_names(t, types, duration_ratio, num_kernels))
        if visualize:
            for figure in figures.kernel_breakdown(by_type, by_name):
                figure.show(renderer=image_renderer or None)
        return by_type, by_name


def _time_by_types(t: Trace, types: tuple[str, ...]) -> pl.DataFrame:
    """How long exactly these types ran at the same time, for each set of types that ever did."""
    covered = _covered_us(t, types)
    together: dict[frozenset[str], int] = {}
    for count in range(1, len(types) + 1):
        for running in combinations(types, count):
            # Time in which none of the other types ran, less what belongs to fewer of these.
            alone = covered[frozenset(types)] - covered[frozenset(types).difference(running)]
            together[frozenset(running)] = alone - sum(
                time for fewer, time in together.items() if fewer < frozenset(running)
            )
    rows = [(_TOGETHER.join(kind for kind in types if kind in running), time) for running, time in together.items()]
    table = pl.DataFrame(rows, schema={"kernel_type": pl.String, "sum": pl.Int64}, orient="row")
    return (
        table.filter(pl.col("sum") > 0)
        .with_columns(percentage=(100 * pl.col("sum") / pl.col("sum").sum()).round(1))
        .sort("sum", "kernel_type", descending=[True, False])
    )


def _covered_us(t: Trace, types: tuple[str, ...]) -> dict[frozenset[str], int]:
    """How long at least one kernel of these types ran, summed over ranks, for every set of types."""
    covered = {frozenset[str](): 0}
    for turn in range(len(types)):
        # Kinds count only where those before them did not run, so parts add up to what the first ones cover.
        order = types[turn:] + types[:turn]
        table = device_job(t, dict(zip(order, _KINDS, strict=False))).time_breakdown()
        sums = table.select(pl.col(_PARTS).sum()).row(0)
        for count in range(1, len(order) + 1):
            covered[frozenset(order[:count])] = sum(sums[:count]) // 1000
    return covered


def _time_by_names(t: Trace, types: tuple[str, ...], duration_ratio: float, num_kernels: int) -> pl.DataFrame:
    """Times of each kernel name, by type and rank; the names that matter least folded into one."""
    kinds = dict(zip(types, _KINDS, strict=False))
    runs = (
        device_job(t, kinds)
        .kernels()
        .with_columns(
            kernel_type=pl.col("kind").replace_strict(
                {kind: name for name, kind in kinds.items()}, return_dtype=pl.String
            )
        )
    )
    group = ["rank", "kernel_type"]
    ranked = runs.sort(*group, "sum_ns", "name", descending=[False, False, True, False]).with_columns(
        running=pl.col("sum_ns").cum_sum().over(group), position=pl.int_range(pl.len()).over(group)
    )
    beyond = pl.col("running") > pl.col("running").quantile(duration_ratio, "linear").over(group)
    is_folded = (pl.len().over(group) > num_kernels) & (beyond | (pl.col("position") >= num_kernels))
    count, mean = pl.col("count"), pl.col("sum_ns") / pl.col("count")
    overall = pl.col("sum_ns").sum() / count.sum()
    # Squares within each name and between the names' means.
    squares = ((count - 1) * pl.col("std_ns").fill_null(0) ** 2 + count * (mean - overall) ** 2).sum()
    return (
        ranked.with_columns(name=pl.when(is_folded).then(pl.lit(_FOLDED)).otherwise("name"))
        .group_by(*group, "name")
        .agg(
            pl.col("sum_ns").sum().alias("sum (us)"),
            pl.col("max_ns").max().alias("max (us)"),
            pl.col("min_ns").min().alias("min (us)"),
            pl.when(count.sum() > 1).then((squares / (count.sum() - 1)).sqrt()).otherwise(0.0).alias("stddev"),
            overall.alias("mean (us)"),
        )
        .with_columns(pl.col("sum (us)", "max (us)", "min (us)", "stddev", "mean (us)") / 1000)
        .select("name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", "kernel_type", "rank")
        .sort("kernel_type", "name", "rank")
    )
