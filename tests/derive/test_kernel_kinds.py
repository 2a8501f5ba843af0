"""Names and categories that real profilers write, and the kind each must get."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.derive import kernel_kinds

KERNELS = {
    "communication": (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
        "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16",
        "void rcclGenericKernel<1, false>(ncclDevComm*)",
        "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
        "void mscclpp::allreduce7<__half>(__half*, __half*)",
        "oneccl_allreduce_small",
        "allreduce_execution_bfloat16_sum",
        "hcclAllReduce",
        "hcom_allReduce__123_0_1",
        "ucc_ec_cuda_reduce_float32",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)",
        "void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*)",
        "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecQ4<__half, 4>>>(__half*)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<2>(Params<__nv_bfloat16>)",
        "void tensorrt_llm::kernels::twoShotAllReduceKernel<float, 8>(tensorrt_llm::kernels::AllReduceParams)",
        "void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>(int const*)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
        "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**)",
        "void (anonymous namespace)::barrier_kernel(unsigned int**, int, int)",
        "kuserbuffers_pushrecv(int, int, int*, int*, int)",
        "nvshmemi_transfer_amo_nonfetch",
        "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*)",
        "void deep_ep::intranode::notify_dispatch<8>(int const*)",
        "_ZN7deep_ep12internode_ll7combineILb1EEEvPv",
        "void mori::moe::EpDispatchInterNodeKernel<hip_bfloat16>(mori::moe::Args)",
    ),
    "compute": (
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
        "void at::native::(anonymous namespace)::batch_norm_collect_statistics_kernel<SyncBatchNorm>(float*)",
        "SyncBatchNormForward",
        "void at::native::index_reduce_scatter(float*)",
        "void cutlass::device_kernel<flux::AllGatherGemm<ncclComm>>(Params)",
        "all_gather_gemm_kernel",
        "triton_poi_fused_add_all_reduce_4",
        "void warpAllReduceSum<float>(float*)",
        "hip_gemm_kernel",
        "hipblaslt_Cijk_Alik_Bljk",
        "fused_dma_like_attention",
        "dmaximum_kernel",
        "void at::native::vectorized_elementwise_kernel<4, direct_copy_kernel_cuda>(int)",
        "_fwd_kernel_destindex_copy_kv",
        "void groupnorm_kernel_dispatch_down<__hip_bfloat16, 1024u>(unsigned int)",
        "_Z28kn_fmla_fwd_splictkv_combineI19FlashMlaKernelTrait",
        "success_kernel",
        "void my::kernel(ncclDevComm*)",
        "",
    ),
    "memory": (
        "__amd_rocclr_copyBuffer",
        "__amd_rocclr_fillBufferAligned.kd",
        "Memcpy HtoD (Pinned -> Device)",
        "hipMemcpyAsync",
        "zeCommandListAppendMemoryCopy(M2D)",
    ),
    "sync": ("Stream Wait Event", "Context Sync", "zeCommandListAppendBarrier"),
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in KERNELS.items() for name in names], ids=lambda text: text[:50]
)
@pytest.mark.parametrize("category", ["kernel", "Kernel"])
def test_kernel_has_its_kind(category: str, kind: str, name: str) -> None:
    assert kind_of(category, name) == kind


@pytest.mark.parametrize(
    ("category", "name", "kind"),
    [
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", "memory"),
        ("gpu_memcpy", "ncclPeerCopy", "memory"),
        ("gpu_memset", "Memset (Device)", "memory"),
        ("Memcpy", "Memcpy DtoD (Device -> Device)", "memory"),
        ("Memset", "Memset (Unknown)", "memory"),
        ("cuda_sync", "Stream Wait Event", "sync"),
        ("cuda_sync", "ncclAnything", "sync"),
        ("xpu_sync", "anything", "sync"),
        ("collective_comm", "hpu", "communication"),
        ("mtia_ccp_events", "pe_exe", "compute"),
        ("mtia_ccp_events", "dma_request", "memory"),
        ("mtia_ccp_events", "event_wait", "sync"),
        ("mtia_ccp_events", "collective_subgraph_execution", "communication"),
        ("mtia_ccp_events", "merge", "other"),
    ],
)
def test_category_counts_before_the_name(category: str, name: str, kind: str) -> None:
    assert kind_of(category, name) == kind


def test_every_event_gets_a_kind_even_without_name_or_category() -> None:
    events = pl.DataFrame(
        {"category": ["kernel", None, "gpu_memcpy"], "name": [None, "ncclKernel_X", None]},
        schema={"category": pl.Categorical(), "name": pl.Categorical()},
    )
    assert kernel_kinds.kinds(events).to_list() == ["compute", "communication", "memory"]


def test_no_events_have_no_kinds() -> None:
    schema = {"category": pl.Categorical(), "name": pl.Categorical()}
    assert kernel_kinds.kinds(pl.DataFrame(schema=schema)).is_empty()


def kind_of(category: str, name: str) -> str:
    return str(kernel_kinds.decide(pl.Series([category]), pl.Series([name]))[0])
