"""What copies between a host and its device are called: by CUPTI, by ROCm, and by Intel's PTI.

PTI's H is memory of the host that is page-locked, its M any other. ROCm does not tell the two apart.
"""

from __future__ import annotations

TO_DEVICE = r"HtoD|\b[HM]2D\b|Host -> Device|HOST_TO_DEVICE"
TO_HOST = r"(?i:DtoH|\bD2[HM]\b|Device -> (Pageable|Pinned|Host|Memory))"
# Over the link between both.
LINK = rf"{TO_HOST}|{TO_DEVICE}"
WITHIN = r"(?i:DtoD|Device -> Device|DEVICE_TO_DEVICE)"
PINNED = r"Pinned|\bHOST\b"
PAGEABLE = r"Pageable|\bMEMORY\b"
# As fast as can be, for all that is known.
MAY_BE_PINNED = r"(?i:(Pinned|Host) -> Device|Device -> (Pinned|Host))"
