"""Trace-event JSON laid out as Kineto lays it out, entry by entry."""

from __future__ import annotations

import json

from holotrace.capture import UNPROFILED_STEP_NS
from holotrace.sample.model import MULTIPROCESSORS, Call, Op, Work

BASE_NS = 1759300074000000000  # Kineto counts time stamps from such a base
START_NS = 6322354262000000  # of the job, after the base
DEVICES = 8  # per node

Span = tuple[int, int]  # start and end of something, in ns of the job


def process_id(rank: int) -> int:
    return 2000 + rank


class RankText:
    """How one rank's process, device and clock show in its entries."""

    def __init__(
        self,
        rank: int,
        world: tuple[int, ...],
        experts: tuple[int, ...],
        *,
        clock_offset_ns: int,
        shapes: bool,
        step_ns: int,
    ) -> None:
        self.rank = rank
        self.world = world
        self.experts = experts
        self.device = rank % DEVICES
        self.pid = process_id(rank)
        self.autograd_tid = self.pid + 56
        self.watchdog_tid = 1_356_146_368 + rank
        self.shapes = shapes
        self.step_ns = step_ns
        self._origin_ns = START_NS + clock_offset_ns

    def us(self, time_ns: int) -> str:
        """A moment of the job as this rank's clock shows it."""
        time_ns += self._origin_ns
        return f"{time_ns // 1000}.{time_ns % 1000:03d}"

    def when(self, span: Span) -> str:
        """The start and duration of an entry."""
        start_ns, end_ns = span
        start_ns, duration_ns = start_ns + self._origin_ns, end_ns - start_ns
        return f'"ts": {start_ns // 1000}.{start_ns % 1000:03d}, "dur": {duration_ns // 1000}.{duration_ns % 1000:03d}'

    def op(self, op: Op, tid: int, span: Span, external: int, index: int, *, extra: str = "") -> str:
        """An operator or a host annotation; ``extra`` is the args text that only this instance has."""
        shapes = op.shapes if self.shapes else ""
        return (
            f'  {{\n    "ph": "X", "cat": "{op.category}", "name": "{op.name}", "pid": {self.pid}, "tid": {tid},\n'
            f'    {self.when(span)},\n    "args": {{\n'
            f'      "External id": {external},"Record function id": 0, {extra}{shapes}"Ev Idx": {index}\n    }}\n  }}'
        )

    def call(self, call: Call, tid: int, span: Span, external: int | None, correlation: int) -> str:
        owner = "      " if external is None else f'"External id": {external},      '
        return (
            f'  {{\n    "ph": "X", "cat": "{call.category}", "name": "{call.name}", "pid": {self.pid}, "tid": {tid},\n'
            f'    {self.when(span)},\n    "args": {{\n'
            f'      {owner}"cbid": {call.cbid}, "correlation": {correlation}\n    }}\n  }}'
        )

    def work(self, work: Work, span: Span, external: int, correlation: int, *, extra: str = "") -> str:
        """Something on a queue of the device; ``extra`` is the args text that only this instance has."""
        if work.category == "cuda_sync":
            args = (
                f'"cuda_sync_kind": "{work.name}",      {work.args}{extra}"stream": {work.stream}, '
                f'"correlation": {correlation},      "device": {self.device}, "context": 1'
            )
        else:
            queued = '"queued": 0, ' if work.category == "kernel" else ""
            args = (
                f'{queued}"device": {self.device}, "context": 1,      "stream": {work.stream}, '
                f'"correlation": {correlation},      {work.args}{extra}'
            )
        return (
            f'  {{\n    "ph": "X", "cat": "{work.category}", "name": "{work.name}", "pid": {self.device}, '
            f'"tid": {work.stream},\n    {self.when(span)},\n    "args": {{\n'
            f'      "External id": {external},      {args}\n    }}\n  }}'
        )

    def flow(self, category: str, phase: str, flow: int, track: tuple[int, int], time_ns: int) -> str:
        """One end of an arrow; ``phase`` is s where it starts and f where it ends."""
        binding = ', "bp": "e"' if phase == "f" else ""
        return (
            f'  {{\n    "ph": "{phase}", "id": {flow}, "pid": {track[0]}, "tid": {track[1]}, '
            f'"ts": {self.us(time_ns)},\n'
            f'    "cat": "{category}", "name": "{category}"{binding}\n  }}'
        )

    def device_annotation(self, name: str, stream: int, span: Span, external: int) -> str:
        return (
            f'  {{\n    "ph": "X", "cat": "gpu_user_annotation", "name": "{name}", "pid": {self.device}, '
            f'"tid": {stream},\n    {self.when(span)},\n'
            f'    "args": {{\n      "External id": {external}\n    }}\n  }}'
        )

    def python(self, name: str, span: Span, ids: str, index: int) -> str:
        """A Python frame on the main thread; ``ids`` is the args text with its id, its caller and its module."""
        return (
            f'  {{\n    "ph": "X", "cat": "python_function", "name": "{name}", "pid": {self.pid}, '
            f'"tid": {self.pid},\n    {self.when(span)},\n'
            f'    "args": {{\n      {ids}, "Ev Idx": {index}\n    }}\n  }}'
        )

    def memory(self, tid: int, time_ns: int, nbytes: int, total_bytes: int, index: int) -> str:
        return (
            f'  {{\n    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": {self.pid}, '
            f'"tid": {tid},\n    "ts": {self.us(time_ns)},\n    "args": {{\n'
            f'      "Total Reserved": 68719476736, "Total Allocated": {total_bytes}, "Bytes": {nbytes}, '
            f'"Device Id": {self.device}, "Device Type": 1, "Addr": 139792349102080, "Ev Idx": {index}\n    }}\n  }}'
        )

    def overhead(self, span: Span) -> str:
        return (
            '  {\n    "ph": "X", "cat": "overhead", "name": "Buffer Flush", "pid": -1, "tid": 0,\n'
            f"    {self.when(span)}\n  }}"
        )

    def header(self) -> str:
        """Everything before the first entry."""
        devices = ",\n".join(_DEVICE % index for index in range(DEVICES))
        groups = [_group("0", "default_pg", self.world)]
        if self.experts != self.world:
            groups.append(_group("1", "expert_parallel", self.experts))
        distributed = {
            "backend": "nccl",
            "rank": self.rank,
            "world_size": len(self.world),
            "pg_count": len(groups),
            "pg_config": groups,
            "nccl_version": "2.27.5",
        }
        shapes = '      "record_shapes": 1,\n' if self.shapes else ""
        # Recording a job that is made up takes nothing.
        unprofiled = f'      "{UNPROFILED_STEP_NS}": {self.step_ns},\n'
        return (
            f'\n  {{\n    "schemaVersion": 1,\n    "deviceProperties": [\n{devices}\n    ],\n'
            '      "cupti_version": 26,\n      "cuda_runtime_version": 12080,\n      "cuda_driver_version": 12080,\n'
            f'      "distributedInfo": {json.dumps(distributed)},\n{shapes}{unprofiled}'
            f'      "trace_id": "{self.rank:032X}",\n'
            f'  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {BASE_NS},\n  "traceEvents": [\n'
        )

    def labels(self, begin_ns: int, streams: tuple[int, ...]) -> list[str]:
        """Names and places of processes, devices, streams and threads."""
        ts = self.us(begin_ns)
        labels: list[str] = []
        for pid in (self.pid, *range(DEVICES)):
            device = pid < DEVICES
            labels += [
                _label("process_name", ts, pid, 0, '"name": "python"'),
                _label("process_labels", ts, pid, 0, f'"labels": "GPU {pid}"' if device else '"labels": "CPU"'),
                _label("process_sort_index", ts, pid, 0, f'"sort_index": {pid + 5_000_000 if device else pid}'),
            ]
        threads = [(self.device, stream, f"stream {stream} ") for stream in streams]
        names = {
            self.pid: "python",
            self.autograd_tid: f"pt_autograd_{self.device}",
            self.watchdog_tid: "pt_nccl_watchdg",
        }
        threads += [(self.pid, tid, f"thread {tid} ({name})") for tid, name in names.items()]
        for pid, tid, name in threads:
            labels += [
                _label("thread_name", ts, pid, tid, f'"name": "{name}"'),
                _label("thread_sort_index", ts, pid, tid, f'"sort_index": {tid}'),
            ]
        return labels

    def closing(self, span: Span) -> list[str]:
        """The last entries of every file: the span of the recording and its two marks."""
        ts = self.us(span[0])
        return [
            f'  {{\n    "ph": "X", "cat": "Trace", {self.when(span)},\n'
            '    "pid": "Spans", "tid": "PyTorch Profiler",\n    "name": "PyTorch Profiler (0)",\n'
            '    "args": {\n      "Op count": 0\n    }\n  }',
            f'  {{\n    "name": "process_sort_index", "ph": "M", "ts": {ts},\n    "pid": "Spans", "tid": 0,\n'
            '    "args": {\n      "sort_index": 536870912\n    }\n  }',
            '  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
            f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {ts}\n  }}',
            '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
            f'    "pid": "", "tid": "", "ts": {self.us(span[1])}\n  }}',
        ]


def _group(name: str, meaning: str, ranks: tuple[int, ...]) -> dict[str, object]:
    return {
        "pg_name": name,
        "pg_desc": meaning,
        "backend_config": "cuda:nccl",
        "pg_size": len(ranks),
        "ranks": list(ranks),
    }


def _label(name: str, ts: str, pid: int, tid: int, args: str) -> str:
    return (
        f'  {{\n    "name": "{name}", "ph": "M", "ts": {ts}, "pid": {pid}, "tid": {tid},\n'
        f'    "args": {{\n      {args}\n    }}\n  }}'
    )


_DEVICE = (
    '    {\n      "id": %d, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028372480,\n'
    '      "computeMajor": 9, "computeMinor": 0,\n'
    '      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,\n'
    '      "regsPerBlock": 65536, "warpSize": 32,\n'
    f'      "sharedMemPerBlock": 49152, "numSms": {MULTIPROCESSORS}\n'
    '    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472\n'
    "    }"
)
