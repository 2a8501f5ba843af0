"""What HTA's tests are written with."""

from __future__ import annotations

import os
import re
import unittest
from pathlib import Path

import pytest

from hta.common.types import (
    CPU_OP_CATEGORY_PATTERN,
    CUDA_SYNC_PATTERN,
    CommunicateKernelGroupingPattern,
    ComputeKernelGroupingPattern,
    GroupingPattern,
    MemoryKernelGroupingPattern,
    MTIAMemoryKernelGroupingPattern,
    to_grouping_pattern,
)
from hta.utils.checker import is_valid_directory
from hta.utils.test_utils import data_provider, get_test_data_dir


def test_test_data_is_below_the_folder_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_DATA_PREFIX_PATH", str(tmp_path))
    (tmp_path / "tests" / "data" / "some").mkdir(parents=True)
    assert get_test_data_dir("some") == str(tmp_path / "tests" / "data" / "some")
    with pytest.raises(FileNotFoundError, match=r"Test data directory does not exist: .*none"):
        get_test_data_dir("none")


def test_a_test_runs_once_for_each_of_its_data() -> None:
    seen: list[tuple[int, list[int]]] = []
    shared = [1]

    class Case(unittest.TestCase):
        @data_provider(lambda: ({"a": 1, "b": shared}, {"a": 2, "b": shared}))
        def test(self, a: int, b: list[int]) -> None:
            b.append(a)
            seen.append((a, b))

    assert Case("test").run() is not None
    # What a test does to its data stays with it.
    assert seen == [(1, [1, 1]), (2, [1, 2])]
    assert shared == [1]


def test_arguments_may_go_without_names() -> None:
    seen: list[tuple[object, ...]] = []

    class Case(unittest.TestCase):
        @data_provider(lambda: [(1, 2), 3, {"b": 4}])
        def test(self, *a: object, b: int = 0) -> None:
            seen.append((*a, b))

    Case("test").run()
    assert seen == [(1, 2, 0), (3, 0), (4,)]


@pytest.mark.parametrize(
    ("path", "reason"),
    [("", "non-empty string"), ("none", "does not exist"), ("file", "not a directory"), (".", "")],
)
def test_a_folder_is_told_from_what_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    outcome = is_valid_directory(path)
    assert outcome.success is (reason == "")
    assert reason in outcome.reason


def test_a_folder_may_have_to_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    assert is_valid_directory(str(tmp_path)).success
    assert "not writable" in is_valid_directory(str(tmp_path), must_be_writable=True).reason


def test_names_are_grouped_by_their_start() -> None:
    assert CPU_OP_CATEGORY_PATTERN.match("cpu_op")
    assert not CPU_OP_CATEGORY_PATTERN.match("gpu_user_annotation")
    assert not GroupingPattern(re.compile("a"), inverse_match=True).match("ab")
    assert to_grouping_pattern(["a", "b"], "letters") == GroupingPattern(re.compile("(a)|(b)"), False, "letters")
    assert to_grouping_pattern("a", inverse_match=True).match("b")
    assert ComputeKernelGroupingPattern.match("gemm") and not ComputeKernelGroupingPattern.match("ncclDevKernel")
    assert CommunicateKernelGroupingPattern.match("void ncclKernel_Broadcast")
    assert MTIAMemoryKernelGroupingPattern.match("dma_write") and MemoryKernelGroupingPattern.match("hipMemcpy")
    assert to_grouping_pattern(CUDA_SYNC_PATTERN, "other") is CUDA_SYNC_PATTERN
    with pytest.raises(ValueError, match="a int is no pattern"):
        to_grouping_pattern(1)  # type: ignore[arg-type]
