"""Efficiency of operators: whose time it is, what work they did, and how close that came to the limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace.analyses import Analyses
from holotrace.derive import busy, intervals
from holotrace.efficiency.categories import of_instruction, of_kernel, of_operator
from holotrace.job import Job
from shaped import BF16, FLOAT, addition, job, matrix_product, shaped
from trace_files import REAL_TRACES, needs_real_traces
from xplane_files import capture

ONE = """
    op      |MMMM....AAAA|
    host    |.K......L...|
    compute |..KKKK....LL|
"""


def rows(found: Job, *columns: str, **options: bool) -> list[tuple[object, ...]]:
    return found.operator_efficiency(**options).sort("name").select(columns).rows()


def test_work_is_held_against_the_limits_of_the_device() -> None:
    found = job(shaped(ONE, {"M": matrix_product(1024), "A": addition(1_000_000)}))
    add, mm = found.operator_efficiency().sort("name").rows(named=True)
    flops = 2 * 1024**3
    assert (mm["flops"], mm["moved_bytes"], mm["mean_ns"]) == (flops, 6 * 1024**2, 4_000)
    assert mm["tflops"] == pytest.approx(flops / 4_000 / 1000)
    assert (mm["peak_tflops"], mm["peak_gbps"]) == (989.4, 3350)
    assert mm["bound_by"] == "compute"
    assert mm["roofline_ratio"] == pytest.approx(flops / 989_400 / 4_000)
    assert mm["above_roofline_ns"] == round(4_000 - flops / 989_400)
    assert (add["bound_by"], add["gbps"]) == ("memory", 6_000)
    # Nothing moves faster than the memory: what does comes from caches.
    assert (add["roofline_ratio"], add["above_roofline_ns"]) == (1, 0)


def test_tf32_is_told_by_the_name_of_the_kernel() -> None:
    ops = {"M": matrix_product(64, FLOAT)}
    plain = job(shaped(ONE, ops, {"K": "ampere_sgemm_128x64_nn"})).operator_efficiency(by_operator=True)
    tensor = job(shaped(ONE, ops, {"K": "cutlass_tensorop_s1688gemm_128x64"})).operator_efficiency(by_operator=True)
    assert plain.filter(pl.col("name") == "aten::mm")["peak_tflops"].to_list() == pytest.approx([66.9])
    assert tensor.filter(pl.col("name") == "aten::mm")["peak_tflops"].to_list() == pytest.approx([494.7])


def test_innermost_operator_has_the_work_and_the_one_around_it_none() -> None:
    linear = ("aten::linear", [[64, 64], [64, 64]], [BF16, BF16], ["", ""])
    found = job(
        shaped(
            """
            op      |LLLLLLLL|
            op      |..MM....|
            host    |..K..C..|
            compute |...KK.C.|
            """,
            {"L": linear, "M": matrix_product(64)},
        )
    )
    assert rows(found, "name", "flops", "assumed") == [
        ("aten::linear", None, "an operator inside it does the work"),
        ("aten::mm", 2 * 64**3, None),
    ]


def test_work_outside_of_operators_has_its_rows_and_no_efficiency() -> None:
    found = job(shaped("host |K..|\ncompute |.KK|", {}, {"K": "flash_fwd_kernel"}))
    assert rows(found, "name", "category", "union_ns", "tflops", "assumed") == [
        ("flash_fwd_kernel", "attention", 2_000, None, "launched outside of operators")
    ]


OVERLAPPING = """
    op      |AAAA....BBBB|
    host    |K.LN....M...|
    compute |.KKKK.......|
    compute |...LLLL.MM..|
    comm    |..NNNNNNNNN.|
    copy    |..........O.|
