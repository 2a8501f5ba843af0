"""What the hosts of each kind of job do in a step."""

from __future__ import annotations

from collections.abc import Callable

from xla_jobs.faults import CPU, JAX, TORCH
from xla_jobs.hosts import FRAMEWORK, MAIN, Host, Waiting
from xla_jobs.launches import launch
from xla_jobs.programs import Program, forward_program, renumbered, small_program

SERVING = "serving"
WARM_UP = 3  # steps that are not recorded


def run(h: Host, programs: tuple[Program, Program], device_us: float) -> Waiting:
    """All steps of a host, those that are not recorded with the first of the programs."""
    for step in range(-WARM_UP, h.job.steps):
        h.begin_step(step)
        if step == 0:
            h.begun = h.now
        yield from LOOPS[SERVING if h.job.serves else h.job.framework](h, programs[step >= 0], device_us)
    if not h.job.serves:
        with h.code("log_loss", "train.py", 77):
            yield from h.read(h.launched - 1)


def _jax(h: Host, program: Program, device_us: float) -> Waiting:
    if h.job.marks:
        with h.open("train", _r=1, step_num=100 + h.step):
            yield from _jax_step(h, program, device_us)
    else:
        yield from _jax_step(h, program, device_us)


def _jax_step(h: Host, program: Program, device_us: float) -> Waiting:
    _load(h)
    with h.frame("put_batch", "train.py", 52):
        us = h.has("upload")
        ready = h.transferred(us, blocks=bool(us) and h.job.seed % 2 == 0)
    _stalls(h)
    if not h.job.works_in_calls:
        with h.code("update_schedule", "train.py", 45):
            h.spend(h.job.host_ratio * device_us)
    previous = h.launched - 1
    with h.frame("train_step", "train.py", 60), h.open("PjitFunction(train_step)"), h.open("PjitFunction(train_step)"):
        with h.open("ParseArguments"):
            h.spend(12)
        program = _compiled(h, program)
        # Of a state of many arrays each is looked at.
        h.spend(120 + h.job.works_in_calls * h.job.host_ratio * device_us)
        yield from launch(h, program, ready)
    run_number = h.launched - 1
    yield from _small(h, round(h.has("small")))
    yield from _reads(h, previous, run_number)


def _serving(h: Host, program: Program, device_us: float) -> Waiting:
    """One iteration of a server, launched before it is known what the one before has answered."""
    previous = h.launched - 1
    with h.code("schedule", "scheduler.py", 88):
        h.spend(60)
    _stalls(h)
    with h.code("prepare_inputs", "runner.py", 120):
        ready = h.transferred(h.has("upload"), blocks=False)
        yield from _small(h, 2)
    with h.frame("execute_model", "runner.py", 190), h.open("PjitFunction(step_fun)"), h.open("PjitFunction(step_fun)"):
        program = _compiled(h, program)
        h.spend(40)
        yield from launch(h, program, ready)
    yield from _small(h, 1 + round(h.has("small")))
    with h.code("process_outputs", "engine.py", 240):
        h.spend(h.job.host_ratio * device_us)
    if us := h.has("logging"):
        with h.code("log_metrics", "metrics.py", 90), h.frame("write_summary", "writer.py", 210):
            h.stand(us)
    if h.has("read") or previous >= 0:
        with h.code("get_tokens", "runner.py", 230):
            yield from h.read(h.launched - 1 if h.has("read") else previous)


def _small(h: Host, count: int) -> Waiting:
    """Programs of one operation each."""
    for place in range(count):
        program = small_program(h.job, place)
        with h.open(f"PjitFunction({program.name.removeprefix('jit_')})"):
            h.spend(8)
            yield from launch(h, program, 0.0)


def _load(h: Host) -> None:
    us = h.has("input", "input-of-all")
    if h.job.loader == "tf.data" and not h.job.python:
        with h.open("IteratorGetNext" if h.job.seed % 2 else "Iterator::Root::Prefetch"):
            h.spend(140)
            h.stand(us)
        return
    name = "data_loading" if h.job.framework == TORCH else "data_load"
    with (
        h.code("next_batch" if h.job.python else name, "input_pipeline.py", 71),
        h.frame("get", "queue.py", 154),
        h.frame("wait", "threading.py", 323),
    ):
        h.spend(140)
        h.stand(us)


def _stalls(h: Host) -> None:
    """What holds hosts up between loading a batch and using it."""
    h.stand(h.has("pause"))
    if us := h.has("function", "function-of-all"):
        with h.code("score_samples", "scoring.py", 40):
            h.stand(us)
    if us := h.has("collection"):
        with h.code("run_gc" if h.job.python else "gc", "hooks.py", 9), h.frame("collect", "<unknown>", 0):
            h.stand(us)


