"""What a job without causes is said to be limited by, if its ranks are stages of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest

from holotrace.present.pipeline import waiting

STEPS = 5


def tables(messages: Mapping[int, tuple[int, int]], exposed_ratio: float = 0.3) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The communication and the breakdown of ranks that send and receive so many messages, and do so alone so long."""
    exposed_ns = round(1e9 * exposed_ratio)
    communication = pl.DataFrame(
        [
            {"rank": rank, "collective": name, "count": count, "exposed_ns": exposed_ns // 2}
            for rank, counts in messages.items()
            for name, count in zip(("send", "recv"), counts, strict=True)
        ]
    )
    parts = {"compute_ns": 10**9 - exposed_ns, "exposed_comm_ns": exposed_ns, "exposed_memory_ns": 0, "idle_ns": 0}
    breakdown = pl.DataFrame([{"rank": rank, **parts} for rank in messages])
    return communication, breakdown


def row(stages: int, batches: int, *, replicas: int = 1) -> dict[int, tuple[int, int]]:
    """What ranks of so many equal pipelines send and receive."""
    ends = {0, stages - 1}
    each = [batches * STEPS * (1 if stage in ends else 2) for _ in range(replicas) for stage in range(stages)]
    return {rank: (count, count) for rank, count in enumerate(each)}


def test_stages_are_said_to_wait_for_each_other_with_what_an_even_pipeline_waits() -> None:
    """A pipeline that waits a third of its time lost nothing that was told, and nobody said why it waits."""
    said = waiting(*tables(row(4, 8)), STEPS)
    assert "wait for each other 30%" in said
    # Three of eleven turns.
    assert "4 even stages with 8 micro-batches in each step wait 27%" in said


def test_without_steps_nobody_knows_how_many_micro_batches_are_of_one() -> None:
    assert waiting(*tables(row(4, 8)), 1) == "Stages of the pipeline wait for each other 30% of the time."


def test_several_pipelines_have_as_many_stages_as_one() -> None:
    assert "4 even stages with 8 micro-batches" in waiting(*tables(row(4, 8, replicas=2)), STEPS)


def test_a_schedule_that_waits_for_less_is_of_another_kind() -> None:
    said = waiting(*tables(row(4, 2), 0.2), STEPS)
    assert said == "Stages of the pipeline wait for each other 20% of the time."


@pytest.mark.parametrize(
    "messages",
    [
        # A ring, and stages that have several parts of the model each.
        dict.fromkeys(range(4), (40, 40)),
        # Two ranks may exchange anything.
        row(2, 8),
        # Not all that are sent are received by somebody of these.
        {0: (40, 0), 1: (40, 40), 2: (0, 40)},
        # A fraction of a micro-batch.
        {rank: (sent + 1, sent + 1) for rank, (sent, _) in row(4, 8).items()},
    ],
)
def test_nothing_is_said_of_ranks_that_exchange_messages_in_another_way(messages: dict[int, tuple[int, int]]) -> None:
    assert waiting(*tables(messages), STEPS) == ""


def test_nothing_is_said_where_stages_hardly_wait_or_nobody_communicates() -> None:
    assert waiting(*tables(row(4, 64), 0.04), STEPS) == ""
    assert waiting(None, None, STEPS) == ""
    communication, breakdown = tables(dict.fromkeys(range(4), (0, 0)))
    assert waiting(communication, breakdown, STEPS) == ""
    assert waiting(communication.clear(), breakdown, STEPS) == ""
    # Others of the job are no stages.
    communication, breakdown = tables(row(4, 8))
    more = pl.concat([breakdown, breakdown.with_columns(rank=pl.col("rank") + 4)])
    assert waiting(communication, more, STEPS) == ""
