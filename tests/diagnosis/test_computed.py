"""What devices of a rank computed between meetings, by step."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.diagnosis.rank import computed


@pytest.mark.parametrize(("last_us", "bounds"), [(190, [100, 200, 300]), (230, [100, 200, 230, 300])])
def test_what_a_step_still_computes_beside_the_next_batch_is_not_of_the_next_step(
    last_us: int, bounds: list[int]
) -> None:
    """Ranks whose hosts were late had more work in that step: on others a batch got ready before the last of it."""
    ran = pl.DataFrame({"step": [5, 5, 6, 7], "start_ns": [100, 150, 200, 300], "end_ns": [150, last_us, 290, 390]})
    assert computed._bounds_of_steps(ran).sort().to_list() == bounds
