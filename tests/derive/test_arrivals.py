"""When ranks come to collectives, and waiting that counts once."""

from __future__ import annotations

import polars as pl
import pytest

from drawing import US, draw
from holotrace.analyses.stragglers import stragglers
from holotrace.derive import arrivals


def calls(*drawings: str) -> pl.DataFrame:
    """What all ranks contribute."""
    job = draw(*drawings)
    return pl.concat(job.map(lambda rank: stragglers.part(rank, {}), stragglers.reads))


def test_a_rank_waits_from_its_arrival_until_the_last_one_has_come() -> None:
    arrived = arrivals.of_ranks(calls("comm |CCCC|", "comm |..CC|")).sort("rank")
    assert arrived.select("rank", "waited_ns", "lost_ns").rows() == [(0, 2 * US, 2 * US), (1, 0, 0)]
    assert arrived["come_ns"].to_list() == [2 * US] * 2


def test_what_a_rank_computes_meanwhile_is_not_lost() -> None:
    arrived = arrivals.of_ranks(calls("compute |AA..|\ncomm |CCCC|", "comm |...C|")).sort("rank")
    assert arrived.select("waited_ns", "lost_ns").row(0) == (3 * US, US)


def test_kernels_of_different_times_are_no_collective() -> None:
    early, late = "comm |C" + "." * 300 + "|", "comm |" + "." * 300 + "C|"
    others = "comm |D|\ncomm |.E|\ncomm |..F|"
    arrived = arrivals.of_ranks(calls(f"{early}\n{others}", f"{late}\n{others}"))
    assert arrived.height == 6
    assert arrived["waited_ns"].to_list() == [0] * 6


def test_an_exchange_that_ranks_leave_one_after_the_other_is_one_if_all_were_there_for_long() -> None:
    """Half of the exchanges of experts were left out, in which each rank waits for its own tokens only."""
    others = "comm |{0}D|\ncomm |{0}.E|\ncomm |{0}..F|".format("." * 900)
    drawings = (f"comm |{'C' * 400}|\n{others}", f"comm |{'.' * 50}{'C' * 650}|\n{others}")
    exchange = arrivals.of_ranks(calls(*drawings)).sort("left_ns", "rank").head(2)
    assert exchange["waited_ns"].to_list() == [50 * US, 0]


def test_threads_of_hosts_leave_an_exchange_as_each_gets_a_processor() -> None:
    """Where two processes shared cores, a third of gloo's exchanges were left out, among them the longest waits."""
    first, second = (calls(drawn) for drawn in (f"comm |{'C' * 440}|", f"comm |{'.' * 430}{'C' * 40}|"))
    both = pl.concat([first, second.with_columns(rank=pl.lit(1, pl.Int32))])
    # A pair has to be among those that tell how far clocks are apart.
    later = [both.with_columns(pl.col("start_ns", "end_ns") + at * US) for at in (1_000, 2_000)]
    later = [one.with_columns(start_ns=pl.col("end_ns") - 20 * US, end_ns=pl.col("end_ns").max()) for one in later]
    every = pl.concat([both, *later]).with_columns(operation=pl.lit("gloo:all_reduce", pl.Categorical()))
    assert arrivals.of_ranks(every).sort("left_ns", "rank").head(2)["waited_ns"].to_list() == [430 * US, 0]


def test_clocks_of_hosts_agree_unless_a_rank_left_before_another_had_come() -> None:
    """Two processes of one host, whose threads left late by turns, were told to have clocks 16 ms apart."""
    spans = [(0, 0, 13_000), (1, 8_000, 26_000), (0, 17_000, 30_000), (1, 25_000, 58_000)]
    drawn = calls("comm |C|").head(1).with_columns(operation=pl.lit("gloo:all_reduce", pl.Categorical()))
    every = pl.concat(
        drawn.with_columns(
            rank=pl.lit(rank, pl.Int32), start_ns=pl.lit(start * US, pl.Int64), end_ns=pl.lit(end * US, pl.Int64)
        )
        for rank, start, end in spans
    )
    assert arrivals.of_ranks(every)["clock_offset_ns"].unique().to_list() == [0]
    later = every.with_columns(pl.col("start_ns", "end_ns") + pl.when(rank=1).then(40_000 * US).otherwise(0))
    assert arrivals.of_ranks(later)["clock_offset_ns"].max() != 0


def test_ends_that_no_rank_waited_for_tell_no_clock_by_which_a_rank_left_early() -> None:
    """Hosts of XLA seemed 1 ms apart as one was later with all else: the collectives others waited for were left out.

    A pause of one host was told of nobody, as no other seemed to have met it.
    """
    spans = [(0, at, at + 9_000) for at in (0, 20_000, 40_000)] + [(1, at, at + 10_000) for at in (0, 20_000, 40_000)]
    drawn = calls("comm |C|").head(1)
    every = pl.concat(
        drawn.with_columns(
            rank=pl.lit(rank, pl.Int32),
            start_ns=pl.lit(start * US, pl.Int64),
            end_ns=pl.lit(end * US, pl.Int64),
            time_ns=held * US,
        )
        for rank, start, end, held in [
            *((*span, 0) for span in spans),
            (0, 99_000, 108_000, 0),
            (1, 64_000, 99_500, 30_000),
        ]
    )
    arrived = arrivals.of_ranks(every, are_awaited_later=True)
    assert arrived["clock_offset_ns"].unique().to_list() == [0]
    assert arrived["waited_ns"].max() == 35_000 * US


