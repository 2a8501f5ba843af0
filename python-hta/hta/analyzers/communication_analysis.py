"""How communication and computation run side by side."""

from __future__ import annotations

import pandas as pd
import polars as pl

from hta import figures, frames
from hta.analyzers.device_job import device_job
from hta.common.trace import Trace


class CommunicationAnalysis:
    """Questions about communication."""

    @classmethod
    def get_comm_comp_overlap(cls, t: Trace, visualize: bool = True) -> pd.DataFrame:
        """What percentage of each rank's communication ran while the rank computed; NaN without communication."""
        job = device_job(t, {"COMPUTATION": "compute", "COMMUNICATION": "communication"})
        percentage = (100 * pl.col("hidden_ratio")).round(2)
        table = frames.to_pandas(job.overlap().select("rank", comp_comm_overlap_pctg=percentage))
        if visualize:
            figures.comm_comp_overlap(table).show()
        return table
