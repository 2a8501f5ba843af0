"""What is known of the job: ranks, clocks, problems, findings."""

from __future__ import annotations

from holotrace.core.schema import Column, Table, Unit
from holotrace.core.tables.columns import RANK

PROBLEMS = Table(
    "problems",
    "What could not be read as it was written, and what was done about it",
    (
        Column("rank", Unit.RANK, "Rank the row belongs to; null where it concerns the whole job"),
        Column("problem", Unit.TEXT, "Kind of damage"),
        Column("count", Unit.COUNT, "Number of occurrences"),
        Column("first_offset", Unit.NUMBER, "Byte of the (inflated) file where it was seen first"),
        Column("example", Unit.TEXT, "What was found there"),
        Column("action", Unit.TEXT, "What was done"),
        Column("file", Unit.TEXT, "File it was found in"),
    ),
)

RANK_INFO = Table(
    "rank_info",
    "Contents of each rank's trace: one row per rank",
    (
        RANK,
        Column("file", Unit.TEXT, "Where it was read from"),
        Column("rank_from", Unit.TEXT, "How the rank was found: trace, file name, number, only file, caller"),
        Column("world_count", Unit.COUNT, "Ranks of the whole job, as the trace says; null if it does not"),
        Column("device", Unit.TEXT, "Accelerator's name"),
        Column("device_count", Unit.COUNT, "Number of accelerators that the process saw"),
        Column("peak_type", Unit.TEXT, "Element type of peak_tflops: bf16, else fp16 or fp32"),
        Column("peak_tflops", Unit.FLOAT, "Dense peak of the device, in TFLOP/s; null if unknown"),
        Column("peak_gbps", Unit.FLOAT, "Peak bandwidth of its memory, in GB/s of 10^9 bytes; null if unknown"),
        Column("peak_from", Unit.TEXT, "Device whose peaks these are, or how they were derived"),
        Column("software", Unit.TEXT, "Versions the trace names"),
        Column("backend", Unit.TEXT, "Communication library"),
        Column("step_count", Unit.COUNT, "Number of recorded steps"),
        Column(
            "first_step", Unit.STEP, "Number of the first of them; null in profiles of XLA without numbers of their own"
        ),
        Column(
            "last_step", Unit.STEP, "Number of the last of them; null in profiles of XLA without numbers of their own"
        ),
        Column(
            "step_runs",
            Unit.TEXT,
            "Ids of the program runs that are most of each step, the same in all profiles of the job, JSON; null where "
            "steps have numbers of their own",
        ),
        Column("step_ends", Unit.TEXT, "When these runs ended, in ns on the clock of the file, JSON"),
        Column("event_count", Unit.COUNT, "Entries in the file, of every kind"),
        Column("device_event_count", Unit.COUNT, "Events on an accelerator"),
        Column("problem_count", Unit.COUNT, "Entries that could not be read as written"),
        Column("span_ns", Unit.NS, "From the first start to the last end of device events and steps; null without"),
        Column("first_ns", Unit.NS, "Start of the first of these, on the clock of the file; null without"),
        Column("file_bytes", Unit.BYTES, "Size of the file"),
        Column("text_bytes", Unit.BYTES, "Size of the JSON text"),
        Column("load_ns", Unit.NS, "Wall time of reading the file"),
    ),
)

CLOCKS = Table(
    "clocks",
    "Offsets between the clocks of ranks, measured at collectives, which end on all of their ranks at once",
    (
        RANK,
        Column("collective_count", Unit.COUNT, "Number of collectives with several ranks that the offset follows from"),
        Column("offset_ns", Unit.NS, "How far the rank's clock is ahead of the median rank's; null if unknown"),
        Column(
            "residual_ns",
            Unit.NS,
            "Median distance between ends on this rank and on the median rank after correction by the offset",
        ),
        Column("most_residual_ns", Unit.NS, "Largest such distance"),
        Column(
            "first_rank",
            Unit.RANK,
            "Lowest of the ranks whose clocks could be compared with it, directly or through other ranks",
        ),
    ),
)

FINDINGS = Table(
    "findings",
    "What the rules of all analyses found",
    (
        Column("severity", Unit.TEXT, "info, warning or critical"),
        Column("rule", Unit.TEXT, "The rule that found it"),
        Column("analysis", Unit.TEXT, "The analysis whose table it read"),
        Column("message", Unit.TEXT, "What is wrong, in a sentence"),
        Column("ranks", Unit.RANKS, "Ranks it was seen on; empty where it concerns all"),
        Column("cost_ns", Unit.NS, "Wall time of the job that fixing it would save at most; null where unknown"),
        Column("step_cost_ns", Unit.NS, "The same for one training step; null without steps"),
        Column("values", Unit.TEXT, "Figures and names in the message, as a JSON object"),
        Column("explains", Unit.TEXT, "Rules whose findings are how this one looks, and are left out; null for none"),
        Column("what_to_do", Unit.TEXT, "What to change; empty where the documentation of the rule says it"),
    ),
)
