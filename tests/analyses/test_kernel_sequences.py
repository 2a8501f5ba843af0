"""Sequences of kernels under an operator and all that it calls."""

from __future__ import annotations

import pytest

import holotrace
from drawing import draw
from holotrace.analyses import Analyses
from holotrace.present.wording import sentence

# A calls B, which launches; so does A itself.
NESTED = """
    op      |AAAAAAA..AAAAAAA..AAA...|
    op      |.BBB......BBB...........|
    host    |..K.LM....K..LM...L.....|
    compute |..KKLLM....K.LLM...LL...|
"""


def test_an_operator_has_the_kernels_of_all_that_it_calls() -> None:
    (row,) = draw(NESTED).kernel_sequences().to_dicts()
    assert row == {
        "rank": 0,
        "sequence": 0,
        "operator": "A",
        "kernels": "K -> L -> M",
        "kernel_count": 3,
        "count": 2,
        "work_ns": 9_000,
        "call_ns": 14_000,
        "event_id": None,
    }


def test_short_sequences_count_if_they_are_asked_for() -> None:
    assert draw(NESTED).kernel_sequences(min_kernels=4).is_empty()
    table = draw(NESTED).kernel_sequences(min_kernels=1).select("kernels", "count", "work_ns")
    assert table.rows() == [("K -> L -> M", 2, 9_000), ("L", 1, 2_000)]
    with pytest.raises(holotrace.UsageError, match="from 1"):
        draw(NESTED).kernel_sequences(min_kernels=0)


def test_an_operator_within_others_can_be_at_the_top() -> None:
    table = draw(NESTED).kernel_sequences(operator="B", min_kernels=1).select("operator", "kernels", "count")
    assert table.rows() == [("B", "K", 2)]


def test_of_operators_that_contain_each_other_the_outermost_counts() -> None:
    job = draw("""
        op      |AAAAAAAA|
        op      |.BBBBBB.|
        op      |..AAA...|
        host    |..KKK...|
        compute |..K.L.M.|
    """)
    assert job.kernel_sequences(min_kernels=1)["operator"].to_list() == ["A"]


def test_a_range_can_be_at_the_top() -> None:
    job = draw("""
        range   |RRRRRRR|
        op      |.AA.BB.|
        host    |.KL.M..|
        compute |..KL.M.|
    """)
    assert job.kernel_sequences(operator="R").select("operator", "kernels").rows() == [("R", "K -> L -> M")]
    assert job.kernel_sequences(operator="nothing is called so").is_empty()


def test_waiting_is_no_work_of_a_sequence() -> None:
    job = draw("""
        op      |AAAAAA|
        host    |KLW...|
        compute |.KL...|
        sync    |..WWW.|
    """)
    assert job.kernel_sequences(min_kernels=1)["kernels"].to_list() == ["K -> L"]


def test_each_event_of_a_call_down_to_the_kernels() -> None:
    job = draw(NESTED)
    table = job.kernel_sequences(each=True)
    names = job.table("events", columns=["event_id", "name"]).join(table, on="event_id")["name"].cast(str)
    assert sorted(names) == sorted([*"ABKLM" * 2, *["cudaLaunchKernel"] * 6])
    assert set(table["count"]) == {2}


def test_events_of_calls_say_which_sequence_they_belong_to() -> None:
    job = draw("""
        op      |AAAAABBBBBBBB|
        host    |K.L..M.N.....|
        compute |.K.L..M..NNNN|
    """)
    sequences = job.kernel_sequences().select("sequence", "operator").rows()
    assert sequences == [(0, "B"), (1, "A")]
    events = job.kernel_sequences(each=True).select("sequence", "operator").unique(maintain_order=True)
    assert events.rows() == sequences


def test_a_sequence_that_recurs_and_takes_the_host_longer_than_the_device_is_found() -> None:
    job = draw(f"""
        op      |{"AAAA." * 10}|
        host    |{"K.L.." * 10}|
        compute |{".K.L." * 10}|
    """)
    (finding,) = Analyses.kernel_sequences.findings(job.kernel_sequences())
    assert sentence(finding) == (
        "A launches the same 2 kernels 10 times, which takes the host 2.0 times as long as they run"
    )
    assert (finding.rule, finding.ranks) == ("launch-bound-sequences", (0,))


def test_a_sequence_that_keeps_the_device_busy_or_is_rare_is_no_finding() -> None:
    busy = draw(f"op |{'AA...' * 10}|\nhost |{'KL...' * 10}|\ncompute |{'.KKLL' * 10}|")
    rare = draw(f"op |{'AAAA.' * 9}|\nhost |{'K.L..' * 9}|\ncompute |{'.K.L.' * 9}|")
    for job in (busy, rare):
        assert Analyses.kernel_sequences.findings(job.kernel_sequences()) == []
