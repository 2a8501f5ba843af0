"""A link is slow if what is as large takes longer on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
import pytest

from holotrace.diagnosis.job import links
from holotrace.diagnosis.job.candidates import Job

# How long transfers of three pairs of ranks take.
USUAL, SLOW = ((0, 1), (1, 2)), (2, 3)


def slow_links(
    time_ns: Callable[[bool, int], float], elements: Callable[[bool, int], int | None], nodes: int = 1
) -> dict[int, float]:
    """What the transfers of a link that is found to be slow would take relative to what they do.

    Args:
        time_ns: Of the transfer of a pair that is slow, or not, in a step.
        elements: What is sent in it.
        nodes: Over how many nodes the pair is that is slow; the others are within one.
    """
    meetings = pl.DataFrame(
        [
            {
                "match": 10 * pair[0] + step,
                "collective": "all_to_allv",
                "element_count": elements(pair == SLOW, step),
                "element_type": None,
                "size": 2,
                "node_count": nodes if pair == SLOW else 1,
                "member_ranks": list(pair),
                "group_ranks": None,
                "absent": 0,
                "transfer_ns": round(time_ns(pair == SLOW, step)),
                "step": step,
            }
            for pair in (*USUAL, SLOW)
            for step in range(8)
        ],
        schema_overrides={"element_count": pl.Int64, "element_type": pl.String},
    )
    found = list(links.of_groups(meetings))
    assert {candidate.ranks for candidate in found} <= {SLOW}
    return {match: round(ratio, 2) for candidate in found for match, ratio in candidate.change.transfer.items()}


@pytest.mark.parametrize(("elements", "ratio"), [(1_000, 0.2), (None, None)])
def test_messages_of_unknown_size_are_no_witness_of_a_slow_link(elements: int | None, ratio: float | None) -> None:
    found = slow_links(lambda is_slow, _: 500 if is_slow else 100, lambda *_: elements)
    assert found == ({20 + step: ratio for step in range(8)} if ratio else {})


@pytest.mark.parametrize(("spread", "is_told"), [(0.02, True), (0.2, False)])
def test_a_link_is_slow_by_less_if_hardly_a_transfer_is_as_short_as_those_of_others(
    spread: float, is_told: bool
) -> None:
    found = slow_links(
        lambda is_slow, step: (1_300 if is_slow else 1_000) * (1 + spread * (step % 4 - 1.5)), lambda *_: 1_000
    )
    assert bool(found) is is_told
    assert all(ratio == pytest.approx(1 / 1.3, abs=0.02) for ratio in found.values())


def test_where_each_transfer_has_its_own_size_rates_are_compared() -> None:
    """A link was not told as slow in a job of experts, or only of the few exchanges that were as large as others."""

    def elements(is_slow: bool, step: int) -> int:
        return 1_000 + 7 * step + (3 if is_slow else 0)

    found = slow_links(lambda is_slow, step: elements(is_slow, step) * (2 if is_slow else 1), elements)
    assert found == {20 + step: 0.5 for step in range(8)}


@pytest.mark.parametrize("factor", [0.6, 1.6])
def test_a_link_is_not_slow_for_sending_less_in_as_long_or_more_in_longer(factor: float) -> None:
    def elements(is_slow: bool, step: int) -> int:
        return round((1_000 + 7 * step) * (factor if is_slow else 1))

    assert slow_links(lambda is_slow, step: max(1_000, elements(is_slow, step)), elements) == {}


@pytest.mark.parametrize(("nodes", "is_told"), [(1, True), (2, False)])
def test_links_between_nodes_are_not_held_against_those_within(nodes: int, is_told: bool) -> None:
    """Stages of a pipeline that are next to each other on two nodes were told to have a slow link."""
    found = slow_links(lambda is_slow, _: 500 if is_slow else 100, lambda *_: 1_000, nodes)
    assert bool(found) is is_told


@pytest.mark.parametrize(
    ("devices", "counts"), [((0, 1, 0, 1), [1, 2]), ((0, 0, 0, 0), [2, 2]), ((0, 1, None, 1), [1, None])]
)
def test_ranks_of_a_node_are_as_far_beyond_their_devices(
    devices: Sequence[int | None], counts: list[int | None]
) -> None:
    windows = pl.DataFrame({"row": "window", "rank": range(4), "device": devices})
    visits = pl.DataFrame({"match": [0, 0, 1, 1], "rank": [0, 1, 1, 2]})
    found = links.nodes(Job(windows, visits, (0, 1, 2, 3), 0)).sort("match")
    assert found["node_count"].to_list() == counts


@pytest.mark.parametrize(("instruction", "ranks"), [("step/all-reduce.7", [SLOW]), (None, [])])
def test_one_instruction_of_a_program_sends_as_much_in_each_group(
    instruction: str | None, ranks: list[tuple[int, ...]]
) -> None:
    """Of profiles without sizes a slow link was told as communication that is exposed, on all ranks."""
    meetings = pl.DataFrame(
        [
            {"match": 10 * pair[0] + step, "member_ranks": list(pair), "step": step, "come_ns": step, "absent": 0}
            | dict.fromkeys(("transfer_ns", "exposed_transfer_ns"), 500 if pair == SLOW else 100)
            | {"collective": "allreduce", "element_count": None, "element_type": None, "size": 2, "node_count": None}
            | {"group": instruction, "group_ranks": None}
            for pair in (*USUAL, SLOW)
            for step in range(8)
        ],
        schema_overrides={"element_count": pl.Int64, "element_type": pl.String, "group": pl.String},
    )
    found = list(links.awaited(meetings))
    assert [link.ranks for link in found] == ranks
    assert all(ratio == pytest.approx(0.2) for link in found for ratio in link.change.transfer.values())


def test_devices_of_the_same_ranks_may_have_links_of_their_own() -> None:
    """One device of each host reduces with those of the others: a slow link of one of these groups was not told."""
    groups = {"[0, 2]": 100, "[1, 3]": 500}
    meetings = pl.DataFrame(
        [
            {"match": 10 * place + step, "member_ranks": [0, 1], "group_ranks": group, "step": step}
            | {
                "transfer_ns": took_ns,
                "absent": 0,
                "collective": "allreduce",
                "element_count": 1_000,
                "element_type": None,
                "size": 2,
                "node_count": None,
            }
            for place, (group, took_ns) in enumerate(groups.items())
            for step in range(8)
        ],
        schema_overrides={"element_type": pl.String},
    )
    (link,) = links.of_groups(meetings)
    assert link.ranks == (0, 1)
    assert link.change.transfer == pytest.approx({10 + step: 0.2 for step in range(8)})
    assert link.evidence["than"] == "with equal size in other groups than that of devices 1, 3"


def test_programs_of_several_sizes_with_the_same_name_make_no_slow_link() -> None:
    """A server's prompts of a few sizes: each group took longer in the mean than is usual, and both had slow links."""
    meetings = pl.DataFrame(
        [
            {"match": 100 * rank + at, "member_ranks": [rank], "step": None, "come_ns": at, "absent": 0}
            | dict.fromkeys(("transfer_ns", "exposed_transfer_ns"), 500 if at % 4 == 0 else 100)
            | {"collective": "all_to_all", "element_count": None, "element_type": None, "size": 4, "node_count": None}
            | {"group": "jit_prefill/all-to-all.7", "group_ranks": None}
            for rank in (0, 1)
            for at in range(20)
        ],
        schema_overrides={"element_count": pl.Int64, "element_type": pl.String, "step": pl.Int64},
    )
    assert list(links.awaited(meetings)) == []


