"""Where a device's time goes: by type of kernel, and by kernel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl

from hta import figures, frames
from hta.analyzers.device_job import device_job
from hta.analyzers.folding import Times, folded, table_of
from hta.analyzers.idle_time import idle_time_breakdown
from hta.analyzers.user_annotations import kernels_with_user_annotations, user_annotation_breakdown
from hta.common.trace import Trace

_TYPES = ("COMPUTATION", "COMMUNICATION", "MEMORY")
# holotrace's kinds, in the order in which its time breakdown counts them.
_KINDS = ("compute", "communication", "memory")
_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns")
_TOGETHER = " overlapping "


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
        by_name = _time_by_names(t, types, duration_ratio, num_kernels)
        if visualize:
            for figure in figures.kernel_breakdown(by_type, by_name):
                figure.show(renderer=image_renderer or None)
        return by_type, by_name

    @classmethod
    def get_gpu_kernels_with_user_annotations(
        cls, t: Trace, rank: int, expand_names: bool = True, shorten_names: bool = True
    ) -> pd.DataFrame | None:
        """A rank's device rows, each with the shortest named range of the device that it runs in."""
        return kernels_with_user_annotations(t, rank, expand_names, shorten_names)

    @classmethod
    def get_gpu_user_annotation_breakdown(  # noqa: PLR0917  HTA's signature
        cls,
        t: Trace,
        use_gpu_annotation: bool = True,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: Sequence[str] | None = None,
        image_renderer: str | None = None,
    ) -> pd.DataFrame | None:
        """Times of each named range by rank, of the device or of the host."""
        return user_annotation_breakdown(
            t,
            on_device=use_gpu_annotation,
            visualize=visualize,
            duration_ratio=duration_ratio,
            most_names=num_kernels,
            allowlist=allowlist_patterns,
            image_renderer=image_renderer,
        )

    @classmethod
    def get_idle_time_breakdown(  # noqa: PLR0917  HTA's signature
        cls,
        t: Trace,
        consecutive_kernel_delay: int,
        rank: int = 0,
        streams: Sequence[int] | None = None,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
    ) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """How long each stream of a rank had nothing to do, by cause; and what describes the gaps, if asked for."""
        return idle_time_breakdown(
            t, [rank], streams, visualize, visualize_pctg, show_idle_interval_stats, consecutive_kernel_delay
        )


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


def _time_by_names(t: Trace, types: tuple[str, ...], duration_ratio: float, num_kernels: int) -> pd.DataFrame:
    """Times of each kernel name, by type and rank; the names that matter least folded into one."""
    kinds = dict(zip(_KINDS, types, strict=False))
    groups = (
        device_job(t, {name: kind for kind, name in kinds.items()}).kernels().partition_by("kind", "rank", as_dict=True)
    )
    times = {group: folded(Times.of_names(runs), duration_ratio, num_kernels) for group, runs in groups.items()}
    labels = {
        "kernel_type": np.array([kinds[kind] for kind, _ in times], dtype=object),
        "rank": np.array([rank for _, rank in times], dtype=np.int64),
    }
    table = table_of(list(times.values()), labels)
    by_name: pd.DataFrame = table.sort_values(["kernel_type", "name", "rank"], ignore_index=True)
    return by_name
