"""Steps that programs mark: inside each other, of several names, with numbers that occur twice."""

from __future__ import annotations

from pathlib import Path

import pytest

import holotrace
from holotrace import Job
from xplane_files import Event, Line, Plane, space

US = 1_000_000  # in ps


def marked(folder: Path, *spans: tuple[str, int, int, int]) -> Job:
    """A job whose host marked these steps: name, number, start and length in microseconds."""
    steps = [
        Event(name, start * US, length * US, {"_r": 1, "step_num": number}) for name, number, start, length in spans
    ]
    plane = Plane("/host:CPU", [Line("python", [*steps, Event("PjitFunction(f)", US, US)])])
    (folder / "host.xplane.pb").write_bytes(space(plane))
    return holotrace.open(folder)


def numbers(job: Job) -> list[int]:
    found: list[int] = job.table("steps").sort("start_ns")["step"].to_list()
    return found


def test_what_is_marked_in_a_step_is_a_part_of_it(tmp_path: Path) -> None:
    """The time of a step and of the one within it were summed as if one came after the other."""
    job = marked(tmp_path, ("train", 0, 0, 10), ("inner", 100, 2, 4), ("train", 1, 10, 10), ("inner", 101, 12, 4))
    assert numbers(job) == [0, 1]
    assert job.host_steps()["step_ns"].to_list() == [10_000, 10_000]


def test_where_training_and_evaluation_have_the_same_numbers_the_steps_are_those_of_training(tmp_path: Path) -> None:
    """The evaluation's step 1 was taken for a part of the training's, which began so much earlier."""
    spans = (("train", 0, 0, 10), ("train", 1, 10, 10), ("eval", 0, 20, 2), ("eval", 1, 22, 2), ("train", 2, 24, 10))
    job = marked(tmp_path, *spans)
    assert numbers(job) == [0, 1, 2]
    assert job.table("steps")["end_ns"].max() == 34_000
    (said,) = job.problems().filter(problem="steps of several names").to_dicts()
    assert (said["example"], said["action"]) == ("eval", "those of train were taken, as numbers occur twice")


def test_steps_of_several_names_and_numbers_are_all_steps(tmp_path: Path) -> None:
    job = marked(tmp_path, ("train", 0, 0, 10), ("train", 1, 10, 10), ("eval", 7, 20, 2))
    assert numbers(job) == [0, 1, 7]
    assert "steps of several names" not in job.problems()["problem"]


@pytest.mark.parametrize("evaluated", [(), (("eval", 0, 20, 2),)])
def test_steps_that_each_epoch_numbers_again_are_numbered_in_their_order(
    evaluated: tuple[tuple[str, int, int, int], ...], tmp_path: Path
) -> None:
    spans = [("train", at % 2, 10 * at + (4 if at > 1 else 0), 10) for at in range(4)]
    job = marked(tmp_path, *spans, *evaluated)
    assert numbers(job) == [0, 1, 2, 3]
    assert "step numbers repeat" in job.problems()["problem"]


def test_what_a_device_does_is_in_the_steps_of_its_own_line(tmp_path: Path) -> None:
    """Where a device began a step just before the first one did, a step had the work of two, and the next had none."""

    def core(number: int, begin: tuple[int, ...]) -> Plane:
        steps = [Event(str(step), at * US, 10 * US) for step, at in enumerate(begin, 5)]
        runs = [Event("jit_f(7)", at * US, 9 * US, {"run_id": step}) for step, at in enumerate(begin)]
        ops = [Event("%fusion.1", at * US, 9 * US, {"hlo_category": "loop fusion"}, "fusion.1") for at in begin]
        lines = [Line("Steps", steps, id=1), Line("XLA Modules", runs, id=2), Line("XLA Ops", ops, id=3)]
        return Plane(f"/device:TPU:{number}", lines)

    (tmp_path / "host.xplane.pb").write_bytes(space(core(0, (1, 11, 21)), core(1, (0, 10, 20))))
    job = holotrace.open(tmp_path)
    assert numbers(job) == [5, 6, 7]
    for table in ("modules", "xla_ops"):
        assert job.table(table).sort("device", "start_ns")["step"].to_list() == [5, 6, 7] * 2
