"""What every profile has: events, device work, operators, launches and what links them."""

from __future__ import annotations

from holotrace.core.schema import Column, Table, Unit
from holotrace.core.tables.columns import (
    CATEGORY,
    END,
    EVENT_ID,
    LAUNCH_ID,
    LAUNCH_NS,
    NAME,
    PID,
    SPAN,
    START,
    TID,
    TIME,
)

EVENTS = Table("events", "All events with a duration", SPAN)

DEVICE_EVENTS = Table(
    "device_events",
    "All work and all waiting on the queues of accelerators",
    (
        EVENT_ID,
        CATEGORY,
        NAME,
        Column("kind", Unit.LABEL, "compute, communication, memory, sync or other"),
        Column("device", Unit.NUMBER, "Ordinal of the accelerator", arg="device"),
        Column("stream", Unit.NUMBER, "Queue on the device", arg="stream"),
        START,
        END,
        Column("correlation", Unit.NUMBER, "Id that it shares with the launch that started it", arg="correlation"),
        LAUNCH_ID,
        LAUNCH_NS,
        Column("step", Unit.STEP, "Step that launched it; null outside of all steps"),
        Column("external", Unit.NUMBER, "Id that it shares with the CPU operator that launched it", arg="External id"),
        Column("bytes", Unit.BYTES, "Bytes copied or set", arg="bytes"),
        Column("bandwidth_gbps", Unit.FLOAT, "Memory bandwidth in GB/s", arg="memory bandwidth (GB/s)"),
        Column("device_ps", Unit.NUMBER, "Duration by the device's own clock (TPU)"),
        Column("queued", Unit.NUMBER, "Number of kernels in the queue when it was launched", arg="queued"),
        Column("grid", Unit.LABEL, "Launch grid [x, y, z]", arg="grid"),
        Column("block", Unit.LABEL, "Thread block [x, y, z]", arg="block"),
        Column("registers", Unit.NUMBER, "Registers per thread", arg="registers per thread"),
        Column("shared_bytes", Unit.BYTES, "Shared memory per block", arg="shared memory"),
        Column("blocks_per_sm", Unit.FLOAT, "Blocks per multiprocessor", arg="blocks per SM"),
        Column("warps_per_sm", Unit.FLOAT, "Warps per multiprocessor", arg="warps per SM"),
        Column("occupancy_percent", Unit.FLOAT, "Estimated occupancy, 0-100", arg="est. achieved occupancy %"),
        Column("context", Unit.NUMBER, "Device context", arg="context"),
        Column("graph_node", Unit.NUMBER, "Node of the launched graph", arg="graph node id"),
        Column("sync_kind", Unit.LABEL, "Kind of a synchronisation", arg="cuda_sync_kind"),
        Column("wait_on_stream", Unit.NUMBER, "Stream a synchronisation waits for", arg="wait_on_stream"),
        Column(
            "wait_on_record",
            Unit.NUMBER,
            "Correlation of the event record a synchronisation waits for",
            arg="wait_on_cuda_event_record_corr_id",
        ),
    ),
)

CPU_OPS = Table(
    "cpu_ops",
    "Operators the host ran",
    (
        *SPAN,
        Column("external", Unit.NUMBER, "Id that it shares with the device events it launched", arg="External id"),
        Column("record_function", Unit.NUMBER, "Record function id", arg="Record function id"),
        Column(
            "sequence",
            Unit.NUMBER,
            "Sequence number, which links an operator of the forward pass to those of the backward pass",
            arg="Sequence number",
        ),
        Column("forward_thread", Unit.NUMBER, "Thread of the operator of the forward pass", arg="Fwd thread id"),
        Column("ev_idx", Unit.NUMBER, "Profiler's own index", arg="Ev Idx"),
        Column("input_dims", Unit.LABEL, "Shapes of the inputs, JSON", arg="Input Dims"),
        Column("input_types", Unit.LABEL, "Types of the inputs, JSON", arg="Input type"),
        Column("input_strides", Unit.LABEL, "Strides of the inputs, JSON", arg="Input Strides"),
        Column("concrete_inputs", Unit.LABEL, "Scalar inputs, JSON", arg="Concrete Inputs"),
    ),
)

