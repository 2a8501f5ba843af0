"""Faults planted in real recordings: when everything would have happened, had a host stood still or a device been slow.

A small replay of its own, which shares nothing with the one of holotrace. Hosts go on by themselves, but for calls that
wait for their device. Work begins after its launch, after what stood before it in its stream, or after what ended last
before it began, whichever explains when it began in the recording. A collective goes on when the last rank has come.
"""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_DEVICE, _RUNTIME = ("kernel", "gpu_memcpy", "gpu_memset"), ("cuda_runtime", "cuda_driver")
_WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize")
_MEETS = ("nccl", "deep_ep::")
# In us: what waits returns so soon after; what is launched, or follows, begins so soon; any launch takes so long.
_RETURN, _SOON, _LAUNCH = 80.0, 12.0, 5.0

Event = dict[str, Any]


@dataclass
class Rank:
    """What one rank recorded, and how much later its host is since when."""

    trace: dict[str, Any]
    device: list[Event] = field(default_factory=list)
    host: list[Event] = field(default_factory=list)
    launches: dict[int, Event] = field(default_factory=dict)
    since: list[float] = field(default_factory=lambda: [float("-inf")])
    later: list[float] = field(default_factory=lambda: [0.0])

    def at(self, time: float, *, is_end: bool = False) -> float:
        """When the host does what it did at this time; what ends as it stands still ends before that."""
        find = bisect_left if is_end else bisect_right
        return time + self.later[max(0, find(self.since, time) - 1)]

    def waits(self, time: float, until: float) -> None:
        """The host goes on later from a time on."""
        self.since.append(time)
        self.later.append(until - time)

    @property
    def thread(self) -> Event:
        """Where it launches."""
        call = next(event for event in self.host if "Launch" in event["name"])
        return {"pid": call["pid"], "tid": call["tid"]}


@dataclass(frozen=True)
class Stall:
    """The host of a rank stands still from a time on for so many us, in a span of this category and name."""

    rank: int
    time: float
    lasts: float
    category: str = ""
    name: str = ""


def read(paths: Iterable[Path]) -> list[Rank]:
    """The ranks of a job, a file each."""
    return [_rank(json.loads(gzip.decompress(path.read_bytes()))) for path in paths]


def _rank(trace: dict[str, Any]) -> Rank:
    rank = Rank(trace)
    spans = [event for event in trace["traceEvents"] if event.get("ph") == "X" and isinstance(event["pid"], int)]
    rank.device = sorted((span for span in spans if span.get("cat") in _DEVICE), key=lambda span: span["ts"])
    rank.host = [span for span in spans if str(span.get("cat")).startswith(("cpu", "cuda", "user"))]
    calls = (span for span in rank.host if span["cat"] in _RUNTIME)
    rank.launches = {call["args"]["correlation"]: call for call in calls if "correlation" in call.get("args", {})}
    return rank


def write(
    ranks: Sequence[Rank], folder: Path, stalls: Sequence[Stall] = (), slower: Mapping[int, float] | None = None
) -> float:
    """Write the job as it would have been, with all that computes on some ranks so many times ``slower``.

    Returns how many us longer its devices took.
    """
    ranks = [_rank(rank.trace) for rank in ranks]
    times, begun = _replayed(ranks, stalls, slower or {})
    for number, rank in enumerate(ranks):
        events = [_moved(event, rank, times) for event in rank.trace["traceEvents"] if event.get("ph") in ("X", "M")]
        for stall, at in zip(stalls, begun, strict=True):
            if stall.rank == number and stall.name:
                span = {"ph": "X", "cat": stall.category, "name": stall.name, "ts": at + 1, "dur": stall.lasts - 2}
                events.append(span | rank.thread)
        text = json.dumps(rank.trace | {"traceEvents": events})
        (folder / f"rank{number}.json.gz").write_bytes(gzip.compress(text.encode(), 1))
    every = [event for rank in ranks for event in rank.device]
    before = max(_end(event) for event in every) - min(event["ts"] for event in every)
    return max(times[id(e)][1] for e in every) - min(times[id(e)][0] for e in every) - float(before)


def _moved(event: Event, rank: Rank, times: Mapping[int, tuple[float, float]]) -> Event:
    if event.get("ph") == "M" or not isinstance(event.get("pid"), int):
        return event
    start, end = times.get(id(event)) or (rank.at(event["ts"]), rank.at(_end(event), is_end=True))
    return event | {"ts": round(start, 3), "dur": round(max(0.0, end - start), 3)}


