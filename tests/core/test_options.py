"""Numbers that options can be."""

from __future__ import annotations

from typing import Any

import pytest

from drawing import draw
from holotrace import UsageError
from holotrace.analyses import ALL

MOST = 2**63 - 1
WHOLE = [
    (analysis, parameter.name)
    for analysis in ALL
    for parameter in analysis.parameters
    if "int" in str(parameter.annotation)
]


@pytest.mark.parametrize(("analysis", "option"), WHOLE, ids=lambda value: getattr(value, "name", value))
def test_an_option_may_be_as_large_as_any_number_in_a_table(analysis: Any, option: str) -> None:
    job = draw("host |A..B..|\ncompute |.A..B.|")
    schema = {column.name: column.unit.dtype for column in analysis.columns}
    assert analysis(job, **{option: MOST}).schema == schema
    try:
        assert analysis(job, **{option: MOST + 1}).schema == schema
    except UsageError as error:
        assert (
            str(error) == f"{option} is {MOST + 1}; it can be any whole number from {str(error).split()[-3]} to {MOST}"
        )
