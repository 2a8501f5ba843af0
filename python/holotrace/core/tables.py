"""What a trace is: every table, its columns, their units and meanings."""

from __future__ import annotations

from holotrace.core.schema import Column, Table, Unit
from holotrace.errors import UsageError

RANK = Column("rank", Unit.RANK, "Rank the row belongs to")

_EVENT_ID = Column("event_id", Unit.EVENT, "Position of the event in its file, from 0")
_CATEGORY = Column("category", Unit.LABEL, "Category as the profiler wrote it, e.g. kernel, cpu_op")
_NAME = Column("name", Unit.LABEL, "Name as the profiler wrote it; null if it wrote none")
_PID = Column("pid", Unit.LABEL, "Process (host events) or device, as written")
_TID = Column("tid", Unit.LABEL, "Thread (host events) or stream, as written")
_START = Column("start_ns", Unit.NS, "Start; exact, on the clock of the file")
_END = Column("end_ns", Unit.NS, "End, exclusive; equal to start_ns where no duration was recorded")
_TIME = Column("time_ns", Unit.NS, "When; exact, on the clock of the file")
_STEP = Column("step", Unit.STEP, "Training step; null outside of all steps")

_DEVICE = Column("device", Unit.NUMBER, "Ordinal of the accelerator")
_PLANE = Column("plane", Unit.LABEL, "Plane of the profile it is in, e.g. /device:TPU:0; /host:CPU for CPU devices")
_MODULE_ID = Column("module_id", Unit.EVENT, "Number of the execution of the program, from 0 in each rank")
_MODULE = Column("module", Unit.LABEL, "Name of the compiled program, e.g. jit_train_step")
_PROGRAM = Column("program", Unit.UNSIGNED, "Id of the compiled program (program_id)")
_RUN = Column("run", Unit.NUMBER, "Id that the runtime gave the execution (run_id); the same on all its devices")
_LAUNCH_ID = Column("launch_id", Unit.EVENT, "event_id of the host call that started it; null if unknown")
_LAUNCH_NS = Column("launch_ns", Unit.NS, "Start of that host call")

_SPAN = (_EVENT_ID, _CATEGORY, _NAME, _PID, _TID, _START, _END)

EVENTS = Table("events", "Everything with a duration", _SPAN)

DEVICE_EVENTS = Table(
    "device_events",
    "Everything that ran, or waited, on an accelerator's queue",
    (
        _EVENT_ID,
        _CATEGORY,
        _NAME,
        Column("kind", Unit.LABEL, "compute, communication, memory, sync or other"),
        Column("device", Unit.NUMBER, "Ordinal of the accelerator", arg="device"),
        Column("stream", Unit.NUMBER, "Queue on the device", arg="stream"),
        _START,
        _END,
        Column("correlation", Unit.NUMBER, "Shared with the launch that started it", arg="correlation"),
        _LAUNCH_ID,
        _LAUNCH_NS,
        Column("step", Unit.STEP, "Step that launched it; null outside of all steps"),
        Column("external", Unit.NUMBER, "Shared with the CPU op that asked for it", arg="External id"),
        Column("bytes", Unit.BYTES, "Bytes copied or set", arg="bytes"),
        Column("bandwidth_gbps", Unit.FLOAT, "Memory bandwidth in GB/s", arg="memory bandwidth (GB/s)"),
        Column("device_ps", Unit.NUMBER, "Duration by the device's own clock (TPU)"),
        Column("queued", Unit.NUMBER, "Kernels in the queue when it was launched", arg="queued"),
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
        *_SPAN,
        Column("external", Unit.NUMBER, "Shared with the device events it asked for", arg="External id"),
        Column("record_function", Unit.NUMBER, "Record function id", arg="Record function id"),
        Column("sequence", Unit.NUMBER, "Links forward to backward", arg="Sequence number"),
        Column("forward_thread", Unit.NUMBER, "Thread of the forward op", arg="Fwd thread id"),
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
        _PID,
        _TID,
        Column("launch_start_ns", Unit.NS, "Start of the host call"),
        Column("launch_end_ns", Unit.NS, "End of the host call, exclusive"),
        Column("correlation", Unit.NUMBER, "Id shared by both sides", arg="correlation"),
    ),
)

