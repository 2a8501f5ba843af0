"""When devices had nothing to do, and what the host did meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.options import check_whole
from holotrace.core.plans import done
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive.device_time import DEVICE
from holotrace.derive.host_activities import DISPATCH, INPUT_RANGES, PROGRAM, TRACING, UPLOAD
from holotrace.derive.kernel_kinds import IS_WORK
from holotrace.diagnosis.rank import host_parts
from holotrace.diagnosis.rank.host_parts import ACTIVITIES, UNATTRIBUTED
from holotrace.diagnosis.rank.xla import gaps as xla_gaps

# A tenth of the idle time is more than starting programs costs where they are long enough.
SHARE_RATIO = 0.1
MEANINGS = {
    "compilation": "the host traced, lowered or compiled a program",
    "read_back": "the host read results from a device, or ran what they depend on",
    "upload": "the host sent data to a device",
    "input": "the host read or prepared input",
    "allocation": "the host allocated or freed memory of a device",
    "tracing": "PyTorch/XLA collected a graph to run",
    "back_pressure": "the host waited to start a program until a device had finished one",
    "dispatch": "the host started programs or kernels",
    "wait": "threads of the host waited and did none of the above",
    "program": "the host ran code of the program, which in PyTorch/XLA builds the graph",
    "unattributed": "no span of the host explains it",
}


@per_rank(
    columns=(
        Column("device", Unit.NUMBER, "Ordinal of the accelerator"),
        Column("plane", Unit.TEXT, "Plane of the profile that holds the device"),
        Column("stream", Unit.NUMBER, "Queue on the device; null for the device as a whole"),
        Column(
            "step",
            Unit.STEP,
            "Step of the work that ended the gap, else the step of the host at its end; null outside of all steps",
        ),
        Column("after_ns", Unit.NS, "Start of the gap, counted from the first step, program or operation of the rank"),
        Column("idle_ns", Unit.NS, "Length of the gap; sum of the parts"),
        Column(
            "cause",
            Unit.TEXT,
            "Largest part: what the host did for most of the gap, or queued if the work was already launched",
        ),
        Column(
            "detail", Unit.TEXT, "Range, call or program in which the host spent most of that part; null if unknown"
        ),
        *(Column(f"{cause}_ns", Unit.NS, f"Part of it in which {MEANINGS[cause]}") for cause in ACTIVITIES),
        Column(
            "queued_ns", Unit.NS, "The whole gap if the work that ended it was launched before the gap began; else 0"
        ),
        Column("unattributed_ns", Unit.NS, f"Part of it in which {MEANINGS[UNATTRIBUTED]}"),
        Column("operator", Unit.TEXT, "Innermost operator on the launching thread for most of the gap; null if none"),
        Column("module", Unit.TEXT, "The same for modules, if stacks were recorded"),
        Column("function", Unit.TEXT, "The same for Python functions, if stacks were recorded"),
        Column("annotation", Unit.TEXT, "The same for ranges that the program or a library named"),
        Column("call", Unit.TEXT, "The same for calls into the runtime of the device"),
        Column("other", Unit.TEXT, "What another thread did longest in the gap, apart from waiting; null if nothing"),
        Column("other_tid", Unit.TEXT, "Thread of `other`"),
        Column("other_ns", Unit.NS, "How long that thread did it"),
        Column("start_ns", Unit.NS, "Start of the gap, on the clock of the host"),
    ),
    reads=(*xla_gaps.READS, *host_parts.READS),
    chart=Ranking(x="cause", y=("idle_ns",), title="Idle time of devices by what the host did"),
)
def gaps(
    rank: RankTrace, *, min_gap_ns: int = xla_gaps.MIN_GAP_NS, by_stream: bool = False, input_ranges: str = INPUT_RANGES
) -> pl.DataFrame:
    """When devices had nothing to do, and what the host did meanwhile.

    For each rank, the longest gap comes first. A gap is a time span in which nothing ran on a device, between the first
    and the last step or work of the rank. Its parts add up to its length. If the work that ends a gap was launched
    before the gap began, the gap is queued time: the device waited for other devices, for data, or for a thread to run
    on, and a faster host would not have helped.

    **PyTorch.** A gap is assigned to the calls that were open on the thread that launched the work that ends it: to the
    outermost call whose name shows what the host does (a data loader, a compiler), else to the innermost call.
    Launching after a wait for the device counts as reading back. While this thread has no open call, the calls of the
    thread that has the steps are used. Without stacks, only operators, ranges and calls of the runtime are known. What
    lies between two of these is the program's own code for up to 1 ms, and unattributed if it is longer.

    **XLA.** A gap is a time span in which no operation ran, or no program if operations were not recorded. The names of
    the host's spans show what the host did. Each moment belongs to the first of these activities that is running:
    compilation; read_back, upload, input and tracing on the threads that have the steps or launch the work that ends
    the gap; the same activities on other threads; back_pressure, which is waiting for a device whose queue is full;
    dispatch, except waiting inside it. If none of them is running, the host waited, ran the program's own code, or did
    something that no event names. Times of devices are corrected by `shift_ns` of the analysis skew.

    Args:
        min_gap_ns: Only gaps of this length and longer.
        by_stream: Each queue by itself, instead of the device as a whole. Other queues may be busy in its gaps.
        input_ranges: Names of ranges that are the input pipeline, as a regular expression.
    """
    check_whole(1, min_gap_ns=min_gap_ns)
    if not xla_gaps.is_xla(rank):
        return _of_calls(rank, min_gap_ns=min_gap_ns, by_stream=by_stream)
    return xla_gaps.of_programs(rank, min_gap_ns=min_gap_ns, by_stream=by_stream, input_ranges=input_ranges)


def _of_calls(rank: RankTrace, *, min_gap_ns: int, by_stream: bool) -> pl.DataFrame:
    """The gaps of a rank whose calls on the host were recorded one by one."""
    found = host_parts.of_gaps(rank, min_gap_ns=min_gap_ns, by_stream=by_stream)
    work = rank[host_parts.WORK_EVENTS][:, ["kind", "start_ns"]].filter(IS_WORK)
    begin = pl.concat([work["start_ns"], rank[STEPS]["start_ns"]]).min()
    idle = pl.col("end_ns") - pl.col("start_ns")
    return done(
        found.lazy()
        .with_columns(plane=pl.lit(None, pl.String), idle_ns=idle, after_ns=pl.col("start_ns") - begin)
        .sort("idle_ns", "device", "stream", "start_ns", descending=[True, False, False, False])
        .drop("end_ns")
    )


@gaps.rule
def host_bound_device(table: pl.DataFrame) -> Iterator[Finding]:
    """Devices stand still while the host prepares and starts the next program.

    Python builds the graph (PyTorch/XLA) or dispatches the call (JAX), and starting a program takes time too. Nothing
    hides this time if the device has finished all of its work. The cost is the time for which the device that waits
    most stands still, on an average rank.

    Give the device more to do at once: larger batches, several steps in one program (`lax.scan`, `torch_xla.compile`),
    no Python work between steps. Do not read results before the next step is launched, so that the host runs ahead.
    """
    yield from _standing(table, (PROGRAM, TRACING, DISPATCH), "the host prepares and starts programs")


@gaps.rule
def slow_upload(table: pl.DataFrame) -> Iterator[Finding]:
    """Devices stand still while the host sends data to them.

    The next batch is sent only when it is needed. The cost is the time that the device which waits most stands still
    for it, on an average rank.

    Send batches ahead of their use: `pl.MpDeviceLoader` with `device_prefetch_size`, `jax.device_put` of the next batch
    while the step runs. Send fewer, larger arrays, and keep on the device what is needed again.
    """
    yield from _standing(table, (UPLOAD,), "the host sends data")


def _standing(table: pl.DataFrame, causes: tuple[str, ...], what: str) -> Iterator[Finding]:
    """A finding if devices stand still for ``causes`` for more than a tenth of the idle time in which nothing compiles.

    How much of the job's time that is, the analysis of causes tells, and warns of it.
    """
    # Of what PyTorch launches call by call the analysis of causes tells.
    of_xla = table.filter(pl.col("stream").is_null(), pl.col("plane").is_not_null())
    whole = of_xla.with_columns(part_ns=pl.sum_horizontal(f"{cause}_ns" for cause in causes))
    ranks = (
        whole.group_by("rank", *DEVICE)
        # Compiling happens once, and may take longer than a short recording.
        .agg(pl.col("part_ns").sum(), other_ns=pl.col("idle_ns").sum() - pl.col("compilation_ns").sum())
        .group_by("rank")
        .agg(pl.col("part_ns", "other_ns").max())
        .filter(pl.col("part_ns") > SHARE_RATIO * pl.col("other_ns"))
        .sort("rank")
    )
    if ranks.is_empty():
        return
    names = (
        whole.filter(pl.col("cause").is_in(causes))
        .drop_nulls("detail")
        .group_by("detail")
        .agg(pl.col("part_ns").sum())
        .sort("part_ns", "detail", descending=[True, False])["detail"]
        .to_list()
    )
    cost_ns = int(ranks.select(pl.col("part_ns").mean()).item())
    where = ", mostly in {names:names}" if names else ""
    message = f"devices stand still for {{idle:duration}} while {what}{where}"
    yield Finding("info", message, tuple(ranks["rank"]), cost_ns, values={"idle": cost_ns, "names": names})
