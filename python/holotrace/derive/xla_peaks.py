"""What the devices of an XLA profile could do at best: as the profile declares it, else by the table of devices."""

from __future__ import annotations

from typing import Any

import polars as pl

from holotrace.core.tables import DEVICES
from holotrace.core.trace import RankTrace
from holotrace.derive.device_time import DEVICE
from holotrace.derive.modelled_work import PEAKS
from holotrace.efficiency import devices

KNOWN = DEVICES.only(
    *("device", "plane", "device_kind", "vendor", "model", "capability", "core_count"),
    *("peak_flops", "peak_bandwidth"),
)
# Types of XLA, as the table of devices calls them.
_TYPES = {
    "f64": "fp64",
    "f32 highest": "fp32",
    "bf16": "bf16",
    "bf16 highest": "bf16",
    "f16": "fp16",
    "f16 highest": "fp16",
    "s8": "int8",
    "u8": "int8",
    "f4e2m1fn": "fp4",
}
_AMD = "amd"
# Threads of a wave, by which the table of devices tells makers apart.
_AMD_WARP = 64


def of(rank: RankTrace, ops: pl.DataFrame) -> pl.DataFrame:
    """``ops`` with ``peak_flops`` and ``peak_bandwidth``, per second: of GPUs those of the type they multiply in.

    Of operations without products, and of devices that neither the profile nor the table of devices tells, peak_flops
    is null.
    """
    keys = [*DEVICE, "product_type"]
    used = ops.select(keys).unique().join(rank[KNOWN], on=list(DEVICE), how="left", nulls_equal=True)
    table = rank.settings.get(PEAKS)
    peaks = [_peaks(row, table) for row in used.iter_rows(named=True)]
    schema = {"peak_flops": pl.Float64, "peak_bandwidth": pl.Float64}
    found = used.select(keys).hstack(pl.DataFrame(peaks, schema=schema, orient="row"))
    return ops.join(found, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _peaks(row: dict[str, Any], table: Any) -> tuple[float | None, float | None]:
    """Operations and bytes per second of one device in one type."""
    declared, bandwidth = row["peak_flops"], row["peak_bandwidth"]
    if declared is not None or row["device_kind"] != "GPU":
        return declared, bandwidth
    device = devices.device(row["model"] or "", _properties(row), table)
    if device is None:
        return None, bandwidth
    kind = _type(row["product_type"], is_amd=_is_amd(row))
    return device.peak(kind, is_matrix=True), bandwidth if bandwidth is not None else device.memory


def _is_amd(row: dict[str, Any]) -> bool:
    return (row["vendor"] or "").lower().startswith(_AMD)


def _properties(row: dict[str, Any]) -> dict[str, Any]:
    """What the profile says of a device, as traces of PyTorch call it."""
    found: dict[str, Any] = {"numSms": row["core_count"]} if row["core_count"] else {}
    major, _, minor = (row["capability"] or "").partition(".")
    if major.isdigit() and minor.isdigit():
        found |= {"computeMajor": int(major), "computeMinor": int(minor)}
    return found | ({"warpSize": _AMD_WARP} if _is_amd(row) else {})


def _type(name: str | None, *, is_amd: bool) -> str | None:
    """What matrix units compute a product in: those of NVIDIA leave out bits of f32, unless the program forbids it."""
    if name == "f32":
        return "fp32" if is_amd else "tf32"
    if name is not None and name.startswith("f8"):
        return "fp8"
    return _TYPES.get(name) if name is not None else None
