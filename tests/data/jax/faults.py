"""Makes the captures jax_cpu_<fault>: jobs on CPU devices whose lost time was planted.

    python tests/data/jax/faults.py busy_device FOLDER
    python tests/data/jax/faults.py busy_host FOLDER
    python tests/data/jax/faults.py host_code FOLDER
    python tests/data/jax/faults.py evaluation FOLDER
    python tests/data/jax/faults.py eager FOLDER
    python tests/data/jax/faults.py only_evaluates FOLDER
    python tests/data/jax/faults.py busy_in_groups FOLDER

busy_device: four devices train with data in parallel, and device BUSY multiplies matrices LOOPS times more. busy_host:
the same on two hosts of two devices, where both of the second do so. host_code: one device, and the host sleeps in a
range ``log_metrics`` in every third step from step 2, in ``save_checkpoint`` in step SAVED, and computes in the loop
over steps itself in each. evaluation: one device, on which a program ``evaluate`` runs EVALUATIONS times in every
fourth step from step 3. eager: two devices, and PROGRAMS operations outside of the jitted step in each. only_evaluates:
one device and a function ``evaluate`` around everything, which sleeps EVALUATING_S in each batch and is called twice.
busy_in_groups: as busy_device, but devices exchange data in the rows and the columns of a mesh of two by two.
The tests hold them packed with xz.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable

STEPS, WIDTH, ROWS = 9, 384, 256
DEVICES, HOSTS, BUSY, LOOPS = 4, 2, 2, 60
PORT = 47_119
EVALUATIONS, PROGRAMS, BATCHES, EVALUATING_S = 4, 40, 6, 0.006
LOGGING_S, SAVED, SAVING_S, COMPUTING_S = 0.03, 4, 0.09, 0.008


def busy_device(folder: str) -> None:
    """Device BUSY of four has more work than the others."""
    _train(folder, DEVICES, {BUSY})


def busy_host(folder: str) -> None:
    """Both devices of the second of two hosts have more work than those of the first."""
    each = DEVICES // HOSTS
    busy = set(range(each, DEVICES))
    context = multiprocessing.get_context("spawn")
    hosts = [context.Process(target=_train, args=(f"{folder}/{host}", each, busy, host)) for host in range(HOSTS)]
    for process in hosts:
        process.start()
    for process in hosts:
        process.join(300)


def _train(folder: str, devices: int, busy: set[int], host: int | None = None) -> None:
    """One process of a job in which some devices multiply more matrices than the others."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    if host is not None:
        jax.distributed.initialize(f"localhost:{PORT}", num_processes=HOSTS, process_id=host)
    mesh = Mesh(jax.devices(), ("data",))
    everywhere, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))

    def shard_step(weights: jax.Array, batch: jax.Array) -> jax.Array:
        is_busy = jnp.isin(jax.lax.axis_index("data"), jnp.array(sorted(busy)))
        more = jnp.where(is_busy, LOOPS, 1)
        batch = jax.lax.fori_loop(0, more, lambda _, x: jnp.tanh(x @ weights), batch)
        gradient = jax.grad(lambda own: jnp.mean((batch @ own) ** 2))(weights)
        return weights - 0.1 * jax.lax.pmean(gradient, "data")

    def placed(shape: tuple[int, int], value: float, where: NamedSharding) -> jax.Array:
        return jax.make_array_from_callback(shape, where, lambda index: jnp.full(shape, value)[index])

    specs = (PartitionSpec(), PartitionSpec("data"))
    inner = jax.shard_map(shard_step, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)
    step_of = jax.jit(inner, donate_argnums=0)
    weights, batch = placed((WIDTH, WIDTH), 0.01, everywhere), placed((DEVICES * ROWS, WIDTH), 1.0, split)
    weights = jax.block_until_ready(step_of(weights, batch))
    _record_without_python(folder)
    for step in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            weights = jax.block_until_ready(step_of(weights, batch))
    jax.profiler.stop_trace()


def _record_without_python(folder: str) -> None:
    import jax

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    jax.profiler.start_trace(folder, profiler_options=options)


def host_code(folder: str) -> None:
    """The host logs, saves and computes while its device waits."""
    import jax
    import jax.numpy as jnp

    step_of = jax.jit(lambda weights, batch: weights - 0.1 * jnp.tanh(batch @ weights).mean())
    weights, batch = jnp.full((WIDTH, WIDTH), 0.01), jnp.ones((16 * ROWS, WIDTH))
    weights = jax.block_until_ready(step_of(weights, batch))
    jax.profiler.start_trace(folder)
    for step in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            weights = jax.block_until_ready(step_of(weights, batch))
            until = time.perf_counter() + COMPUTING_S
            while time.perf_counter() < until:
                sum(range(3_000))
            if step % 3 == 2:
                with jax.profiler.TraceAnnotation("log_metrics"):
                    time.sleep(LOGGING_S)
            if step == SAVED:
                with jax.profiler.TraceAnnotation("save_checkpoint"):
                    time.sleep(SAVING_S)
    jax.profiler.stop_trace()


