"""Messages between hosts, which backends such as Gloo carry out: ranges that end as their ranks wait for them."""

from __future__ import annotations

import polars as pl

# A send of one rank and the receive of another, which are one meeting.
PAIR = "send/recv"
# Backends of hosts, which the names of their operations begin with.
ON_HOSTS = "(?:gloo|mpi|ucc|ccl)"
# Of calls of ``collectives``; the sender may have waited for one before the other asks for it.
IS_MESSAGE = pl.col("operation").cast(pl.String).str.contains(rf"^{ON_HOSTS}:{PAIR}").fill_null(value=False)
IS_SENT = IS_MESSAGE & pl.col("group_ranks").cast(pl.String).str.starts_with(pl.format("[{},", "of_rank"))
