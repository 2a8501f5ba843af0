"""Operators that take longer than they need to, held against others of their kind."""

from __future__ import annotations

import polars as pl

from holotrace.diagnosis.rank import inefficient
from holotrace.diagnosis.words.classes import INEFFICIENT, WRONG_TYPE
from shaped import shaped

US = 1_000


def call(roof_us: int, took_us: int, types: str = "BFloat16", peak: float = 300.0) -> dict[str, object]:
    """A product of matrices whose work the device could do in a time, and what it took."""
    given = {"category": "gemm", "bound_by": "compute", "confidence": "exact", "input_types": types, "kernel": types}
    times = {"roof_ns": float(roof_us * US), "span_ns": took_us * US, "moved_bytes": 1, "peak_bytes": 1.0}
    return {**given, **times, "peak_flops": peak, "flops": int(roof_us * US * peak)}


def told(*calls: dict[str, object], tf32: float | None = None) -> list[tuple[int | None, str]]:
    rows = inefficient.with_excess(pl.LazyFrame(list(calls)), tf32).collect()
    return [(None if saved is None else saved // US, cause) for saved, cause in rows.select("time_ns", "cause").rows()]


def test_a_product_far_from_the_limit_is_held_against_those_that_come_near_it() -> None:
    near, far = call(50, 100), call(50, 500)
    assert told(near, far) == [(None, INEFFICIENT), (400, INEFFICIENT)]


def test_where_all_are_as_far_from_the_limit_none_is_told() -> None:
    assert [saved for saved, _ in told(call(50, 500), call(40, 400))] == [None, None]


def test_a_product_in_fp32_is_held_against_the_rate_of_those_in_16_bits() -> None:
    narrow = call(50, 100)
    # As much work as the other, on units that do a sixteenth.
    wide = {**call(800, 1_000, "float", 300 / 16), "flops": narrow["flops"]}
    assert told(narrow, wide)[1] == (900, WRONG_TYPE)


def test_fp32_is_wrong_where_its_units_do_a_quarter_of_what_those_for_16_bits_do() -> None:
    """Such as those of an L40S or an A10, where such a product took four times as long and nothing was said."""
    wide = {**call(200, 400, "float", 300 / 4), "flops": call(50, 100)["flops"]}
    assert told(call(50, 100), wide)[1] == (300, WRONG_TYPE)
    # With TF32 it is half.
    assert told(call(50, 100), {**wide, "peak_flops": 150.0})[1] == (None, INEFFICIENT)


def test_what_is_faster_than_units_for_fp32_is_not_computed_by_them() -> None:
    """Some libraries name kernels for XF32 as those for fp32."""
    wide = {**call(200, 120, "float", 300 / 4), "flops": call(50, 100)["flops"]}
    assert told(call(50, 100), wide)[1] == (None, INEFFICIENT)


def test_a_product_in_fp32_still_moves_half_of_its_bytes_in_16_bits() -> None:
    """A router of experts has hardly any columns: in 16 bits the memory would limit it."""
    narrow = call(50, 100)
    # 390 kB at 0.78 of 1 byte a nanosecond; of the operations hardly anything is left.
    wide = {**call(800, 1_000, "float", 300 / 16), "flops": 1_000, "moved_bytes": 780_000}
    assert told(narrow, wide)[1] == (500, WRONG_TYPE)


def test_products_of_8_bits_are_narrow_and_those_of_16_tell_what_autocast_gives() -> None:
    """A job whose other products are all in fp8 or int8 was taken for one without narrow types."""
    wide = {**call(800, 1_000, "float", 300 / 16), "flops": call(50, 100)["flops"]}
    for kind in ("c10::Float8_e4m3fn", "signed char"):
        assert told(call(50, 100, kind), wide)[1] == (900, WRONG_TYPE)
    fp8 = call(10, 20, '["c10::Float8_e4m3fn","c10::Float8_e4m3fn","c10::BFloat16"]', 600.0)
    assert told(fp8, call(50, 100), wide)[2] == (900, WRONG_TYPE)


def in_fp32(took_us: int, kernel: str = "cutlass_80_simt_sgemm_128x256_8x4_nt_align1") -> dict[str, object]:
    """A product that takes 75 us at the peak for fp32, 10 at that for TF32."""
    return {**call(75, took_us, "float", 67.0), "kernel": kernel}


def test_where_all_products_are_in_fp32_they_are_held_against_what_tf32_would_take() -> None:
    # At 0.6 of the peak 10 us take 17.
    assert told(in_fp32(100), tf32=75 * 67.0 / 10) == [(83, WRONG_TYPE)]


def test_products_in_fp32_that_its_units_do_not_limit_or_that_have_no_other_are_not_told() -> None:
    tf32 = 75 * 67.0 / 10
    of_tensor_cores = in_fp32(100, "cutlass_80_tensorop_s1688gemm_128x256_16x3_nt_align4")
    slow, faster_than_the_units = in_fp32(300), in_fp32(60)
    for product in (of_tensor_cores, slow, faster_than_the_units):
        assert told(product, tf32=tf32) == [(None, INEFFICIENT)]
    # A device whose units for TF32 are none, or hardly faster.
    assert told(in_fp32(100)) == told(in_fp32(100), tf32=2 * 67.0) == [(None, INEFFICIENT)]


def test_products_in_fp32_without_recorded_sizes_are_told_by_their_kernels() -> None:
    """Without shapes nothing was said of them, as nobody knew how much they computed."""
    kernels = (
        "ampere_sgemm_128x128_tn",
        "cutlass_80_simt_sgemm_128x256_8x4_nt_align1",
        "cutlass_80_tensorop_s1688gemm_128x256_16x3_nt_align4",
        "ampere_bf16_s16816gemm_bf16_128x128",
        "void precomputed_convolve_sgemm<__nv_bfloat16, 1024, 5, 5, 4, 3, 3, 1, false>(int, int, int)",
    )
    work = [(number, kernel, 100) for number, kernel in enumerate(kernels)]
    # One that is too short, and one of which the sizes are known.
    work += [(5, kernels[0], 10), (6, kernels[0], 100)]
    calls = pl.LazyFrame(
        {"op_id": range(7), "input_dims": [None] * 6 + ["[]"]}, schema_overrides={"input_dims": pl.String}
    )
    told = events(*work)
    # At 0.75 of the peak, and at 0.6 of one eight times as high.
    found = inefficient.of_unknown_sizes(calls, told, 8.0).collect()
    assert found.select("op_id", "time_ns", "cause").rows() == [
        (number, round(100 * US * (1 - 0.75 / 4.8)), WRONG_TYPE) for number in range(2)
    ]
    assert inefficient.of_unknown_sizes(calls, told, 2.0).collect().is_empty()


def test_of_products_without_recorded_sizes_only_those_in_fp32_are_told_though_one_operator_calls_all() -> None:
    """One layer in fp32 was worth more than all that it took: each call of the operator seemed to be in fp32."""
    calls = pl.LazyFrame({"op_id": range(9), "input_dims": pl.Series([None] * 9, dtype=pl.String)})
    work = [(0, "ampere_sgemm_128x128_tn", 400)]
    work += [(number, "ampere_bf16_s16816gemm_bf16_128x128", 30) for number in range(1, 9)]
    assert inefficient.of_unknown_sizes(calls, events(*work), 8.0).collect()["op_id"].to_list() == [0]


def test_fp32_of_unknown_sizes_is_held_against_16_bits_where_other_products_have_them() -> None:
    """An L40S does hardly more with TF32, and names of Tensile for fp32 were not read: nothing was told."""
    l40s, mi300x = ({"name": name} for name in ("NVIDIA L40S", "AMD Instinct MI300X"))
    tensile = "Cijk_Ailk_Bljk_{}_Bias_HA_S_SAV_UserArgs_MT128x128x16"
    sgemm, narrow = "ampere_sgemm_128x64_tn", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
    text = f"op |MMMNNN|\nhost |.M..N.|\ncompute |....{'M' * 100}{'N' * 100}|"
    product = ("aten::mm", None, None, None)

    def found(device: dict[str, str], wide: str, other: str) -> list[int]:
        rank = shaped(text, {"M": product, "N": product}, {"M": wide, "N": other}, device=device)
        return inefficient.calls(rank)["time_ns"].to_list()

    # At 0.75 of the peak in fp32, and at 0.6 of that in bf16.
    assert found(l40s, sgemm, narrow) == [round(100_000 * (1 - 0.75 * 91.6 / (0.6 * 362)))]
    assert found(mi300x, tensile.format("SB"), tensile.format("BBS_BH")) == [
        round(100_000 * (1 - 0.75 * 163.4 / (0.6 * 1307.4)))
    ]
    assert found(l40s, sgemm, "elementwise") == found(l40s, narrow, narrow) == []


def test_fp32_in_a_graph_of_the_device_is_told_by_its_kernels() -> None:
    """No operator launches these: four fifths of a job were such a product, and nothing was told."""
    kernels = {"M": "ampere_sgemm_128x64_tn", "N": "ampere_bf16_s16816gemm_bf16_128x128_tn", "K": "elementwise"}
    text = f"op |K..........|\nhost |K...M...N..|\ncompute |.K..........{'M' * 100}{'N' * 100}|"
    found = inefficient.calls(shaped(text, {"K": ("aten::add", None, None, None)}, kernels))
    saved_ns = round(100_000 * (1 - 0.75 * 66.9 / (0.6 * 989.4)))
    assert found.select("time_ns", "cause", "name").rows() == [(saved_ns, WRONG_TYPE, kernels["M"])]


def events(*work: tuple[int, str, int]) -> pl.LazyFrame:
    """The kernels of calls: the call, the name, and what it takes in us."""
    rows = [{"op_id": call, "name": name, "share_ns": took_us * US} for call, name, took_us in work]
    return pl.LazyFrame(rows)
