"""The sample job: valid traces, physically possible, with the planted flaws where the truth says."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holotrace import sample
from holotrace.engine.processes import Processes
from holotrace.errors import UsageError
from holotrace.sample.job import GROUND_TRUTH
from quick import every

Span = tuple[int, int]


@dataclass(frozen=True)
class Rank:
    """One file, times in exact nanoseconds."""

    metadata: dict[str, Any]
    entries: list[dict[str, Any]]

    def of(self, *categories: str) -> Iterator[dict[str, Any]]:
        return (entry for entry in self.entries if entry["ph"] == "X" and entry["cat"] in categories)

    @property
    def collectives(self) -> list[dict[str, Any]]:
        return [kernel for kernel in self.of("kernel") if "Seq" in kernel["args"]]

    @property
    def kernels(self) -> list[dict[str, Any]]:
        return [kernel for kernel in self.of("kernel") if "Seq" not in kernel["args"]]

    def steps(self) -> dict[int, Span]:
        named = [entry for entry in self.of("user_annotation") if entry["name"].startswith("ProfilerStep#")]
        return {int(entry["name"].partition("#")[2]): span(entry) for entry in named}

    def launch_starts(self) -> dict[int, int]:
        calls = list(self.of("cuda_runtime", "cuda_driver"))
        starts = {call["args"]["correlation"]: span(call)[0] for call in calls}
        assert len(starts) == len(calls), "a correlation id is used twice"
        return starts


def ns(written: str) -> int:
    """Microseconds with three decimals, exactly."""
    whole, _, fraction = written.partition(".")
    assert len(fraction) == 3
    return int(whole + fraction)


def span(entry: dict[str, Any]) -> Span:
    start = ns(entry["ts"])
    return start, start + ns(entry["dur"])


def union(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def read(directory: Path) -> dict[int, Rank]:
    ranks = {}
    for path in directory.glob("*.pt.trace.json*"):
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        trace = json.loads(text, parse_float=str)
        entries = trace.pop("traceEvents")
        ranks[trace["distributedInfo"]["rank"]] = Rank(trace, entries)
    return dict(sorted(ranks.items()))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("job")


@pytest.fixture(scope="module")
def truth(directory: Path) -> sample.Truth:
    return sample.write(directory, ranks=4, steps=3)


@pytest.fixture(scope="module")
def job(directory: Path, truth: sample.Truth) -> dict[int, Rank]:
    return read(directory)


def test_the_world_has_one_rank_more_than_there_are_files(job: dict[int, Rank], truth: sample.Truth) -> None:
    assert list(job) == [0, 1, 2, 3] == list(truth.ranks)
    assert truth.missing_ranks == (4,)
    for rank in job.values():
        assert rank.metadata["distributedInfo"]["world_size"] == 5
        assert rank.metadata["distributedInfo"]["pg_config"][0]["ranks"] == [0, 1, 2, 3, 4]


def test_any_rank_can_be_the_missing_one(tmp_path: Path) -> None:
    truth = sample.write(tmp_path, ranks=2, steps=1, events=1, missing_ranks=(0, 2))
    assert truth.ranks == tuple(read(tmp_path)) == (1, 3)


def test_metadata_is_what_pytorch_writes(job: dict[int, Rank]) -> None:
    metadata = job[2].metadata
    assert [device["id"] for device in metadata["deviceProperties"]] == list(range(8))
    assert metadata["schemaVersion"] == 1
    assert {rank.metadata["baseTimeNanoseconds"] for rank in job.values()} == {1759300074000000000}
    labels = [(entry["name"], entry["pid"]) for entry in job[2].entries if entry["ph"] == "M"]
    assert Counter(name for name, _ in labels)["process_name"] == 9
    marks = [entry["name"] for entry in job[2].entries[-4:]]
    assert marks[0] == "PyTorch Profiler (0)"
    assert marks[2:] == ["Iteration Start: PyTorch Profiler", "Record Window End"]


def test_every_device_event_starts_after_the_call_that_launched_it(job: dict[int, Rank]) -> None:
    for rank in job.values():
        launched = rank.launch_starts()
        device_events = list(rank.of("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync"))
        assert device_events
        assert all(launched[event["args"]["correlation"]] < span(event)[0] for event in device_events)


def test_no_kernel_overlaps_another_on_its_stream(job: dict[int, Rank]) -> None:
    for rank in job.values():
        streams = defaultdict(list)
        for event in rank.of("kernel", "gpu_memcpy", "gpu_memset"):
            streams[event["args"]["stream"]].append(span(event))
        assert sorted(streams) == [7, 20, 24]
        for spans in streams.values():
            assert all(one[1] <= other[0] for one, other in pairwise(sorted(spans)))


@pytest.mark.parametrize("stacks", [False, True])
@pytest.mark.parametrize("faults", [None, sorted(sample.KINDS)])
def test_host_events_nest_on_every_thread(tmp_path: Path, stacks: bool, faults: list[str] | None) -> None:
    sample.write(tmp_path, ranks=1, steps=2, stacks=stacks, events=None if faults else 4_000, faults=faults)
    (rank,) = read(tmp_path).values()
    threads = defaultdict(list)
    for event in rank.of("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "python_function"):
        threads[event["tid"]].append(span(event))
    assert len(threads) == 3
    for spans in threads.values():
        open_until: list[int] = []
        for start, end in sorted(spans, key=lambda one: (one[0], -one[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)


def test_python_calls_know_their_callers(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=1, steps=1, stacks=True)
    (rank,) = read(tmp_path).values()
    calls = {call["args"]["Python id"]: call for call in rank.of("python_function")}
    roots = [call for call in calls.values() if call["args"]["Python parent id"] is None]
    assert [root["name"] for root in roots] == ["train.py(88): <module>"]
    for call in calls.values():
        parent = calls.get(call["args"]["Python parent id"])
        assert parent is None or (span(parent)[0] < span(call)[0] and span(call)[1] < span(parent)[1])
    modules = {call["name"] for call in calls.values() if "Python module id" in call["args"]}
    assert {"nn.Module: Transformer_0", "nn.Module: Block_7", "nn.Module: Linear_31"} <= modules


def test_arrows_have_two_ends(job: dict[int, Rank]) -> None:
    for rank in job.values():
        arrows = Counter((e["cat"], e["ph"], e["id"]) for e in rank.entries if e["ph"] in "sf")
        assert set(arrows.values()) == {1}
        starts = {(category, flow) for category, phase, flow in arrows if phase == "s"}
        assert starts == {(category, flow) for category, phase, flow in arrows if phase == "f"}
        assert {category for category, _ in starts} == {"ac2g", "fwdbwd"}


def test_backward_operators_share_the_sequence_number_of_their_forward(job: dict[int, Rank]) -> None:
    forward: set[int] = set()
    backward: set[int] = set()
    for op in job[0].of("cpu_op"):
        if "Sequence number" in op["args"]:
            (backward if op["args"]["Fwd thread id"] else forward).add(op["args"]["Sequence number"])
    assert forward == backward
    assert len(forward) > 100


def test_device_events_know_the_operator_that_asked_for_them(job: dict[int, Rank]) -> None:
    rank = job[0]
    ops = {op["args"]["External id"] for op in rank.of("cpu_op", "user_annotation")}
    assert all(kernel["args"]["External id"] in ops for kernel in rank.of("kernel"))


def test_steps_are_marked_on_host_and_device(job: dict[int, Rank], truth: sample.Truth) -> None:
    for rank in job.values():
        assert tuple(rank.steps()) == truth.steps == (10, 11, 12)
        on_device = {e["name"]: span(e) for e in rank.of("gpu_user_annotation")}
        for step, (start, end) in rank.steps().items():
            assert start < on_device[f"ProfilerStep#{step}"][0] < on_device[f"ProfilerStep#{step}"][1] < end


def test_all_device_work_of_a_step_is_launched_within_it(job: dict[int, Rank]) -> None:
    for rank in job.values():
        launched = rank.launch_starts()
        steps = rank.steps().values()
        starts = [launched[event["args"]["correlation"]] for event in rank.of("kernel", "gpu_memcpy")]
        assert all(any(begin <= start < end for begin, end in steps) for start in starts)


def on_job_clock(job: dict[int, Rank], truth: sample.Truth) -> dict[int, list[tuple[dict[str, Any], Span]]]:
    """Each rank's collectives in order of Seq, with their times after taking the planted offset off."""
    clocked = {}
    for number, rank in job.items():
        offset = truth.clock_offset_ns if number == truth.clock_rank else 0
        ordered = sorted(rank.collectives, key=lambda kernel: kernel["args"]["Seq"])
        clocked[number] = [(k, (span(k)[0] - offset, span(k)[1] - offset)) for k in ordered]
    return clocked


