"""Results of three made-up analyses, in any size: what the presentation is tested with."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from holotrace.core.analysis import Analysis, Finding, per_rank
from holotrace.core.charts import Bar, Ranking, Stacked
from holotrace.core.schema import Column, Unit, conform
from holotrace.core.tables import PROBLEMS, RANK_INFO
from holotrace.core.trace import RankTrace


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Training step; null for all of them"),
        Column("total_ns", Unit.NS, "From the first start to the last end"),
        Column("compute_ns", Unit.NS, "Time at least one compute kernel ran"),
        Column("exposed_comm_ns", Unit.NS, "Communication while nothing was computed"),
        Column("exposed_memory_ns", Unit.NS, "Copies while nothing else ran"),
        Column("idle_ns", Unit.NS, "Time nothing ran"),
    ),
    reads=(),
    chart=Stacked(x="rank", y=("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")),
)
def time_breakdown(rank: RankTrace) -> pl.DataFrame:
    """Where each rank's time goes: computing, waiting for communication or copies, or idle."""
    raise NotImplementedError


@time_breakdown.rule
def idle_device(table: pl.DataFrame) -> Iterator[Finding]:
    """The device has nothing to do for more than a tenth of the time.

    The host launches work slower than the device does it, e.g. because of many small kernels.

    Capture the step in a CUDA graph, or use torch.compile to fuse small kernels.
    """
    raise NotImplementedError


@per_rank(
    columns=(
        Column("comm_ns", Unit.NS, "Time at least one communication kernel ran"),
        Column("hidden_ns", Unit.NS, "Part of it during which a compute kernel ran too"),
        Column("exposed_ns", Unit.NS, "The rest of it"),
        Column("hidden_ratio", Unit.RATIO, "hidden_ns / comm_ns; null without communication"),
    ),
    reads=(),
    chart=Bar(x="rank", y=("hidden_ratio",)),
)
def overlap(rank: RankTrace) -> pl.DataFrame:
    """Share of communication that is hidden behind computation."""
    raise NotImplementedError


@overlap.rule
def exposed_communication(table: pl.DataFrame) -> Iterator[Finding]:
    """Less than 60% of communication is hidden.

    The device waits for data it could have fetched earlier. Start the collective sooner (bucket
    size, e.g. 25 MB, or prefetch) or give it a stream of its own.
    """
    raise NotImplementedError


@per_rank(
    columns=(
        Column("name", Unit.TEXT, "Kernel, as the profiler wrote it"),
        Column("kind", Unit.TEXT, "compute, communication, memory, sync or other"),
        Column("count", Unit.COUNT, "How often it ran"),
        Column("sum_ns", Unit.NS, "Time of all its runs"),
        Column("mean_ns", Unit.NS, "Time of an average run"),
        Column("min_ns", Unit.NS, "Its shortest run"),
        Column("max_ns", Unit.NS, "Its longest run"),
        Column("std_ns", Unit.NS, "Standard deviation of its runs; null for one run"),
    ),
    reads=(),
    chart=Ranking(x="name", y=("sum_ns",), color="kind", top=15),
)
def kernels(rank: RankTrace) -> pl.DataFrame:
    """Which kernels take the time, and how much their runs differ."""
    raise NotImplementedError


ANALYSES: tuple[Analysis[Any], ...] = (time_breakdown, overlap, kernels)

_NAMES = (
    ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "compute"),
    ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t>>(Params)", "compute"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
    ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>(int)", "compute"),
    ("Memcpy DtoD (Device -> Device)", "memory"),
    ("Memset (Device)", "memory"),
    ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3", "compute"),
    ("Context Sync", "sync"),
)


@dataclass(frozen=True)
class Result:
    """What a job hands to the presentation."""

    tables: Mapping[str, pl.DataFrame]
    info: pl.DataFrame
    problems: pl.DataFrame = field(default_factory=PROBLEMS.empty)
    findings: tuple[Finding, ...] = ()
    title: str = "llama-70b pretraining"
    source: str = "traces/job8"


def make(rank_count: int, *, names: Sequence[str] = (), kernel_count: int = 40, missing: Sequence[int] = ()) -> Result:
    """A result of ``rank_count`` ranks; ``names`` are kernels that each rank ran too."""
    chance = random.Random(1)
    ranks = [rank for rank in range(rank_count) if rank not in missing]
    breakdown, hidden, runs = [], [], []
    for rank in ranks:
        compute, exposed = 480_000_000 + chance.randrange(40_000_000), 150_000_000 + chance.randrange(30_000_000)
        memory, idle = 9_000_000 + chance.randrange(4_000_000), 90_000_000 + chance.randrange(20_000_000)
        if rank == 3:
            compute, exposed = compute + 120_000_000, exposed - 120_000_000
        breakdown.append((rank, None, compute + exposed + memory + idle, compute, exposed, memory, idle))
        comm = exposed + chance.randrange(200_000_000)
        hidden.append((rank, comm, comm - exposed, exposed, (comm - exposed) / comm))
        called = [*((name, "other") for name in names), *_NAMES]
        called += [(f"triton_poi_fused_{n}", "compute") for n in range(kernel_count - len(called))]
        for position, (name, kind) in enumerate(called):
            count, mean = chance.randrange(1, 3000), chance.randrange(2_000, 900_000) // (position + 1)
            runs.append((rank, name, kind, count, count * mean, mean, mean // 2, mean * 3, mean / 4))
    told = {
        "rank_from": "trace",
        "world_count": rank_count,
        "device": "NVIDIA H100 80GB HBM3",
        "device_count": 8,
        "software": "PyTorch 2.9, CUDA 13.0",
        "backend": "nccl",
        "step_count": 5,
        "event_count": 171_234,
        "device_event_count": 20_345,
        "problem_count": 0,
        "span_ns": 743_000_000,
        "first_ns": 6_322_354_293_170_044,
        "file_bytes": 2_514_000,
        "text_bytes": 33_500_000,
        "load_ns": 48_000_000,
    }
    info = [{"rank": rank, "file": f"traces/job8/rank{rank}.json.gz", **told} for rank in ranks]
    findings = [
        Finding("info", "2 ranks have no copies at all", (1, 2), None, "no-copies", "kernels"),
        Finding(
            "warning",
            f"idle for 13% of the time on {len(ranks)} ranks",
            (),
            97_000_000,
            "idle-device",
            "time_breakdown",
        ),
        Finding(
            "critical",
            "only 38% of communication is hidden",
            tuple(ranks),
            163_000_000,
            "exposed-communication",
            "overlap",
        ),
    ]
    return Result(
        tables={
            "time_breakdown": _frame(breakdown, time_breakdown.columns),
            "overlap": _frame(hidden, overlap.columns),
            "kernels": _frame(runs, kernels.columns),
        },
        # What is not told of a rank is unknown.
        info=pl.DataFrame(info, schema=RANK_INFO.empty().schema),
        findings=tuple(findings),
    )


def empty() -> Result:
    """A result of a job in which nothing was recorded."""
    return Result({a.name: _frame([], a.columns) for a in ANALYSES}, RANK_INFO.empty(), title="empty", source="empty")


def problem(text: str, count: int = 1) -> pl.DataFrame:
    """One problem of rank 0, with ``text`` where a file's own words go."""
    return _frame([(0, text, count, 4711, text, "kept what came before it", text)], PROBLEMS.columns)


def _frame(rows: Sequence[tuple[Any, ...]], columns: tuple[Column, ...]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=[c.name for c in columns], orient="row", infer_schema_length=None)
    return conform(frame, columns, "made up")
