"""Others wait in a collective for the rank that comes last, whatever its clock says and when its recording began."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import holotrace
from drawing import US, described, draw, moved, trace
from holotrace import Finding, Job, RankTrace, sample
from holotrace.analyses.stragglers import stragglers
from holotrace.core.tables import DEVICE_EVENTS
from holotrace.present.wording import sentence
from quick import every
from trace_files import REAL_TRACES, needs_real_traces

TORCHREC = "torchrec/examples/golden_training/trace"
NANOGPT = "modded-nanogpt/records/track_1_short/2025-12-11_NorMuonOptimsAndFixes/profiler-example-traces"
EARLY = "compute |A......|\ncomm |.CCCCC.|"
LATE = "compute |AAA....|\ncomm |....CC.|"


def row_of(job: Job, rank: int, **options: Any) -> dict[str, Any]:
    (row,) = job.stragglers(**options).filter(rank=rank).to_dicts()
    return row


def findings(job: Job, rule: str) -> list[Finding]:
    return [finding for finding in stragglers.findings(job.stragglers()) if finding.rule == rule]


def test_others_wait_from_when_they_have_come_until_the_last_has() -> None:
    job = draw(EARLY, EARLY, LATE)
    late = row_of(job, 2)
    assert (late["collective_count"], late["last_count"], late["late_ns"], late["waited_ns"]) == (1, 1, 3 * US, 0)
    for rank in (0, 1):
        row = row_of(job, rank)
        assert (row["last_count"], row["late_ns"], row["waited_ns"]) == (0, 0, 3 * US)


def test_waiting_costs_only_what_no_computing_hides() -> None:
    # Ranks wait 5 µs for the last; they compute for 3 of them.
    busy = "compute |AAAA....|\ncomm |.CCCCCC.|"
    job = draw(busy, busy, "compute |A.......|\ncomm |......C.|")
    assert row_of(job, 2)["late_ns"] == 5 * US
    assert row_of(job, 2)["lost_ns"] == 2 * US
    hidden = "compute |AAAAAAAA|\ncomm |.CCCCCC.|"
    assert row_of(draw(hidden, hidden, "comm |......C.|"), 2)["lost_ns"] == 0


@pytest.mark.parametrize("ahead_ns", [1_734_251, -1_734_251, 86_400_000_000_000])
def test_a_clock_that_is_off_makes_no_straggler(ahead_ns: int) -> None:
    ranks = [trace("comm |.AA.BBB.CC.|", 0), trace("comm |.AA.BBB.CC.|", 1), trace("comm |.AA...B.CC.|", 2)]
    job = Job.from_ranks(dict(enumerate([moved(ranks[0], ahead_ns), *ranks[1:]])))
    straight = Job.from_ranks(dict(enumerate(ranks)))
    assert row_of(job, 0)["clock_offset_ns"] == ahead_ns
    assert row_of(job, 2)["late_ns"] == 2 * US
    assert_frame_equal(job.stragglers().drop("clock_offset_ns"), straight.stragglers().drop("clock_offset_ns"))


def test_clocks_that_are_apart_are_said() -> None:
    rank = trace("comm |.AA.BBB.CC.|")
    far = findings(Job.from_ranks({0: rank, 1: rank, 7: moved(rank, 1_700_000)}), "clocks-apart")
    assert [(finding.ranks, sentence(finding)) for finding in far] == [
        ((7,), "Clocks of these ranks differ from that of the median rank by up to 1.70 ms")
    ]
    assert findings(Job.from_ranks({0: rank, 1: moved(rank, 9_000)}), "clocks-apart") == []


def test_a_recording_that_begins_one_collective_later_is_compared_from_there() -> None:
    early = "comm |AA..AAA.AA....AAAA....AA.|"
    late = "comm |........AA......AA....AA.|"
    job = draw(early, early, late)
    assert row_of(job, 2) | {"collective_count": 3, "uncompared_count": 0, "late_ns": 2 * US} == row_of(job, 2)
    assert row_of(job, 0)["uncompared_count"] == 2


def test_collectives_with_numbers_are_matched_by_group_and_number() -> None:
    kernels = "comm |AA.AA.AA.|"
    named = {"group": "0", "group_ranks": "[0, 1, 2]", "collective": "allreduce"}
    first = described(trace(kernels, 0), sequence=[4, 5, 6], **named)
    second = described(trace("comm |AA..A...A|", 1), sequence=[4, 5, 7], **named)
    job = Job.from_ranks({0: first, 1: second})
    assert row_of(job, 1) | {"collective_count": 2, "uncompared_count": 1, "late_ns": US} == row_of(job, 1)


def test_groups_are_not_mixed() -> None:
    def rank(number: int, drawing: str, group: str) -> RankTrace:
        return described(trace(drawing, number), sequence=[1], group=group, collective="allreduce")

    job = Job.from_ranks(
        {
            0: rank(0, "comm |AAA......|", "left"),
            1: rank(1, "comm |.AA......|", "left"),
            2: rank(2, "comm |...AAAAA.|", "right"),
            3: rank(3, "comm |......AA.|", "right"),
        }
    )
    assert job.stragglers()["late_ns"].to_list() == [0, US, 0, 3 * US]


def test_a_group_of_one_and_operations_that_some_may_leave_early_are_not_compared() -> None:
    def job(**args: Any) -> Job:
        return Job.from_ranks({n: described(trace(d, n), **args) for n, d in enumerate((EARLY, LATE))})

    assert job().stragglers()["collective_count"].to_list() == [1, 1]
    assert job(group_size=1).stragglers().is_empty()
    for collective in ("send", "recv", "broadcast", "reduce", "scatter", "gather"):
        assert job(collective=collective, sequence=[1]).stragglers().is_empty()
    for collective in ("_reduce_scatter_base", "all_gather", "allreduce", "all_to_allv"):
        assert job(collective=collective, sequence=[1]).stragglers().height == 2


def test_kernels_that_did_not_run_at_the_same_time_are_no_collective() -> None:
    apart = trace("comm |A..BB..CC.D|")
    events = apart[DEVICE_EVENTS]
    shifted = pl.when(pl.col("name") == "D").then(900 * US).otherwise(0)
    odd = events.with_columns(pl.col("start_ns", "end_ns") + shifted)
    job = Job.from_ranks({0: apart, 1: replace(apart, tables={**apart.tables, DEVICE_EVENTS.name: odd})})
    assert job.stragglers()["collective_count"].to_list() == [3, 3]
    assert job.stragglers()["uncompared_count"].to_list() == [1, 1]


def test_that_ranks_could_not_be_compared_is_said() -> None:
    rank = trace("comm |A..A..A..A|")
    events = rank[DEVICE_EVENTS]
    later = pl.int_range(pl.len()).pow(2) * 900 * US
    tables = {**rank.tables, DEVICE_EVENTS.name: events.with_columns(pl.col("start_ns", "end_ns") + later)}
    said = findings(Job.from_ranks({0: rank, 1: replace(rank, tables=tables)}), "ranks-not-compared")
    assert [sentence(finding) for finding in said] == [
        "6 of 8 collectives could not be compared between ranks, so that what ranks wait for is not known"
    ]
    assert findings(Job.from_ranks({0: rank}), "ranks-not-compared") == []
    assert findings(Job.from_ranks({0: rank, 1: rank}), "ranks-not-compared") == []


def test_each_step_has_its_own_row() -> None:
    host = "step |111222|\nhost |A..B..|\n"
    job = draw(host + "comm |AAA.BB|", host + "comm |..A.BB|")
    table = job.stragglers(by_step=True)
    assert table.select("rank", "step", "late_ns").rows() == [(0, 1, 0), (0, 2, 0), (1, 1, 2 * US), (1, 2, 0)]
    assert table.group_by("rank").agg(pl.col("total_ns").sum()).sort("rank")["total_ns"].to_list() == [6 * US, 6 * US]


def test_a_single_rank_has_nobody_to_be_compared_with() -> None:
    row = row_of(draw(EARLY), 0)
    assert (row["collective_count"], row["uncompared_count"], row["last_count"]) == (0, 1, 0)
    assert row["late_ns"] is row["lost_ns"] is row["waited_ns"] is row["clock_offset_ns"] is None


def test_the_straggler_is_named_with_what_it_costs() -> None:
    (finding,) = findings(draw(EARLY, EARLY, LATE, EARLY), "straggling-rank")
    assert (finding.ranks, finding.cost_ns) == ((2,), 3 * US)
    assert finding.severity == "warning"


def test_ranks_that_take_turns_are_no_stragglers() -> None:
    early, late = "comm |AAAA.{}|", "comm |...A.{}|"
    job = draw(early.format("...B."), late.format("BBBB."))
    assert job.stragglers()["late_ns"].to_list() == [3 * US, 3 * US]
    assert findings(job, "straggling-rank") == []


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_planted_straggler_and_clock_are_found(tmp_path: Path, ranks: int) -> None:
    truth = sample.write(tmp_path, ranks=ranks, steps=2, seed=3, compress=False)
    job = holotrace.open(tmp_path)
    (finding,) = findings(job, "straggling-rank")
    assert finding.ranks == (truth.straggler_rank,)
    (clock,) = findings(job, "clocks-apart")
    assert clock.ranks == (truth.clock_rank,)
    assert truth.clock_rank is not None
    assert row_of(job, truth.clock_rank)["clock_offset_ns"] == pytest.approx(truth.clock_offset_ns, abs=500)
    steps = job.stragglers(by_step=True).filter(rank=truth.straggler_rank)
    late = dict(steps.select("step", "late_ns").iter_rows())
    # Ends of one collective differ by up to 600 ns in the sample.
    assert late == {step: pytest.approx(ns, rel=0.001) for step, ns in truth.late_ns.items()}


@needs_real_traces
@pytest.mark.parametrize(
    "folder", ["sst_sleep_pl_dense_after_backward_2", "sst_long_a2a_optimizer_4", "sst_long_a2a_optimizer_5"]
)
def test_the_late_rank_of_torchrecs_recordings_is_named(folder: str) -> None:
    (finding,) = findings(holotrace.open(REAL_TRACES / TORCHREC / folder), "straggling-rank")
    assert finding.ranks == (2,)


@needs_real_traces
def test_recordings_of_one_host_that_begin_at_different_collectives_agree_on_its_clock() -> None:
    job = holotrace.open(REAL_TRACES / NANOGPT / "Baseline*rank*")
    table = job.stragglers()
    assert table["collective_count"].to_list() == [76] * 8
    assert all(abs(offset_ns) < 5_000 for offset_ns in table["clock_offset_ns"])
    assert [finding.ranks for finding in findings(job, "straggling-rank")] == [(1,)]


# Both collectives wait for rank 2 at the same time, in a group of three and in one of two.
PARALLEL = (
    "comm |CCCCCCCC.|\ncomm |DDDDDDDD.|",
    "comm |CCCCCCCC.|\ncomm |DDDDDDDD.|",
    "comm |.......C.|\ncomm |.......D.|",
)


def test_others_do_not_stand_still_for_more_than_the_time_there_is() -> None:
    # It was 174 % of the time: each of several collectives at once counted, over the time of the rank that came late.
    job = draw(*PARALLEL)
    late = row_of(job, 2)
    assert (late["lost_ns"], late["late_ns"], late["total_ns"]) == (7 * US, 7 * US, 8 * US)
    assert late["lost_ratio"] == pytest.approx(7 / 8)
    for rank in (0, 1):
        row = row_of(job, rank)
        assert (row["waited_ns"], row["standing_ns"], row["total_ns"]) == (7 * US, 7 * US, 8 * US)
    (finding,) = findings(job, "straggling-rank")
    assert finding.cost_ns == 7 * US


def test_time_lost_to_a_rank_that_begins_late_is_a_share_of_the_time_of_the_others() -> None:
    table = draw("comm |CCCCCCCCC|", "comm |CCCCCCCCC|", "comm |........C|").stragglers()
    assert table["lost_ratio"].to_list() == [0, 0, pytest.approx(8 / 9)]
    assert table["total_ns"].to_list() == [9 * US] * 3


@needs_real_traces
@pytest.mark.parametrize("folder", every(4, sorted(path.name for path in (REAL_TRACES / TORCHREC).glob("sst_*"))))
def test_no_share_of_torchrecs_lost_time_is_beyond_one(folder: str) -> None:
    job = holotrace.open(REAL_TRACES / TORCHREC / folder)
    for by_step in (False, True):
        known = job.stragglers(by_step=by_step).drop_nulls("lost_ns")
        assert known.filter(pl.col("lost_ratio") > 1).is_empty()
        assert known.filter(pl.col("standing_ns") > pl.col("waited_ns")).is_empty()
        assert known.filter(pl.col("waited_ns") > pl.col("total_ns")).is_empty()
    communicated = job.overlap().select(pl.col("comm_ns").max()).item()
    for finding in findings(job, "straggling-rank"):
        assert finding.cost_ns is not None
        assert finding.cost_ns <= communicated