COLLECTIVES = Table(
    "collectives",
    "Communication operations with what the profiler recorded of them; device events and host ops",
    (
        *_SPAN,
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
        Column("rank_stride", Unit.NUMBER, "Distance of global ranks", arg="Global rank stride"),
        Column("communicator", Unit.LABEL, "Communicator", arg="Comms Id"),
        Column("asynchronous", Unit.LABEL, "Whether the host went on at once", arg="Is asynchronized op"),
        Column(
            "arrived_ns",
            Unit.NS,
            "When the core came to the barrier before it (barrier-cores of a TPU); null without",
        ),
    ),
)

STEPS = Table(
    "steps",
    "Training steps: ProfilerStep#N, spans with a step number, or, where none was marked, inferred ones",
    (_STEP, _EVENT_ID, _START, _END),
)

ANNOTATIONS = Table(
    "annotations",
    "Ranges a user or library named, on the host and on the device",
    (
        *_SPAN,
        Column("on_device", Unit.BOOL, "Whether it spans device work rather than host work"),
        Column("arguments", Unit.LABEL, "What the program passed along with the name, JSON"),
    ),
)

PYTHON_CALLS = Table(
    "python_calls",
    "Python functions and modules, where stacks were recorded",
    (
        *_SPAN,
        Column("python", Unit.NUMBER, "Id of the call", arg="Python id"),
        Column("python_parent", Unit.NUMBER, "Id of the caller", arg="Python parent id"),
        Column("python_module", Unit.NUMBER, "Number of the module instance", arg="Python module id"),
    ),
)

RUNTIME_CALLS = Table(
    "runtime_calls",
    "Calls of the host into the accelerator's runtime or driver, whether or not they launched anything",
    (*_SPAN, Column("correlation", Unit.NUMBER, "Shared with the device events it started", arg="correlation")),
)

INSTANTS = Table("instants", "Marks without a duration", (_EVENT_ID, _CATEGORY, _NAME, _PID, _TID, _TIME))

COUNTERS = Table(
    "counters",
    "Sampled values",
    (
        _EVENT_ID,
        _NAME,
        Column("series", Unit.LABEL, "Which of the counter's values"),
        _PID,
        _TIME,
        Column("value", Unit.FLOAT, "The sample"),
    ),
)

HARDWARE_COUNTERS = Table(
    "hardware_counters",
    "What counters of the hardware read around device work, where they were recorded, e.g. by CUPTI's range profiler",
    (
        _EVENT_ID,
        _NAME,
        _START,
        _END,
        Column("counter", Unit.LABEL, "The counter, as the profiler names it"),
        Column("value", Unit.FLOAT, "What it read"),
    ),
)

MEMORY = Table(
    "memory",
    "Allocations and releases of tensor memory, where memory was recorded",
    (
        _EVENT_ID,
        _TID,
        _TIME,
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
        _EVENT_ID,
        _TIME,
        Column("allocator", Unit.LABEL, "Whose memory it is of: the allocator's name, else the device and its number"),
        Column("bytes", Unit.BYTES, "Bytes allocated; negative for a release"),
        Column("allocated_bytes", Unit.BYTES, "Allocated after it"),
        Column("reserved_bytes", Unit.BYTES, "Reserved after it, for temporary results of programs"),
        Column("free_bytes", Unit.BYTES, "Free after it"),
        Column("most_bytes", Unit.BYTES, "Most that was allocated until then, also before the recording"),
        Column("fragmentation_ratio", Unit.RATIO, "Of the free memory, what is not in its largest piece"),
    ),
)

FLOWS = Table(
    "flows",
    "Arrows the profiler drew from one event to another, e.g. ac2g, fwdbwd",
    (
        Column("category", Unit.LABEL, "Kind of arrow"),
        Column("flow", Unit.NUMBER, "Id of the arrow"),
        Column("from_id", Unit.EVENT, "event_id it leaves; null if none encloses its tail"),
        Column("to_id", Unit.EVENT, "event_id it reaches; null if none encloses its head"),
        Column("from_ns", Unit.NS, "Time at its tail"),
        Column("to_ns", Unit.NS, "Time at its head"),
        Column("from_pid", Unit.LABEL, "Process of its tail, as written; also where it leaves no event"),
        Column("from_tid", Unit.LABEL, "Thread or stream of its tail, as written"),
        Column("to_pid", Unit.LABEL, "Process or device of its head, as written; also where it reaches no event"),
        Column("to_tid", Unit.LABEL, "Thread or stream of its head, as written"),
    ),
)

TRACK_LABELS = Table(
    "track_labels",
    "Names the profiler gave to processes, devices, threads and streams",
    (
        Column("label", Unit.LABEL, "process_name, process_labels, process_sort_index, thread_name, …"),
        _PID,
        _TID,
        Column("value", Unit.LABEL, "The name"),
    ),
)

