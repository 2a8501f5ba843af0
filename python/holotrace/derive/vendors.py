"""What holotrace knows of each vendor's devices, runtime and libraries: one declaration per vendor.

All that depends on a vendor's names is here; other modules ask the sets at the end. To support another vendor, or a
library whose kernels are not known yet, add to this file only; ``docs/concepts/kinds.md`` is generated from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holotrace.core.kinds import COMMUNICATION, COMPUTE, MEMORY, OTHER, SYNC, KindRule

Calls = frozenset[str]
NONE: Calls = frozenset()


@dataclass(frozen=True)
class Version:
    """Where a trace has the version of a vendor's runtime, as a whole number."""

    key: str
    label: str
    major: int
    """What one major version counts."""
    minor: int
    """What one minor version counts."""

    def text(self, number: int) -> str:
        """The version in words, e.g. CUDA 12.4."""
        return f"{self.label} {number // self.major}.{number % self.major // self.minor}"


@dataclass(frozen=True)
class Vendor:
    """One vendor's runtime calls by what they do, and rules for the kinds of its device events."""

    name: str
    launching: Calls = NONE
    """Host calls that put kernels on a queue."""
    graph_launching: Calls = NONE
    """Host calls that put a captured graph of kernels on a queue."""
    waiting: Calls = NONE
    """Host calls that wait for a device, so that their own time is none of the host's."""
    locking: Calls = NONE
    """Host calls that hold the runtime's lock, which one thread has at a time."""
    allocating: tuple[str, ...] = ()
    """How the names of host calls begin that allocate or free memory."""
    copying: tuple[str, ...] = ()
    """How the names of host calls begin that copy memory."""
    loading_code: tuple[str, ...] = ()
    """How the names of host calls begin that load or link code for a device, or make a graph ready to run."""
    asking: Calls = NONE
    """Host calls that only ask for something the runtime knows, and return at once."""
    recording: Calls = NONE
    """Host calls that record an event others can wait for."""
    version: Version | None = None
    collectives: str = ""
    """What its library of collectives is called."""
    categories: tuple[KindRule, ...] = ()
    """Rules for categories that say the kind whatever the name is; tried first."""
    exceptions: tuple[KindRule, ...] = ()
    """Rules for names that hold another kind's words; tried before those of ``kinds``."""
    kinds: tuple[KindRule, ...] = ()
    """Rules for names."""


# An operation of XLA, by its category or opcode; fusions around one, too.
_HLO_COLLECTIVE = (
    r"^(async-collective|all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|collective-broadcast|"
    r"ragged-all-to-all|send$|send-done|recv$|recv-done)"
)

XLA = Vendor(
    name="XLA: TPUs, and GPUs and CPUs under XLA",
    categories=(
        # What waits for an operation under way is of that operation's kind: the device stands still for the copy or
        # collective, which is what hiding it would save.
        KindRule(
            SYNC,
            category=r"^(barrier-cores|dependency-wait|infeed|outfeed|host (callback|(send|recv)(-done)?))$",
            examples=("infeed", "barrier-cores", "host callback"),
        ),
        KindRule(COMMUNICATION, category=_HLO_COLLECTIVE, examples=("all-reduce", "all-gather fusion")),
        KindRule(COMMUNICATION, category=r"^async-(start|done|update)$", name=_HLO_COLLECTIVE),
        KindRule(MEMORY, category=r"^(copy|async)(-start|-done|-update)?$", examples=("copy", "copy-done")),
        KindRule(
            COMPUTE,
            category=r"fusion$|^xla_module$|^(dot|convolution|custom-call|data formatting|call|while|conditional)$",
            examples=("convolution fusion", "custom-call"),
        ),
    ),
)

