"""The time of each step and its parts."""

from drawing import draw
from holotrace.job import Job


def job() -> Job:
    return draw(
        """
        step    |1111111122222222|
        compute |AA..BBB.CC..DDDD|
        comm    |..CC......DD....|
        """
    )


def test_parts_of_each_step_sum_to_its_time() -> None:
    found = job().step_times()
    parts = found.select("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns").sum_horizontal()
    assert parts.to_list() == found["total_ns"].to_list()


def test_a_step_is_as_time_breakdown_tells_it() -> None:
    asked = job()
    expected = asked.time_breakdown(by_step=True).drop_nulls("step").drop("idle_ratio")
    assert asked.step_times().equals(expected)


def test_ranks_without_steps_have_no_rows() -> None:
    assert draw("compute |AAAA....BB|").step_times().is_empty()