DEVICES = Table(
    "devices",
    "Accelerators of an XLA profile, with what the profile declares of them",
    (
        _DEVICE,
        _PLANE,
        Column("device_kind", Unit.TEXT, "TPU, GPU, CPU or SparseCore"),
        Column("vendor", Unit.TEXT, "Who made it"),
        Column("model", Unit.TEXT, "What it is, e.g. TPU v6 Lite"),
        Column("peak_flops", Unit.FLOAT, "Floating-point operations per second at most"),
        Column("peak_bandwidth", Unit.FLOAT, "Bytes per second to and from its main memory at most"),
        Column("memory_bytes", Unit.BYTES, "Size of its main memory"),
        Column("core_count", Unit.COUNT, "Cores or multiprocessors"),
        Column("clock_hz", Unit.FLOAT, "Cycles per second"),
    ),
)

MODULES = Table(
    "modules",
    "Executions of compiled XLA programs, one row per device",
    (
        _MODULE_ID,
        _MODULE,
        _PROGRAM,
        _RUN,
        _DEVICE,
        _PLANE,
        _START,
        _END,
        _LAUNCH_ID,
        _LAUNCH_NS,
        Column("step", Unit.STEP, "Step that launched it, by run id or flow; null outside of all steps"),
        Column("op_count", Unit.COUNT, "Operations it executed, as far as they were recorded"),
    ),
)

XLA_OPS = Table(
    "xla_ops",
    "Executions of HLO operations on a device, also of those that contain others",
    (
        _EVENT_ID,
        Column("name", Unit.LABEL, "Name of the instruction, e.g. fusion.3, all-reduce.9"),
        Column("opcode", Unit.LABEL, "HLO opcode, e.g. fusion; null if the program is not in the profile"),
        Column("category", Unit.LABEL, "hlo_category as written (TPU), else the opcode"),
        Column("kind", Unit.LABEL, "compute, communication, memory, sync or other"),
        _MODULE_ID,
        _MODULE,
        _PROGRAM,
        _RUN,
        _DEVICE,
        _PLANE,
        Column("stream", Unit.NUMBER, "Line of the device, or host thread of a CPU device"),
        Column("line", Unit.LABEL, "Name of that line, e.g. XLA Ops, Async XLA Ops, Stream #16(Kernel)"),
        Column("scope", Unit.LABEL, "Name scopes and operator it was made from (op_name); null if it has none"),
        Column("source", Unit.LABEL, "file:line it was made from"),
        Column("shape", Unit.LABEL, "Type and dimensions of its result, e.g. f32[8,128]"),
        Column(
            "layout", Unit.LABEL, "How that lies in memory, e.g. {1,0:T(8,128)}: order of dimensions, tiles, memory"
        ),
        Column("target", Unit.LABEL, "What a custom call calls"),
        Column("same_as", Unit.LABEL, "Operation that the compiler says it is a duplicate of; null if of none (TPU)"),
        _START,
        _END,
        Column("duration_ps", Unit.NUMBER, "Exact duration; start_ns and end_ns are its ends, rounded down"),
        Column("device_ps", Unit.NUMBER, "Duration by the device's own clock (TPU)"),
        Column(
            "self_ns", Unit.NS, "Duration by the device's own clock, where it has one, without operations inside it"
        ),
        Column("flops", Unit.NUMBER, "Floating-point operations, as the compiler counts them"),
        Column("accessed_bytes", Unit.BYTES, "Bytes read and written, as the compiler counts them"),
        Column(
            "is_wait", Unit.BOOL, "Waits for something under way: copy-done, all-gather-done, barrier-cores, infeed"
        ),
        Column("is_collective", Unit.BOOL, "Communicates with other devices, or waits for that"),
        Column("is_async", Unit.BOOL, "Spans start to done of work under way (Async XLA Ops), not an execution"),
        Column("is_container", Unit.BOOL, "Contains other operations: while, call, conditional"),
        _LAUNCH_ID,
        _LAUNCH_NS,
        Column("step", Unit.STEP, "Step that launched it, by run id or flow; null outside of all steps"),
    ),
)

