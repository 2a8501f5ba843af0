"""Transfers that take longer in one group than in others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from holotrace.derive.collectives import BARRIER
from holotrace.diagnosis.job import transfers
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.floors import least_ratio
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.job.unrecorded_ranks import ABSENT
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import EXPOSED, SLOW_LINK, SYNCHRONIZATION

SLOW, SIZES = (2, 3), (1_000, 50_000)


def visits() -> pl.DataFrame:
    """Two pairs of ranks that reduce two sizes; in one pair both take three times as long."""
    rows = [
        {
            "match": 2 * place + pair[0] // 2,
            "rank": rank,
            "arrival_ns": 1_000_000 * place,
            "start_ns": 1_000_000 * place,
            "left_ns": 1_000_000 * place + size * (3 if pair == SLOW else 1),
            "exposed_ns": 0,
            "group_ranks": str(list(pair)),
            "collective": "allreduce",
            "element_count": size,
            "element_type": "Float",
            "step": 1,
            "group_size": 2,
        }
        for place, size in enumerate(SIZES)
        for pair in ((0, 1), SLOW)
        for rank in pair
    ]
    return pl.DataFrame(rows)


def test_a_link_that_is_slow_for_all_sizes_is_one_cause() -> None:
    job = Job(pl.DataFrame(), visits(), (0, 1, 2, 3), 0)
    (link,) = (found for found in transfers.causes(job) if found.cause == SLOW_LINK)
    assert link.ranks == SLOW
    assert link.change.transfer == {1: 1 / 3, 3: 1 / 3}


@pytest.mark.parametrize(("queue", "times", "is_told"), [(20, 1, False), (20, 3, True), (None, 1, True)])
def test_kernels_of_programs_of_xla_tell_how_long_a_transfer_took_that_is_hidden(
    queue: int | None, times: int, is_told: bool
) -> None:
    """Of GPUs a link was slow whose transfers were exposed, and those of others were not, as where others come late."""
    window = pl.DataFrame(
        {"row": "window", "name": "", "rank": range(4), "count": 1, "detail": account.XLA, "device": 0}
    )
    lasted = pl.when(pl.col("rank").is_in(SLOW)).then(times).otherwise(1) * pl.col("element_count")
    is_exposed = pl.col("rank").is_in(SLOW).cast(pl.Int64)
    met = visits().with_columns(left_ns=pl.col("arrival_ns") + lasted, exposed_ns=lasted * is_exposed, queue=queue)
    found = [each.ranks for each in transfers.causes(Job(window, met, (0, 1, 2, 3), 0)) if each.cause == SLOW_LINK]
    assert found == [SLOW] * is_told


def test_a_group_of_which_a_rank_was_not_recorded_has_no_slow_link_as_that_rank_may_come_late() -> None:
    """Ranks of a group that waited for one that was missing were told to have a slow link."""
    incomplete = visits().with_columns(group_size=3)
    job = Job(pl.DataFrame(), incomplete, (0, 1, 2, 3), 0)
    assert not [found for found in transfers.causes(job) if found.cause == SLOW_LINK]


def test_waiting_for_data_is_not_told_from_waiting_for_a_rank_that_was_not_recorded() -> None:
    """A straggler that was missing was told as exposed communication."""
    window = pl.DataFrame({"row": ["window"], "rank": [0], "count": [8], "name": [""], "detail": [None]})
    at_once = visits().with_columns(exposed_ns=pl.col("left_ns") - pl.col("arrival_ns"))
    whole, incomplete = (
        [found.evidence.get(ABSENT) for found in transfers.causes(Job(window, rows, (0, 1, 2, 3), 0))]
        for rows in (at_once.filter(pl.col("group_ranks") == "[0, 1]"), at_once.with_columns(group_size=3))
    )
    assert (whole, incomplete) == ([None], [1])
    # Where all ranks were recorded, one of them recorded another part: nobody knows when it came.
    of_all = window.with_columns(count=4)
    assert not [*transfers.causes(Job(of_all, at_once.with_columns(group_size=3), (0, 1, 2, 3), 0))]


def test_of_ranks_that_meet_at_barriers_only_no_transfer_is_a_cause() -> None:
    window = pl.DataFrame({"row": ["window"], "rank": [0], "count": [4], "name": [""], "detail": [None]})
    barriers = visits().with_columns(collective=pl.lit(BARRIER))
    assert not [*transfers.causes(Job(window, barriers, (0, 1, 2, 3), 0))]


@pytest.mark.parametrize("devices", [1, 2])
def test_how_often_a_step_communicates_is_counted_by_device_and_not_over_all_groups(devices: int) -> None:
    """15 % of a job on 8 hosts were no cause, as its two reductions in a step, in 16 groups, seemed to be several."""
    at_once = visits().with_columns(exposed_ns=pl.col("left_ns") - pl.col("arrival_ns"), device=0)
    again = at_once.with_columns(pl.col("match") + 4, device=pl.col("device") + 1)
    job = Job(pl.DataFrame(), pl.concat([at_once, again]) if devices > 1 else at_once, (0, 1, 2, 3), 0)
    (exposed,) = (found for found in transfers.causes(job) if found.cause == EXPOSED)
    assert exposed.evidence["per_step_count"] == len(SIZES)


def test_a_rank_that_has_its_data_before_others_has_hidden_nothing_by_that() -> None:
    """Exchanges of tokens, which end for each rank by itself, were 140 of 247 ms of a server and no cause at all."""
    rows = [
        {
            "match": place,
            "rank": rank,
            "arrival_ns": 1_000_000 * place,
            "start_ns": 1_000_000 * place,
            "left_ns": 1_000_000 * place + lasted_ns,
            "exposed_ns": lasted_ns,
            "group_ranks": "[0, 1]",
            "collective": "deep_ep::combine",
            "element_count": None,
            "element_type": None,
            "step": None,
            "group_size": 2,
            "clock_offset_ns": 0,
        }
        for place in range(4)
        for rank, lasted_ns in enumerate((200_000, 500_000))
    ]
    segment = {"row": "segment", "step": None, "time_ns": 1_000_000, "at_ns": 0, "count": 1, "detail": None, "name": ""}
    computed = [segment | {"rank": rank} for rank in range(2)]
    schema = {"step": pl.Int64, "element_count": pl.Int64, "element_type": pl.String}
    met = pl.DataFrame(rows, schema_overrides=schema)
    job = Job(pl.DataFrame(computed, schema_overrides={"step": pl.Int64, "detail": pl.String}), met, (0, 1), 0)
    (exposed,) = transfers.causes(job)
    assert exposed.evidence["time_ns"] == 4 * 200_000


def reductions(
    *times_us: tuple[int, int],
    elements: int = 12_000_000,
    loss_us: tuple[int, int] | None = None,
    collective: str = "allreduce",
    computed_us: int | None = None,
    losses: int = 1,
    work_us: Sequence[tuple[str, str, int, int]] = (),
    optimizer_us: int = 0,
    after_first_us: int = 0,
    step: int | None = 1,
) -> Candidate:
    """The exposed transfer of two ranks that reduce gradients from and until these times of one step.

    What they compute is before that, but for the optimizer and what comes after the first; of some ``work`` it is known
    when it began and ended. A loss may be reduced, too.
    """
    reduced = [(*at, elements) for at in times_us] + ([] if loss_us is None else [(*loss_us, 1)])
    rows = [
        {
            "match": place,
            "rank": rank,
            "arrival_ns": 1_000 * begun,
            "start_ns": 1_000 * begun,
            "left_ns": 1_000 * left,
            "exposed_ns": 1_000 * (left - begun),
            "group_ranks": "[0, 1]",
            "collective": collective,
            "element_count": count,
            "element_type": "BFloat16",
            "step": step,
            "group_size": 2,
            "clock_offset_ns": 0,
        }
        for place, (begun, left, count) in enumerate(reduced)
        for rank in range(2)
    ]
    end_ns = 1_000 * max(left for _, left in times_us)
    computed = [
        {"row": "segment", "rank": rank, "step": 1, "time_ns": 1_000 * us, "at_ns": at_ns, "count": 1, "detail": None}
        for rank in range(2)
        for us, at_ns in ((computed_us, 0), (after_first_us, 1), (optimizer_us, end_ns + 1_000 * optimizer_us))
        if us is not None and computed_us is not None
    ]
    work = [
        {"row": "work", "rank": rank, "step": 1, "time_ns": 9, "count": count, "operator": operator, "name": "kernel"}
        for rank in range(2)
        for operator, count in (("aten::mm", 12), ("aten::nll_loss", losses))
    ]
    timed = [
        {"row": "work", "rank": rank, "step": 1, "start_ns": 1_000 * begun, "time_ns": 1_000 * (ended - begun)}
        | {"count": 1, "operator": operator, "name": name}
        for rank in range(2)
        for operator, name, begun, ended in work_us
    ]
    every = pl.DataFrame([*computed, *([*work, *timed] if computed else [])], infer_schema_length=None)
    every = every if every.is_empty() or "start_ns" in every.columns else every.with_columns(start_ns=None)
    job = Job(every, pl.DataFrame(rows, schema_overrides={"step": pl.Int64}), (0, 1), 0)
    (found,) = transfers.causes(job)
    return found


def test_no_more_of_the_gradients_can_be_hidden_than_the_backward_pass_has_time_for() -> None:
    """A link that takes longer than all computing was worth all of its time, which no schedule can hide."""
    at = (0, 600), (601, 1_200), (1_202, 1_800)
    # Two thirds of 900 us are the backward pass, and in the first third of that no bucket is complete.
    assert reductions(*at, computed_us=900).evidence["time_ns"] == pytest.approx(400_000, abs=2)
    assert reductions(*at, computed_us=9_000).evidence["time_ns"] == 1_199_000


def test_what_is_reduced_of_a_step_before_the_recording_is_hidden_by_nothing_that_it_has() -> None:
    """Of two ranks on an H100 that computed 3 ms in a step, 108 ms before the first of these could be hidden."""
    with pytest.raises(ValueError, match="not enough values"):
        reductions((0, 600), (601, 1_200), (1_202, 1_800), computed_us=900, step=None)


def test_the_optimizer_hides_no_gradients_as_it_comes_after_them() -> None:
    """What a large optimizer computes was taken for a part of the backward pass."""
    at = (0, 600), (601, 1_200), (1_202, 1_800)
    with_optimizer = reductions(*at, computed_us=900, optimizer_us=600)
    assert with_optimizer.evidence["time_ns"] == pytest.approx(400_000, abs=2)


def test_what_is_computed_before_the_first_gradient_of_the_backward_pass_hides_nothing() -> None:
    """The last layer may have most of the weights, and nothing is reduced before its products."""
    at = (0, 600), (601, 1_200), (1_202, 1_800)
    gemm = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"
    work = (
        ("aten::mm", gemm, -900, -620),
        ("aten::_log_softmax_backward_data", "softmax_backward", -600, -500),
        ("aten::mm", gemm + "_input", -500, -450),
        ("aten::mm", gemm + "_weights", -450, -350),
        ("aten::mm", gemm + "_of_others", -350, -10),
    )
    # Two thirds of 900 us are the backward pass, and its first 250 us the loss and the last layer.
    found = reductions(*at, computed_us=900, work_us=work)
    assert found.evidence["time_ns"] == pytest.approx(350_000, abs=2)


@pytest.mark.parametrize(("between_us", "passes"), [(1, 2), (1_500, 1)])
def test_of_the_passes_of_a_step_only_the_last_hides_gradients_that_are_reduced_once(
    between_us: int, passes: int
) -> None:
    """Where gradients were accumulated, all backward passes of a step were taken for what could hide them."""
    second = 601 + between_us
    at = (0, 600), (second, second + 600), (second + 601, second + 1_200)
    found = reductions(*at, computed_us=1_800, losses=2)
    assert found.evidence["time_ns"] == pytest.approx(800_000 / passes, abs=2)


def test_gradients_that_are_reduced_in_a_row_could_be_hidden_but_for_the_last() -> None:
    found = reductions((0, 600), (601, 1_200), (1_202, 1_800))
    assert found.evidence["time_ns"] == 1_199_000
    assert found.change.transfer == {0: 0.0, 1: 0.0}
    assert found.evidence["in_a_row_ratio"] == 1


def test_several_buckets_stay_as_large_as_the_job_has_them() -> None:
    """Of four buckets of 100 MB most of the last, and of the first, was told to be hidden by others of 25 MB."""
    at, elements = ((0, 600), (601, 1_200), (1_202, 1_802)), 4 * (25 << 20) // 2
    assert reductions(*at, elements=elements).evidence["time_ns"] == 1_199_000
    assert reductions(*at, elements=elements, computed_us=900).evidence["time_ns"] == pytest.approx(400_000, abs=2)


def test_what_an_all_to_all_takes_longer_for_uneven_tokens_is_not_told_as_exposed() -> None:
    """Imbalanced experts were told twice: as imbalance, and as an exchange that nothing hides."""
    rows = [
        {
            "match": 0,
            "rank": rank,
            "arrival_ns": 0,
            "start_ns": 0,
            "left_ns": 200_000,
            "exposed_ns": 200_000,
            "group_ranks": "[0, 1, 2, 3]",
            "collective": "all_to_allv",
            "element_count": 2_000 if rank == 3 else 1_000,
            "element_type": "BFloat16",
            "step": 1,
            "group_size": 4,
        }
        for rank in range(4)
    ]
    (exposed,) = transfers.causes(Job(pl.DataFrame(), pl.DataFrame(rows), (0, 1, 2, 3), 0))
    assert exposed.evidence["time_ns"] == 100_000


def test_of_gradients_that_are_reduced_at_once_a_bucket_cannot_be_hidden() -> None:
    found = reductions((0, 1_000), elements=10 * (25 << 20) // 2)
    assert found.evidence["time_ns"] == 900_000
    assert found.evidence["bucket_count"] == 10
    assert reductions((0, 400), (500, 1_000), elements=10 * (25 << 20) // 2).evidence["bucket_count"] == 1


def test_a_loss_that_is_reduced_is_no_bucket_of_gradients() -> None:
    """All that is reduced at once was told to be hidden, last bucket and all, since the loss was reduced after it."""
    found = reductions((0, 1_000), elements=10 * (25 << 20) // 2, loss_us=(1_200, 1_210))
    assert (found.evidence["time_ns"], found.evidence["bucket_count"]) == (900_000, 10)


@pytest.mark.parametrize(
    ("first_us", "after_first_us", "ratio"), [(0, 2_000, 0.03), (-1, 2_000, 0.1), (0, 9_000, 0.1), (0, 0, 0.1)]
)
def test_gradients_that_the_backward_pass_waits_for_could_be_hidden_and_activations_could_not(
    first_us: int, after_first_us: int, ratio: float
) -> None:
    """Of reductions that computing waited for 5 to 7 % of the time was not told: activations are waited for as well."""
    # What is reduced first comes before the forward pass, within it, after it, or after the backward pass.
    at = (first_us, 600), (1_000, 1_600), (2_000, 2_600)
    found = reductions(*at, computed_us=3_000, after_first_us=after_first_us)
    assert least_ratio(found, 2, shares_cores=False) == ratio


def test_collectives_that_are_known_by_their_kernels_only_are_gathers_and_reductions_too() -> None:
    """Without the metadata of NCCL gathers were taken for something else, and had to cost three times as much."""
    apart = ((0, 600), (1_000, 1_600), (2_000, 2_600), (3_000, 3_600))
    gathers, others = (
        least_ratio(reductions(*apart, collective=f"ncclDevKernel_{name}_RING_LL(args)"), 2, shares_cores=False)
        for name in ("AllGather", "SendRecv")
    )
    assert (gathers, others) == (0.02, 0.15)
    in_a_row = reductions((0, 600), (601, 1_200), collective="ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(args)")
    assert in_a_row.evidence["in_a_row_ratio"] == 1


@pytest.mark.parametrize(("exposed_ratio", "ratio"), [(1.0, 0.03), (0.25, 0.1)])
def test_reductions_in_a_row_that_are_hidden_but_for_the_last_are_early_enough(
    exposed_ratio: float, ratio: float
) -> None:
    """Where a link is busy for as long as the backward pass, they were told to have been reduced too late."""
    evidence = {"per_step_count": 3, "in_a_row_ratio": 0.7, "exposed_ratio": exposed_ratio}
    found = Candidate("exposed-transfer", Change(), responsible="allreduce", evidence=evidence)
    assert least_ratio(found, 4, shares_cores=False) == ratio


def test_reductions_with_work_between_them_are_in_no_row() -> None:
    assert reductions((0, 600), (1_000, 1_600), (2_000, 2_600)).evidence["in_a_row_ratio"] == 0
    # Between those of a decoding step there are kernels of 20 us.
    assert reductions((0, 20), (42, 62), (84, 104)).evidence["in_a_row_ratio"] == 0


def gathers(*, waits_in: str | None = None, apart_us: int = 1_000, order: str = "gg") -> list[Candidate]:
    """Two ranks that gather and scatter in this order in a step, exposed, after hosts have waited or not."""
    rows = [
        {
            "match": place,
            "rank": rank,
            "arrival_ns": 1_000 * apart_us * place,
            "start_ns": 1_000 * apart_us * place,
            "left_ns": 1_000 * apart_us * place + 500_000,
            "exposed_ns": 400_000,
            "group_ranks": "[0, 1]",
            "collective": {"g": "_allgather_base", "s": "_reduce_scatter_base"}[kind],
            "element_count": 1_000,
            "element_type": "BFloat16",
            "step": 1,
            "group_size": 2,
            "cause": SYNCHRONIZATION if waits_in else None,
            "name": waits_in,
        }
        for place, kind in enumerate(order)
        for rank in range(2)
    ]
    nothing = {"cause": pl.String, "name": pl.String}
    return list(transfers.causes(Job(pl.DataFrame(), pl.DataFrame(rows, schema_overrides=nothing), (0, 1), 0)))


def test_gathers_that_a_wait_held_back_are_what_the_wait_costs_but_for_the_first_of_a_step() -> None:
    """Of reading values within steps only the gaps were told, and not the parameters that were asked for too late."""
    wait, exposed = gathers(waits_in="aten::item")
    assert (wait.cause, wait.responsible, wait.evidence["exposes"]) == (
        SYNCHRONIZATION,
        "aten::item",
        "_allgather_base",
    )
    assert wait.change.transfer == {1: pytest.approx(0.2)}
    assert (exposed.cause, [*exposed.change.transfer]) == (EXPOSED, [0])
    assert [found.cause for found in gathers(waits_in=None)] == [EXPOSED]


def test_no_more_of_a_gather_can_be_hidden_than_what_runs_since_the_one_before() -> None:
    """Gathers that take longer than the layers between them were worth all of their time."""
    (exposed,) = gathers(apart_us=600)
    assert exposed.change.transfer == {0: pytest.approx(0.2), 1: pytest.approx(0.8)}


@pytest.mark.parametrize(("order", "ratio"), [("gs" * 8, 0.15), ("g" * 5 + "gs" * 5, 0.02), ("g" * 8 + "s" * 8, 0.02)])
def test_activations_that_are_gathered_and_scattered_again_cannot_be_prefetched(order: str, ratio: float) -> None:
    """Healthy jobs of tensor parallelism with sequences in parallel were told of gathers of 4 to 13 % of their time."""
    found = next(each for each in gathers(order=order) if each.responsible == "_allgather_base")
    assert least_ratio(found, 2, shares_cores=False) == ratio


def test_reductions_of_each_kind_of_parallelism_are_told_apart() -> None:
    """Gradients reduced at the end hid among the activations that tensor parallelism reduces in each layer."""
    rows = [
        {
            "match": 10 * place + group[0],
            "rank": rank,
            "arrival_ns": 1_000_000 * place,
            "start_ns": 1_000_000 * place,
            "left_ns": 1_000_000 * place + 500_000,
            "exposed_ns": 400_000,
            "group_ranks": str(group),
            "collective": "_reduce_scatter_base",
            "element_count": 1_000,
            "element_type": "BFloat16",
            "step": 1,
            "group_size": 2,
        }
        for place in range(6)
        for group in ([[0, 2], [1, 3]] if place > 3 else [[0, 1], [2, 3]])
        for rank in group
    ]
    found = transfers.causes(Job(pl.DataFrame(), pl.DataFrame(rows), (0, 1, 2, 3), 0))
    assert sorted(each.evidence["per_step_count"] for each in found) == [2, 4]


def test_a_wait_exposes_no_gathers_of_activations() -> None:
    """Reading a value in each layer was worth 2.9 ms of 66 under tensor parallelism, and saved 0.9 ms."""
    waits = [[each.cause for each in gathers(waits_in="aten::item", order=order)] for order in ("gs" * 8, "g" * 8)]
    assert [SYNCHRONIZATION in causes for causes in waits] == [False, True]


@pytest.mark.parametrize("is_slow", [False, True])
def test_exchanges_of_other_tokens_in_each_step_are_compared_by_their_rate(is_slow: bool) -> None:
    """No two exchanges of experts have equal sizes, so that a link that became slow was slow for the gradients only."""
    rows = [
        {
            "match": 2 * step + place,
            "rank": rank,
            "arrival_ns": 10_000 * step + 2_000 * place,
            "start_ns": 10_000 * step + 2_000 * place,
            "left_ns": 10_000 * step + 2_000 * place + elements * (4 if is_slow and step > 2 else 1),
            "exposed_ns": 1_000,
            "group_ranks": "[0, 1]",
            "collective": "all_to_allv",
            "element_count": elements,
            "element_type": "BFloat16",
            "step": step,
            "group_size": 2,
        }
        for step in range(6)
        for place in range(2)
        for elements in [400 + 7 * step + 11 * place]
        for rank in range(2)
    ]
    job = Job(pl.DataFrame(), pl.DataFrame(rows), (0, 1), 0)
    slow = [found for found in transfers.causes(job) if found.cause == SLOW_LINK]
    assert [(found.steps, len(found.change.transfer)) for found in slow] == ([((3, 4, 5), 6)] if is_slow else [])
    assert all(factor == pytest.approx(0.25) for found in slow for factor in found.change.transfer.values())


@pytest.mark.parametrize(
    ("kind", "ratio"),
    [
        ("HtoD (Pinned -> Device)", 0.05),
        ("HtoD (Pageable -> Device)", 0.01),
        # ROCm does not tell whether it is pinned.
        ("HtoD (Host -> Device)", 0.05),
        # Intel's.
        ("H2D (HOST -> DEVICE)", 0.05),
        ("M2D (MEMORY -> DEVICE)", 0.01),
    ],
)
def test_batches_that_are_sent_as_fast_as_can_be_are_part_of_healthy_steps(kind: str, ratio: float) -> None:
    sent = Candidate("copy", Change(), responsible=f"Memcpy {kind}")
    assert least_ratio(sent, 4, shares_cores=False) == ratio
    assert least_ratio(replace(sent, ranks=(1,)), 4, shares_cores=False) == 0.01