@pytest.mark.parametrize("first", ["barrier-cores", "all-gather.1"])
def test_cores_of_each_slice_leave_barriers_of_their_own(first: str) -> None:
    """Clocks of slices were set by barriers as those of all, so that a slow device in one of them was in time.

    So they were by gathers that cores leave a barrier for: nothing was said of input that took half of the time.
    """
    drawn = calls("comm |C|").head(1)
    late_us = 2_000

    def of_step(begin: int, name: str, start: int, end: int, groups: str, *ranks: int) -> list[pl.DataFrame]:
        operation = pl.lit(name, pl.Categorical())
        return [
            drawn.with_columns(
                rank=pl.lit(rank, pl.Int32),
                start_ns=pl.lit((begin + start) * US, pl.Int64),
                end_ns=pl.lit((begin + end) * US, pl.Int64),
                time_ns=pl.lit((end - start) * US, pl.Int64),
                group_ranks=pl.lit(groups, pl.Categorical()),
                operation=operation,
                collective=operation,
            )
            for rank in ranks
        ]

    parts = []
    for begin in range(0, 200_000, 20_000):
        # The slower slice begins each step later, too.
        for at, members in enumerate(((0, 1), (2, 3))):
            late = late_us * at
            parts += of_step(begin, first, late, late + 3, "null", *members)
            for place in range(1, 9):
                start = 500 * place + late
                parts += of_step(begin, f"reduce-scatter.{place}", start, start + 100, str([*members]), *members)
            for member in members:
                group = str([member % 2, member % 2 + 2])
                parts += of_step(begin, "all-reduce (send.1)", 6_000 + late, 10_000, group, member)
    description = pl.when(pl.col("operation").cast(pl.String) == "all-gather.1").then(pl.lit("cores at a barrier"))
    every = pl.concat(parts).with_columns(pl.col("group_ranks").replace("null", None), group_description=description)
    arrived = arrivals.of_ranks(every, are_awaited_later=True)
    assert arrived["clock_offset_ns"].unique().to_list() == [0]
    exchanged = arrived.filter(pl.col("operation") == "all-reduce (send.1)")
    assert dict(exchanged.select("rank", "waited_ns").unique().iter_rows()) == dict.fromkeys((0, 1), late_us * US) | {
        2: 0,
        3: 0,
    }


def of_devices(*spans: tuple[int, int]) -> pl.DataFrame:
    """One collective of one rank with several devices, each with its start and end in us."""
    drawn = calls("comm |C|").head(1)
    start, end = (pl.Series(name, [span[at] * US for span in spans]) for at, name in enumerate(("start_ns", "end_ns")))
    return pl.concat([drawn] * len(spans)).with_columns(start, end, device=pl.int_range(len(spans), dtype=pl.Int64))


def test_a_thread_of_a_cpu_device_that_leaves_late_is_compared_by_the_clock_of_its_rank() -> None:
    # The last came after 500 us; then threads left one after the other, as they got a processor.
    arrived = arrivals.of_ranks(of_devices((0, 600), (500, 4_000), (200, 9_000))).sort("device")
    assert arrived["waited_ns"].to_list() == [500 * US, 0, 300 * US]


def test_what_one_device_left_before_another_came_is_no_collective() -> None:
    assert arrivals.of_ranks(of_devices((0, 600), (900, 4_000))).is_empty()


def test_spans_that_overlap_count_once_for_each_group() -> None:
    rows = pl.DataFrame({"by": [0, 0, 0, 1], "come_ns": [10, 12, 30, 12], "ns": [10, 10, 5, 10]})
    assert arrivals.once(rows, "ns", by=["by"]).to_list() == [10, 2, 5, 10]
    assert arrivals.once(rows.reverse(), "ns", by=["by"]).to_list() == [10, 5, 2, 10]
    assert arrivals.once(rows.clear(), "ns", by=["by"]).to_list() == []


@pytest.mark.parametrize(
    ("sender", "receiver", "waited_us"), [((0, 500), (490, 500), [490, 0]), ((0, 9), (490, 500), [])]
)
def test_a_broadcast_is_met_in_if_all_leave_it_together(
    sender: tuple[int, int], receiver: tuple[int, int], waited_us: list[int]
) -> None:
    """What kept the rank that sends buffers from its next step cost nothing, though all others waited for them."""
    others = "comm |{0}D|\ncomm |{0}.E|\ncomm |{0}..F|".format("." * 900)
    drawings = (f"comm |{'.' * begin}{'B' * (end - begin)}|\n{others}" for begin, end in (sender, receiver))
    named = calls(*drawings).with_columns(
        pl.col("collective", "operation").cast(pl.String).replace("B", "broadcast").cast(pl.Categorical)
    )
    assert arrivals.of_ranks(named).filter(collective="broadcast").is_empty()
    met = arrivals.of_ranks(named, with_broadcasts=True).filter(collective="broadcast").sort("rank")
    assert met["waited_ns"].to_list() == [waited * US for waited in waited_us]