def test_collectives_end_together_on_the_clock_of_the_job(job: dict[int, Rank], truth: sample.Truth) -> None:
    clocked = on_job_clock(job, truth)
    for together in zip(*clocked.values(), strict=True):
        for arg in ("Seq", "Collective name", "In msg nelems", "Out msg nelems", "Process Group Ranks"):
            assert len({kernel["args"][arg] for kernel, _ in together}) == 1
        ends = [end for _, (_, end) in together]
        assert max(ends) - min(ends) < 1_000
        assert max(start for _, (start, _) in together) < min(ends)
    names = {kernel["args"]["Collective name"] for kernel, _ in clocked[0]}
    assert names == {"all_to_allv", "allreduce", "_allgather_base", "_reduce_scatter_base"}


def test_one_rank_has_its_clock_ahead_by_what_the_truth_says(job: dict[int, Rank], truth: sample.Truth) -> None:
    ends = {rank: [span(kernel)[1] for kernel in trace.collectives] for rank, trace in job.items()}
    reference = next(rank for rank in job if rank != truth.clock_rank)
    offsets = {
        rank: sum(mine - theirs for mine, theirs in zip(ends[rank], ends[reference], strict=True)) / len(ends[rank])
        for rank in job
    }
    for rank, offset in offsets.items():
        planted = truth.clock_offset_ns if rank == truth.clock_rank else 0
        assert abs(offset - planted) < 1_000


