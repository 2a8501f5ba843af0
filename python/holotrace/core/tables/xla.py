"""What profiles of XLA have besides: devices, programs, operations, buffers, calls of the host."""

from __future__ import annotations

from holotrace.core.schema import Column, Table, Unit
from holotrace.core.tables.columns import (
    DEVICE,
    END,
    EVENT_ID,
    LAUNCH_ID,
    LAUNCH_NS,
    MODULE,
    MODULE_ID,
    NAME,
    PID,
    PLANE,
    PROGRAM,
    RUN,
    START,
    TID,
)

# What programs call functions in Python by: a device waits for them.
PYTHON_TARGET = "python.*callback"

DEVICES = Table(
    "devices",
    "Accelerators of an XLA profile, with the properties that the profile declares",
    (
        DEVICE,
        PLANE,
        Column("device_kind", Unit.TEXT, "TPU, GPU, CPU or SparseCore"),
        Column("vendor", Unit.TEXT, "Vendor of the device"),
        Column("model", Unit.TEXT, "Model of the device, e.g. TPU v6 Lite"),
        Column("peak_flops", Unit.FLOAT, "Peak floating-point operations per second"),
        Column("peak_bandwidth", Unit.FLOAT, "Peak bandwidth of its main memory, in bytes per second"),
        Column("memory_bytes", Unit.BYTES, "Size of its main memory"),
        Column("core_count", Unit.COUNT, "Cores or multiprocessors"),
        Column("clock_hz", Unit.FLOAT, "Cycles per second"),
        Column("capability", Unit.TEXT, "Compute capability of a GPU, e.g. 9.0; null for other devices"),
    ),
)

MODULES = Table(
    "modules",
    "Executions of compiled XLA programs, one row per device",
    (
        MODULE_ID,
        MODULE,
        PROGRAM,
        RUN,
        DEVICE,
        PLANE,
        START,
        END,
        LAUNCH_ID,
        LAUNCH_NS,
        Column("step", Unit.STEP, "Step that launched it, by run id or flow; null outside of all steps"),
        Column("op_count", Unit.COUNT, "Operations it executed, as far as they were recorded"),
    ),
)

XLA_OPS = Table(
    "xla_ops",
    "Executions of HLO operations on a device, including operations that contain others",
    (
        EVENT_ID,
        Column("name", Unit.LABEL, "Name of the instruction, e.g. fusion.3, all-reduce.9"),
        Column("opcode", Unit.LABEL, "HLO opcode, e.g. fusion; null if the program is not in the profile"),
        Column("category", Unit.LABEL, "hlo_category as written (TPU), else the opcode"),
        Column("kind", Unit.LABEL, "compute, communication, memory, sync or other"),
        MODULE_ID,
        MODULE,
        PROGRAM,
        RUN,
        DEVICE,
        PLANE,
        Column("stream", Unit.NUMBER, "Line of the device, or host thread of a CPU device"),
        Column("line", Unit.LABEL, "Name of that line, e.g. XLA Ops, Async XLA Ops, Stream #16(Kernel)"),
        Column("scope", Unit.LABEL, "Name scopes and operator it was made from (op_name); null if it has none"),
        Column("source", Unit.LABEL, "file:line it was made from"),
        Column("shape", Unit.LABEL, "Type and dimensions of its result, e.g. f32[8,128]"),
        Column("layout", Unit.LABEL, "Layout in memory, e.g. {1,0:T(8,128)}: order of dimensions, tiles, memory space"),
        Column("target", Unit.LABEL, "What a custom call calls"),
        Column("inside", Unit.LABEL, "Opcodes of what a fusion is made of, each once; null for other operations"),
        Column(
            "same_as",
            Unit.LABEL,
            "Operation of which it is a duplicate according to the compiler; null if of none (TPU)",
        ),
        START,
        END,
        Column("duration_ps", Unit.NUMBER, "Exact duration; start_ns and end_ns are its ends, rounded down"),
        Column("device_ps", Unit.NUMBER, "Duration by the device's own clock (TPU)"),
        Column(
            "self_ns", Unit.NS, "Duration by the device's own clock, where it has one, without operations inside it"
        ),
        Column(
            "flops",
            Unit.NUMBER,
            "Floating-point operations as the profile counts them (TPU), else of products by the program's shapes",
        ),
        Column(
            "accessed_bytes", Unit.BYTES, "Bytes read and written as the profile counts them, else by the same shapes"
        ),
        Column(
            "product_type",
            Unit.LABEL,
            "Element type of matrix products, e.g. bf16, if flops follow from shapes; else null",
        ),
        Column(
            "is_wait",
            Unit.BOOL,
            "Whether it waits for something under way: copy-done, all-gather-done, barrier-cores, infeed",
        ),
        Column("is_collective", Unit.BOOL, "Whether it communicates with other devices, or waits for communication"),
        Column(
            "is_async",
            Unit.BOOL,
            "Whether it spans asynchronous work from its start to its done (Async XLA Ops) and is no execution",
        ),
        Column("is_container", Unit.BOOL, "Whether it contains other operations: while, call, conditional"),
        LAUNCH_ID,
        LAUNCH_NS,
        Column("step", Unit.STEP, "Step that launched it, by run id or flow; null outside of all steps"),
    ),
)

