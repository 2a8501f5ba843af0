"""Which stats of events are read."""

from __future__ import annotations

# What is read of an event besides name and time. Values of other stats are in the JSON of its arguments.
STATS = {
    **dict.fromkeys(("_r", "step_num", "iter_num", "_pt", "_p", "_ct", "_c"), "int"),
    **dict.fromkeys(("run_id", "device_ordinal", "queue_id", "core_type", "correlation_id"), "int"),
    **dict.fromkeys(("hlo_op", "hlo_module", "hlo_category", "tf_op", "source", "name", "deduplicated_name"), "text"),
    **dict.fromkeys(("kernel_details", "memcpy_details", "memset_details"), "text"),
    **dict.fromkeys(("program_id", "flops", "model_flops", "bytes_accessed", "device_duration_ps"), "int"),
    **dict.fromkeys(("bytes_allocated", "bytes_reserved", "requested_bytes", "allocation_bytes"), "int"),
    **dict.fromkeys(("addr", "index_on_host", "bytes_available", "peak_bytes_in_use"), "int"),
    "allocator_name": "text",
    **dict.fromkeys(("% util", "fills", "spills", "fragmentation"), "float"),
}
