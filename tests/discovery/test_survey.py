"""Which files make up a job, and which rank each of them is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holotrace import InputError, UsageError
from holotrace.discovery import discover, survey
from holotrace.discovery.ranks import ranks_from_names
from trace_files import write_trace


def ranks_in(*args: object, **options: object) -> dict[str, tuple[int, str]]:
    found = discover(*args, **options)  # type: ignore[arg-type]  # passed through
    return {source.path.name: (source.rank, source.rank_from) for source in found}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_rank_is_read_from_either_end_of_the_trace(
    tmp_path: Path, indent: int | None, at_the_end: bool, suffix: str
) -> None:
    for rank in (5, 3):
        write_trace(tmp_path / f"{chr(rank + 90)}{suffix}", rank=rank, world=8, indent=indent, at_the_end=at_the_end)
    assert ranks_in(tmp_path) == {f"]{suffix}": (3, "trace"), f"_{suffix}": (5, "trace")}


def test_rank_is_found_before_a_list_of_process_groups_longer_than_the_head(tmp_path: Path) -> None:
    info = {"backend": "nccl", "rank": 11, "world_size": 16, "pg_config": ["x" * 1000] * 100}
    path = write_trace(tmp_path / "a.json", distributedInfo=info)
    (source,) = discover(path)
    assert (source.rank, source.metadata) == (11, {"rank": 11, "world_size": 16, "backend": "nccl"})


def test_the_trace_counts_before_the_name(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank7.json", rank=2)
    assert ranks_in(tmp_path) == {"rank7.json": (2, "trace")}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank-3.json", 3),
        ("rank_3.json.gz", 3),
        ("rank3.json", 3),
        ("trace_rank_003.json.gz", 3),
        ("dp0_pp0_tp3_dcp0_ep3_rank3.1712.pt.trace.json.gz", 3),
        ("primus-megatron-exp[llama2-70b]-rank[3].json", 3),
        ("lora_rank8.rank_3.json", 3),
        ("worker3.pt.trace.json", 3),
        ("1700000000.5-TP-3.trace.json.gz", 3),
        ("benchmark-data-0-pipeline-0-tensor-3.json", 3),
        ("host_1234.1712184698123.pt.trace.json.gz", None),
        ("rank_not_found.json.gz", None),
        ("frank3.json", None),
    ],
)
def test_rank_by_the_name_of_the_file(name: str, rank: int | None) -> None:
    assert ranks_from_names([Path(name)]).get(Path(name)) == rank


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (("rank_3/trace.json", "rank_12/trace.json"), {0: 3, 1: 12}),
        (("rank_3/trace.json", "rank_4/rank7.json"), {0: 3, 1: 7}),
        (("rank_3/a.json", "rank_3/b.json"), {}),
        (("lora_rank8/trace.json",), {}),
    ],
)
def test_rank_by_the_name_of_the_folder_where_each_rank_has_its_own(
    names: tuple[str, ...], ranks: dict[int, int]
) -> None:
    paths = [Path(name) for name in names]
    assert ranks_from_names(paths) == {paths[place]: rank for place, rank in ranks.items()}


def test_the_axis_that_tells_files_apart_gives_the_rank() -> None:
    paths = [Path(f"benchmark-data-0-pipeline-{stage}-tensor-0.json") for stage in (2, 0, 1)]
    assert [ranks_from_names(paths)[path] for path in paths] == [2, 0, 1]


def test_files_placed_on_two_axes_are_counted_with_tensor_parallel_neighbours_together() -> None:
    paths = [Path(f"x-TP-{tp}-DP-{dp}.trace.json.gz") for tp in (0, 1) for dp in (0, 1)]
    assert [ranks_from_names(paths)[path] for path in paths] == [0, 2, 1, 3]


def test_files_that_do_not_tell_are_numbered_in_natural_order(tmp_path: Path) -> None:
    for pid in (9, 10, 11):
        write_trace(tmp_path / f"host_{pid}.170.pt.trace.json.gz")
    assert [source.path.name[5:7] for source in discover(tmp_path)] == ["9.", "10", "11"]
    assert {source.rank_from for source in discover(tmp_path)} == {"number"}
    assert survey(tmp_path).problems == ()


def test_a_file_that_does_not_tell_among_others_that_do_is_numbered_after_them_and_said(tmp_path: Path) -> None:
    write_trace(tmp_path / "a_coordinator.json")
    write_trace(tmp_path / "b.json", rank=3)
    assert ranks_in(tmp_path) == {"b.json": (3, "trace"), "a_coordinator.json": (4, "number")}
    assert [row["problem"] for row in survey(tmp_path).problems] == ["rank unknown"]


def test_a_single_file_without_rank_is_rank_0(tmp_path: Path) -> None:
    assert ranks_in(write_trace(tmp_path / "whatever.txt")) == {"whatever.txt": (0, "only file")}


def test_two_files_that_claim_one_rank_are_named_with_the_option_to_choose(tmp_path: Path) -> None:
    write_trace(tmp_path / "first.json", rank=1)
    write_trace(tmp_path / "second.json", rank=1)
    with pytest.raises(InputError, match=r"first\.json and .*second\.json both claim rank 1.*on_duplicate"):
        discover(tmp_path)
    assert list(ranks_in(tmp_path, on_duplicate="first")) == ["first.json"]
    assert list(ranks_in(tmp_path, on_duplicate="last")) == ["second.json"]
    (said,) = survey(tmp_path, on_duplicate="last").problems
    assert (said["problem"], said["rank"], Path(said["file"]).name) == ("rank claimed twice", 1, "first.json")


def test_missing_ranks_are_said(tmp_path: Path) -> None:
    for rank in (0, 2, 3, 6):
        write_trace(tmp_path / f"{rank}.json", rank=rank, world=8)
    (said,) = survey(tmp_path).problems
    assert (said["problem"], said["count"], said["example"]) == ("ranks missing", 4, "4 of 8: ranks 1, 4-5, 7")


def test_files_of_two_jobs_are_said(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.json", rank=0, world=2, backend="nccl")
    write_trace(tmp_path / "b.json", rank=1, world=2, backend="gloo")
    (said,) = survey(tmp_path).problems
    assert said["problem"] == "files of different jobs"
    assert said["example"] == "backend nccl on ranks 0; backend gloo on ranks 1"


def test_json_that_is_no_trace_is_left_out_and_said(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json")
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 4096}))
    (tmp_path / "snapshot.pickle.gz").write_bytes(b"\x80\x04 no gzip")
    assert list(ranks_in(tmp_path)) == ["rank0.json"]
    said = {Path(row["file"]).name for row in survey(tmp_path).problems}
    assert said == {"config.json", "snapshot.pickle.gz"}


@pytest.mark.parametrize("given", [lambda f: f, str, lambda f: f / "*.json", lambda f: [f / "r0.json", f / "r1.json"]])
def test_a_folder_a_pattern_and_a_list_find_the_same(tmp_path: Path, given: Callable[[Path], object]) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"r{rank}.json", rank=rank)
    assert [source.rank for source in discover(given(tmp_path))] == [0, 1]  # type: ignore[arg-type]  # any kind of paths


def test_a_dict_says_the_ranks_itself(tmp_path: Path) -> None:
    a, b = write_trace(tmp_path / "a.json", rank=0), write_trace(tmp_path / "b.json", rank=0)
    assert ranks_in({4: b, 2: a}) == {"a.json": (2, "caller"), "b.json": (4, "caller")}


def test_a_name_with_brackets_is_a_file_before_it_is_a_pattern(tmp_path: Path) -> None:
    assert ranks_in(write_trace(tmp_path / "exp[a]-rank[3].json")) == {"exp[a]-rank[3].json": (3, "file name")}


def test_subfolders_are_looked_into_on_request(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"node{rank}" / "trace.json", rank=rank)
    with pytest.raises(InputError, match=r"subfolders hold 2.*recursive"):
        discover(tmp_path)
    assert [source.rank for source in discover(tmp_path, recursive=True)] == [0, 1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda f: f / "missing", "does not exist"),
        (lambda f: f, "holds no trace"),
        (lambda f: f / "*.json", "matches no file"),
        (lambda f: [], "no path was given"),
        (lambda f: {}, "no file was given"),
        (lambda f: {0: f / "missing"}, "is no file"),
        (lambda f: f / ("x" * 300), "File name too long; check the path"),
        (lambda f: f"{f}/~nobody-is-called-that", "does not exist"),
        (lambda f: "~nobody-is-called-that/job", "does not exist"),
    ],
)
def test_nothing_there_is_said_in_one_sentence(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        discover(make(tmp_path))  # type: ignore[arg-type]  # any kind of paths


def test_options_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="error, first, last"):
        discover(tmp_path, on_duplicate="newest")  # type: ignore[arg-type]  # the point of this test
    with pytest.raises(UsageError, match="whole numbers from 0"):
        discover({-1: tmp_path / "a.json"})