PYTORCH = Vendor(
    name="PyTorch, on devices of any vendor",
    categories=(
        # Copies and fills stay memory even between devices: the trace does not tell who asked for them.
        KindRule(SYNC, category=r"_sync$", examples=("cuda_sync", "xpu_sync")),
        KindRule(MEMORY, category=r"^(gpu_)?mem(cpy|set)$", examples=("gpu_memcpy", "gpu_memset")),
        KindRule(COMMUNICATION, category=r"^collective_comm$", examples=("collective_comm",)),
    ),
    exceptions=(
        # Inductor names a fused kernel after operators around it, also after collectives that it does not run.
        KindRule(
            COMPUTE,
            r"^triton_(poi|red|per|tem|for|mm|helion)",
            examples=("triton_poi_fused_add_all_reduce_4",),
        ),
        # PyTorch's own operators run on one device, whatever they are called.
        KindRule(COMPUTE, r"^at::native::", examples=("void at::native::index_reduce_scatter(float*)",)),
        # The same of operators that compute on the host; exchanges have names of their backend.
        KindRule(COMPUTE, r"^(aten|fsdp|inductor)::", examples=("fsdp::all_gather_copy_in", "aten::scatter_reduce")),
    ),
    kinds=(
        KindRule(
            COMMUNICATION,
            r"multimem_|(?<![a-z_])(put_signal|wait_signal|barrier)_kernel|symm_mem",
            examples=(
                "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
                "void (anonymous namespace)::barrier_kernel(unsigned int**, int, int)",
            ),
        ),
    ),
)