HLO = Table(
    "hlo",
    "Instructions of the compiled programs that the profile holds",
    (
        MODULE,
        PROGRAM,
        Column("name", Unit.LABEL, "Name of the instruction"),
        Column("opcode", Unit.LABEL, "HLO opcode, e.g. dot, fusion, all-reduce"),
        Column("computation", Unit.LABEL, "Computation it belongs to"),
        Column("is_entry", Unit.BOOL, "Whether that is the entry computation of the program"),
        Column("is_fused", Unit.BOOL, "Whether it is inside a fusion, and so never a device event itself"),
        Column("scope", Unit.LABEL, "Name scopes and operator it was made from (op_name)"),
        Column("source", Unit.LABEL, "file:line it was made from"),
        Column("shape", Unit.LABEL, "Type and dimensions of its result, e.g. f32[8,128]"),
        Column("layout", Unit.LABEL, "Layout in memory, e.g. {1,0:T(8,128)}: order of dimensions, tiles, memory space"),
        Column("target", Unit.LABEL, "What a custom call calls"),
        Column("inside", Unit.LABEL, "Opcodes of what a fusion is made of, each once; null for other operations"),
        Column("result_bytes", Unit.BYTES, "Size of its result"),
        Column("element_count", Unit.COUNT, "Elements of its result"),
        Column("channel", Unit.NUMBER, "Channel of a collective"),
        Column("groups", Unit.LABEL, "Replica groups of a collective, JSON"),
        Column(
            "flops", Unit.NUMBER, "Floating-point operations of its matrix products, by shapes; null without products"
        ),
        Column(
            "product_type",
            Unit.LABEL,
            "Element type of the largest product, e.g. bf16; f32 highest is full precision",
        ),
        Column("accessed_bytes", Unit.BYTES, "Bytes that it reads and writes, by shapes; null if it moves none"),
    ),
)

BUFFERS = Table(
    "buffers",
    "Memory that the compiler assigned to results of programs: a row for each result, or part of one",
    (
        MODULE,
        PROGRAM,
        Column("name", Unit.LABEL, "Instruction whose result it holds"),
        Column("part", Unit.TEXT, "Index of the part of a tuple that it holds, e.g. {0}; null for a whole result"),
        Column("opcode", Unit.LABEL, "What the instruction does"),
        Column("computation", Unit.LABEL, "Computation it belongs to"),
        Column("scope", Unit.LABEL, "Name scopes and operator it was made from (op_name)"),
        Column("source", Unit.LABEL, "file:line it was made from"),
        Column("shape", Unit.TEXT, "Type and dimensions of what it holds"),
        Column("layout", Unit.TEXT, "Layout in memory: order of dimensions, tiles, memory space"),
        Column("memory", Unit.NUMBER, "Memory space as XLA numbers them: 0 is the device's main memory, 5 the host's"),
        Column(
            "allocation", Unit.NUMBER, "Allocation that it is part of, which other buffers may use before and after it"
        ),
        Column("allocation_bytes", Unit.BYTES, "Size of the allocation"),
        Column("offset_bytes", Unit.BYTES, "Offset in the allocation"),
        Column("buffer_bytes", Unit.BYTES, "Size of the buffer, with padding"),
        Column("data_bytes", Unit.BYTES, "Size of its elements without padding; null for tuples, which hold addresses"),
        Column(
            "peak_bytes",
            Unit.BYTES,
            "Bytes it holds at the program's peak; memory held all the time counts for one buffer",
        ),
        Column("first", Unit.NUMBER, "Number of the event in the compiler's memory simulation that allocated it"),
        Column("last", Unit.NUMBER, "Number of the event that freed it; null if it is never freed"),
        Column("is_parameter", Unit.BOOL, "Whether the allocation belongs to an input"),
        Column("is_output", Unit.BOOL, "Whether it may hold an output"),
        Column("is_constant", Unit.BOOL, "Whether it holds a constant"),
        Column("is_thread_local", Unit.BOOL, "Whether it is memory of a host thread"),
    ),
)

HOST_CALLS = Table(
    "host_calls",
    "Spans of host threads in an XLA profile: launches, completions, compilations, annotations",
    (
        EVENT_ID,
        NAME,
        PID,
        TID,
        START,
        END,
        RUN,
        Column("device", Unit.NUMBER, "Ordinal of the device that it concerns (device_ordinal)"),
        Column("arguments", Unit.LABEL, "All its arguments, JSON"),
    ),
)
