"""Peaks of devices, by the names and properties that traces have."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from holotrace.efficiency.devices import computed_in, device, known
from holotrace.errors import InputError
from trace_files import REAL_TRACES

PEAKS = REAL_TRACES.parent / "opmodel" / "peaks.csv"
H100 = {"numSms": 132, "computeMajor": 9, "computeMinor": 0, "warpSize": 32}


@pytest.mark.skipif(not PEAKS.is_file(), reason="no table of peaks: it lies beside the real traces")
def test_agrees_with_the_table_of_vendors() -> None:
    for row in csv.DictReader(PEAKS.open()):
        for name in row["trace_name"].split("|"):
            found = device(name)
            assert found is not None, name
            dies = 2 if "two dies" in found.name else 1
            for kind in ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"):
                told = found.operations.get(kind)
                assert (told is None) == (not row[kind]), (name, kind)
                assert told is None or told * dies == pytest.approx(float(row[kind]) * 1e12)
            if row["memory_gbps"]:
                assert found.memory is not None
                assert found.memory * dies == pytest.approx(float(row["memory_gbps"]) * 1e9)


def test_device_with_fewer_multiprocessors_has_less_of_the_peaks() -> None:
    found = device("NVIDIA H100 80GB HBM3", {"numSms": 66})
    assert found is not None
    assert found.operations["bf16"] == pytest.approx(989.4e12 / 2)
    assert found.assumed == "66 of 132 multiprocessors have as much of its peaks"


def test_slice_of_a_device_has_its_share() -> None:
    found = device("NVIDIA A100-SXM4-40GB MIG 3g.20gb", {"numSms": 42})
    assert found is not None
    assert found.operations["bf16"] == pytest.approx(312e12 * 3 / 7)
    assert found.memory == pytest.approx(1555e9 / 2)
    assert found.assumed


def test_part_of_a_slice_computes_less_and_shares_its_memory() -> None:
    whole, part = (device(f"NVIDIA A100-SXM4-40GB MIG {profile}") for profile in ("3g.20gb", "1c.3g.20gb"))
    assert whole is not None and part is not None
    assert part.operations["bf16"] == pytest.approx(whole.operations["bf16"] / 3)
    assert part.memory == whole.memory


def test_slice_of_a_device_whose_name_has_no_size_has_the_usual_memory() -> None:
    found = device("NVIDIA H200 MIG 3g.71gb")
    assert found is not None
    assert found.memory == pytest.approx(4800e9 / 2)


@pytest.mark.parametrize(
    ("name", "bf16", "memory"),
    [
        ("NVIDIA H200 NVL", 835.5, 4800),
        ("NVIDIA A800-SXM4-80GB", 312, 2039),
        ("NVIDIA B300 SXM6 AC", 2250, 8000),
        ("NVIDIA GB300", 2500, 8000),
        ("NVIDIA GeForce RTX 5090", 209.5, 1792),
        ("NVIDIA A10G", 70, 600),
        ("AMD Instinct MI100", 92.3, 1228.8),
        ("AMD Instinct MI250", 191.5, 1638.5),
        ("TPU v7x", 2307, 7380),
    ],
)
def test_peaks_are_dense(name: str, bf16: float, memory: float) -> None:
    found = device(name)
    assert found is not None and found.memory is not None
    assert found.operations["bf16"] == pytest.approx(bf16 * 1e12)
    assert found.memory == pytest.approx(memory * 1e9)
    assert found.source


def test_device_that_computes_less_than_its_make_is_not_told_by_it() -> None:
    make = {"numSms": 80, "computeMajor": 9, "computeMinor": 4, "warpSize": 64}
    found = device("AMD Instinct MI308X", make)
    assert found is not None
    assert (found.peak("bf16", is_matrix=True), found.memory) == (None, 5300e9)
    for name, bf16 in (("NVIDIA H20-3e", 148), ("NVIDIA L20", 119.5)):
        capped = device(name)
        assert capped is not None and capped.operations["bf16"] == pytest.approx(bf16 * 1e12)


def test_card_for_games_sums_in_float_at_half_the_speed() -> None:
    make = {"numSms": 76, "computeMajor": 8, "computeMinor": 9, "warpSize": 32}
    game, work = device("NVIDIA GeForce RTX 4080", make), device("NVIDIA RTX 5880 Ada Generation", make)
    assert game is not None and work is not None
    assert 2 * game.operations["bf16"] == work.operations["bf16"]


def test_unknown_device_is_told_by_its_make_and_says_so() -> None:
    found = device("NVIDIA H100 of tomorrow", H100)
    assert found is not None
    assert found.operations["bf16"] == pytest.approx(989.4e12, rel=1e-3)
    assert found.memory is None
    assert found.assumed == "132 multiprocessors of capability 9.0 at 1.83 GHz"


def test_amd_device_without_a_name_is_not_taken_for_one_of_nvidia() -> None:
    found = device("", {"numSms": 304, "computeMajor": 9, "computeMinor": 4, "warpSize": 64})
    assert found is not None
    assert found.operations["bf16"] == pytest.approx(1307.4e12, rel=1e-3)


def test_nothing_is_known_of_a_device_without_name_and_make() -> None:
    assert device("ARTEMIS", {}) is None


def test_memory_of_an_engineering_board_tells_its_bandwidth() -> None:
    small = device("NVIDIA A100-PG509-200", {"totalGlobalMem": 42_297_524_224})
    large = device("NVIDIA PG509-210", {"totalGlobalMem": 84_990_623_744})
    assert small is not None and large is not None
    assert (small.memory, large.memory) == (1555e9, 2039e9)


def test_own_peaks_go_first(tmp_path: Path) -> None:
    file = tmp_path / "peaks.toml"
    file.write_text('[[device]]\nname = "mine"\nnames = ["NVIDIA H200"]\nbf16 = 700\nmemory_gbps = 4000\n')
    found = device("NVIDIA H200", H100, known(file))
    assert found is not None
    assert (found.peak("bf16", is_matrix=True), found.memory) == (700e12, 4000e9)


@pytest.mark.parametrize(
    "text", ["[[device]]", "nonsense", '[[device]]\nname = "x"\nbf17 = 1', '[[device]]\nname = "x"\nbf16 = -1']
)
def test_table_that_is_none_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "peaks.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"peaks\.toml"):
        known(file)


def test_kernel_tells_tf32_from_fp32() -> None:
    assert computed_in("fp32", "ampere_sgemm_128x64_tn") == "fp32"
    assert computed_in("fp32", "cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4") == "tf32"
    assert computed_in("fp32", "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32") == "tf32"
    assert computed_in("fp32", "nvjet_sss_128x64_64x8_2x1_v_bz_TNN") == "tf32"
    assert computed_in("bf16", "anything") == "bf16"


def test_type_is_told_by_the_kernel_where_the_operands_do_not() -> None:
    assert computed_in(None, "nvjet_tst_128x256") == "bf16"
    assert computed_in(None, "nvjet_sm100_tst_128x192_64x7_2x1_2cta_h_bz_TNT") == "bf16"
    assert computed_in(None, "nvjet_sm100_hsh_64x8_64x16_4x1_v_bz_TNN") == "fp16"
    assert computed_in(None, "nvjet_sm103_ootst_Avec16UE4M3_Bvec16UE4M3_128x256_256x4_2x1_2cta_h_bz_TNT") == "fp4"
    assert computed_in(None, "nvjet_qqtst_128x128_128x6_2x1_v_bz_Avec32UE8M0_Bvec32UE8M0_TNT") == "fp8"
    assert computed_in(None, "deep_gemm::fp8_gemm_kernel_e4m3") == "fp8"
    assert computed_in(None, "turing_fp16_s1688gemm_fp16_128x64_ldg8_f2f_tn") == "fp16"
    assert computed_in(None, "cutlass_75_tensorop_f16_s1688gemm_f16_128x64_nn_align8") == "fp16"


@pytest.mark.parametrize(
    ("name", "multiprocessors", "capability", "bf16", "int8"),
    [
        # Of vendors' tables; where sums are in float.
        ("NVIDIA RTX A5000", 64, (8, 6), 111, 222),
        ("NVIDIA GeForce RTX 3080", 68, (8, 6), 59.5, 238),
        ("NVIDIA RTX 5000 Ada Generation", 100, (8, 9), 261, 522),
        ("NVIDIA GeForce RTX 4080", 76, (8, 9), 97.5, 390),
        ("NVIDIA GeForce RTX 5080", 84, (12, 0), 112.6, 450),
        ("NVIDIA RTX PRO 5000 Blackwell", 110, (12, 0), 279, 558),
    ],
)
def test_card_that_is_told_by_its_make_sums_whole_numbers_at_full_speed(
    name: str, multiprocessors: int, capability: tuple[int, int], bf16: float, int8: float
) -> None:
    make = {"numSms": multiprocessors, "computeMajor": capability[0], "computeMinor": capability[1], "warpSize": 32}
    found = device(name, make)
    assert found is not None
    assert found.operations["bf16"] == pytest.approx(bf16 * 1e12, rel=0.1)
    assert found.operations["int8"] == pytest.approx(int8 * 1e12, rel=0.1)


def test_units_that_a_make_may_not_have_have_no_peak() -> None:
    found = device("NVIDIA B300 of tomorrow", {"numSms": 148, "computeMajor": 10, "computeMinor": 3, "warpSize": 32})
    assert found is not None
    assert found.peak("int8", is_matrix=True) is None
    assert found.peak("bf16", is_matrix=True) == pytest.approx(2250e12, rel=0.01)
    found = device("", {"numSms": 256, "computeMajor": 9, "computeMinor": 5, "warpSize": 64})
    assert found is not None
    assert found.peak("tf32", is_matrix=True) is None


def test_module_is_the_device_on_it() -> None:
    assert device("AMD Instinct MI300X OAM") == device("AMD Instinct MI300X")