def test_the_straggler_is_late_by_what_the_truth_says(job: dict[int, Rank], truth: sample.Truth) -> None:
    assert truth.straggler_rank not in (None, truth.clock_rank)
    clocked = on_job_clock(job, truth)
    steps, launched = job[0].steps(), job[0].launch_starts()
    late = dict.fromkeys(truth.steps, 0)
    for index, (kernel, _) in enumerate(clocked[0]):
        issued = launched[kernel["args"]["correlation"]]
        step = next(number for number, (begin, end) in steps.items() if begin <= issued < end)
        starts = {rank: collectives[index][1][0] for rank, collectives in clocked.items()}
        mine = starts.pop(truth.straggler_rank or 0)
        late[step] += max(0, mine - max(starts.values()))
    assert late == truth.late_ns
    assert min(late.values()) > 1_000_000


def test_the_straggler_waits_least_and_computes_longest(job: dict[int, Rank], truth: sample.Truth) -> None:
    def total(events: Iterable[dict[str, Any]]) -> int:
        return sum(ns(event["dur"]) for event in events)

    assert min(job, key=lambda rank: total(job[rank].collectives)) == truth.straggler_rank
    assert max(job, key=lambda rank: total(job[rank].kernels)) == truth.straggler_rank


def test_communication_is_exposed_for_as_long_as_the_truth_says(job: dict[int, Rank], truth: sample.Truth) -> None:
    for number, rank in job.items():
        launched = rank.launch_starts()
        busy = union(span(kernel) for kernel in rank.kernels)
        for step, (begin, end) in rank.steps().items():
            mine = [span(c) for c in rank.collectives if begin <= launched[c["args"]["correlation"]] < end]
            together = union([*busy, *mine])
            exposed = sum(b - a for a, b in together) - sum(b - a for a, b in busy)
            assert exposed == truth.exposed_ns[number][step] > 0


def test_the_longest_idle_gap_is_the_stall_of_the_data_loader(job: dict[int, Rank], truth: sample.Truth) -> None:
    for rank in job.values():
        loads = [e for e in rank.of("user_annotation") if e["name"].startswith("enumerate(DataLoader)")]
        stall = max(loads, key=lambda load: ns(load["dur"]))
        assert ns(stall["dur"]) == truth.stall_ns
        begin, end = rank.steps()[truth.stall_step or 0]
        assert begin < span(stall)[0] < end
        busy = union(span(event) for event in rank.of("kernel", "gpu_memcpy", "gpu_memset"))
        gap = max(((one[1], other[0]) for one, other in pairwise(busy)), key=lambda gap: gap[1] - gap[0])
        assert gap[0] <= span(stall)[0] and span(stall)[1] <= gap[1]
        assert gap[1] - gap[0] < truth.stall_ns + 1_000_000


def test_a_full_queue_blocks_the_launch(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=1, steps=1, events=60_000)
    (rank,) = read(tmp_path).values()
    starts = {kernel["args"]["correlation"]: span(kernel)[0] for kernel in rank.kernels}
    calls = [call for call in rank.of("cuda_runtime", "cuda_driver") if call["args"]["correlation"] in starts]
    launched = sorted(span(call)[1] for call in calls)
    started = sorted(starts.values())
    assert len(started) > 1_022
    assert all(call >= kernel for call, kernel in zip(launched[1_030:], started, strict=False))


@pytest.mark.parametrize("events", [5_000, 12_345, 50_000])
def test_a_file_has_exactly_the_entries_asked_for(tmp_path: Path, events: int) -> None:
    sample.write(tmp_path, ranks=1, steps=3, events=events)
    (rank,) = read(tmp_path).values()
    assert len(rank.entries) == events
    assert sum(entry["name"] == "cudaEventQuery" for entry in rank.entries) < 0.2 * events


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for name, seed in (("one", 7), ("again", 7), ("other", 8)):
        sample.write(tmp_path / name, ranks=2, steps=1, seed=seed, events=2_000)
        contents.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert contents[0] == contents[1]
    assert all(contents[0][name] != contents[2][name] for name in contents[0])


