"""All ranks of a job in one trace: whose tracks are whose, on which clock, and what is not written."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace import sample
from trace_files import EVENTS, REAL_TRACES, needs_real_traces, write_trace

NANOGPT = "modded-nanogpt/records/track_1_short/2025-12-11_NorMuonOptimsAndFixes/profiler-example-traces"
# What Kineto says of a process and its threads, in two ranks of different hosts with equal pids.
TRACKS = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "process_labels", "pid": 1, "tid": 0, "args": {"labels": "CPU"}},
    {"ph": "M", "name": "process_sort_index", "pid": 1, "tid": 0, "args": {"sort_index": 1}},
    {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
    {"ph": "M", "name": "process_sort_index", "pid": 0, "tid": 0, "args": {"sort_index": 5_000_000}},
    {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
    {"ph": "M", "name": "thread_sort_index", "pid": 0, "tid": 7, "args": {"sort_index": 7}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "thread 1 (python)"}},
]
ARROW = [
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 7, "pid": 1, "tid": 1, "ts": 101},
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 7, "pid": 0, "tid": 7, "ts": 110.5, "bp": "e"},
]


def merged(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    trace: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return trace


def names(trace: dict[str, Any], name: str) -> dict[Any, str]:
    key = "pid" if name == "process_name" else "tid"
    return {event[key]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == name}


def of_rank(trace: dict[str, Any], rank: int) -> list[dict[str, Any]]:
    """The events of a rank, as its file has them but for numbers and times."""
    pids = {pid for pid, name in names(trace, "process_name").items() if name.startswith(f"rank {rank} ·")}
    return [event for event in trace["traceEvents"] if event["pid"] in pids and event["ph"] != "M"]


def moment_us(trace: dict[str, Any], event: dict[str, Any]) -> Decimal:
    return Decimal(trace.get("baseTimeNanoseconds", 0)) / 1000 + Decimal(event["ts"])


def ahead(events: list[dict[str, Any]], by: Decimal | int) -> list[dict[str, Any]]:
    return [{**event, "ts": float(Decimal(str(event["ts"])) + by)} if "ts" in event else event for event in events]


def bare(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in ("pid", "tid", "ts", "id")}


@pytest.fixture
def job(tmp_path: Path) -> holotrace.Job:
    """Two ranks with the same pids; the clock of the second is 5 ms ahead."""
    write_trace(tmp_path / "job" / "0.json", rank=0, events=[*TRACKS, *EVENTS, *ARROW])
    write_trace(tmp_path / "job" / "1.json", rank=1, events=[*TRACKS, *ahead([*EVENTS, *ARROW], 5_000)])
    return holotrace.open(tmp_path / "job")


def test_every_rank_has_processes_and_threads_of_its_own(job: holotrace.Job, tmp_path: Path) -> None:
    job.write_timeline(tmp_path / "all.json")
    trace = merged(tmp_path / "all.json")
    assert sorted(names(trace, "process_name").values()) == [
        "rank 0 · GPU 0",
        "rank 0 · python 1",
        "rank 1 · GPU 0",
        "rank 1 · python 1",
    ]
    assert sorted(names(trace, "thread_name").values()) == [
        f"rank {rank} · {track}"
        for rank in (0, 1)
        for track in ("GPU 0 · 20", "GPU 0 · stream 7", "python 1 · thread 1 (python)")
    ]
    places = {e["pid"]: e["args"]["sort_index"] for e in trace["traceEvents"] if e["name"] == "process_sort_index"}
    in_order = sorted(names(trace, "process_name").items(), key=lambda item: places[item[0]])
    assert [name for _, name in in_order] == [
        f"rank {r} · {process}" for r in (0, 1) for process in ("python 1", "GPU 0")
    ]
    tracks = Counter((event["pid"], event["tid"]) for event in trace["traceEvents"] if event["ph"] == "X")
    numbers = [*{pid for pid, _ in tracks}, *(tid for _, tid in tracks)]
    assert len(set(numbers)) == len(numbers) == 10


def test_all_else_is_as_it_was_recorded(job: holotrace.Job, tmp_path: Path) -> None:
    job.write_timeline(tmp_path / "all.json.gz")
    trace = merged(tmp_path / "all.json.gz")
    for rank in (0, 1):
        assert [bare(event) for event in of_rank(trace, rank)] == [bare(event) for event in (*EVENTS, *ARROW)]


def test_a_clock_that_is_ahead_is_set_back_exactly(tmp_path: Path) -> None:
    begun = Decimal("1712184698123456")
    for rank, late in ((0, Decimal(0)), (1, Decimal("1734.251")), (2, Decimal(0))):
        text = json.dumps(
            {
                "distributedInfo": {"rank": rank},
                "traceEvents": [{**event, "ts": f"@{event['ts']}@"} for event in EVENTS],
            }
        )
        for event in EVENTS:
            text = text.replace(f'"@{event["ts"]}@"', str(begun + Decimal(str(event["ts"])) + late))
        (tmp_path / f"{rank}.json").write_text(text)
    done = holotrace.open(tmp_path).write_timeline(tmp_path / "out.json")
    assert done.ranks["moved_ns"].to_list() == [0, 1_734_251, 0]
    trace = merged(tmp_path / "out.json")
    for rank in (0, 1, 2):
        assert [moment_us(trace, event) - begun for event in of_rank(trace, rank)] == [
            Decimal(str(event["ts"])) for event in EVENTS
        ]
    assert [told["moved_ns"] for told in trace["timelineOfRanks"]] == [0, 1_734_251, 0]


def test_clocks_that_count_from_different_moments_become_one(tmp_path: Path) -> None:
    base_ns = 1_759_300_074_000_000_000
    lone = [event for event in EVENTS if "nccl" not in event["name"]]
    write_trace(tmp_path / "0.json", rank=0, events=lone, baseTimeNanoseconds=base_ns)
    write_trace(tmp_path / "1.json", rank=1, events=lone, baseTimeNanoseconds=base_ns + 2_000_001)
    holotrace.open(tmp_path).write_timeline(tmp_path / "out.json")
    trace = merged(tmp_path / "out.json")
    for rank, later_ns in ((0, 0), (1, 2_000_001)):
        moments = [moment_us(trace, event) * 1000 - base_ns - later_ns for event in of_rank(trace, rank)]
        assert moments == [Decimal(str(event["ts"])) * 1000 for event in lone]


def test_times_are_small_enough_for_floats(tmp_path: Path) -> None:
    write_trace(tmp_path / "0.json", rank=0, events=ahead(EVENTS, 1_712_184_698_123_456))
    holotrace.open(tmp_path).write_timeline(tmp_path / "out.json")
    trace = merged(tmp_path / "out.json")
    assert trace["baseTimeNanoseconds"] == 1_712_184_697_000_000_000
    assert trace["traceEvents"][0]["ts"] == Decimal("1123556.000")


def test_clocks_that_cannot_be_compared_stay_and_are_told(job: holotrace.Job, tmp_path: Path) -> None:
    lone = [event for event in EVENTS if "nccl" not in event["name"]]
    write_trace(tmp_path / "job" / "2.json", rank=2, events=ahead(lone, 9_000))
    done = holotrace.open(tmp_path / "job").write_timeline(tmp_path / "all.json")
    assert of_rank(merged(tmp_path / "all.json"), 2)[0]["ts"] == 9_100
    [problem] = done.problems.iter_rows(named=True)
    assert (problem["problem"], problem["count"]) == ("clocks not compared", 1)
    assert problem["example"] == "rank 2: no collective that other ranks recorded"


def test_sets_of_ranks_that_no_collective_links_are_told(tmp_path: Path) -> None:
    for rank in range(4):
        group = {"Process Group Ranks": str([0, 1] if rank < 2 else [2, 3]), "Process Group Name": str(rank // 2)}
        events = [
            {**e, "args": {**e.get("args", {}), **group, "Seq": 1, "Collective name": "allreduce"}} for e in EVENTS
        ]
        write_trace(tmp_path / f"{rank}.json", rank=rank, events=events)
    done = holotrace.open(tmp_path).write_timeline(tmp_path / "out.json")
    assert done.problems["example"].to_list() == ["ranks 0-1; ranks 2-3"]


@pytest.mark.parametrize(
    ("late_us", "moved_ns"), [((-30, -20, 10, 30, 40), 0), ((4, 5, 4, 6, 4), 0), ((6, 6, 6, 6), 6_000)]
)
def test_no_rank_is_moved_by_less_than_ends_are_apart_anyway(
    tmp_path: Path, late_us: tuple[int, ...], moved_ns: int
) -> None:
    write_trace(tmp_path / "0.json", rank=0, events=[{**EVENTS[3], "ts": 1000 * n} for n in range(len(late_us))])
    write_trace(
        tmp_path / "1.json", rank=1, events=[{**EVENTS[3], "ts": 1000 * n + late} for n, late in enumerate(late_us)]
    )
    done = holotrace.open(tmp_path).write_timeline(tmp_path / "out.json")
    assert done.ranks["moved_ns"].to_list() == [0, moved_ns]
    assert done.ranks["offset_ns"][1] > 0
    assert done.said().startswith(
        "moved rank 1 by up to 6" if moved_ns else "no rank was moved: clocks differ by no more"
    )


def test_arrows_stay_within_their_rank(job: holotrace.Job, tmp_path: Path) -> None:
    job.write_timeline(tmp_path / "all.json")
    trace = merged(tmp_path / "all.json")
    ids = [[event["id"] for event in of_rank(trace, rank) if "id" in event] for rank in (0, 1)]
    assert ids[0] == [ids[0][0]] * 2 and ids[1] == [ids[1][0]] * 2
    assert ids[0] != ids[1]


def test_only_what_lies_in_the_window_is_written(job: holotrace.Job, tmp_path: Path) -> None:
    def written(**options: Any) -> list[list[str]]:
        job.write_timeline(tmp_path / "part.json", **options)
        trace = merged(tmp_path / "part.json")
        return [[event["name"] for event in of_rank(trace, rank)] for rank in (0, 1)]

    step, launch, gemm, reduce = (event["name"] for event in EVENTS)
    # From the first event, on the clock of all ranks: the step is 0 to 50, gemm 10.5 to 30.5, reduce 20.5 to 40.5 us.
    assert written(start_ns=30_500) == [[step, reduce]] * 2
    assert written(start_ns=30_499) == [[step, gemm, reduce]] * 2
    assert written(end_ns=1_000) == [[step]] * 2
    assert written(end_ns=1_001) == [[step, launch, "ac2g"]] * 2
    assert written(start_ns=49_999, end_ns=60_000) == [[step]] * 2
    assert written(start_ns=50_000, end_ns=60_000) == [[], []]
    assert written(of_step=3) == [[step, launch, gemm, reduce, "ac2g", "ac2g"]] * 2
    assert written(detail="device") == [[gemm, reduce]] * 2
    with pytest.raises(holotrace.MissingDataError, match="step 4"):
        written(of_step=4)


def test_python_functions_may_be_left_out(tmp_path: Path) -> None:
    call = {"ph": "X", "cat": "python_function", "name": "main.py(1): f", "pid": 1, "tid": 1, "ts": 1, "dur": 300}
    write_trace(tmp_path / "0.json", rank=0, events=[call, *EVENTS])
    done = holotrace.open(tmp_path).write_timeline(tmp_path / "out.json", detail="host")
    assert done.ranks.select("event_count", "left_out_count").rows() == [(len(EVENTS), 1)]


@pytest.mark.parametrize(
    "options",
    [{"detail": "all"}, {"of_step": 1, "start_ns": 1}, {"start_ns": 5, "end_ns": 5}],
)
def test_what_cannot_be_meant_is_refused(job: holotrace.Job, tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(holotrace.UsageError):
        job.write_timeline(tmp_path / "all.json", **options)
    assert not (tmp_path / "all.json").exists()


def test_what_is_strange_stays_valid(tmp_path: Path) -> None:
    strange: list[dict[str, Any]] = [
        {"ph": "X", "pid": {"pid": '"\\'}, "tid": ["\\", 1], "ts": 1, "dur": 1, "name": "a"},
        {"ph": "X", "pid": 'b"\\', "tid": "\n", "ts": "2", "dur": 1, "name": "b", "args": {"pid": 5, "ts": {"ts": 9}}},
        {"ph": "M", "name": "process_name", "pid": 'b"\\', "args": {"name": 'c \\" \\'}},
        {"ph": "M", "name": "thread_name", "pid": 'b"\\', "tid": "\n", "args": {"name": "x" * 5_000}},
        {"ph": "M", "name": "thread_name", "pid": 1, "args": 7},
        {"ph": "X", "name": "no time", "pid": 1, "tid": 1},
        {"name": "no event"},
        {"ph": "X", "pid": None, "tid": True, "ts": 1e300, "dur": -1, "name": "d", "id": {"id": 1}},
    ]
    for rank in (0, 1):
        write_trace(tmp_path / f"{rank}.json", rank=rank, events=[*EVENTS, *strange, *ahead(EVENTS, 100 * rank)])
    done = holotrace.open(tmp_path).write_timeline(tmp_path / "out.json")
    trace = merged(tmp_path / "out.json")
    for rank in (0, 1):
        found = [event["name"] for event in of_rank(trace, rank)][len(EVENTS) : -len(EVENTS)]
        assert found == ["a", "b", "no time", "d"]
        assert {"args": {"pid": 5, "ts": {"ts": 9}}, "name": "b", "ph": "X", "dur": 1} in map(
            bare, of_rank(trace, rank)
        )
    assert 'rank 0 · c \\" \\ b"\\ · \n' in names(trace, "thread_name").values()
    assert "entry is no event" in done.problems["problem"].to_list()


def test_a_file_cut_off_gives_what_is_whole(job: holotrace.Job, tmp_path: Path) -> None:
    text = (tmp_path / "job" / "1.json").read_text()
    (tmp_path / "job" / "1.json").write_text(text[: text.index('"ac2g"') + 3])
    done = job.write_timeline(tmp_path / "all.json")
    assert [event["name"] for event in of_rank(merged(tmp_path / "all.json"), 1)] == [event["name"] for event in EVENTS]
    assert done.problems.select("rank", "problem").rows() == [(1, "file cut off")]


def test_a_rank_that_cannot_be_read_is_left_out_and_told(job: holotrace.Job, tmp_path: Path) -> None:
    (tmp_path / "job" / "1.json").write_text("no trace")
    done = job.write_timeline(tmp_path / "all.json")
    assert done.ranks["rank"].to_list() == [0]
    assert done.problems.select("rank", "problem").rows() == [(1, "file not read")]


def test_ranks_in_memory_have_no_timeline(tmp_path: Path) -> None:
    with pytest.raises(holotrace.MissingDataError, match="in files"):
        holotrace.Job.from_ranks({}).write_timeline(tmp_path / "all.json")
    assert not (tmp_path / "all.json").exists()


def test_a_place_that_is_not_there_is_told_before_anything_is_read(job: holotrace.Job, tmp_path: Path) -> None:
    read: list[int] = []
    with pytest.raises(holotrace.UsageError, match=r"no folder .*; name a place that can"):
        job.write_timeline(tmp_path / "nowhere" / "all.json", progress=lambda done, _: read.append(done))
    assert read == []


def test_a_trace_that_is_read_is_never_written(job: holotrace.Job, tmp_path: Path) -> None:
    before = (tmp_path / "job" / "1.json").read_bytes()
    with pytest.raises(holotrace.UsageError, match="name another file"):
        job.only(0).write_timeline(tmp_path / "job" / "1.json")
    assert (tmp_path / "job" / "1.json").read_bytes() == before


def test_a_timeline_is_no_rank_of_the_job_it_lies_beside(job: holotrace.Job, tmp_path: Path) -> None:
    job.write_timeline(tmp_path / "job" / "all.json.gz")
    again = holotrace.open(tmp_path / "job")
    assert again.ranks == (0, 1)
    assert again.found.problems[0]["example"] == "a timeline of several ranks"
    again.write_timeline(tmp_path / "job" / "all.json.gz")
    with pytest.raises(holotrace.InputError, match="give the traces it was made of"):
        holotrace.open(tmp_path / "job" / "all.json.gz")


def test_the_planted_clock_of_the_sample_is_found(tmp_path: Path) -> None:
    truth = sample.write(tmp_path / "job", ranks=4, steps=2)
    done = holotrace.open(tmp_path / "job").write_timeline(tmp_path / "out.json")
    [moved] = done.ranks.filter(pl.col("moved_ns") != 0).iter_rows(named=True)
    assert (moved["rank"], moved["moved_ns"]) == (truth.clock_rank, pytest.approx(truth.clock_offset_ns, abs=200))
    trace = merged(tmp_path / "out.json")
    ends: dict[Any, list[Decimal]] = {}
    for rank in range(4):
        for event in of_rank(trace, rank):
            if event.get("cat") == "kernel" and "Seq" in event["args"]:
                ends.setdefault(event["args"]["Seq"], []).append(event["ts"] + event["dur"])
    assert [len(of_one) for of_one in ends.values()] == [4] * len(ends)
    assert len(ends) > 5
    assert max(max(of_one) - min(of_one) for of_one in ends.values()) < 1


@needs_real_traces
@pytest.mark.slow
def test_real_ranks_keep_all_their_events(tmp_path: Path) -> None:
    job = holotrace.open(REAL_TRACES / NANOGPT)
    done = job.only(0, 1).write_timeline(tmp_path / "out.json.gz")
    trace = merged(tmp_path / "out.json.gz")
    for source in job.only(0, 1).sources:
        assert isinstance(source.path, Path)
        recorded = [bare(event) for event in merged(source.path)["traceEvents"] if event["ph"] != "M"]
        assert [bare(event) for event in of_rank(trace, source.rank)] == recorded
    assert done.problems.is_empty()


def test_critical_path_of_the_job_has_tracks_of_its_own_and_arrows_across_ranks(tmp_path: Path) -> None:
    sample.write(tmp_path / "job", ranks=4, steps=2)
    job = holotrace.open(tmp_path / "job")
    done = job.write_timeline(tmp_path / "all.json", detail="device", critical_path=True)
    trace = merged(tmp_path / "all.json")
    processes = names(trace, "process_name")
    pid = next(pid for pid, name in processes.items() if name.startswith("critical path"))
    slices = [event for event in trace["traceEvents"] if event["pid"] == pid and event["ph"] == "X"]
    path = job.job_path(by_segment=True)
    assert len(slices) == path.height
    assert sum(int(event["dur"] * 1000) for event in slices) == path["duration_ns"].sum()
    changes = (path["rank"] != path["rank"].shift(1)).sum()
    tails = [event for event in trace["traceEvents"] if event["pid"] == pid and event["ph"] == "s"]
    assert len(tails) == changes > 0
    assert done.ranks["rank"].to_list() == [0, 1, 2, 3]
    # Each part of a device is drawn where the timeline has the work.
    work = {(e["name"], e["ts"]) for e in trace["traceEvents"] if e["pid"] != pid and e["ph"] == "X"}
    kernels = [event for event in slices if event["args"]["bound_by"] == "compute"]
    assert sum((event["name"], event["ts"]) in work for event in kernels) > 0.9 * len(kernels)