HLO = Table(
    "hlo",
    "Instructions of the compiled programs that the profile holds",
    (
        _MODULE,
        _PROGRAM,
        Column("name", Unit.LABEL, "Name of the instruction"),
        Column("opcode", Unit.LABEL, "What it does, e.g. dot, fusion, all-reduce"),
        Column("computation", Unit.LABEL, "Computation it belongs to"),
        Column("is_entry", Unit.BOOL, "Whether that is the program's own, from which others are called"),
        Column("is_fused", Unit.BOOL, "Whether it is inside a fusion, and so never a device event itself"),
        Column("scope", Unit.LABEL, "Name scopes and operator it was made from (op_name)"),
        Column("source", Unit.LABEL, "file:line it was made from"),
        Column("shape", Unit.LABEL, "Type and dimensions of its result, e.g. f32[8,128]"),
        Column(
            "layout", Unit.LABEL, "How that lies in memory, e.g. {1,0:T(8,128)}: order of dimensions, tiles, memory"
        ),
        Column("target", Unit.LABEL, "What a custom call calls"),
        Column("result_bytes", Unit.BYTES, "Size of its result"),
        Column("element_count", Unit.COUNT, "Elements of its result"),
        Column("channel", Unit.NUMBER, "Channel of a collective"),
        Column("groups", Unit.LABEL, "Replica groups of a collective, JSON"),
    ),
)

BUFFERS = Table(
    "buffers",
    "Memory that the compiler gave to results of programs: a row for each result, or part of one",
    (
        _MODULE,
        _PROGRAM,
        Column("name", Unit.LABEL, "Instruction whose result it holds"),
        Column("part", Unit.TEXT, "Which part of a tuple it holds, e.g. {0}; null for a whole result"),
        Column("opcode", Unit.LABEL, "What the instruction does"),
        Column("computation", Unit.LABEL, "Computation it belongs to"),
        Column("scope", Unit.LABEL, "Name scopes and operator it was made from (op_name)"),
        Column("source", Unit.LABEL, "file:line it was made from"),
        Column("shape", Unit.TEXT, "Type and dimensions of what it holds"),
        Column("layout", Unit.TEXT, "How that lies in memory: order of dimensions, tiles, memory"),
        Column("memory", Unit.NUMBER, "Memory space as XLA numbers them: 0 is the device's main memory, 5 the host's"),
        Column("allocation", Unit.NUMBER, "Piece of memory it lies in, which others may use before and after it"),
        Column("allocation_bytes", Unit.BYTES, "Size of that piece"),
        Column("offset_bytes", Unit.BYTES, "Where in it"),
        Column("buffer_bytes", Unit.BYTES, "Its size, with padding"),
        Column("data_bytes", Unit.BYTES, "Size of its elements without padding; null for tuples, which hold addresses"),
        Column(
            "peak_bytes",
            Unit.BYTES,
            "What it holds when the program holds most; of memory that is held all the time one buffer has it all",
        ),
        Column("first", Unit.NUMBER, "Number of the event in the compiler's simulation that took its memory"),
        Column("last", Unit.NUMBER, "Number of the one that left it; null at the end"),
        Column("is_parameter", Unit.BOOL, "Whether the piece of memory is an input's"),
        Column("is_output", Unit.BOOL, "Whether it may hold an output"),
        Column("is_constant", Unit.BOOL, "Whether it holds a constant"),
        Column("is_thread_local", Unit.BOOL, "Whether it is memory of a thread of the host"),
    ),
)

HOST_CALLS = Table(
    "host_calls",
    "Spans of host threads in an XLA profile: launches, completions, compilations, annotations",
    (
        _EVENT_ID,
        _NAME,
        _PID,
        _TID,
        _START,
        _END,
        _RUN,
        Column("device", Unit.NUMBER, "Ordinal of the device it is about (device_ordinal)"),
        Column("arguments", Unit.LABEL, "All its arguments, JSON"),
    ),
)

PROBLEMS = Table(
    "problems",
    "What could not be read as it was written, and what was done about it",
    (
        Column("rank", Unit.RANK, "Rank the row belongs to; null where it concerns the whole job"),
        Column("problem", Unit.TEXT, "Kind of damage"),
        Column("count", Unit.COUNT, "How often"),
        Column("first_offset", Unit.NUMBER, "Byte of the (inflated) file where it was seen first"),
        Column("example", Unit.TEXT, "What was found there"),
        Column("action", Unit.TEXT, "What was done"),
        Column("file", Unit.TEXT, "File it was found in"),
    ),
)