def _compiled(h: Host, program: Program) -> Program:
    """The program of this step, compiled if its inputs have a shape that is new."""
    us = h.has("recompile", "recompile-often")
    if not us:
        return program
    with h.frame("_pjit_call_impl_python", "pjit.py", 1500):
        with h.open("lower_sharding_computation"):
            h.stand(0.15 * us)
        with h.frame("backend_compile", "compiler.py", 320), h.open("backend_compile_and_load"):
            begun = h.now
            h.stand(0.85 * us)
            for name, until in (("TpuCompiler::Compile", 0.98), ("XLA::TPU run hlo passes", 0.6)):
                h.at("tf_PjRtCompilerThreadPool/90", name, begun + 2, begun + 2 + until * (h.now - begun - 8))
    return renumbered(program, h.step + 1)


def _reads(h: Host, previous: int, own: int) -> Waiting:
    if h.job.accelerator == CPU:
        # Threads that share the cores of their devices gain nothing by going on.
        with h.code("block", "train.py", 76):
            yield from h.read(own)
    if h.has("read", "read-often"):
        with h.code("log_loss", "train.py", 77):
            yield from h.read(own)
            h.spend(60)
    elif h.job.reads_previous and previous >= 0:
        with h.code("log_loss", "train.py", 77):
            yield from h.read(previous)
            h.spend(60)
    if us := h.has("result"):
        with h.code("save_outputs", "train.py", 85):
            yield from h.read(own, us)
    if us := h.has("logging"):
        with h.code("log_metrics", "train.py", 90), h.frame("write_summary", "writer.py", 210):
            h.stand(us)
    if us := h.has("checkpoint"):
        with h.code("save_checkpoint", "checkpoints.py", 33):
            yield from h.read(own, 0.2 * us)
            with h.frame("write", "serialization.py", 300):
                h.stand(0.8 * us)


def _torch(h: Host, program: Program, device_us: float) -> Waiting:
    with h.open("Training_Step", _r=1, step_num=100 + h.step):
        yield from _torch_step(h, program, device_us)


def _torch_step(h: Host, program: Program, device_us: float) -> Waiting:
    _load(h)
    us = h.has("upload")
    ready = h.transferred(us, blocks=bool(us) and h.job.seed % 2 == 0)
    _stalls(h)
    tracing = device_us * h.job.host_ratio
    with h.open("forward"):
        for _ in range(h.job.layers):
            for name in ("attention", "mlp"):
                with h.open(name):
                    h.spend(0.35 * tracing / h.job.layers / 2)
    if h.has("cut"):
        with h.code("log_loss", "train.py", 77):
            yield from _synced(h, forward_program(h.job), ready)
            yield from h.read(h.launched - 1)
            h.spend(60)
    with h.open("backward"):
        h.spend(0.25 * tracing)
    with h.open("FINISH_UPDATE"):
        h.spend(0.4 * tracing)
    previous = -1 if h.has("cut") else h.launched - 1
    with h.open("StepMarker"), h.open("SyncLiveTensorsGraph"), h.open("SyncTensorsGraph"):
        yield from _synced(h, program, ready)
    yield from _reads(h, previous, h.launched - 1)


def _synced(h: Host, program: Program, ready: float) -> Waiting:
    with h.open("SyncTensorsGraphInternal"):
        for name, us in (("CollectSyncTensors", 90), ("ExtractIRAndPrepareXlaData_", 230), ("RunPostOrder", 560)):
            with h.open(name):
                h.spend(us)
        if compiling := h.has("recompile", "recompile-often"):
            with (
                h.open("XLAGraphExecutor::Compile", graph_hash=f"cf5c50b557fce{h.step}"),
                h.open("PjRtComputationClient::Compile"),
                h.open("TpuCompiler::Compile"),
            ):
                h.stand(compiling)
            program = renumbered(program, h.step + 1)
        with h.open("SetTensorData"):
            h.spend(10)
        with h.open("ScheduleSyncTensorsGraph"):
            with h.open("TensorCollectionBarrier"):
                h.spend(15)
                # The thread that launches takes one graph at a time.
                h.now = max(h.now, h.launching_until)
            region = h.flow()
            h.at(h.thread, "ThreadpoolListener::Record", h.now, h.now, _pt=15, _p=region)
            h.spend(40)
    # Another thread launches it while this one goes on.
    here = h.now
    h.thread, h.now = FRAMEWORK, here - 20
    h.at(h.thread, "ThreadpoolListener::StartRegion", h.now, h.now, _ct=15, _c=region)
    name = "ExecuteReplicated" if h.job.cores > 1 else "ExecuteComputation"
    with h.open(f"PjRtComputationClient::{name}"):
        h.spend(40)
        yield from launch(h, program, ready)
    h.at(h.thread, "ThreadpoolListener::StopRegion", h.now, h.now)
    h.launching_until = h.now
    h.thread, h.now = MAIN, here


LOOPS: dict[str, Callable[[Host, Program, float], Waiting]] = {JAX: _jax, TORCH: _torch, SERVING: _serving}