def test_plain_and_compressed_files_hold_the_same_entries(tmp_path: Path) -> None:
    for compress in (True, False):
        sample.write(tmp_path / str(compress), ranks=1, steps=1, events=2_000, compress=compress)
    assert read(tmp_path / "True")[0].entries == read(tmp_path / "False")[0].entries


def test_the_truth_lies_beside_the_traces_but_is_no_trace(directory: Path, truth: sample.Truth) -> None:
    others = [path for path in directory.iterdir() if ".json" not in path.name]
    assert [path.name for path in others] == ["GROUND_TRUTH.txt"]
    assert f"straggler: rank {truth.straggler_rank}" in others[0].read_text()


def test_a_folder_with_traces_of_another_job_is_refused(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=2, steps=1, events=1)
    with pytest.raises(UsageError, match="choose an empty folder"):
        sample.write(tmp_path, ranks=1, steps=1, events=1)


@pytest.mark.parametrize("arguments", [{"ranks": 0}, {"steps": 0}, {"ranks": 2, "missing_ranks": (9,)}])
def test_an_impossible_job_is_a_usage_error(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        sample.write(tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_several_processes_write_the_same_bytes(tmp_path: Path) -> None:
    here = sample.write(tmp_path / "here", ranks=3, steps=2, events=2_000)
    with Processes(2) as executor:
        there = sample.write(tmp_path / "there", ranks=3, steps=2, events=2_000, executor=executor)
    assert there == here
    for path in (tmp_path / "here").iterdir():
        assert (tmp_path / "there" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", every(6, sample.KINDS))
def test_a_fault_costs_what_the_job_is_longer_than_without_it(tmp_path: Path, name: str) -> None:
    truth = sample.write(tmp_path, ranks=4, steps=3, seed=2, faults=[name], stacks=True, compress=False)
    ((fault, cost_ns),) = truth.costs_ns.items()
    assert fault.kind == name
    assert 0 < cost_ns < truth.job_ns
    last = max(span(entry)[1] for rank in read(tmp_path).values() for entry in rank.of("user_annotation"))
    first = min(rank.steps()[10][0] for rank in read(tmp_path).values())
    assert truth.job_ns - 100_000 < last - first <= truth.job_ns
    assert f"fault 1: {name}, " in (tmp_path / GROUND_TRUTH).read_text()


@pytest.mark.parametrize("name", every(6, (name for name, kind in sample.KINDS.items() if kind.responsible)))
def test_the_trace_says_the_name_that_is_responsible_for_a_fault(tmp_path: Path, name: str) -> None:
    truth = sample.write(tmp_path, ranks=2, steps=2, seed=1, faults=[name], stacks=True)
    (fault,) = truth.costs_ns
    names = {str(entry["name"]) for entry in read(tmp_path)[truth.hit_rank(fault)].entries}
    assert any(said in name for said in sample.KINDS[name].responsible for name in names)


@pytest.mark.parametrize("stacks", [False, True])
def test_what_only_stacks_name_is_told_of_traces_that_have_them(tmp_path: Path, stacks: bool) -> None:
    """The truth of a checkpoint named a function that the traces did not have."""
    truth = sample.write(tmp_path, ranks=1, steps=1, faults=["checkpoint"], stacks=stacks)
    names = {str(entry["name"]) for entry in read(tmp_path)[0].entries}
    assert any("save_checkpoint" in name for name in names) is stacks
    assert ("responsible: save_checkpoint" in truth.summary()) is stacks


def test_a_job_without_faults_costs_nothing(tmp_path: Path) -> None:
    truth = sample.write(tmp_path, ranks=2, steps=2, faults=[])
    assert (truth.costs_ns, truth.straggler_rank, truth.stall_step, truth.missing_ranks) == ({}, None, None, ())


def test_ranks_of_a_node_meet_without_the_others(tmp_path: Path) -> None:
    truth = sample.write(tmp_path, ranks=4, steps=2, seed=1, faults=["slow-link"])
    (fault,) = truth.costs_ns
    exchanges = {
        rank: [span(entry) for entry in trace.collectives if "SendRecv" in entry["name"]]
        for rank, trace in read(tmp_path).items()
    }
    shortest = {rank: min(end - start for start, end in spans) for rank, spans in exchanges.items()}
    assert all((shortest[rank] > 5 * 92_000) == (rank in fault.ranks) for rank in exchanges)


def test_an_unknown_fault_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no fault 'gremlins'; choose among"):
        sample.write(tmp_path, faults=["gremlins"])
