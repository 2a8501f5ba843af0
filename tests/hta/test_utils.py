"""What HTA says of a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from hta.utils.utils import get_kernel_type, get_memory_kernel_type, normalize_path, shorten_name


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
