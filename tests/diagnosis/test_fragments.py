"""Of recordings that begin and end elsewhere only what all have as a whole is compared."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis.job import fragments
from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.rank import account


def steps_left(detail: str | None, counts: list[list[int]], first: int | None = 0) -> list[int | None]:
    """The steps of which the work of ranks can be compared, that run so many kernels in each; all have marked steps.

    What they run at first is of this step, or of none.
    """
    rows = [
        row
        for rank, of_rank in enumerate(counts)
        for row in [
            {"row": account.WINDOW, "rank": rank, "detail": detail},
            {"row": account.STEP, "rank": rank, "step": 0},
            *(
                {"row": kind, "rank": rank, "step": step or first, "count": count, "time_ns": 1_000 * count}
                for step, count in enumerate(of_rank)
                if count
                for kind in (account.WORK, account.SEGMENT)
            ),
        ]
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"rank": pl.Int32, "detail": pl.String})
    job = Job(frame.select("rank").hstack(filled(frame.drop("rank"), account.COLUMNS)), pl.DataFrame(), (0, 1), 0)
    left = fragments.without(job)
    work, segments = (left.of(kind)["step"].unique().sort().to_list() for kind in (account.WORK, account.SEGMENT))
    assert work == segments
    return [*work]


@pytest.mark.parametrize(
    ("detail", "counts", "left"),
    [
        (account.XLA, [[12, 66, 66, 66, 4], [8, 66, 66, 66, 11]], [1, 2, 3]),
        (account.XLA, [[66, 66, 66, 66, 66], [66, 66, 66, 66, 11]], [0, 1, 2, 3]),
        (account.XLA, [[66, 66, 30, 66, 66], [66, 66, 66, 66, 66]], [0, 1, 2, 3, 4]),
        (account.XLA, [[66, 66, 66, 66, 69], [66, 66, 66, 66, 68]], [0, 1, 2, 3]),
        (account.XLA, [[66, 66, 66, 99], [66, 66, 66, 99]], [0, 1, 2, 3]),
        (account.XLA, [[66, 66], [66, 66]], [0, 1]),
        (None, [[12, 66, 66, 66, 4], [8, 66, 66, 66, 11]], [0, 1, 2, 3, 4]),
    ],
)
def test_the_first_and_the_last_step_of_programs_count_only_where_all_ranks_have_all_of_them(
    detail: str | None, counts: list[list[int]], left: list[int]
) -> None:
    """A recording that began earlier in a program than another had more work, or uneven work, with 1 % of the job."""
    assert steps_left(detail, counts) == left


@pytest.mark.parametrize(("counts", "left"), [([143, 133], [1, 2, 3]), ([143, 143], [None, 1, 2, 3])])
def test_so_do_programs_that_were_launched_before_the_recordings(counts: list[int], left: list[int | None]) -> None:
    assert steps_left(account.XLA, [[count, 66, 66, 66] for count in counts], None) == left


@pytest.mark.parametrize(("counts", "left"), [([143, 133], []), ([143, 143], [None])])
def test_without_steps_programs_are_compared_if_all_ranks_ran_as_much_of_them(
    counts: list[int], left: list[int | None]
) -> None:
    """A recording that began earlier, or ended later, than another had more work, with 10 % of the job."""
    assert steps_left(account.XLA, [[count] for count in counts], None) == left


def test_a_step_that_only_one_rank_has_recorded_is_compared_with_none() -> None:
    assert steps_left(account.XLA, [[66, 66, 66], [66, 66, 0]]) == [0, 1]
    assert steps_left(account.XLA, [[30, 66, 66], [0, 66, 66]]) == [1, 2]