CALLS = Table(
    "calls",
    "Who called whom: events on the host, each under its caller, and device events under the call that launched them",
    (
        *_SPAN,
        Column("on_device", Unit.BOOL, "Whether it is a device event rather than a call on the host"),
        Column("parent_id", Unit.EVENT, "event_id of the caller, or of the launch; null if nothing encloses it"),
        Column("depth", Unit.NUMBER, "How many callers are around it"),
        Column("height", Unit.NUMBER, "How many levels of calls are below it"),
        Column("self_ns", Unit.NS, "Its time in which no call that it made ran"),
        Column("continues_id", Unit.EVENT, "event_id of the forward op that this op of a backward pass belongs to"),
        Column("work_count", Unit.COUNT, "Kernels and copies that it and the calls below it launched"),
        Column("work_ns", Unit.NS, "Time of these; those that overlap count in full"),
        Column("first_work_ns", Unit.NS, "Start of the first of these; null without"),
        Column("last_work_ns", Unit.NS, "Latest end of these; null without"),
    ),
)

RANK_INFO = Table(
    "rank_info",
    "What is there: one row per rank",
    (
        RANK,
        Column("file", Unit.TEXT, "Where it was read from"),
        Column("rank_from", Unit.TEXT, "How the rank was found: trace, file name, number, only file, caller"),
        Column("world_count", Unit.COUNT, "Ranks of the whole job, as the trace says; null if it does not"),
        Column("device", Unit.TEXT, "Accelerator's name"),
        Column("device_count", Unit.COUNT, "Accelerators the process saw"),
        Column("peak_type", Unit.TEXT, "Type of which peak_tflops is: bf16, else fp16 or fp32"),
        Column(
            "peak_tflops", Unit.FLOAT, "Operations per second that the device could do at most, dense; null if unknown"
        ),
        Column("peak_gbps", Unit.FLOAT, "What its memory could move at most, in GB/s of 10^9 bytes; null if unknown"),
        Column("peak_from", Unit.TEXT, "The device whose peaks these are, or what they rest on"),
        Column("software", Unit.TEXT, "Versions the trace names"),
        Column("backend", Unit.TEXT, "Communication library"),
        Column("step_count", Unit.COUNT, "Steps recorded"),
        Column("event_count", Unit.COUNT, "Entries in the file, of every kind"),
        Column("device_event_count", Unit.COUNT, "Events on an accelerator"),
        Column("problem_count", Unit.COUNT, "Entries that could not be read as written"),
        Column("span_ns", Unit.NS, "From the first start to the last end of device events and steps; null without"),
        Column("first_ns", Unit.NS, "Start of the first of these, on the clock of the file; null without"),
        Column("file_bytes", Unit.BYTES, "Size of the file"),
        Column("text_bytes", Unit.BYTES, "Size of the JSON text"),
        Column("load_ns", Unit.NS, "Wall time it took to read"),
    ),
)

CLOCKS = Table(
    "clocks",
    "How far the clocks of ranks are apart, told by collectives, which end on all of their ranks at once",
    (
        RANK,
        Column("collective_count", Unit.COUNT, "Collectives of several ranks that tell it"),
        Column(
            "offset_ns", Unit.NS, "How far the rank's clock is ahead of the median rank's; null if they do not tell"
        ),
        Column("residual_ns", Unit.NS, "How far ends are from the median rank's when that is taken off: the median"),
        Column("most_residual_ns", Unit.NS, "How far they are at most"),
        Column("first_rank", Unit.RANK, "First of the ranks whose clocks were compared, also through others between"),
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

# Read from files.
ALL: tuple[Table, ...] = (
    EVENTS,
    DEVICE_EVENTS,
    CPU_OPS,
    LAUNCHES,
    COLLECTIVES,
    STEPS,
    ANNOTATIONS,
    PYTHON_CALLS,
    RUNTIME_CALLS,
    INSTANTS,
    COUNTERS,
    HARDWARE_COUNTERS,
    MEMORY,
    HEAP,
    FLOWS,
    TRACK_LABELS,
    DEVICES,
    MODULES,
    XLA_OPS,
    HLO,
    BUFFERS,
    HOST_CALLS,
    PROBLEMS,
)
# Made of those.
MADE: tuple[Table, ...] = (CALLS, RANK_INFO, CLOCKS)


def named(name: str) -> Table:
    """The table of that name, as written here or in kebab case."""
    known = {table.name: table for table in (*ALL, *MADE)}
    if (table := known.get(name.replace("-", "_"))) is None:
        raise UsageError(f"there is no table {name!r}; there are {', '.join(known)}")
    return table
