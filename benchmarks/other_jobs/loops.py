"""What the ranks of each kind of job do in a step."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from other_jobs.ranks import AUTOGRAD, COMM, COMPUTE, MAIN, Collective, Event, Meeting, Rank, Waiting

NVIDIA = {
    "mm": "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(Params)",
    "attention": "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)",
    "norm": "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3",
    "adam": "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<4>>(FusedAdam)",
}
AMD = {
    "mm": "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN",
    "attention": "void ck_tile::kentry<ck_tile::FmhaFwdKernel<128>>(FmhaFwdKargs)",
    "norm": "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)",
    "adam": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::FusedAdam>(T)",
}


def _tokens(r: Rank) -> int:
    """Tokens that a rank has in this step."""
    if (more := r.has("longer")) is not None:
        return int(4096 * more) // 64 * 64
    if r.has("lengths"):
        # All together as many as without.
        place = (r.rank + r.step * 3 + r.job.seed) % r.job.ranks
        return round(4096 * (0.6 + 0.8 * place / (r.job.ranks - 1)))
    turn = r.fault is not None and r.fault.kind == "turns" and (r.step * 3 + r.job.seed) % r.job.ranks == r.rank
    if turn and r.fault:
        return int(4096 * r.fault.amount) // 64 * 64
    return 4096


def _layer(r: Rank, scale: float = 1.0) -> float:
    """The forward pass of a layer; when it ends."""
    names, tokens = AMD if r.job.is_amd else NVIDIA, _tokens(r)
    small = r.shortness
    with r.open("python_function", f"nn.Module: DecoderLayer_{r.counts.get('layer', 0)}"):
        r.operator("aten::native_layer_norm", names["norm"], 60 * scale * small, [[tokens, 2048]])
        r.operator("aten::mm", names["mm"], 420 * scale * small, [[tokens, 2048], [2048, 6144]])
        r.operator("aten::_flash_attention_forward", names["attention"], 380 * scale * small, [[tokens, 16, 128]])
        r.operator("aten::mm", names["mm"], 300 * scale * small, [[tokens, 6144], [6144, 2048]])
        _strikes_in_layer(r)
        return r.operator("aten::add", names["norm"], 50 * scale * small, [[tokens, 2048]])


def _strikes_in_layer(r: Rank) -> None:
    if r.has("items") is not None:
        with r.open("cpu_op", "aten::item"), r.open("cpu_op", "aten::_local_scalar_dense"):
            end = r.copy("Memcpy DtoH (Device -> Pageable)", 1.5, COMPUTE, 4)
            r.wait("cudaStreamSynchronize", end)
    if r.has("mask") is not None:
        with r.open("cpu_op", "aten::index"), r.open("cpu_op", "aten::nonzero"):
            end = r.copy("Memcpy DtoH (Device -> Pageable)", 1.5, COMPUTE, 8)
            r.wait("cudaStreamSynchronize", end)


def _stall(r: Rank, us: float) -> None:
    """The device has run dry when the host has spent this."""
    r.spend(us, exactly=True)


def begin(r: Rank) -> None:
    """What a step begins with: the batch, and most of what can go wrong on the host."""
    with (
        r.open("python_function", "torch/utils/data/dataloader.py(701): __next__"),
        r.open("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
    ):
        r.spend(5)
        _stall(r, r.has("loader", "loader-of-all") or 0)
    if r.has("tokenize"):
        with r.open("python_function", "data/rows.py(33): tokenize_rows"), r.open("user_annotation", "tokenize_rows"):
            _stall(r, r.has("tokenize") or 0)
    slow = r.has("pageable")
    end = r.copy(
        "Memcpy HtoD (Pageable -> Device)" if slow else "Memcpy HtoD (Pinned -> Device)", slow or 8, 7, 1 << 22
    )
    if slow:
        r.wait("cudaStreamSynchronize", end)


def compiled(r: Rank) -> None:
    if r.has("recompile") and r.step == 2:
        with r.open("cpu_op", "CompiledFunction"), r.open("user_annotation", "_compile.compile_inner (dynamo_timed)"):
            _stall(r, r.has("recompile") or 0)


def end_of_step(r: Rank) -> None:
    """What a step ends with."""
    if layers := r.has("evaluate"):
        with r.open("python_function", "train/loop.py(140): evaluate"), r.open("user_annotation", "evaluate"):
            for _ in range(int(layers)):
                _layer(r)
    if us := r.has("logging", "logging-every-third"):
        with (
            r.open("python_function", "train/loop.py(88): log_scalars"),
            r.open("user_annotation", "log_scalars"),
            r.open("python_function", "wandb/sdk/wandb_run.py(1830): log"),
        ):
            _stall(r, us)
    if us := r.has("checkpoint"):
        with (
            r.open("python_function", "train/loop.py(120): save_state"),
            r.open("user_annotation", "save_state"),
            r.open("python_function", "torch/serialization.py(850): save"),
        ):
            for _ in range(4):
                _stall(r, us / 8)
                end = r.copy("Memcpy DtoH (Device -> Pageable)", us / 8, COMPUTE, 1 << 26)
                r.wait("cudaStreamSynchronize", end)


def _in_the_middle(r: Rank) -> None:
    """What can stop a host between two operators."""
    if us := r.has("collection"):
        with (
            r.open("python_function", "<built-in function collect>")
            if r.job.stacks
            else r.open("user_annotation", "Python GC")
        ):
            _stall(r, us)
    _stall(r, r.has("pause") or 0)
    if us := r.has("allocator"):
        with r.open("cpu_op", "aten::empty"):
            for name, part in (("cudaFree", 0.6), ("cudaMalloc", 0.4)):
                r.correlation += 1
                start = r.now
                # Freeing waits for the device.
                r.now = max(r.now, r.streams.get(COMPUTE, 0.0)) if name == "cudaFree" else r.now
                r.spend(us * part, exactly=True)
                args = {"correlation": r.correlation, "External id": r.external}
                r.events.append(Event("cuda_runtime", r.runtime(name), r.thread, start, r.now, args))


def _optimizer(r: Rank, after: float) -> float:
    names = AMD if r.job.is_amd else NVIDIA
    end = 0.0
    with r.open("user_annotation", "Optimizer.step#AdamW.step"):
        for _ in range(3):
            end = r.operator("aten::_fused_adamw_", names["adam"], 150 * r.shortness, [[4096, 2048]], after=after)
    return end


def _world(r: Rank) -> tuple[int, ...]:
    return tuple(range(r.job.ranks))


def _ddp(r: Rank) -> Waiting:
    """Gradients are reduced while others are computed; with ``nodes`` also between pairs of ranks of a node."""
    for _ in range(r.job.layers):
        _layer(r)
        if r.job.loop == "nodes":
            half = r.job.ranks // 2
            mine = tuple(range(half)) if r.rank < half else tuple(range(half, 2 * half))
            us = 220 * (r.has("slow-link") or 1.0)
            what = Collective("alltoall_base", "alltoall_base_", 1 << 20, mine, us, group="1" if mine[0] else "2")
            end = yield from r.meet(what, r.streams[COMPUTE])
            r.streams[COMPUTE] = end
    _in_the_middle(r)
    last = 0.0
    r.thread = AUTOGRAD
    for layer in range(r.job.layers):
        done = _layer(r, 2.0)
        if r.job.ranks > 1:
            transfer = 900 if layer < r.job.layers - 1 else 200
            elements = 40_000_000 if layer < r.job.layers - 1 else 8_000_000
            what = Collective("allreduce", "allreduce_", elements, _world(r), transfer)
            last = yield from r.meet(what, done)
    r.thread = MAIN
    _optimizer(r, last)


def _fsdp(r: Rank) -> Waiting:
    """Parameters are gathered one layer ahead, or when they are needed."""
    world, late = _world(r), r.has("exposed")

    def gather(after: float) -> Generator[tuple[Any, ...], None, float]:
        return r.meet(Collective("_allgather_base", "_allgather_base_", 30_000_000, world, 500), after)

    for thread, scale in ((MAIN, 1.0), (AUTOGRAD, 2.0)):
        r.thread = thread
        # The first parameters of a step are those that the optimizer has just changed.
        ahead = yield from gather(r.streams.get(COMPUTE, 0.0) if late or thread == MAIN else 0.0)
        for layer in range(r.job.layers):
            ready = ahead
            if not late and layer + 1 < r.job.layers:
                ahead = yield from gather(0.0)
            r.streams[COMPUTE] = max(r.streams.get(COMPUTE, 0.0), ready)
            done = _layer(r, scale)
            if late and layer + 1 < r.job.layers:
                ahead = yield from gather(done)
            if scale > 1:
                size = Collective("_reduce_scatter_base", "_reduce_scatter_base_", 30_000_000, world, 450)
                yield from r.meet(size, done, stream=COMM + 4)
        if thread == MAIN:
            _in_the_middle(r)
    r.thread = MAIN
    _optimizer(r, r.streams[COMM + 4])


def _tensor(r: Rank) -> Waiting:
    """Each layer ends in a small all-reduce on its way."""
    for scale in (1.0, 2.0):
        r.thread = MAIN if scale == 1 else AUTOGRAD
        for _ in range(r.job.layers):
            done = _layer(r, scale)
            end = yield from r.meet(Collective("allreduce", "allreduce_", 8_388_608, _world(r), 45), done)
            r.streams[COMPUTE] = end
        if scale == 1:
            _in_the_middle(r)
    r.thread = MAIN
    _optimizer(r, 0.0)


def _experts(r: Rank) -> Waiting:
    """Tokens go to experts and back; their number differs a little from rank to rank and step to step."""
    names, world = AMD if r.job.is_amd else NVIDIA, _world(r)
    for scale in (1.0, 2.0):
        r.thread = MAIN if scale == 1 else AUTOGRAD
        for _ in range(r.job.layers):
            done = _layer(r, scale)
            tokens = int(4096 * (0.99 + 0.02 * r.noise.random()) * (r.has("hot-expert") or 1.0))
            end = yield from r.meet(Collective("all_to_allv", "alltoall_base_", tokens * 2048, world, 60), done)
            r.streams[COMPUTE] = end
            with r.open("python_function", "moe/layer.py(77): experts"):
                done = r.operator("aten::_grouped_mm", names["mm"], 500 * scale, [[tokens, 2048], [8, 2048, 4096]])
            end = yield from r.meet(Collective("all_to_allv", "alltoall_base_", tokens * 2048, world, 60), done)
            r.streams[COMPUTE] = end
        if scale == 1:
            _in_the_middle(r)
    r.thread = MAIN
    _optimizer(r, 0.0)


def _pipeline(r: Rank) -> Waiting:
    """Stages in a row: all forward passes, then all backward ones, of four micro-batches for each stage."""
    stages, slow = r.job.ranks, r.has("slow-stage") or 1.0

    def pair(sender: int, name: str, after: float) -> Generator[tuple[Any, ...], None, float]:
        other = sender + 1 if name == "f" else sender - 1
        what = Collective("send" if r.rank == sender else "recv ", "send", 1 << 22, tuple(sorted((sender, other))), 40)
        shown = replace(what, name=what.name.strip(), operator=what.name.strip(), peer=other)
        return _p2p(r, shown, (name, sender), after)

    for name, scale in (("f", 1.0), ("b", 2.0)):
        ahead, first, final = (1, 0, stages - 1) if name == "f" else (-1, stages - 1, 0)
        for _ in range(4 * stages):
            if r.rank != first:
                r.streams[COMPUTE] = max(
                    r.streams.get(COMPUTE, 0.0), (yield from pair(r.rank - ahead, name, r.streams.get(COMPUTE, 0.0)))
                )
            for _ in range(round(2 * slow)):
                done = _layer(r, scale / 2)
            if r.rank != final:
                yield from pair(r.rank, name, done)
        if name == "f":
            _in_the_middle(r)
    _optimizer(r, 0.0)


def _p2p(r: Rank, what: Collective, way: Any, after: float) -> Generator[tuple[Any, ...], None, float]:
    """A send or receive on a stream of its direction; both ends have one number."""
    stream = COMM + (0 if way[0] == "f" else 4) + (1 if what.name == "send" else 2)
    with (
        r.open("cpu_op", f"c10d::{what.operator}"),
        r.open("cpu_op", "record_param_comms", **what.args(r.rank)),
    ):
        r.spend(6)
        r.call("cudaLaunchKernelExC", 5)
        ready = max(r.now + 4, r.streams.get(stream, 0.0) + 1.5, after if what.name == "send" else 0.0)
        number = r.counts.get(way, 0)
        r.counts[way] = number + 1
        meeting = r.meetings.setdefault((way, number), Meeting(what.members, what.transfer))
        meeting.come[r.rank] = ready
        yield (way, number)
        end = max(meeting.come.values()) + meeting.transfer
        r.streams[stream] = end
        args = {"device": r.rank % 8, "stream": stream, "correlation": r.correlation, **what.args(r.rank)}
        args |= {"grid": [2, 1, 1], "block": [512, 1, 1], "External id": r.external}
        r.events.append(Event("kernel", what.kernel(r.job), -stream, ready, end, args))
    return end


def _serving(r: Rank) -> Waiting:
    """A server: one long pass over a prompt, then short ones that graphs launch, each read back."""
    names = AMD if r.job.is_amd else NVIDIA
    for turn in range(6):
        with r.open("python_function", "vllm/v1/engine/core.py(330): step"):
            with r.open("user_annotation", "execute_context_4(512)_generation_0(0)" if not turn else "execute_new_0"):
                if turn == 2:
                    _in_the_middle(r)
                    end_of_step(r)
                    if us := r.has("tokenize"):
                        with (
                            r.open("python_function", "server/text.py(3): tokenize_rows"),
                            r.open("user_annotation", "tokenize_rows"),
                        ):
                            _stall(r, us)
                for _ in range(r.job.layers):
                    if turn:
                        r.call("cudaGraphLaunch", 8)
                        factor = r.has("slow-device") or 1.0
                        for name, us in (("norm", 20), ("mm", 240), ("attention", 160), ("mm", 200)):
                            noise = 0.99 + 0.02 * r.noise.random()
                            done = r.enqueue(
                                "kernel", names[name], us * factor * noise, COMPUTE, grid=[64, 1, 1], block=[256, 1, 1]
                            )
                    else:
                        done = _layer(r)
                    if r.job.ranks > 1:
                        what = Collective("allreduce", "allreduce_", 1 << 18, _world(r), 15)
                        r.streams[COMPUTE] = yield from r.meet(what, done)
            with r.open("python_function", "vllm/v1/worker/gpu_model_runner.py(2100): sample_tokens"):
                end = r.copy("Memcpy DtoH (Device -> Pinned)", 2, COMPUTE, 256)
                r.wait("cudaEventSynchronize", end)


LOOPS: dict[str, Callable[[Rank], Waiting]] = {
    "ddp": _ddp,
    "fsdp": _fsdp,
    "tensor": _tensor,
    "experts": _experts,
    "pipeline": _pipeline,
    "serving": _serving,
    "nodes": _ddp,
}
