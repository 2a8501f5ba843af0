"""A tiny training on two devices, profiled by JAX itself; its sixth step has longer sequences."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS, LONG_STEP, SLOW_STEP = 8, 5, 3

mesh = Mesh(jax.devices(), ("data",))
replicated, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))


def loss_of(parameters: dict[str, jax.Array], batch: jax.Array) -> jax.Array:
    with jax.named_scope("forward"):
        hidden = jnp.tanh(batch @ parameters["in"])
        with jax.named_scope("head"):
            return jnp.mean((hidden @ parameters["out"]) ** 2)


@jax.jit
def train_step(parameters: dict[str, jax.Array], batch: jax.Array) -> dict[str, jax.Array]:
    gradients = jax.grad(loss_of)(parameters, batch)
    with jax.named_scope("update"):
        return jax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradients)


def load(step: int) -> jax.Array:
    with jax.profiler.TraceAnnotation("data_load"):
        time.sleep(0.2 if step == SLOW_STEP else 0.001)
        length = 96 if step == LONG_STEP else 64
        return jax.device_put(jnp.ones((8, length, 128)), split)


keys = jax.random.split(jax.random.key(0), 2)
parameters = {"in": jax.random.normal(keys[0], (128, 256)), "out": jax.random.normal(keys[1], (256, 8))}
parameters = jax.block_until_ready(train_step(jax.device_put(parameters, replicated), load(0)))
with jax.profiler.trace(sys.argv[1]):
    for step in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            parameters = jax.block_until_ready(train_step(parameters, load(step)))
compiled = train_step.lower(parameters, load(0)).compile().as_text()
Path(sys.argv[1], "program.json").write_text(json.dumps(compiled))
