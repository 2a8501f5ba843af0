"""Makes the capture jax_cpu_2x4: two processes of four CPU devices each train a tiny model, and JAX profiles them.

    python tests/data/jax/capture.py FOLDER

Planted, with exact truth: process 1 sleeps STALL_S in its input in step STALLED; step LONG has a longer sequence, which
compiles again; step READ reads the loss. The model has a scanned and rematerialised layer, collectives of shard_map, a
callback to the host, and parameters that are donated, while the batch is not. FOLDER gets a log directory with a file
per process; the tests hold it packed with xz.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from pathlib import Path

PROCESSES, DEVICES, STEPS = 2, 4, 8
STALLED, LONG, READ = 3, 5, 6
STALL_S = 0.04
WIDTH, LAYERS = 64, 3
PORT = 47_117


def train(number: int, folder: str) -> None:
    """One process of the job."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax  # reads these when it is imported
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.distributed.initialize(f"localhost:{PORT}", num_processes=PROCESSES, process_id=number)
    mesh = Mesh(jax.devices(), ("data",))
    everywhere, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))

    @jax.checkpoint
    def layer(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, None]:
        with jax.named_scope("layer"):
            return jnp.tanh(x @ weight), None

    def loss_of(weights: jax.Array, batch: jax.Array) -> jax.Array:
        with jax.named_scope("forward"):
            out, _ = jax.lax.scan(layer, batch, weights)
            return jnp.mean(out**2)

    def shard_step(weights: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, gradient = jax.value_and_grad(loss_of)(weights, batch)
        with jax.named_scope("reduce"):
            gradient = jax.lax.pmean(gradient, "data")
            norms = jax.lax.all_gather(jnp.sum(gradient**2), "data")
        with jax.named_scope("update"):
            return weights - 0.1 * gradient / (1 + jnp.mean(norms)), jax.lax.pmean(loss, "data")

    def train_step(weights: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        specs = (PartitionSpec(), PartitionSpec("data"))
        inner = jax.shard_map(
            shard_step, mesh=mesh, in_specs=specs, out_specs=(PartitionSpec(), PartitionSpec()), check_vma=False
        )
        return inner(weights, batch)

    def logged(loss: jax.Array) -> jax.Array:
        jax.debug.callback(lambda value: None, loss)
        return loss * 2

    step_of = jax.jit(train_step, donate_argnums=0)
    log = jax.jit(logged)
    weights = jax.make_array_from_callback(
        (LAYERS, WIDTH, WIDTH), everywhere, lambda index: jnp.full((LAYERS, WIDTH, WIDTH), 0.01)[index]
    )

    def batch_of(step: int) -> jax.Array:
        rows = DEVICES * PROCESSES * (12 if step == LONG else 8)
        return jax.make_array_from_callback((rows, WIDTH), split, lambda index: jnp.ones((rows, WIDTH))[index])

    weights, loss = step_of(weights, batch_of(0))
    jax.block_until_ready(log(loss.addressable_data(0)))
    jax.block_until_ready(weights)
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    jax.profiler.start_trace(folder, profiler_options=options)
    for step in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            with jax.profiler.TraceAnnotation("data_load"):
                if number == 1 and step == STALLED:
                    time.sleep(STALL_S)
                batch = batch_of(step)
            with jax.profiler.TraceAnnotation("dispatch"):
                weights, loss = step_of(weights, batch)
            if step == READ:
                with jax.profiler.TraceAnnotation("log_loss"):
                    print(number, float(log(loss.addressable_data(0))))
            jax.block_until_ready(weights)
    jax.profiler.stop_trace()
    jax.distributed.shutdown()


def main() -> None:
    """Run all processes, and say what came out."""
    folder = sys.argv[1]
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=train, args=(number, f"{folder}/{number}")) for number in range(PROCESSES)]
    for process in running:
        process.start()
    for process in running:
        process.join(300)
    # Both are on one machine, and would write files of one name.
    run = Path(folder, "plugins", "profile", "2026_11_22_00_00_00")
    run.mkdir(parents=True)
    for number in range(PROCESSES):
        (made,) = Path(folder, str(number)).rglob("*.xplane.pb")
        made.rename(run / f"host{number}.xplane.pb")
        print(run / f"host{number}.xplane.pb", (run / f"host{number}.xplane.pb").stat().st_size)


if __name__ == "__main__":
    main()
