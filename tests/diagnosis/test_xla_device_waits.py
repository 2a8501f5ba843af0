"""When hosts of XLA profiles wait for their devices, and for the end of which programs."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from drawing import trace
from holotrace.core.tables import CALLS, HLO
from holotrace.core.trace import RankTrace
from holotrace.diagnosis.rank.xla import device_waits as xla_device_waits
from holotrace.diagnosis.rank.xla import hosts as xla_hosts


def waited(name: str, early_us: int = 0, *, together: bool = True) -> list[tuple[int, int, int]]:
    """Each wait of a host, which is for the second program: when it began, was over, and what it was for was."""
    waiting = f"{'S' * (900 - early_us)}{'.' * (1_000 + early_us)}"
    lines = [f"abc{'.' * 1_097}{waiting}"] if together else [f"abc{'.' * 2_997}", f"{'.' * 1_100}{waiting}"]
    calls = "\n".join(f"call |{line}|" for line in lines)
    drawn = trace(f"""
        step |{"1" * 1000}{"2" * 1000}{"3" * 1000}|
        tpu  |{"A" * 1000}{"B" * 1000}{"C" * 1000}|
        {calls}
        S = {name}
    """)
    rank = replace(drawn, tables={**{table.name: table.empty() for table in (CALLS, HLO)}, **drawn.tables})
    found = xla_hosts.rows(rank, "late").filter(row="waited").select("start_ns", "at_ns", "end_ns")
    return found.rows()


@pytest.mark.parametrize("name", ["Acquire semaphore", "BlockHostUntilDone"])
@pytest.mark.parametrize("early_us", [0, 2])
def test_a_host_that_waits_to_launch_waits_for_the_program_that_is_over_then(name: str, early_us: int) -> None:
    """By clocks that are 2 us apart it seemed to wait for the program before, and so to do something for 1 ms.

    Other hosts were then never faster than recorded: of 12.2 ms a step that input took on one host, 5.3 were told.
    """
    over_ns = (2_000 - early_us) * 1_000
    assert waited(name, early_us) == [(1_100_000, over_ns, over_ns)]


def test_a_host_does_nothing_of_its_own_while_another_thread_waits_to_launch() -> None:
    """Calls of PyTorch/XLA seemed to collect graphs for as long as they waited for room, and by that all alike."""
    drawn = trace(f"""
        step |{"1" * 1000}{"2" * 1000}{"3" * 1000}|
        tpu  |{"A" * 1000}{"B" * 1000}{"C" * 1000}|
        call |ab{"." * 98}{"M" * 1899}c|
        call |{"." * 200}{"S" * 1700}|
        S = Acquire semaphore
        M = StepMarker
    """)
    rank = replace(drawn, tables={**{table.name: table.empty() for table in (CALLS, HLO)}, **drawn.tables})
    spent = xla_hosts.rows(rank, "late").filter(row="spent", name="StepMarker")
    assert spent["time_ns"].sum() <= 200_000


def test_what_other_threads_wait_for_holds_no_launch_back() -> None:
    assert waited("BlockHostUntilDone", together=False) == []


def two_reads() -> RankTrace:
    """A host that reads a result of each program in one function, and another result of it in the next one."""
    drawn = trace(f"""
        step |{"1" * 2000}{"2" * 2000}|
        tpu  |{"." * 100}{"A" * 1400}{"." * 600}{"A" * 1400}{"." * 500}|
        call |{"." * 99}a{"R" * 1449}.{"R" * 80}{"." * 468}a{"." * 1901}|
        call |{"." * 1500}{"D" * 48}..{"D" * 79}{"." * 2371}|
        mark |{"." * 100}{"L" * 1449}.{"C" * 80}{"." * 2370}|
        R = np.asarray(jax.Array)
        D = D2H Dispatch
        L = check_loss
        C = check_accuracy
    """)
    return replace(drawn, tables={**{table.name: table.empty() for table in (CALLS, HLO)}, **drawn.tables})


def test_what_is_read_as_nothing_runs_any_more_is_no_wait_that_delays_the_next_launch() -> None:
    """Of two functions that read results of one program the second was told, which waits for nothing."""
    gaps = xla_hosts.host(two_reads()).gaps
    told = (
        gaps.filter(cause="synchronization", start_ns=1_500_000).group_by("responsible").agg(pl.col("share_ns").sum())
    )
    assert told.sort("share_ns")["responsible"].to_list()[-1] == "check_loss"


def test_copies_of_results_are_part_of_what_reads_these() -> None:
    """What another thread copied for two functions that read was told beside them, as it took longer than each."""
    told = xla_hosts.host(two_reads()).gaps.filter(cause="synchronization")["responsible"]
    assert "D2H Dispatch" not in told


def test_what_is_read_next_would_wait_without_the_wait_before_and_is_a_part_of_it() -> None:
    """Without the first of two reads nothing was gained, as the second would have waited: 62 % were told."""
    found = xla_hosts.host(two_reads()).waits
    assert found["responsible"].to_list() == ["check_loss"] * 2


def test_a_host_that_reads_what_is_there_has_waited_for_nothing() -> None:
    """Launching many small programs before such a read was not said to make the next one late."""
    waits = pl.DataFrame({"began_ns": [0, 3_000_000], "returned_ns": [2_000_000, 3_060_000]})
    assert xla_device_waits.losing(waits)["returned_ns"].to_list() == [2_000_000]


@pytest.mark.parametrize("is_each", [True, False])
def test_a_wait_tells_when_its_program_was_over_in_the_step_before(*, is_each: bool) -> None:
    """A host that reads the loss one step later waits for that; the first run is known to have begun after it.

    One that reads none in other steps waits for nothing.
    """
    reads, launches = f"a{'R' * 1449}{'.' * 550}", f"a{'.' * 1999}"
    drawn = trace(f"""
        step |{"1" * 2000}{"2" * 2000}{"3" * 2000}|
        tpu  |{f"{'.' * 100}{'A' * 1300}{'.' * 600}" * 3}|
        call |{reads}{reads if is_each else launches}{reads}|
        R = np.asarray(jax.Array)
    """)
    rank = replace(drawn, tables={**{table.name: table.empty() for table in (CALLS, HLO)}, **drawn.tables})
    found = xla_hosts.rows(rank, "late").filter(row="waited").select("end_ns", "time_ns").rows()
    since = [1_300_000, 2_000_000, 2_000_000] if is_each else [None, None]
    assert found == list(
        zip([1_400_000, 3_400_000, 5_400_000] if is_each else [1_400_000, 5_400_000], since, strict=True)
    )


def test_what_is_launched_late_is_begun_with_the_first_device() -> None:
    """Programs that begin with a gather met others before they had begun: reading each loss was worth nothing."""
    drawn = trace(f"""
        step |{"1" * 3000}|
        tpu  |{"A" * 500}{"." * 500}{"B" * 2000}|
        tpu  |{"A" * 500}{"." * 513}{"B" * 1987}|
        call |a{"." * 989}b{"." * 2009}|
    """)
    rank = replace(drawn, tables={**{table.name: table.empty() for table in (CALLS, HLO)}, **drawn.tables})
    late = xla_hosts.rows(rank, "late").filter(row="late").sort("at_ns")
    assert late.select("at_ns", "time_ns").rows()[-1] == (1_000_000, 500_000)


def test_what_ends_with_the_first_operation_of_a_program_ended_as_that_began() -> None:
    """A gap that ended 2 ns after the program had begun was saved twice: 8.3 s of 5.7 in a real profile of a TPU."""
    begun = pl.LazyFrame({"begun_ns": [1_000, 9_000_000, 30_000_000]})
    gaps = pl.LazyFrame(
        {"start_ns": [200, 2_000_000, 9_500_000, 25_000_000], "end_ns": [1_002, 9_000_000, 9_600_000, 32_000_000]}
    )
    assert xla_hosts.ended_by(begun, gaps).collect()["end_ns"].to_list() == [1_000, 9_000_000, 9_600_000, 32_000_000]
