"""Made-up jobs of another kind than the sample's: other loops, libraries, sizes and recordings, each with one fault.

They share no code with ``holotrace.sample``: what its simulation and the search for causes take for granted alike would
otherwise never be tried. Times are microseconds. A rank is a generator that gives way at each collective, and goes on
when all its members have come; the truth of a fault is the length of the job minus its length without it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from other_jobs.faults import KINDS, Fault, Other, Truth, can_have, planted
from other_jobs.loops import LOOPS, begin, compiled, end_of_step
from other_jobs.ranks import COMPUTE, MAIN, Event, Meeting, Rank, Waiting

__all__ = ["KINDS", "LOOPS", "Fault", "Other", "Truth", "can_have", "write"]


def _run(r: Rank) -> Waiting:
    for step in range(r.job.steps):
        r.step = step
        marked = r.job.marks and r.job.loop != "serving"
        start = r.now
        place = len(r.events)
        with r.open("python_function", "train/loop.py(60): train_step"):
            if r.job.loop != "serving":
                begin(r)
                compiled(r)
            yield from LOOPS[r.job.loop](r)
            if r.job.loop != "serving":
                # The loss is read, as most loops do.
                with r.open("cpu_op", "aten::item"), r.open("cpu_op", "aten::_local_scalar_dense"):
                    end = r.copy("Memcpy DtoH (Device -> Pageable)", 1.5, COMPUTE, 4)
                    r.wait("cudaStreamSynchronize", end)
                end_of_step(r)
        if marked:
            r.events.insert(
                place, Event("user_annotation", f"ProfilerStep#{r.step + 3}", MAIN, start, r.now - 0.05, {})
            )


def _simulated(job: Other, fault: Fault | None) -> list[Rank]:
    meetings: dict[Any, Meeting] = {}
    ranks = [Rank(job, rank, fault, meetings) for rank in range(job.ranks)]
    runs = {rank.rank: _run(rank) for rank in ranks}
    waits: dict[int, Any] = {}
    while runs:
        ready = [rank for rank in runs if rank not in waits or meetings[waits[rank]].is_complete]
        if not ready:
            raise RuntimeError(f"ranks wait for each other: {waits}")
        for rank in ready:
            waits.pop(rank, None)
            try:
                waits[rank] = next(runs[rank])
            except StopIteration:
                del runs[rank]
    return ranks


def _length(ranks: list[Rank]) -> float:
    return max(event.end for rank in ranks for event in rank.events if event.thread < 0 or event.name) - 1_000


def write(folder: Path, job: Other, fault: Fault | None = None) -> Truth:
    """Writes the job's traces, and says what is wrong with it: this fault, or that of the job."""
    fault = fault or planted(job)
    ranks = _simulated(job, fault)
    clocks = job.random("clocks")
    for rank in ranks:
        offset = clocks.random() * 3_000 if job.ranks > 2 and job.seed % 2 else 0.0
        if rank.rank != job.missing:
            (folder / f"host{rank.rank // 8}_{rank.rank}.{rank.rank}.pt.trace.json").write_text(
                json.dumps(_document(job, rank, offset)), encoding="utf-8"
            )
    whole = _length(ranks)
    if fault is None:
        return Truth(None, 0.0, whole)
    kind, _, _, text = KINDS[fault.kind]
    hit = tuple(step + 3 for step in range(job.steps) if fault.hits(fault.ranks[0] if fault.ranks else 0, step))
    return Truth(fault, whole - _length(_simulated(job, None)), whole, text, kind, hit)


def _document(job: Other, rank: Rank, offset: float) -> dict[str, Any]:
    pid = 500 + 13 * rank.rank
    events: list[dict[str, Any]] = []
    for event in rank.events:
        on_device = event.thread < 0
        place = {"pid": rank.rank % 8, "tid": -event.thread} if on_device else {"pid": pid, "tid": pid + event.thread}
        # On the grid of nanoseconds, so that what follows begins where this ends.
        start_ns, end_ns = round((event.start + offset) * 1e3), round((event.end + offset) * 1e3)
        times = {"ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3}
        events.append({"ph": "X", "cat": event.category, "name": event.name, **place, **times, "args": event.args})
        if on_device or "correlation" not in event.args:
            continue
        arrow = {"id": event.args["correlation"], "cat": "ac2g", "name": "ac2g", "pid": pid, "tid": pid + event.thread}
        events.append({"ph": "s", "ts": times["ts"], **arrow})
    world = {"backend": "nccl", "rank": rank.rank, "world_size": job.ranks}
    device = {"id": rank.rank % 8, "name": "AMD Instinct MI300X" if job.is_amd else "NVIDIA A100-SXM4-80GB"}
    return {
        "schemaVersion": 1,
        "deviceProperties": [device],
        **({"distributedInfo": world} if job.ranks > 1 else {}),
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": events,
    }
