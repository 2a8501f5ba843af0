"""A collective waits for its last rank and then moves data; bandwidth is of the moving."""

from __future__ import annotations

from typing import Any

import pytest

from drawing import US, described, draw, moved, trace
from holotrace import Finding, Job, RankTrace
from holotrace.analyses.communication import communication
from holotrace.present.wording import sentence

EARLY = "compute |A......|\ncomm |.CCCCC.|"
LATE = "compute |AAA....|\ncomm |....CC.|"


def findings(job: Job, rule: str) -> list[Finding]:
    return [finding for finding in communication.findings(job.communication()) if finding.rule == rule]


def job_of(*drawings: str, **args: Any) -> Job:
    """A group of one rank per drawing, all of whose communication kernels have these args."""
    known = {"sequence": [1], "group": "0", "group_size": len(drawings), "collective": "allreduce"}
    ranks = (described(trace(text, number), **(known | args)) for number, text in enumerate(drawings))
    return Job.from_ranks(dict(enumerate(ranks)))


def test_waiting_for_the_last_rank_and_moving_data_sum_to_the_kernels_time() -> None:
    rows = draw(EARLY, EARLY, LATE).communication().rows_by_key("rank", named=True, unique=True)
    early, late = rows[0], rows[2]
    assert (early["total_ns"], early["waited_ns"], early["moving_ns"]) == (5 * US, 3 * US, 2 * US)
    assert (late["total_ns"], late["waited_ns"], late["moving_ns"]) == (2 * US, 0, 2 * US)
    assert (early["count"], early["compared_count"]) == (1, 1)


def test_what_computation_hides_is_neither_exposed_nor_lost() -> None:
    busy = "compute |AAAA....|\ncomm |.CCCCCC.|"
    job = draw(busy, busy, "compute |A.......|\ncomm |......C.|")
    row = job.communication().filter(rank=0).to_dicts()[0]
    assert (row["waited_ns"], row["exposed_ns"], row["lost_ns"]) == (5 * US, 3 * US, 2 * US)


def test_clocks_that_are_apart_change_nothing() -> None:
    ranks = [trace(EARLY, 0), trace(EARLY, 1), trace(LATE, 2)]
    apart = Job.from_ranks({0: moved(ranks[0], 1_734_251), 1: ranks[1], 2: ranks[2]})
    assert apart.communication().equals(Job.from_ranks(dict(enumerate(ranks))).communication())


def test_without_another_rank_waiting_is_not_known_and_all_is_moving() -> None:
    (row,) = draw(EARLY).communication().to_dicts()
    assert (row["compared_count"], row["waited_ns"], row["lost_ns"], row["moving_ns"]) == (0, None, None, 5 * US)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("allreduce", 1.5),
        ("all_reduce_coalesced", 1.5),
        ("_allgather_base", 0.75),
        ("reduce_scatter_tensor_coalesced", 0.75),
        ("all_to_allv", 0.75),
        ("broadcast", 1.0),
        ("send", 1.0),
        ("something_else", None),
    ],
)
def test_bus_bandwidth_is_what_a_link_carries_whatever_the_groups_size(collective: str, factor: float | None) -> None:
    job = job_of(*["comm |CCCC|"] * 4, collective=collective, in_elements=1000, out_elements=4000, element_type="Half")
    (row, *_) = job.communication().to_dicts()
    assert row["message_bytes"] == 8000
    assert row["bus_gbps"] == (None if factor is None else pytest.approx(factor * 8000 / 4000))


@pytest.mark.parametrize(
    ("element_type", "size"),
    [
        ("c10::BFloat16", 2),
        ("BFloat16", 2),
        ("Float", 4),
        ("Long", 8),
        ("Byte", 1),
        ("ComplexDouble", 16),
        ("Float8_e4m3fn", 1),
        ("f32", 4),
        ("f8e4m3fn", 1),
        ("pred", 1),
        ("unheard of", None),
        ("", None),
        (None, None),
    ],
)
def test_a_message_has_as_many_bytes_as_its_elements(element_type: str | None, size: int | None) -> None:
    table = job_of("comm |CCCC|", "comm |CCCC|", out_elements=1000, element_type=element_type).communication()
    assert table["message_bytes"].to_list() == [None if size is None else 1000 * size] * 2