def _end(event: Event) -> float:
    return float(event["ts"]) + float(event["dur"])


def _replayed(
    ranks: Sequence[Rank], stalls: Sequence[Stall], slower: Mapping[int, float]
) -> tuple[dict[int, tuple[float, float]], list[float]]:
    """When all work of devices begins and ends now, by the identity of its event, and when each stall begins."""
    meetings = _meetings(ranks)
    ends = [sorted((_end(event), number) for number, event in enumerate(rank.device)) for rank in ranks]
    before = [_before(rank) for rank in ranks]
    times: dict[int, tuple[float, float]] = {}
    come: dict[int, dict[int, float]] = defaultdict(dict)
    begun: dict[int, float] = {}
    for time, what, number, thing in sorted(_points(ranks, stalls), key=lambda point: point[:2]):
        rank = ranks[number]
        if what == _STALL:
            begun[thing] = rank.at(time)
            rank.waits(time, rank.at(time) + stalls[thing].lasts)
        elif what == _WAIT:
            over, last = ends[number][bisect_right(ends[number], (time, len(rank.device))) - 1]
            if time - over < _RETURN and over > rank.host[thing]["ts"]:
                now = times[id(rank.device[last])][1] + time - over
                rank.waits(time, max(now, rank.at(rank.host[thing]["ts"]) + _SOON))
        else:
            event = rank.device[thing]
            start = _start(event, rank, before[number].get(thing), ends[number], times)
            members = meetings.get(id(event))
            factor = slower.get(number, 1.0) if members is None else 1.0
            times[id(event)] = (start, start + event["dur"] * factor)
            if members is not None:
                met = come[id(members)]
                met[id(event)] = start
                if len(met) == len(members):
                    last_ns, usual_ns = max(met.values()), max(other["ts"] for other in members)
                    times |= {id(e): (met[id(e)], last_ns + _end(e) - usual_ns) for e in members}
    return times, [begun[number] for number in range(len(stalls))]


# At one time a stall comes before what is launched, and a wait before both.
_WAIT, _STALL, _START = 0, 1, 2


def _points(ranks: Sequence[Rank], stalls: Sequence[Stall]) -> Iterable[tuple[float, int, int, int]]:
    for number, stall in enumerate(stalls):
        yield stall.time, _STALL, stall.rank, number
    for number, rank in enumerate(ranks):
        yield from ((event["ts"], _START, number, at) for at, event in enumerate(rank.device))
        waits = (at for at, call in enumerate(rank.host) if call["name"] in _WAITS)
        yield from ((_end(rank.host[at]), _WAIT, number, at) for at in waits)


def _meetings(ranks: Sequence[Rank]) -> dict[int, list[Event]]:
    """The members of each collective of several ranks, by each of them: the n-th of a name of all ranks is one."""
    found: dict[str, list[list[Event]]] = defaultdict(list)
    for rank in ranks:
        names: dict[str, list[Event]] = defaultdict(list)
        for event in rank.device:
            if any(word in event["name"] for word in _MEETS):
                names[event["name"]].append(event)
        for name, events in names.items():
            found[name].append(events)
    every = [
        list(members) for of_ranks in found.values() if len(of_ranks) > 1 for members in zip(*of_ranks, strict=False)
    ]
    return {id(event): members for members in every for event in members}


def _before(rank: Rank) -> dict[int, Event]:
    """What stands before each in its stream."""
    last: dict[object, Event] = {}
    found = {}
    for number, event in enumerate(rank.device):
        stream = (event["pid"], event["tid"])
        if stream in last:
            found[number] = last[stream]
        last[stream] = event
    return found


def _start(
    event: Event,
    rank: Rank,
    before: Event | None,
    ends: Sequence[tuple[float, int]],
    times: Mapping[int, tuple[float, float]],
) -> float:
    """When this begins now."""
    time = float(event["ts"])
    launched = float(rank.launches.get(event["args"].get("correlation"), event)["ts"])
    now, lag = rank.at(launched), time - launched
    queued = times[id(before)][1] if before is not None else float("-inf")
    if lag < _SOON:
        return max(now + lag, queued)
    if before is not None and time - _end(before) < _SOON:
        return max(now + _LAUNCH, queued + time - _end(before))
    at = bisect_right(ends, (time, len(rank.device))) - 1
    if at < 0 or ends[at][0] < launched:
        return max(now + lag, queued)
    return max(now + _LAUNCH, queued, times[id(rank.device[ends[at][1]])][1] + time - ends[at][0])
