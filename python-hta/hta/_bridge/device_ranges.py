"""Which range of the host a range on the device shows.

A range on the device (``gpu_user_annotation``) lasts from the first to the last work launched within the host's
range of the same ``External id``, one for each stream. It is that range's work, whenever the device came to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

ON_DEVICE, ON_HOST = "gpu_user_annotation", "user_annotation"

Integers = npt.NDArray[np.int64]
_KEYS = ("external", "name")


def host_ranges(
    on_device: npt.NDArray[np.bool_],
    on_host: npt.NDArray[np.bool_],
    external: npt.NDArray[Any],
    name: npt.NDArray[Any],
) -> Integers:
    """For each row the range of the host that it shows, -1 where there is none and for all other rows.

    Args:
        on_device: Which rows are ranges on the device.
        on_host: Which rows are ranges of the host.
        external: The ``External id`` of each row; 0 and below stand for none.
        name: The name of each row, or a number that stands for it.
    """
    shown = np.full(len(name), -1, dtype=np.int64)
    device = np.flatnonzero(on_device & (external > 0))
    host = np.flatnonzero(on_host & (external > 0))
    if not len(device) or not len(host):
        return shown
    of_device, of_host = (
        pl.DataFrame({"external": external[rows], "name": name[rows], "row": rows}) for rows in (device, host)
    )
    # Where ids begin anew, as in files put together of several recordings, the last range stays, as of launches.
    found = of_device.join(of_host.unique(_KEYS, keep="last"), on=_KEYS, how="inner", suffix="_host")
    shown[found["row"].to_numpy()] = found["row_host"].to_numpy()
    return shown
