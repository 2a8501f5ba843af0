"""What is declared of each vendor holds: every rule is reached, and calls do what they are declared for."""

from __future__ import annotations

import re

import pytest

from holotrace.core.kinds import KindRule
from holotrace.derive import vendors
from holotrace.derive.kernel_kinds import rule_of
from holotrace.derive.vendors import RULES, VENDORS, Vendor

WITH_EXAMPLES = [(rule, example) for rule in RULES for example in rule.examples]


@pytest.mark.parametrize(("rule", "example"), WITH_EXAMPLES, ids=lambda value: str(value)[:60])
def test_every_rule_decides_its_own_examples(rule: KindRule, example: str) -> None:
    # A rule without a name is for categories, and MTIA's are for names of its own category.
    category = example if not rule.name else "mtia_ccp_events" if "mtia" in rule.category else "kernel"
    found = rule_of(category, example)
    assert found is not None
    assert found.kind == rule.kind
    assert found is rule or rule.fits(category, example)


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_every_vendor_says_something_that_can_be_checked(vendor: Vendor) -> None:
    assert vendor.name
    rules = (*vendor.categories, *vendor.exceptions, *vendor.kinds)
    assert rules or vendor.waiting
    assert all(rule.examples or (rule.category and rule.name) for rule in rules)
    assert not vendor.launching & vendor.graph_launching
    assert not vendor.recording & vendor.waiting
    calls = vendor.launching | vendor.graph_launching | vendor.waiting | vendor.locking | vendor.recording
    assert all(re.fullmatch(r"[a-z]+[A-Z]\w+", call) for call in calls)
    if vendor.version:
        assert re.fullmatch(rf"{vendor.version.label} \d+\.\d+", vendor.version.text(60_443_483))


def test_versions_are_in_words() -> None:
    known = {vendor.name: vendor.version for vendor in VENDORS if vendor.version}
    assert known["NVIDIA"].text(12_040) == "CUDA 12.4"
    assert known["AMD"].text(60_443_483) == "ROCm 6.4"


def test_sets_of_calls_are_those_of_all_vendors() -> None:
    assert {"cudaStreamSynchronize", "hipStreamSynchronize", "zeEventHostSynchronize"} <= vendors.WAITING
    assert {"cudaGraphLaunch", "hipGraphLaunch"} == vendors.GRAPH_LAUNCHING - {"cuGraphLaunch"}
    assert {"cudaEventRecord", "hipEventRecord"} <= vendors.RECORDING


# Names as public profiles and sources of these libraries have them.
EXPERT_PARALLEL = (
    "void deep_ep::internode::dispatch<false, 4, false, 7, 4>(int4*, float*, long*, float*)",
    "void xllm::kernel::ep::internode::notify_dispatch<false, 2>(int const*, int*)",
    "void vendor::ep::internode::combine<true, nv_bfloat16, 9>(int4*, float*)",
    "void vendor::ep::intranode::cached_notify_combine<8>(void**, int*)",
    "void vendor::ep::internode::cached_notify<true, 4>(int, int)",
    "void primus_turbo::deep_ep::intranode::combine<8>(void*)",
    "void uccl::internode_ll::combine<false, 7168, 8, 3>(void*)",
    "void mooncake::ep::dispatch_kernel<128>(mooncake::DispatchKernelArgs)",
    "void deep_ep::elastic::dispatch_impl<8>(void*)",
    "void pplx::dispatchKernel<4>(int*)",
    "void a2a_combine_recv_kernel<true, 16ul, 8ul>(unsigned long)",
    "EpDispatchInterNodeV1KernelLowLatency_bf16",
    "void tensorrt_llm::kernels::mnnvl_throughput::moeA2ACombineKernel<float>(float*)",
    "void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<(unsigned char)4, __nv_bfloat16>(Params)",
    "moeAllToAllKernel",
    "hybrid_ep::dispatch_kernel<8>(param)",
    "kernel_combine_token",
    "_ZN6vendor2ep9internode8dispatchILb0EEEvPi",
)


@pytest.mark.parametrize("name", EXPERT_PARALLEL, ids=lambda name: name[:60])
def test_expert_parallel_kernels_of_forks_are_communication(name: str) -> None:
    rule = rule_of("kernel", name)
    assert rule is not None
    assert rule.kind == "communication"


@pytest.mark.parametrize(
    "name",
    [
        "void vendor::step::kernel<4>(int*)",
        "fused_moe_tp1ep8_kernel",
        "void sgl_kernel::moe_permute_dispatch<4>(int*)",
        "splitkv_combine_kernel",
        "void deep_gemm::sm100_fp8_gemm_1d1d_impl<128>(int)",
        "void deep_ep::internode::get_dispatch_layout<256, 32, 8>(long const*, int*)",
        "mega_kernel_dispatch_token_moe_grouped_gemm",
        "local_device_load_rmsnorm_512n",
    ],
)
def test_compute_kernels_with_similar_names_stay_compute(name: str) -> None:
    rule = rule_of("kernel", name)
    assert rule is None or rule.kind == "compute"
