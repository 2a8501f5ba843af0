"""What was counted over time: counters, hardware counters, memory."""

from __future__ import annotations

from holotrace.core.schema import Column, Table, Unit
from holotrace.core.tables.columns import END, EVENT_ID, NAME, PID, START, TID, TIME

COUNTERS = Table(
    "counters",
    "Sampled values",
    (
        EVENT_ID,
        NAME,
        Column("series", Unit.LABEL, "Which of the counter's values"),
        PID,
        TIME,
        Column("value", Unit.FLOAT, "The sample"),
    ),
)

HARDWARE_COUNTERS = Table(
    "hardware_counters",
    "What counters of the hardware read around device work, where they were recorded, e.g. by CUPTI's range profiler",
    (
        EVENT_ID,
        NAME,
        START,
        END,
        Column("counter", Unit.LABEL, "The counter, as the profiler names it"),
        Column("value", Unit.FLOAT, "What it read"),
    ),
)

MEMORY = Table(
    "memory",
    "Allocations and releases of tensor memory, where memory was recorded",
    (
        EVENT_ID,
        TID,
        TIME,
        Column("address", Unit.NUMBER, "Address", arg="Addr"),
        Column("bytes", Unit.BYTES, "Bytes allocated; negative for a release", arg="Bytes"),
        Column("device_type", Unit.NUMBER, "Type of the device: 0 is the host", arg="Device Type"),
        Column("device", Unit.NUMBER, "Ordinal of the device; -1 for the host", arg="Device Id"),
        Column("allocated_bytes", Unit.BYTES, "Allocated after it", arg="Total Allocated"),
        Column("reserved_bytes", Unit.BYTES, "Reserved after it", arg="Total Reserved"),
    ),
)

HEAP = Table(
    "heap",
    "What allocators of XLA's runtime had in use after each allocation and each release",
    (
        EVENT_ID,
        TIME,
        Column("allocator", Unit.LABEL, "Whose memory it is of: the allocator's name, else the device and its number"),
        Column("bytes", Unit.BYTES, "Bytes allocated; negative for a release"),
        Column("allocated_bytes", Unit.BYTES, "Allocated after it"),
        Column("reserved_bytes", Unit.BYTES, "Reserved after it, for temporary results of programs"),
        Column("free_bytes", Unit.BYTES, "Free after it"),
        Column("most_bytes", Unit.BYTES, "Most that was allocated until then, also before the recording"),
        Column("fragmentation_ratio", Unit.RATIO, "Of the free memory, what is not in its largest piece"),
    ),
)
