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


def test_without_steps_all_of_the_recordings_is_compared() -> None:
    assert steps_left(account.XLA, [[143], [133]], None) == [None]


def parts_left(ranks: list[dict[str, list[int | None]]]) -> list[list[int]]:
    """When parts begin of which the work of ranks can be compared, by rank.

    Args:
        ranks: Of each, when its ``parts`` begin and how many kernels those ``run``; of each meeting, when it ``left``
            that, what it began that it had launched ``next``, if that is known, and how long it was ``held`` up.
    """
    rows = [
        {"row": account.WINDOW, "rank": rank, "start_ns": 0, "at_ns": 1_000, "count": len(ranks)}
        for rank in range(len(ranks))
    ]
    rows += [
        {"row": kind, "rank": rank, "start_ns": begun, "count": count, "time_ns": 10 * count}
        for rank, own in enumerate(ranks)
        for begun, count in zip(own["parts"], own["run"], strict=True)
        for kind in (account.WORK, account.SEGMENT)
        if begun is not None and count is not None
    ]
    visits = [
        {"match": match, "rank": rank, "left_ns": left, "next_ns": began, "time_ns": held, "clock_offset_ns": 0}
        for rank, own in enumerate(ranks)
        for match, (left, began, held) in enumerate(zip(own["left"], own["next"], own["held"], strict=True))
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"rank": pl.Int32})
    job = Job(
        frame.select("rank").hstack(filled(frame.drop("rank"), account.COLUMNS)),
        pl.DataFrame(visits, infer_schema_length=None, schema_overrides={"next_ns": pl.Int64}),
        tuple(range(len(ranks))),
        0,
    )
    left = fragments.in_common(job)
    work, segments = (left.of(kind).sort("rank", "start_ns") for kind in (account.WORK, account.SEGMENT))
    assert work["start_ns"].to_list() == segments["start_ns"].to_list()
    return [work.filter(pl.col("rank") == rank)["start_ns"].to_list() for rank in range(len(ranks))]


def of_rank(run: list[int], **others: list[int | None]) -> dict[str, list[int | None]]:
    return {"parts": [0, 100, 200, 300], "run": [*run], "left": [100, 200, 300], **others}


@pytest.mark.parametrize(
    ("ranks", "left"),
    [
        pytest.param(
            [
                of_rank([5, 4, 4, 7], next=[100, 200, 300], held=[0, 0, 0]),
                of_rank([2, 4, 4, 7], next=[100, 200, 300], held=[0, 0, 0]),
            ],
            [[100, 200, 300]] * 2,
            id="what comes before is of parts",
        ),
        pytest.param(
            [
                of_rank([5, 4, 4, 7], next=[100, None, None], held=[0, 10, 10]),
                of_rank([5, 4, 4, 6], next=[100, 200, 300], held=[0, 10, 10]),
            ],
            [[0], [0]],
            id="nobody knows what comes after a meeting on one",
        ),
        pytest.param(
            [
                of_rank([9, 9, 4, 7], next=[None, None, None], held=[0, 10, 10]),
                of_rank([5, 4, 4, 7], next=[100, 200, 300], held=[10, 10, 10]),
            ],
            [[200, 300]] * 2,
            id="one went on from what held both up",
        ),
        pytest.param(
            [
                of_rank([9, 9, 4, 7], next=[None, None, None], held=[10, 10, 10]),
                of_rank([5, 4, 4, 7], next=[100, 200, 300], held=[0, 0, 0]),
            ],
            [[], []],
            id="one went on from what the other computed beside",
        ),
    ],
)
def test_without_steps_ranks_are_compared_between_meetings_that_they_launched_the_same_before_and_after(
    ranks: list[dict[str, list[int | None]]], left: list[list[int]]
) -> None:
    """A rank that was late had ten times the work of others, which had computed the same beside their meeting."""
    assert parts_left(ranks) == left
