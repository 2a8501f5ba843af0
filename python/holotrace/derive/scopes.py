"""What the names of operations say of the program: the scopes they were written in, and the phase of training.

PyTorch/XLA writes ``Training_Step.1/forward.2/aten__add.1/aten__add`` (with XLA_HLO_DEBUG), where a number tells equal
scopes apart; JAX writes ``jit(train_step)/transpose(jvp(forward))/block1/mul``, where what was done to a scope is
written around it; a TPU adds ``:`` and the operator.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import polars as pl

from holotrace.core.tables import XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import device_time
from holotrace.derive.device_time import DEVICE
from holotrace.derive.names import decided

FORWARD, BACKWARD, ACCUMULATION, UPDATE, OTHER = "forward", "backward", "accumulation", "update", "other"
PHASES = (FORWARD, BACKWARD, ACCUMULATION, UPDATE, OTHER)

_NUMBERED = re.compile(r"\.\d+$")
_AROUND = re.compile(r"^[A-Za-z_]+\((.*)\)$")
# Operators that PyTorch/XLA writes as scopes of their own.
_OPERATOR = re.compile(r"^(aten|xla|prims|torch_xla)__")
# The function that older JAX puts between a program and its code.
_ENTRY = "jit(main)"
# Graphs that PyTorch/XLA collected, in which operations of autograd bear no scope.
_LAZY = "SyncTensorsGraph"
_WORDS = {
    BACKWARD: re.compile(r"(^|_)(backward|bwd)(_|$)"),
    ACCUMULATION: re.compile(r"(^|_)(accumulate|accumulation|accum)(_|$)"),
    UPDATE: re.compile(r"(^|_)(update|updates|optimizer|optim|apply_gradients|adam|adamw|sgd)(_|$)"),
    FORWARD: re.compile(r"(^|_)(forward|fwd)(_|$)"),
}


def paths(scope: pl.Series) -> pl.Series:
    """The scopes a user wrote around each operation, outermost first: "train_step/forward/block1"; null without."""
    return decided(scope, _path)


def summed(rank: RankTrace) -> pl.DataFrame:
    """Operations of each device by scope and program: their count and time; all analyses of scopes begin with that."""
    return by_scope(rank, DEVICE)


def by_scope(rank: RankTrace, keys: Sequence[str]) -> pl.DataFrame:
    """Executed operations by these columns, ``scope`` and ``module``: ``op_count``, ``work_ns``, ``wait_ns``.

    A profile has some thousand scopes and millions of operations: names are looked at once for each of these.
    """
    by = (*keys, "scope", "module")
    return rank.summed(XLA_OPS, device_time.IS_EXECUTED, by, op_count=pl.len(), **device_time.WORK_AND_WAIT)


def phases(ops: pl.DataFrame) -> pl.Series:
    """The phase of training of each operation, or of all of one scope, from its ``scope`` and ``module``.

    What JAX transposed is backward, what it only differentiated is forward; else the innermost scope that is called so
    decides. In a graph of PyTorch/XLA that has any scope, what autograd added has none and is backward.
    """
    told = decided(ops["scope"], _phase)
    marked = ops.select(
        pl.col("module").cast(pl.String()), told=told, path=paths(ops["scope"]), named=pl.col("scope").is_not_null()
    )
    is_lazy = pl.col("module").str.starts_with(_LAZY) & pl.col("path").is_not_null().any().over("module")
    return marked.select(
        phase=pl.when(pl.col("told").is_null() & pl.col("path").is_null() & pl.col("named") & is_lazy)
        .then(pl.lit(BACKWARD))
        .otherwise(pl.col("told").fill_null(OTHER))
    )["phase"]


def phase_of_range(name: pl.Series) -> pl.Series:
    """The phase that a range of the host is called after; null where it is called after none."""
    return decided(name, _called)


@lru_cache(maxsize=1 << 16)
def _path(scope: str) -> str | None:
    around = (_plain(part) for part in _parts(scope)[:-1] if part != _ENTRY)
    return "/".join(part for part in around if part and not _OPERATOR.match(part)) or None


@lru_cache(maxsize=1 << 16)
def _phase(scope: str) -> str | None:
    if "transpose(" in scope:
        return BACKWARD
    if "jvp(" in scope:
        return FORWARD
    called = (_called(_plain(part)) for part in reversed(_parts(scope)[:-1]))
    return next((phase for phase in called if phase), None)


def _parts(scope: str) -> list[str]:
    """The parts of a name; of an operation that was combined from several, those of the first."""
    return scope.split(":", 1)[0].replace("/(", "/").split("/")


def _plain(part: str) -> str:
    """A scope as its author wrote it, without numbers and what was done to it."""
    while found := _AROUND.match(part):
        part = found[1]
    return _NUMBERED.sub("", part)


def _called(name: str) -> str | None:
    return next((phase for phase, words in _WORDS.items() if words.search(name.lower())), None)