def evaluation(folder: str) -> None:
    """A program evaluates in some of the steps."""
    import jax
    import jax.numpy as jnp

    def evaluate(weights: jax.Array, batch: jax.Array) -> jax.Array:
        return (batch @ weights @ weights).mean()

    evaluate_of = jax.jit(evaluate)
    step_of = jax.jit(lambda weights, batch: weights - 0.1 * jnp.tanh(batch @ weights).mean())
    weights, batch = jnp.full((WIDTH, WIDTH), 0.01, jnp.float32), jnp.ones((16 * ROWS, WIDTH))
    weights = step_of(weights, batch)
    jax.block_until_ready((step_of(weights, batch), evaluate_of(weights, batch)))
    _record_without_python(folder)
    for step in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            weights = jax.block_until_ready(step_of(weights, batch))
            for _ in range(EVALUATIONS if step % 4 == 3 else 0):
                jax.block_until_ready(evaluate_of(weights, batch))
    jax.profiler.stop_trace()


def eager(folder: str) -> None:
    """Operations that nothing put into the program of the step."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices(), ("data",))
    step_of = jax.jit(lambda weights, batch: (weights - 0.1 * jnp.tanh(batch @ weights).mean(), batch.mean()))
    weights = jax.device_put(jnp.full((WIDTH, WIDTH), 0.01, jnp.float32), NamedSharding(mesh, PartitionSpec()))
    batch = jax.device_put(jnp.ones((8 * ROWS, WIDTH)), NamedSharding(mesh, PartitionSpec("data")))
    weights, loss = step_of(weights, batch)
    weights, loss = step_of(weights, batch)
    jax.block_until_ready(loss * 0.5)
    _record_without_python(folder)
    for step in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            weights, loss = step_of(weights, batch)
            for _ in range(PROGRAMS):
                loss = loss * 0.5
            jax.block_until_ready(loss)
    jax.profiler.stop_trace()


def only_evaluates(folder: str) -> None:
    """All that the job does is to evaluate."""
    import jax
    import jax.numpy as jnp

    forward = jax.jit(lambda weights, batch: (batch @ weights @ weights).mean())
    weights, batch = jnp.full((WIDTH, WIDTH), 0.01, jnp.float32), jnp.ones((16 * ROWS, WIDTH))

    def evaluate() -> None:
        for _ in range(BATCHES):
            float(forward(weights, batch))
            time.sleep(EVALUATING_S)

    evaluate()
    jax.profiler.start_trace(folder)
    for _ in range(2):
        evaluate()
    jax.profiler.stop_trace()


def busy_in_groups(folder: str) -> None:
    """Device BUSY of four has more work, and each meets one other device first and another one then."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    axes = ("data", "model")
    mesh = Mesh([[*jax.devices()[:2]], [*jax.devices()[2:]]], axes)

    def shard_step(weights: jax.Array, batch: jax.Array) -> jax.Array:
        more = jnp.where(2 * jax.lax.axis_index("data") + jax.lax.axis_index("model") == BUSY, LOOPS, 1)
        batch = jax.lax.fori_loop(0, more, lambda _, x: jnp.tanh(x @ weights), batch)
        rows = jax.lax.all_gather(batch, "model", tiled=True)
        gradient = jax.grad(lambda own: jnp.mean((rows @ own) ** 2))(weights)
        return weights - 0.1 * jax.lax.pmean(gradient, "data")

    inner = jax.shard_map(
        shard_step,
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec(axes)),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    step_of = jax.jit(inner, donate_argnums=0)
    weights = jax.device_put(jnp.full((WIDTH, WIDTH), 0.01), NamedSharding(mesh, PartitionSpec()))
    batch = jax.device_put(jnp.ones((DEVICES * ROWS, WIDTH)), NamedSharding(mesh, PartitionSpec(axes)))
    weights = jax.block_until_ready(step_of(step_of(weights, batch), batch))
    _record_without_python(folder)
    for step in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            weights = jax.block_until_ready(step_of(weights, batch))
    jax.profiler.stop_trace()


def main() -> None:
    """Run the job that was asked for."""
    jobs: dict[str, Callable[[str], None]] = {
        "busy_device": busy_device,
        "busy_host": busy_host,
        "host_code": host_code,
        "evaluation": evaluation,
        "eager": eager,
        "only_evaluates": only_evaluates,
        "busy_in_groups": busy_in_groups,
    }
    os.environ["JAX_PLATFORMS"] = "cpu"
    jobs[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    main()
