"""What was counted over time: counters, hardware counters, memory."""

from __future__ import annotations

from holotrace.core.schema import Column, Table, Unit
from holotrace.core.tables.columns import END, EVENT_ID, NAME, PID, START, TID, TIME

COUNTERS = Table(
    "counters",
    "Values of counters that the profiler sampled",
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
    "Values of hardware counters for device work, if recorded, e.g. by CUPTI's range profiler",
    (
        EVENT_ID,
        NAME,
        START,
        END,
        Column("counter", Unit.LABEL, "The counter, as the profiler names it"),
        Column("value", Unit.FLOAT, "Value of the counter"),
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
        Column("allocated_bytes", Unit.BYTES, "Allocated memory after it", arg="Total Allocated"),
        Column("reserved_bytes", Unit.BYTES, "Reserved memory after it", arg="Total Reserved"),
    ),
)

HEAP = Table(
    "heap",
    "Memory in use by allocators of XLA's runtime after each allocation and release",
    (
        EVENT_ID,
        TIME,
        Column("allocator", Unit.LABEL, "Name of the allocator, else the device and its number"),
        Column("bytes", Unit.BYTES, "Bytes allocated; negative for a release"),
        Column("allocated_bytes", Unit.BYTES, "Allocated memory after it"),
        Column("reserved_bytes", Unit.BYTES, "Memory reserved after it for temporary results of programs"),
        Column("free_bytes", Unit.BYTES, "Free memory after it"),
        Column("most_bytes", Unit.BYTES, "Largest amount allocated so far, including before the recording"),
        Column("fragmentation_ratio", Unit.RATIO, "Share of free memory that is not in the largest free piece"),
    ),
)
