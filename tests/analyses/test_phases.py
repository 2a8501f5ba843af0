"""Forward, backward and update."""

from __future__ import annotations

from drawing import draw
from holotrace.job import Job
from holotrace.present.wording import sentence

TRAINING = """
    step  |111111111222222222222|
    tpu   |.FFBBBBU...FFBBBBBBU.|
    call  |fbu......fbu.........|
    mark  |VVVVV....WWWW........|
    F = dot.1 @ jit(f)/jvp(forward)/dot
    B = dot.2 @ jit(f)/transpose(jvp(forward))/dot
    U = add.3 @ jit(f)/update/add
    V = forward
    W = backward_pass
"""


def times(job: Job, **options: bool) -> list[tuple[int | None, str, int, int]]:
    return job.phases(**options).select("step", "phase", "work_ns", "host_ns").rows()


def test_time_of_operations_adds_up_by_phase() -> None:
    assert times(draw(TRAINING)) == [
        (None, "forward", 4_000, 5_000),
        (None, "backward", 10_000, 4_000),
        (None, "update", 2_000, 0),
    ]


def test_time_of_a_phase_belongs_to_the_step_that_launched_it() -> None:
    assert times(draw(TRAINING), by_step=True) == [
        (1, "forward", 2_000, 5_000),
        (1, "backward", 4_000, 0),
        (1, "update", 1_000, 0),
        (2, "forward", 2_000, 0),
        (2, "backward", 6_000, 4_000),
        (2, "update", 1_000, 0),
    ]


def test_adding_up_gradients_of_parts_of_a_batch_is_a_phase_of_its_own() -> None:
    job = draw(
        """
        tpu |FFBBBAU|
        F = dot.1 @ jit(f)/jvp(forward)/dot
        B = dot.2 @ jit(f)/transpose(jvp(forward))/dot
        A = add.3 @ jit(f)/accumulate_gradients/add
        U = add.4 @ jit(f)/update/add
        """
    )
    assert [(phase, work) for _, phase, work, _ in times(job)] == [
        ("forward", 2_000),
        ("backward", 3_000),
        ("accumulation", 1_000),
        ("update", 1_000),
    ]


def test_shares_of_a_device_sum_to_one() -> None:
    table = draw(TRAINING + "\ntpu |BBB...U|").phases()
    assert table.group_by("device").agg(table["share_ratio"].sum() * 0 + 1).height == 2
    assert table.filter(device=1)["share_ratio"].sum() == 1


def test_a_backward_pass_that_takes_too_long_is_a_finding() -> None:
    slow = TRAINING.replace("BBBB", "BBBBBBBB", 1)
    found = {finding.rule: finding for finding in draw(slow).findings()}
    assert sentence(found["heavy-backward"]) == "The backward pass takes 3.5 times as long as the forward pass"
    assert "heavy-backward" not in {finding.rule for finding in draw(TRAINING).findings()}


def test_an_update_that_takes_a_fifth_is_a_finding() -> None:
    heavy = draw("tpu |FFUUU|\nF = dot @ forward/dot\nU = add @ update/add")
    found = next(finding for finding in heavy.findings() if finding.rule == "heavy-update")
    assert (sentence(found), found.cost_ns) == ("The update takes 60% of the device time", 3_000)