"""


def test_parts_of_the_busy_time_add_up_where_work_overlaps() -> None:
    table = job(shaped(OVERLAPPING, {"A": matrix_product(8), "B": addition(8)})).operator_efficiency()
    # From 1 to 11; the collective keeps what no computing hides, the copy what neither hides.
    assert table["union_ns"].sum() == 10_000
    found = dict(table.select("name", "union_ns").rows())
    assert found == {"aten::mm": 6_000 + 1_000 + 1_000, "aten::add": 2_000, "O": 0}


def test_time_of_a_call_is_that_in_which_any_of_its_kernels_ran() -> None:
    table = job(shaped(OVERLAPPING, {"A": matrix_product(8), "B": addition(8)})).operator_efficiency()
    assert table.filter(pl.col("name") == "aten::mm").select("work_ns", "mean_ns").row(0) == (17_000, 10_000)


def test_own_models_count_in_tables_too() -> None:
    model = holotrace.OperatorModel("mine", "gemm", "mine::op", lambda given: holotrace.OperatorFigures(1000, 8))
    traced = shaped(ONE, {"M": ("mine::op", [[4]], [FLOAT], [""])})
    found = job(replace(traced, settings={"models": (model,)}))
    assert ("mine::op", 1000) in rows(found, "name", "flops")


def test_without_a_device_rates_are_known_and_limits_are_not() -> None:
    found = job(shaped(ONE, {"M": matrix_product(64), "A": addition(10)}, device=None))
    for tflops, peak, ratio in rows(found, "tflops", "peak_tflops", "roofline_ratio"):
        assert tflops is not None
        assert peak is None
        assert ratio is None


def test_steps_have_rows_of_their_own_that_add_up() -> None:
    text = """
        step    |111111222222|
        op      |MMMM..MMMM..|
        host    |.K.....L....|
        compute |..KKKK..LLL.|
    """
    found = job(shaped(text, {"M": matrix_product(8)}))
    assert rows(found, "step", "call_count", "union_ns", by_step=True) == [(1, 1, 4_000), (2, 1, 3_000)]


REAL = sorted(REAL_TRACES.glob("tracelens/tests/traces/**/*.json.gz"))


@needs_real_traces
@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}-{path.name[:24]}")
def test_rows_of_real_traces_add_up_to_the_busy_time_and_nearly_all_work_is_modelled(path: Path) -> None:
    with holotrace.open(path) as found:
        table = found.operator_efficiency()
        working = found.map(lambda rank: intervals.total_ns(rank.cached(busy.of).working), [busy.EVENTS])
    assert table["union_ns"].sum() == sum(working)
    assert (table["roofline_ratio"].drop_nulls() <= 1).all()
    shapes = table.filter(pl.col("input_dims").is_not_null())
    known = shapes.filter(pl.col("flops").is_not_null() | pl.col("moved_bytes").is_not_null())
    # A recording of the capture of a graph has seven kernels beside it.
    if "graph_capture" not in path.name:
        assert 100 * int(known["work_ns"].sum()) >= 95 * int(shapes["work_ns"].sum())
    assert 20 * int(table.filter(pl.col("category") == "other")["work_ns"].sum()) <= int(table["work_ns"].sum())


NAMED = {
    "gemm": ("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", "Cijk_Alik_Bljk_BBS_BH_Bias", "deep_gemm::fp8_gemm_kernel"),
    "attention": ("flash_fwd_splitkv_kernel", "fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "attn_fwd"),
    "convolution": ("volta_scudnn_128x64_stridedB_interior_nn_v1", "miopenSp3AsmConv_v30_3_1_gfx94"),
    "norm": ("std::enable_if<(8>(0)), void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)",),
    "optimizer": ("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>(int)",),
    "communication": ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",),
    "copy": ("Memcpy DtoD (Device -> Device)", "void at::native::CatArrayBatchedCopy<float>(float*)"),
    "rng": ("void at::native::distribution_elementwise_grid_stride_kernel<float, 4>(long)",),
    "sort": ("void at::native::radixSortKVInPlace<float>(int)",),
    "embedding": ("void at::native::vectorized_gather_kernel<16, long>(char*)",),
    "elementwise": ("triton_poi_fused_add_0", "void at::native::vectorized_elementwise_kernel<4, int>(int)"),
    "reduction": ("triton_red_fused_sum_1", "void at::native::reduce_kernel<512, 1, int>(int)"),
    "fft": ("void vector_fft_r2c<128u, EPT<8u>, 4u>(kernel_arguments_t<unsigned int>)", "fft_rtc_fwd_len256_factors_4"),
    "linalg": (
        "void potrf_alg2_cta_lower<float, float, 5, false>(int)",
        "void getrf_pivot<float>(int)",
        "lapack_sgesdd_ffi",
        "void trsm_left_kernel<float, 256, 4, false, false>(int)",
        "cusolver_syevd_ffi",
    ),
    "other": ("pe_exe",),
}


# Names that have a word of another kind of work in them.
MISLEADING = {
    "gemm": (
        "triton_tem_fused_addmm_relu_0",
        "triton_mm",
        "triton_bmm_1",
        "void magma_sgemmEx_kernel<float, float, float, true, false, 6, 4, 6, 3, 4>(int)",
        "void mul_mat_vec_q<c10::Half, 32, 4>(void const*)",
        "void wvSpltKQ_hf_sml_<__hip_bfloat16, 64>(int)",
    ),
    "attention": (
        "_fwd_grouped_kernel_stage1",
        "_bwd_kernel_dkdv",
        "_fwd_diag_kernel",
        "chunk_scaled_dot_kkt_fwd_kernel",
        "chunk_local_cumsum_scalar_kernel",
        "merge_16x16_to_64x64_inverse_kernel",
        "sm90_fp8_mqa_logits",
        "void flashinfer::MergeStatesKernel<8, __nv_bfloat16>(__nv_bfloat16*)",
        "selective_scan_fwd_kernel",
        "_ZN5aiter41mla_a16w16_bf16_qh16_m16x1_n16x1_coex0_maskE",
    ),
    "convolution": ("cask_cudnn::computeOffsetsKernel(Params)", "fft1d_r2c_32<float>(float2*)", "Im2d2Col_v2"),
    "norm": (
        "triton_per_fused__fused_rms_norm_add_mm_0",
        "void cuComputeGradInput<float, float>(float*)",
        "l2norm_fwd_kernel",
        "void ln_bwd_kernel<Kernel_traits<float>>(int)",
    ),
    "moe": ("_sort_chunks_by_map_kernel", "_row_id_map_pass_1_kernel", "void expandInputRowsKernel<float>(float*)"),
    "communication": (
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>()",
        "all-gather.3",
        "userbuffers_fp16_sum_inplace_gpu_rw_ag",
    ),
    "copy": (
        "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int)",
        "triton_poi_fused_clone_permute_view_0",
        "set_mla_kv_buffer_kernel",
        "write_req_to_token_pool_triton",
        "void tensorTransformGeneric<float>(float*)",
        "void vllm::concat_and_cache_mla_kernel<float>()",
    ),
    "sort": (
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)",
        "void flashinfer::sampling::TopPRenormProbKernel<1024>(float*)",
    ),
    "embedding": ("split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1(float*)",),
    "elementwise": (
        "triton_poi_fused__scaled_dot_product_flash_attention_cat_transpose_0",
        "triton_poi_fused_convolution_0",
        "triton_poi_fused__to_copy_add_mul_slice_0",
        "triton_poi_fused_0",
        "void at::native::(anonymous namespace)::lstm_cell_forward<float>(int)",
        "void vllm::cvt_fp16_to_fp4<c10::BFloat16, false>(int)",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>()",
        "void fbgemm_gpu::_FP8rowwise_to_float_cuda_kernel<float>(unsigned char const*)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda(at::TensorIteratorBase&)>()",
    ),
    "reduction": ("triton_per_fused__flash_attn_backward_mul_sum_10", "triton_red_fused_mm_nll_loss_forward_0"),
    "optimizer": ("kOptimizerStatic8bit2StateBlockwise<float, 0, 256, 1>(float*)",),
}


# Kernels of libraries by what they do, each taken from the library's own source or from traces that were published.
OF_LIBRARIES = {
    "gemm": (
        "_lora_shrink_kernel",
        "_qkv_lora_b_kernel",
        "void cusparse::csrmm_alg2_kernel<float>(int)",
        "void RNN_blockPersist_fp_LSTM<float>(int)",
        "void flux::GemmReduceScatter(Params)",
        "all_gather_gemm_kernel",
    ),
    "attention": (
        "chunk_kda_fwd_kernel_intra_sub_intra",
        "void hstu::hstu_fwd_kernel<float>(int)",
        "void ms_deformable_im2col_gpu_kernel<float>(int)",
    ),
    "norm": ("fusedQKNormRopeKernel",),
    "moe": (
        "void apply_shuffle_mul_sum_kernel<__nv_bfloat16>(__nv_bfloat16 const*)",
        "_fwd_kernel_ep_scatter_1",
        "_fwd_kernel_ep_gather",
        "post_reorder_triton_kernel",
        "deepgemm_compute_src2dst_triton_kernel",
        "void tensorrt_llm::kernels::deepseek_v3_topk_kernel<float>(float*)",
    ),
    "communication": (
        "void tensorrt_llm::kernels::mnnvl_throughput::moeA2ADispatchKernel<8>(int)",
        "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(mori::moe::Args)",
        "void (anonymous namespace)::barrier_kernel(unsigned int**, int, int)",
    ),
    "elementwise": (
        "void fast_hadamard_transform_kernel<fast_hadamard_transform_kernel_traits<32, 10>>(int)",
        "_silu_mul_fp8_quant_deep_gemm",
        "applyMLARopeAndAssignQKVKernelGeneration",
        "_triton_mrope_forward",
        "_ZN5aiter30kn_entry_2c_sbhd_cached_indirect_inplaceE",
        "to_mxfp8_dim1_kernel",
        "apply_token_bitmask_inplace_kernel",
    ),
    "copy": (
        "void marlin::gptq_marlin_repack_kernel<256, 4, false>(unsigned int const*)",
        "void at::native::(anonymous namespace)::reflection_pad2d_out_kernel<float>(float const*)",
        "void transfer_kernel_impl<false>(void const*)",
    ),
    "embedding": (
        "void at::native::(anonymous namespace)::compute_grad_weight<c10::BFloat16>(long const*)",
        "void at::native::index_reduce_scatter(float*)",
    ),
    "reduction": ("_jsd_kernel", "void at::native::(anonymous namespace)::grid_sampler_2d_kernel<float>(int)"),
    "sort": ("rejection_greedy_sample_kernel", "sample_recovered_tokens_kernel"),
    "optimizer": ("_newton_schulz_kernel", "void fused_adam_kernel<float>(float*)"),
    "convolution": ("void deformable_im2col_kernel<float>(int)",),
}


@pytest.mark.parametrize(
    ("category", "kernel"),
    [(c, name) for table in (NAMED, MISLEADING, OF_LIBRARIES) for c, names in table.items() for name in names],
)
def test_category_of_a_kernel(category: str, kernel: str) -> None:
    assert of_kernel(kernel) == category


# Name, kind, scope, target, and whether it holds a product.
INSTRUCTIONS = {
    "gemm": (
        ("ynn_fusion.29", "fusion", "jit(train_step)/mlp/dot_general", "", True),
        ("dot.109", "dot", "", "", True),
        ("add_bitcast_fusion.63", "convolution fusion", "jit(step)/QKVParallelLinear/mn,pn->mp/dot_general", "", False),
        ("custom-call.1", "custom-call", "jit(dot)/dot_general", "__cublas$gemm", True),
    ),
    "convolution": (
        ("convolution.7", "convolution", "jit(step)/conv_general_dilated", "", True),
        ("fusion.3", "convolution fusion", "jit(step)/ResNet/conv_general_dilated", "", False),
    ),
    "attention": (
        ("RPA-bq_32-bkvp_64-p_64-.1", "custom-call", "jit(step)/jit(_jax_attn_func)/pallas_call", "", False),
    ),
    "optimizer": (("multiply_add_fusion", "loop fusion", "jit(step)/optimizer/add", "", False),),
    "norm": (("reduce.4", "reduce", "jit(step)/block0/layer_norm/reduce_sum", "", False),),
    "embedding": (("copy_gather_fusion", "fusion", "forward.2/aten__index_select", "", False),),
    "reduction": (
        ("multiply_reduce_fusion.2.clone", "fusion", "", "", False),
        ("triton_softmax_17", "fusion", "jit(step)/div", "", False),
    ),
    "elementwise": (
        ("subtract_exponential_fusion.1", "fusion", "", "", False),
        ("fusion.7", "loop fusion", "", "", False),
        ("multiply.2", "multiply", "", "", False),
        ("tanh_fusion", "fusion", "jit(sgd_step)/jvp()/tanh", "", False),
    ),
    "copy": (("copy_bitcast_fusion.5", "fusion", "", "", False), ("copy.769", "data formatting", "", "", False)),
    "sort": (("sort.1", "sort", "", "", False), ("sort.0", "sort", "jit(f)/jit(_shuffle)/sort", "", False)),
    "rng": (("broadcast_add_fusion", "fusion", "jit(f)/jit(_normal)/jit(_uniform)/while/body/add", "", False),),
    "fft": (("fft.2", "fft", "jit(f)/fft", "", False),),
    "linalg": (
        ("svd.0", "custom-call", "jit(f)/jit(svd)/svd", "lapack_sgesdd_ffi", False),
        ("triangular-solve.1", "triangular-solve", "", "", False),
    ),
    "other": (("partition-id", "partition-id", "", "", False),),
}


@pytest.mark.parametrize(("category", "row"), [(c, row) for c, rows in INSTRUCTIONS.items() for row in rows])
def test_category_of_an_instruction_of_xla(category: str, row: tuple[str, str, str, str, bool]) -> None:
    assert of_instruction(*row[:4], has_product=row[4]) == category


def test_a_fusion_that_has_no_name_is_what_is_inside() -> None:
    assert of_instruction("ynn_fusion", "fusion", "", "", "reduce-window multiply", has_product=False) == "reduction"
    assert of_instruction("ynn_fusion", "fusion", "", "", "pad convolution add", has_product=True) == "convolution"
    assert of_instruction("ynn_fusion", "fusion", "", "", "dot add", has_product=True) == "gemm"
    assert of_instruction("ynn_fusion", "fusion", "jit(f)/dot_general", "", "convolution", has_product=True) == "gemm"


def test_a_fusion_that_ends_in_a_conversion_copies_nothing_unless_that_is_all_it_does() -> None:
    """A quarter of a transformer on an H100 was said to be copies and casts: its softmax, whose weights are bf16."""
    scope = "jit(f)/attention/convert_element_type"
    inside = "broadcast convert subtract exponential reduce divide"
    assert of_instruction("fusion.593", "fusion", scope, "", inside, has_product=False) == "reduction"
    assert of_instruction("wrapped_convert.4", "fusion", scope, "", "convert", has_product=False) == "copy"


@pytest.mark.parametrize("name", ["jax_cpu_gaps", "torch_xla_cpu_gaps", "jax_cpu_2x4"])
def test_what_programs_of_xla_compute_has_a_category(name: str, tmp_path: Path) -> None:
    table = holotrace.open(capture(name, tmp_path), recursive=True).work_categories()
    assert 20 * int(table["other_ns"].sum()) <= int(table["busy_ns"].sum())
    assert (table["gemm_ns"] > 0).all()


def test_is_an_analysis_like_the_others() -> None:
    assert Analyses.operator_efficiency.chart is not None


def test_all_ranks_together_are_one_row_with_their_spread_and_the_slowest() -> None:
    ops = {"M": matrix_product(1024)}
    ranks = [
        shaped("op |MMM.MMM|\nhost |K...L..|\ncompute |" + "K" * long + "L" * long + "|", ops, rank=rank)
        for rank, long in enumerate((4, 4, 7))
    ]
    (row,) = job(*ranks).operator_efficiency(over_ranks=True).rows(named=True)
    assert (row["rank"], row["rank_count"], row["worst_rank"], row["call_count"]) == (None, 3, 2, 6)
    assert (row["work_ns"], row["mean_ns"], row["min_ns"], row["max_ns"]) == (30_000, 5_000, 4_000, 7_000)
    assert (row["std_ns"], row["p50_ns"], row["rank_std_ns"]) == (1_549, None, 1_732)
    assert row["flops"] == 2 * 1024**3
    assert row["tflops"] == pytest.approx(2 * 1024**3 / 5_000 / 1_000)
    assert row["roofline_ratio"] == pytest.approx(2 * 1024**3 / 989_400 / 5_000)
    of_ranks = job(*ranks).operator_efficiency()
    assert of_ranks["above_roofline_ns"].sum() == row["above_roofline_ns"]
    assert of_ranks["worst_rank"].to_list() == [None] * 3
    assert not Analyses.operator_efficiency.findings(job(*ranks).operator_efficiency(over_ranks=True))


def test_all_ranks_together_may_be_looked_at_by_step_and_by_operator() -> None:
    text = "step |111111222222|\n" + ONE
    ranks = [shaped(text, {"M": matrix_product(64), "A": addition(9)}, rank=rank) for rank in range(2)]
    found = job(*ranks).operator_efficiency(over_ranks=True, by_step=True, by_operator=True)
    assert found.select("step", "name", "rank_count").rows() == [(1, "aten::mm", 2), (2, "aten::add", 2)]


def test_info_says_what_the_device_could_do() -> None:
    known = job(shaped(ONE, {})).info().row(0, named=True)
    assert (known["peak_type"], known["peak_tflops"], known["peak_gbps"]) == ("bf16", 989.4, 3350)
    assert known["peak_from"] == "H100 SXM5"
    unknown = job(shaped(ONE, {}, device={"name": "something"})).info().row(0, named=True)
    assert (unknown["peak_type"], unknown["peak_tflops"], unknown["peak_gbps"], unknown["peak_from"]) == (None,) * 4
    guessed = job(shaped(ONE, {}, device={"name": "new", "numSms": 10, "computeMajor": 9, "computeMinor": 0}))
    assert guessed.info()["peak_from"].item() == "10 multiprocessors of capability 9.0 at 1.83 GHz"


def test_kernels_that_a_compiler_gave_no_name_are_told_by_their_operator() -> None:
    assert of_operator("triton_red_fused_sum_1", None, "triton_") == "reduction"
    assert of_operator("triton_poi_fused_add_cos_sin_0", "triton", "triton_") == "elementwise"
    assert of_operator("Torch-Compiled Region", None, "triton_") == "elementwise"
    assert of_operator("Torch-Compiled Region", None, "ampere_bf16_s16816gemm_bf16") == "gemm"
