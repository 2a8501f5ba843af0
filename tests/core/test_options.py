"""Numbers that options can be."""

from __future__ import annotations

from typing import Any

import pytest

from drawing import draw
from holotrace import UsageError
from holotrace.analyses import ALL
from holotrace.analyses.stragglers import stragglers

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


@pytest.mark.parametrize(("given", "named"), [(((), {"by_stp": True}), "by_stp"), (((True,), {}), "positional")])
def test_what_an_analysis_has_no_option_for_is_told_before_ranks_are_read(given: Any, named: str) -> None:
    """What came without a name was dropped without a word, and a wrong name was told after all ranks had been read."""
    arguments, options = given
    with pytest.raises(TypeError, match=rf"^stragglers\(\) .*{named}.*; its options: by_step$"):
        stragglers(None, *arguments, **options)  # type: ignore[arg-type]