def test_of_a_scatter_whose_input_is_unknown_all_outputs_count() -> None:
    args = {"collective": "reduce_scatter", "element_type": "f32", "out_elements": 1000}
    assert job_of("comm |CC|", "comm |CC|", **args).communication()["message_bytes"].to_list() == [8000, 8000]


def test_absurd_sizes_have_no_bandwidth() -> None:
    for elements in (-1, 2**62):
        table = job_of("comm |CC|", "comm |CC|", in_elements=elements, element_type="Float").communication()
        assert table["message_bytes"].to_list() == table["bus_gbps"].to_list() == [None, None]


def test_each_step_has_its_own_rows() -> None:
    one = "step |111222|\nhost |A..B..|\ncomm |AAA.BB|"
    table = job_of(one, one, sequence=[1, 2]).communication(by_step=True)
    assert table.select("rank", "step", "total_ns").rows() == [(0, 1, 3000), (0, 2, 2000), (1, 1, 3000), (1, 2, 2000)]


def sizes(*elements: int, of: str = "comm |AAAA.BBBB|") -> Job:
    args = {"sequence": list(range(len(elements))), "in_elements": list(elements), "element_type": "Float"}
    return job_of(of, of, **args)


def test_small_messages_cost_what_large_ones_would_not() -> None:
    (found,) = findings(sizes(100, 1_000_000), "small-messages")
    assert found.ranks == (0, 1)
    assert sentence(found) == "Small messages (1 of less than 1 MiB on a rank) take longer than their bytes need"
    assert found.cost_ns == 4 * US - 1
    assert findings(sizes(1_000_000, 1_000_000), "small-messages") == []


def test_small_messages_behind_computation_cost_nothing() -> None:
    hidden = "compute |XXXXX....|\ncomm |AAAA.BBBB|"
    assert findings(sizes(100, 1_000_000, of=hidden), "small-messages") == []


def grouped(*drawings: str, name: str = "") -> Job:
    """Groups of two ranks, named by number or all alike, each with one drawing."""
    ranks: dict[int, RankTrace] = {}
    for number, text in enumerate(drawings):
        for rank in (2 * number, 2 * number + 1):
            members = f"[{2 * number}, {2 * number + 1}]"
            args = {
                "group": name or str(number),
                "group_ranks": members,
                "group_description": "tensor parallel",
                "group_size": 2,
                "sequence": [1],
            }
            ranks[rank] = described(
                trace(text, rank), **args, collective="allreduce", in_elements=1_000_000, element_type="Float"
            )
    return Job.from_ranks(ranks)


def test_a_group_on_a_slow_link_is_named() -> None:
    (found,) = findings(grouped("comm |CC...|", "comm |CC...|", "comm |CCCC.|"), "slow-group")
    assert found.ranks == (4, 5)
    assert sentence(found) == "Process groups of these ranks reach 50% of the bus bandwidth of comparable groups"
    assert found.cost_ns == 2 * US


def test_groups_that_share_a_name_are_told_apart_by_their_ranks() -> None:
    # Some versions of PyTorch call all groups of one kind alike.
    job = grouped("comm |CC...|", "comm |CC...|", "comm |CCCC.|", name="tp")
    (found,) = findings(job, "slow-group")
    assert found.ranks == (4, 5)
    table = job.communication()
    assert table["group"].unique().to_list() == ["tp"]
    assert table["group_ranks"].n_unique() == 3


def test_of_two_groups_none_is_called_slow() -> None:
    assert findings(grouped("comm |CC...|", "comm |CCCC.|"), "slow-group") == []
