"""Programs on GPUs: kernels that threads of the host launch one by one, or as graphs, and what is recorded of them.

A GPU begins a program by itself. Asynchronous collectives are kernels of NCCL on a stream of their own, which last
until all have come; nothing is executed at their ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from xla_jobs.devices import Launch, Run
from xla_jobs.faults import Job
from xla_jobs.hosts import IN_FLIGHT, Host, Waiting
from xla_jobs.profiles import Event, Line, Plane, Stats
from xla_jobs.programs import Operation, Program

# As of an H100.
_DEVICE: Stats = {
    "device_vendor": "Nvidia",
    "compute_cap_major": 9,
    "compute_cap_minor": 0,
    "clock_rate": 1_980_000,
    "core_count": 132,
    "memory_bandwidth": 3_352_320_000_000,
}
_KERNEL = "regs:64 static_shared:0 dynamic_shared:0 grid:1024,1,1 block:256,1,1 occ_pct:50"
_COPY = "kind_src:pinned kind_dst:device size:16777216 dest:0 async:1"
_LAUNCH_US, _GRAPH_US = 4.5, 12.0  # what launching a kernel takes, or a graph
_LATENCY_US = 3.0  # from a launch until a kernel begins
# Fewer kernels are no graph.
_LEAST_OF_GRAPH = 5
_NCCL = {
    "all-reduce": "AllReduce_Sum_bf16_RING_LL",
    "all-gather": "AllGather_RING_LL",
    "reduce-scatter": "ReduceScatter_Sum_bf16_RING_LL",
}


def launch(h: Host, program: Program, ready: float) -> Waiting:
    """The thread that calls launches the kernels of the only GPU itself, threads of their own those of several."""
    number, h.launched = h.launched, h.launched + 1
    cores, main, flow = h.job.cores, h.thread, h.flow()
    with (
        h.open("PJRT_LoadedExecutable_Execute"),
        h.open(f"CommonPjRtLoadedExecutable::Execute ({program.name})", run_id=h.run_id(0, number), _pt=5, _p=flow),
    ):
        begun, overs = h.now, []
        for core in range(cores):
            if cores == 1:
                yield from _execute(h, core, program, number)
            else:
                h.thread, h.now = f"py_xla_execute/{60 + core}", begun + 12 + 4 * core
                with h.open("Scheduled PjRtStreamExecutorLoadedExecutable::Execute", _ct=5, _c=flow):
                    yield from _execute(h, core, program, number)
            overs.append(h.now)
        h.thread, h.now = main, overs[0] if cores == 1 else begun
        if cores > 1:
            h.spend(12 + 4 * cores)
            h.at(main, "Wait for LaunchOnDevice completion", h.now, max(*overs, h.now))
            h.now = max(*overs, h.now)
    times = tuple(tuple(at + _LATENCY_US for at, *_ in h.kernels[(core, number)]) for core in range(cores))
    h.cores.launch(h.number, number, Launch(program, h.step, tuple(max(at[0], ready) for at in times), times))


def _execute(h: Host, core: int, program: Program, number: int) -> Waiting:
    with h.open(f"[{core}] PjRtStreamExecutorRawLoadedExecutable::Execute", replica=core, partition=0):
        h.spend(18)
        with h.open(f"ComputeSemaphoreAcquire [capacity={IN_FLIGHT}, value=0]"):
            if number >= IN_FLIGHT:
                h.now = max(h.now, (yield from h.wait(number - IN_FLIGHT)) + 10)
        with h.open(f"[{core}] GpuExecutable::ExecuteThunks"), h.open(f"{program.name}:XLA GPU module"):
            h.kernels[(core, number)] = [*_launched(h, core, program)]


def _launched(h: Host, core: int, program: Program) -> Iterator[tuple[float, int, str]]:
    """When each kernel is launched, what ties it to its call, and which instruction it is said to be of."""
    buffers = 0
    told: Stats = {"hlo_module": program.name, "program_id": program.number}
    for is_graph, operations in _parts(h.job, program):
        if is_graph:
            buffers, flow, begun = buffers + 1, h.flow(), h.now
            graph = {"cuda_graph_id": 70 + buffers, "device_id": core, "correlation_id": flow}
            with h.open(f"cuGraphLaunch (CudaGraph:{70 + buffers})", **graph):
                h.spend(_GRAPH_US)
            # All kernels of a graph have its name.
            yield from ((begun, flow, f"command_buffer.{buffers}") for _ in operations)
            continue
        for operation in operations:
            flow, begun = h.flow(), h.now
            if not operation.is_done:
                of_kernel = {"device_id": core, "correlation_id": flow, "hlo_op": operation.name, **told}
                with h.open("cuLaunchKernelEx", **of_kernel):
                    h.spend(_LAUNCH_US)
            yield begun, flow, operation.name


def _parts(job: Job, program: Program) -> Iterator[tuple[bool, list[Operation]]]:
    """The program's operations, as they are launched: those of a graph, or one by one; collectives are in no graph."""
    for is_collective, group in groupby(program.operations, key=lambda each: bool(each.collective)):
        operations = list(group)
        yield job.launches_graphs and not is_collective and len(operations) >= _LEAST_OF_GRAPH, operations


def plane(host: Host, core: int, runs: Sequence[Run]) -> Plane:
    """Streams of kernels, of collectives and of copies: only what a kernel says of itself tells of its program."""
    computing: list[Event] = []
    communicating: list[Event] = []
    free = 0.0
    for run in runs:
        for ran, (_, flow, instruction) in zip(run.operations, host.kernels[(core, run.number)], strict=True):
            if ran.operation.is_done:
                continue
            start, end = (max(ran.start, free), ran.until) if ran.until else (ran.start, ran.end)
            free = end if ran.until else free
            if ran.start >= host.begun:
                kernel = _kernel(host, run, ran.operation, (start, end), (flow, instruction))
                (communicating if ran.until else computing).append(kernel)
    copies = [
        Event("MemcpyH2D", start - host.begun, end - host.begun, {"correlation_id": flow, "memcpy_details": _COPY})
        for of_core, start, end, flow in host.copies
        if of_core == core and start >= host.begun
    ]
    lines = [Line(14, "Stream #14(Compute)", computing), Line(15, "Stream #15(MemcpyH2D)", copies)]
    lines += [Line(16, "Stream #16(Compute)", communicating)] if communicating else []
    return Plane(f"/device:GPU:{core}", lines, _DEVICE, number=2 + core)


def _kernel(host: Host, run: Run, it: Operation, span: tuple[float, float], launched: tuple[int, str]) -> Event:
    flow, instruction = launched
    stats: Stats = {
        "hlo_op": instruction,
        "hlo_module": run.program.name,
        "program_id": run.program.number,
        "correlation_id": flow,
        "context_id": "$$1",
        **({"memcpy_details": _COPY} if it.category == "copy" else {"kernel_details": _KERNEL}),
    }
    return Event(_name(it), span[0] - host.begun, span[1] - host.begun, stats)


def _name(it: Operation) -> str:
    """How the kernel of an instruction is called."""
    if it.collective:
        return f"ncclDevKernel_{_NCCL[it.collective]}(ncclDevKernelArgsStorage<4096ul>)"
    if it.category == "copy":
        return "MemcpyD2D"
    if it.category == "convolution fusion":
        return "nvjet_tst_128x256_64x4_2x1_v_bz_TNT"
    return "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16" if it.kind else it.name.replace(".", "_")
