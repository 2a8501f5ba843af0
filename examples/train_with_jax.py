"""Trains a small model with JAX and profiles it: ``python train_with_jax.py LOGDIR before``, or ``after``.

Before, each batch is read in the step that needs it, and is as long as its longest sequence. After, batches are padded
to one length, and threads read them ahead.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp

LENGTHS = (48, 48, 64, 48, 48, 56, 64, 48)
BATCH, WIDTH, HIDDEN = 4, 64, 128


def loss_of(weights: dict[str, jax.Array], batch: jax.Array) -> jax.Array:
    """The mean of squares of a model of two layers."""
    with jax.named_scope("forward"):
        hidden = jnp.tanh(batch @ weights["in"])
        return jnp.mean((hidden @ weights["out"]) ** 2)


@jax.jit
def train_step(weights: dict[str, jax.Array], batch: jax.Array) -> dict[str, jax.Array]:
    """One step of gradient descent."""
    gradients = jax.grad(loss_of)(weights, batch)
    with jax.named_scope("update"):
        return {name: weight - 0.01 * gradients[name] for name, weight in weights.items()}


def read(length: int) -> jax.Array:
    """A batch of sequences of that length; reading and tokenising takes 20 ms."""
    with jax.profiler.TraceAnnotation("data_load"):
        time.sleep(0.02)
        batch: jax.Array = jax.device_put(jnp.ones((BATCH, length, WIDTH)))
        return batch


def when_needed() -> Iterator[jax.Array]:
    """Batches as long as they are, each read when it is asked for."""
    return map(read, LENGTHS)


def ahead() -> Iterator[jax.Array]:
    """Batches of one length, read by four threads while steps run."""
    with ThreadPoolExecutor(4) as readers:
        reading = [readers.submit(read, max(LENGTHS)) for _ in LENGTHS]
        for batch in reading:
            yield batch.result()


def train(folder: str, batches: Iterator[jax.Array]) -> None:
    """Record the steps; one before them compiles."""
    keys = jax.random.split(jax.random.key(0), 2)
    weights = {"in": jax.random.normal(keys[0], (WIDTH, HIDDEN)), "out": jax.random.normal(keys[1], (HIDDEN, WIDTH))}
    following = iter(batches)
    train_step(weights, next(following))["in"].block_until_ready()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with jax.profiler.trace(folder, profiler_options=options):
        for step in range(1, len(LENGTHS)):
            with jax.profiler.StepTraceAnnotation("train", step_num=step):
                weights = train_step(weights, next(following))
                weights["in"].block_until_ready()


def main() -> None:
    """Put the profile under LOGDIR, where TensorBoard looks for it too."""
    logs, run = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        train(folder, ahead() if run == "after" else when_needed())
        (recorded,) = Path(folder).rglob("*.xplane.pb")
        place = Path(logs, "plugins", "profile", run)
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(recorded, place / "host.xplane.pb")
        print(place / "host.xplane.pb")


if __name__ == "__main__":
    main()