NVIDIA = Vendor(
    name="NVIDIA",
    launching=frozenset({"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel"})
    | {"cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"},
    graph_launching=frozenset({"cudaGraphLaunch", "cuGraphLaunch"}),
    waiting=frozenset({"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaEventQuery"})
    | {"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cudaMemcpy", "cudaMemcpyAsync"},
    locking=frozenset({"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"}),
    asking=frozenset({"cudaStreamIsCapturing", "cudaStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo"})
    | {"cudaGetLastError", "cudaPeekAtLastError", "cudaGetDevice", "cudaGetDeviceCount", "cudaDeviceGetAttribute"}
    | {"cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"}
    | {"cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"},
    recording=frozenset({"cudaEventRecord", "cudaEventRecordWithFlags"}),
    allocating=(
        *("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cudaMemPool"),
        *("cuMemAlloc", "cuMemFree", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease"),
    ),
    copying=("cudaMemcpy", "cuMemcpy"),
    loading_code=(
        *("cudaModuleLoadData", "cudaLibraryLoadData", "cuModuleLoadData", "cuLibraryLoadData", "cuLink"),
        *("cudaGraphInstantiate", "cuGraphInstantiate"),
    ),
    version=Version("cuda_runtime_version", "CUDA", 1000, 10),
    collectives="NCCL",
    kinds=(
        KindRule(
            COMMUNICATION,
            r"(?<![a-z])nccl",
            examples=("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",),
        ),
        KindRule(
            COMMUNICATION,
            r"nvshmem",
            examples=("nvshmemi_transfer_amo_nonfetch", "barrier_on_stream_kernel_threadgroup_nvshmem"),
        ),
        # Transformer Engine's buffers that all ranks see.
        KindRule(COMMUNICATION, r"userbuffers", examples=("kuserbuffers_pushrecv(int, int, int*, int*, int)",)),
        # TensorRT-LLM, and FlashInfer's copies of it: one-sided all-to-all of experts.
        KindRule(
            COMMUNICATION,
            r"moe_?a2a|mnnvl_|twoshot.*lamport|oneshot.*lamport",
            examples=(
                "void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>(int const*)",
                "void flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport<4, float>(Params)",
            ),
        ),
    ),
)

AMD = Vendor(
    name="AMD",
    launching=frozenset({"hipLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipExtLaunchKernel"})
    | {"hipLaunchCooperativeKernel", "hipModuleLaunchCooperativeKernel"},
    graph_launching=frozenset({"hipGraphLaunch"}),
    waiting=frozenset({"hipDeviceSynchronize", "hipStreamSynchronize", "hipEventSynchronize", "hipEventQuery"})
    | {"hipMemcpy", "hipMemcpyAsync", "hipMemcpyWithStream"},
    asking=frozenset({"hipStreamIsCapturing", "hipGetLastError", "hipPeekAtLastError"})
    | {"hipGetDevice", "hipGetDeviceCount", "hipDeviceGetAttribute"},
    recording=frozenset({"hipEventRecord"}),
    allocating=("hipMalloc", "hipExtMalloc", "hipFree", "hipHostAlloc", "hipHostRegister", "hipMemPool"),
    copying=("hipMemcpy",),
    loading_code=("hipModuleLoad", "hipGraphInstantiate"),
    version=Version("hip_runtime_version", "ROCm", 10_000_000, 100_000),
    collectives="RCCL",
    exceptions=(
        # ROCm lists waits and copies among kernels, as HTA's older traces do.
        KindRule(
            SYNC,
            r"^(stream|event|context|device) (sync|wait event)",
            examples=("Stream Wait Event", "Context Sync"),
        ),
        KindRule(
            MEMORY,
            r"^((cu|cuda|hip)?mem(cpy|set)|__amd_rocclr_(copy|fill))",
            examples=("__amd_rocclr_copyBuffer", "Memcpy HtoD (Pinned -> Device)", "hipMemcpyAsync"),
        ),
    ),
    kinds=(
        KindRule(
            COMMUNICATION,
            r"(?<![a-z])(rccl|mscclpp|msccl)",
            examples=("void rcclGenericKernel<1, false>(ncclDevComm*)", "void mscclpp::allreduce7<__half>(__half*)"),
        ),
        KindRule(COMMUNICATION, r"rocshmem", examples=("rocshmem_put_signal_kernel",)),
        KindRule(
            COMMUNICATION,
            r"(?<![a-z])mori(::|_|\d)|(?<![a-z])ep(dispatch|combine)",
            examples=(
                "void mori::moe::EpDispatchInterNodeKernel<hip_bfloat16>(mori::moe::Args)",
                "EpCombineInterNodeV1Kernel_bf16",
            ),
        ),
        KindRule(
            COMMUNICATION,
            r"quick_?reduce|cross_device_(reduce|store|load)",
            examples=(
                "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>>(__half*)",
                "_ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankDataE",
            ),
        ),
    ),
)

INTEL = Vendor(
    name="Intel",
    waiting=frozenset({"zeCommandQueueSynchronize", "zeCommandListHostSynchronize", "zeEventHostSynchronize"})
    | {"zeFenceHostSynchronize", "urQueueFinish", "urEventWait"},
    allocating=(
        *("urUSMDeviceAlloc", "urUSMSharedAlloc", "urUSMHostAlloc", "urUSMFree", "urUSMPool"),
        *("zeMemAlloc", "zeMemFree"),
    ),
    copying=("urEnqueueUSMMemcpy", "zeCommandListAppendMemoryCopy"),
    loading_code=("urProgram", "zeModuleCreate", "zeModuleDynamicLink"),
    collectives="oneCCL",
    exceptions=(
        KindRule(SYNC, r"^ze.*(barrier|signalevent|waitonevents)", examples=("zeCommandListAppendBarrier",)),
        KindRule(MEMORY, r"^ze.*memory(copy|fill)", examples=("zeCommandListAppendMemoryCopy(M2D)",)),
    ),
    kinds=(KindRule(COMMUNICATION, r"(?<![a-z])(oneccl|xccl)|ishmem", examples=("oneccl_allreduce_small",)),),
)

MTIA = Vendor(
    name="Meta MTIA",
    categories=(
        # The firmware's own steps beside its jobs.
        KindRule(SYNC, category=r"^mtia", name=r"^event_(wait|record)", examples=("event_wait",)),
        KindRule(OTHER, category=r"^mtia", name=r"^(merge|remote|packet)", examples=("merge",)),
        KindRule(COMMUNICATION, r"^(hccl|collective_subgraph_execution)", examples=("collective_subgraph_execution",)),
    ),
    exceptions=(KindRule(MEMORY, r"^dma(_|$)", examples=("dma_request",)),),
)

HUAWEI = Vendor(
    name="Huawei Ascend and Habana Gaudi",
    collectives="HCCL",
    kinds=(
        KindRule(COMMUNICATION, r"(?<![a-z])(hccl|hcom)", examples=("hcom_allReduce__123_0_1", "hcclAllReduce")),
        KindRule(COMMUNICATION, r"moedistribute(dispatch|combine)", examples=("MoeDistributeDispatchV2",)),
    ),
)

# Namespaces and kernels of expert parallelism. Forks of DeepEP keep the inner names and change the outer ones, so what
# counts is any namespace that is called so; mangled names have the length of each name before it.
_EXPERTS = r"(deep_?ep|hybrid_?ep|ep|uccl|mooncake|pplx|(inter|intra)node(_ll)?)"
_EXPERT_NAMESPACES = rf"(^|::){_EXPERTS}::|^_z.*\d{_EXPERTS}\d"

LIBRARIES = Vendor(
    name="Libraries for devices of several vendors",
    exceptions=(
        # Matrix products with a collective inside keep the device computing.
        KindRule(
            COMPUTE,
            r"(gemm|matmul).*(all_?reduce|all_?gather|reduce_?scatter)",
            examples=("void flux::GemmReduceScatter(Params)",),
        ),
        KindRule(
            COMPUTE,
            r"(all_?reduce|all_?gather|reduce_?scatter|dispatch_token|combine_token).*(gemm|matmul)",
            examples=("all_gather_gemm_kernel", "mega_kernel_dispatch_token_moe_grouped_gemm"),
        ),
        # Reductions within a block that borrow the collective's name.
        KindRule(COMPUTE, r"(warp|block|thread)_?all_?reduce", examples=("void warpAllReduceSum<float>(float*)",)),
        # Counts where tokens will go, on its own device.
        KindRule(
            COMPUTE,
            r"(::|\d)get_dispatch_layout",
            examples=("void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*, int*, int*)",),
        ),
    ),
    kinds=(
        KindRule(
            COMMUNICATION,
            r"(?<![a-z])(uccl|gloo|mccl|bkcl|cncl|eccl)(?![a-z]*gemm)",
            examples=("void uccl::internode_ll::dispatch<true, 3>(void*)",),
        ),
        KindRule(COMMUNICATION, r"(?<![a-z])(ucc|ccl)[_:]", examples=("ucc_ec_cuda_reduce_float32",)),
        # Collectives by their own names: symmetric memory, vLLM, SGLang, FlashInfer, TensorRT-LLM, AITER, oneCCL.
        KindRule(
            COMMUNICATION,
            r"all_?reduce|reduce_?scatter|all_?gather|all_?to_?all|all2all|send_?recv",
            examples=(
                "void tensorrt_llm::kernels::twoShotAllReduceKernel<float, 8>(tensorrt_llm::kernels::AllReduceParams)",
                "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<2>(Params)",
                "void dlslime::intranode_alltoall_kernel<8>(int*)",
            ),
        ),
        # Expert parallelism: DeepEP and its forks, hybrid-EP, UCCL-EP, Mooncake, Perplexity, Triton-distributed.
        KindRule(
            COMMUNICATION,
            _EXPERT_NAMESPACES,
            examples=(
                "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*)",
                "void llm::kernels::ep::internode::cached_notify<false, 2>(int*, int)",
                "void mooncake::combine<128>(void*)",
                "_ZN7deep_ep12internode_ll7combineILb1EEEvPv",
            ),
        ),
        KindRule(
            COMMUNICATION,
            r"(?<![a-z])(deep|hybrid)_?ep(?![a-z])",
            examples=("hybrid_ep_dispatch_kernel",),
        ),
        KindRule(
            COMMUNICATION,
            r"(notify|cached)_(dispatch|combine|notify)|a2a_(dispatch|combine)_(send|recv)|pplx_",
            examples=("void notify_dispatch<8>(int const*, int*)", "void a2a_dispatch_send_kernel<true, 16>(long)"),
        ),
        KindRule(
            COMMUNICATION,
            r"kernel_(dispatch|combine)_token",
            examples=("kernel_dispatch_token_intra_node",),
        ),
    ),
)

VENDORS = (XLA, PYTORCH, MTIA, NVIDIA, AMD, INTEL, HUAWEI, LIBRARIES)


def _rules() -> Iterator[KindRule]:
    for part in ("categories", "exceptions", "kinds"):
        for vendor in VENDORS:
            yield from getattr(vendor, part)


RULES = tuple(_rules())
LAUNCHING = NONE.union(*(vendor.launching for vendor in VENDORS))
GRAPH_LAUNCHING = NONE.union(*(vendor.graph_launching for vendor in VENDORS))
WAITING = NONE.union(*(vendor.waiting for vendor in VENDORS))
LOCKING = NONE.union(*(vendor.locking for vendor in VENDORS))
ASKING = NONE.union(*(vendor.asking for vendor in VENDORS))
RECORDING = NONE.union(*(vendor.recording for vendor in VENDORS))
# Calls that return when the device is done: those that only look whether it is do not.
BLOCKING = frozenset(name for name in WAITING if "Query" not in name)


def _all(part: str) -> tuple[str, ...]:
    return tuple(begin for vendor in VENDORS for begin in getattr(vendor, part))


ALLOCATING, COPYING, LOADING_CODE = _all("allocating"), _all("copying"), _all("loading_code")