def test_a_link_is_no_more_than_a_hundred_times_as_slow_as_others_whose_transfers_are_all_hidden() -> None:
    """It was said to take at least 8004 times as long, since of its own transfers nothing is hidden."""
    meetings = pl.DataFrame(
        [
            {"match": 10 * pair[0] + step, "member_ranks": list(pair), "step": step, "come_ns": step, "absent": 0}
            | dict.fromkeys(("transfer_ns", "exposed_transfer_ns"), 8_004 if pair == SLOW else 0)
            | {"collective": "send", "element_count": 1_000, "element_type": None, "size": 2, "node_count": None}
            | {"group": "step/send.7", "group_ranks": None}
            for pair in (*USUAL, SLOW)
            for step in range(8)
        ],
        schema_overrides={"element_type": pl.String},
    )
    (link,) = links.awaited(meetings)
    assert (link.ranks, link.evidence["time_ratio"]) == (SLOW, 100)


def test_a_group_that_once_stands_still_for_a_transfer_has_no_slow_link() -> None:
    """It was said to take at least 0.00 times as long as others: of most of its transfers all is hidden."""
    meetings = pl.DataFrame(
        [
            {"match": 10 * pair[0] + step, "member_ranks": list(pair), "step": step, "come_ns": step, "absent": 0}
            | dict.fromkeys(("transfer_ns", "exposed_transfer_ns"), 500 if pair == SLOW and step == 3 else 0)
            | {"collective": "allreduce", "element_count": 1_000, "element_type": None, "size": 2, "node_count": None}
            | {"group": "step/all-reduce.7", "group_ranks": None}
            for pair in (*USUAL, SLOW)
            for step in range(8)
        ],
        schema_overrides={"element_type": pl.String},
    )
    assert list(links.awaited(meetings)) == []
