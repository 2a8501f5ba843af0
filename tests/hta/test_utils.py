"""What HTA says of a name."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from hta.utils.utils import (
    flatten_column_names,
    get_kernel_type,
    get_memory_kernel_type,
    get_mp_pool_size,
    get_symbol_column_names,
    get_value_from_dict,
    merge_kernel_intervals,
    normalize_gpu_stream_numbers,
    normalize_path,
    shorten_name,
)


@pytest.mark.parametrize(
    ("name", "kernel_type"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclWork*)", "COMMUNICATION"),
        ("void ncclKernel_Broadcast", "COMMUNICATION"),
        ("hcclAllReduce", "COMMUNICATION"),
        # Whatever HIP's runtime calls itself.
        ("hipMemcpyAsync", "COMMUNICATION"),
        ("Memcpy DtoH (Device -> Pinned)", "MEMORY"),
        ("Memset (Device)", "MEMORY"),
        ("dma_write", "MEMORY"),
        ("ampere_sgemm_128x64", "COMPUTATION"),
        ("vllm::cross_device_reduce_1stage", "COMPUTATION"),
        # Anywhere in the name.
        ("SyncBatchNormForward", "OTHER"),
        ("void CUDAFunctor_dma", "OTHER"),
        ("Context Sync", "OTHER"),
        ("Stream Wait Event", "OTHER"),
        ("cudaLaunchKernel", "OTHER"),
        ("job_exe", "OTHER"),
    ],
)
def test_a_kernels_type_is_in_its_name(name: str, kernel_type: str) -> None:
    assert get_kernel_type(name) == kernel_type


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH"),
        ("Memset (Device)", "Memset"),
        ("hipMemcpyAsync", "Memcpy Unknown"),
    ],
)
def test_what_a_copy_moves_is_in_its_name(name: str, moved: str) -> None:
    assert get_memory_kernel_type(name) == moved


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::f<4>(int)", "at::native::f"),
        ("a b(c)", "b"),
        ("void f<g<1>, h(2)>(int (*)(int))", "f"),
        ("<built-in method x>", ""),
        ("aten::mm", "aten::mm"),
        ("std::function<int(p->q)>::call", "std::function::call"),
        ("a(b", "a(b"),
        ("Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH (Device -> Pinned)"),
    ],
)
def test_a_name_is_shortened_to_the_function(name: str, short: str) -> None:
    assert shorten_name(name) == short


def test_a_path_is_spelled_out() -> None:
    assert normalize_path("./x") == str(Path.cwd() / "x")
    assert normalize_path("~/x") == str(Path.home() / "x")
    assert normalize_path("/x") == "/x"


def test_spans_that_touch_are_one() -> None:
    kernels = pd.DataFrame({"ts": [30, 0, 2, 10], "dur": [5, 10, 3, 5]})
    assert merge_kernel_intervals(kernels).to_dict("list") == {"ts": [0, 30], "end": [15, 35]}
    assert merge_kernel_intervals(kernels[:0]).empty


def test_levels_of_columns_are_joined() -> None:
    table = pd.DataFrame({("dur", "sum"): [1], ("name", ""): ["a"]})
    flatten_column_names(table)
    assert table.columns.tolist() == ["dur_sum", "name"]


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"name": ["a"], "cat": [1], "s_cat": ["x"]}, ("name", "s_cat")),
        ({"name": [1], "s_name": ["a"]}, ("s_name", "")),
    ],
)
def test_names_are_in_the_first_column_that_holds_text(
    columns: dict[str, list[object]], found: tuple[str, str]
) -> None:
    assert get_symbol_column_names(pd.DataFrame(columns)) == found


def test_streams_that_are_no_numbers_are_none() -> None:
    frame = pd.DataFrame({"stream": [1, "2", None, "0xff"]})
    normalize_gpu_stream_numbers(frame)
    assert frame["stream"].tolist() == [1, 2, -1, -1]


def test_a_value_is_found_by_its_path() -> None:
    nested = {"a": {"b": 1}}
    assert get_value_from_dict(nested, "a.b") == 1
    assert get_value_from_dict(nested, "a.c", 2) == 2
    assert get_value_from_dict(nested, "a.b.c") is None


def test_no_more_processes_than_objects() -> None:
    assert get_mp_pool_size(1 << 30, 1) == 1
    assert get_mp_pool_size(1, 0) == 1
