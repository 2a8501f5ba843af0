"""Recording a job so that every question can be answered: one folder, a file per rank, the same settings for all."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from holotrace.errors import UsageError, require
from holotrace.stores import write_whole

# Key of a trace's metadata: how long a step took while nothing was recorded.
UNPROFILED_STEP_NS = "holotrace_unprofiled_step_ns"

# How launchers tell a process its rank: torchrun, Slurm, Open MPI, MPICH.
_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


# Any: torch is optional.
def torch(
    folder: str | os.PathLike[str],
    *,
    wait: int = 5,
    warmup: int = 2,
    active: int = 5,
    rank: int | None = None,
    stacks: bool = False,
    memory: bool = False,
) -> Any:
    """A ``torch.profiler.profile`` that writes ``rank-N.pt.trace.json.gz`` into ``folder``, whole or not at all.

    Use it as one: in a ``with`` statement, calling its ``step()`` after each training step. It records once. In the
    second half of the steps that it lets pass it measures how long a step takes while nothing is recorded, for which it
    waits for the device twice; causes are then worth what they cost without the profiler.

    Args:
        folder: The same on every rank; it is made.
        wait: Steps to let pass before, in which a job compiles, allocates and tunes.
        warmup: Steps to record and throw away, as a profiler is slow when it starts.
        active: Steps to keep.
        rank: By default what ``torch.distributed`` says, or the launcher's environment, or 0.
        stacks: Python functions too; makes files several times as large and the job slower.
        memory: Allocations too; the same.

    Returns:
        A ``torch.profiler.profile``.

    Raises:
        MissingExtraError: torch is not installed.
        UsageError: a number of steps cannot be recorded.
    """
    _check(wait=wait, warmup=warmup, active=active)
    profiler = require("torch.profiler", extra="torch")

    def write(recorded: Any) -> None:
        number = _torch_rank() if rank is None else rank
        _write(Path(folder), f"rank-{number}.pt.trace.json.gz", lambda path: recorded.export_chrome_trace(str(path)))

    recorder = profiler.profile(
        schedule=profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1),
        on_trace_ready=write,
        # With them comes what NCCL was asked for: collective, process group, sizes.
        record_shapes=True,
        with_stack=stacks,
        profile_memory=memory,
    )
    pace, step = _Pace(wait // 2, wait), recorder.step

    def timed_step() -> None:
        pace.step()
        step()
        if pace.count == wait + warmup and pace.step_ns:
            recorder.add_metadata_json(UNPROFILED_STEP_NS, str(pace.step_ns))

    recorder.step = timed_step
    return recorder


class jax:
    """Records a JAX program as ``rank-N.xplane.pb`` in ``folder``, whole or not at all; the twin of ``torch``.

    Use it in a ``with`` statement. Calling ``step()`` after each training step counts the steps and marks those that
    are recorded.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, wait: int = 5, active: int = 5, rank: int | None = None
    ) -> None:
        """See ``torch``; ``rank`` is by default ``jax.process_index()``."""
        _check(wait=wait, active=active)
        self._jax = require("jax", extra="jax")
        self._folder, self._rank = Path(folder), rank
        self._first, self._end = wait, wait + active
        self._step = 0
        # Where the profiler writes, and the mark of the step under way, while it records.
        self._recording: tempfile.TemporaryDirectory[str] | None = None
        self._mark: Any = None

    def __enter__(self) -> jax:
        self._begin_step()
        return self

    def step(self) -> None:
        """A step has ended, and the next one begins."""
        self._end_step()
        self._step += 1
        self._begin_step()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_step()
        self._stop()

    def _begin_step(self) -> None:
        if self._step == self._first:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._recording = tempfile.TemporaryDirectory(prefix=".recording-", dir=self._folder)
            self._jax.profiler.start_trace(self._recording.name)
        if self._step == self._end:
            self._stop()
        if self._recording:
            self._mark = self._jax.profiler.StepTraceAnnotation("train", step_num=self._step)
            self._mark.__enter__()

    def _end_step(self) -> None:
        if self._mark:
            self._mark.__exit__(None, None, None)
            self._mark = None

    def _stop(self) -> None:
        if self._recording is None:
            return
        with self._recording as recorded:
            self._recording = None
            # What was asked for may still be running.
            self._jax.block_until_ready(self._jax.live_arrays())
            self._jax.profiler.stop_trace()
            rank = self._jax.process_index() if self._rank is None else self._rank
            for profile in Path(recorded).rglob("*.xplane.pb"):
                profile.replace(self._folder / f"rank-{rank}.xplane.pb")


class _Pace:
    """How long each of the steps after the first ones took, up to the last of them: nothing is recorded meanwhile."""

    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._began_ns = 0
        self.count = 0
        self.step_ns = 0

    def step(self) -> None:
        """A step has ended."""
        self.count += 1
        # Without a step before them the first one would compile, allocate and tune.
        if not 0 < self._first < self._last:
            return
        if self.count == self._first:
            self._began_ns = self._now_ns()
        if self.count == self._last:
            self.step_ns = (self._now_ns() - self._began_ns) // (self._last - self._first)

    @staticmethod
    def _now_ns() -> int:
        devices = require("torch", extra="torch").cuda
        if devices.is_available():
            devices.synchronize()
        return time.perf_counter_ns()


def _check(**steps: int) -> None:
    for name, count in steps.items():
        if count < (1 if name == "active" else 0):
            raise UsageError(
                f"{name}={count} steps cannot be recorded; it can be any whole number from 0, active from 1"
            )


def _torch_rank() -> int:
    distributed = require("torch.distributed", extra="torch")
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    told = (os.environ.get(name, "") for name in _RANK_VARIABLES)  # noqa: TID251  # a launcher has no other way
    return next((int(number) for number in told if number.isdecimal()), 0)


def _write(folder: Path, name: str, save: Any) -> None:
    """A file that is there whole or not at all, also to those who look at the folder meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with write_whole(folder / name) as unfinished:
        save(unfinished)