LAUNCHES = Table(
    "launches",
    "Host calls joined to the device events they started, one row per pair",
    (
        Column("launch_id", Unit.EVENT, "event_id of the host call"),
        Column("device_event_id", Unit.EVENT, "event_id of the device event"),
        Column("launch_name", Unit.LABEL, "Name of the host call, e.g. cudaLaunchKernel"),
        PID,
        TID,
        Column("launch_start_ns", Unit.NS, "Start of the host call"),
        Column("launch_end_ns", Unit.NS, "End of the host call, exclusive"),
        Column("correlation", Unit.NUMBER, "Id shared by both sides", arg="correlation"),
    ),
)

COLLECTIVES = Table(
    "collectives",
    "Communication operations with what the profiler recorded of them; device events and host ops",
    (
        *SPAN,
        Column("collective", Unit.LABEL, "Operation, e.g. allreduce", arg="Collective name"),
        Column("sequence", Unit.NUMBER, "Number within its process group", arg="Seq"),
        Column("group", Unit.LABEL, "Process group", arg="Process Group Name"),
        Column("group_description", Unit.LABEL, "Description of the group", arg="Process Group Description"),
        Column("group_ranks", Unit.LABEL, "Ranks in the group, JSON", arg="Process Group Ranks"),
        Column("group_size", Unit.NUMBER, "Ranks in the group", arg="Group size"),
        Column("group_rank", Unit.NUMBER, "Rank within the group", arg="Rank"),
        Column("source_rank", Unit.NUMBER, "Sender of a point-to-point operation", arg="Src Rank"),
        Column("destination_rank", Unit.NUMBER, "Receiver of a point-to-point operation", arg="Dst Rank"),
        Column("in_elements", Unit.NUMBER, "Elements of the input", arg="In msg nelems"),
        Column("out_elements", Unit.NUMBER, "Elements of the output", arg="Out msg nelems"),
        Column("element_type", Unit.LABEL, "Type of an element", arg="dtype"),
        Column("in_split", Unit.LABEL, "Elements sent to each rank, JSON", arg="In split size"),
        Column("out_split", Unit.LABEL, "Elements received from each rank, JSON", arg="Out split size"),
        Column("rank_start", Unit.NUMBER, "First global rank of the group", arg="Global rank start"),
        Column(
            "rank_stride",
            Unit.NUMBER,
            "Difference between consecutive global ranks of the group",
            arg="Global rank stride",
        ),
        Column("communicator", Unit.LABEL, "Communicator", arg="Comms Id"),
        Column(
            "asynchronous", Unit.LABEL, "Whether the host continued without waiting for it", arg="Is asynchronized op"
        ),
        Column(
            "arrived_ns",
            Unit.NS,
            "When the core arrived at the barrier before it (barrier-cores of a TPU); null without a barrier",
        ),
    ),
)

FLOWS = Table(
    "flows",
    "Arrows the profiler drew from one event to another, e.g. ac2g, fwdbwd",
    (
        Column("category", Unit.LABEL, "Kind of arrow"),
        Column("flow", Unit.NUMBER, "Id of the arrow"),
        Column("from_id", Unit.EVENT, "event_id of the event that it starts from; null if no event encloses its start"),
        Column("to_id", Unit.EVENT, "event_id of the event that it leads to; null if no event encloses its end"),
        Column("from_ns", Unit.NS, "Time of its start"),
        Column("to_ns", Unit.NS, "Time of its end"),
        Column("from_pid", Unit.LABEL, "Process of its start, as written; also if no event encloses it"),
        Column("from_tid", Unit.LABEL, "Thread or stream of its start, as written"),
        Column("to_pid", Unit.LABEL, "Process or device of its end, as written; also if no event encloses it"),
        Column("to_tid", Unit.LABEL, "Thread or stream of its end, as written"),
    ),
)

TRACK_LABELS = Table(
    "track_labels",
    "Names the profiler gave to processes, devices, threads and streams",
    (
        Column("label", Unit.LABEL, "process_name, process_labels, process_sort_index, thread_name, …"),
        PID,
        TID,
        Column("value", Unit.LABEL, "The name"),
    ),
)

INSTANTS = Table("instants", "Events without a duration", (EVENT_ID, CATEGORY, NAME, PID, TID, TIME))
