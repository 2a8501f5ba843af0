"""The time of each step and its parts."""

from drawing import draw
from holotrace.analyses.step_times import step_times
from holotrace.job import Job


def job() -> Job:
    return draw(
        """
        step    |1111111122222222|
        host    |AEB.....C.D.....|
        compute |AA..BBB..CC.DDDD|
        comm    |..EE............|
        """
    )


def test_parts_of_each_step_sum_to_its_time() -> None:
    found = job().step_times()
    assert found.height == 2
    parts = found.select("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns").sum_horizontal()
    assert parts.to_list() == found["total_ns"].to_list()


def test_a_step_is_as_time_breakdown_tells_it() -> None:
    asked = job()
    expected = asked.time_breakdown(by_step=True).drop_nulls("step").drop("idle_ratio")
    assert asked.step_times().equals(expected)


def test_ranks_without_steps_have_no_rows() -> None:
    assert draw("compute |AAAA....BB|").step_times().is_empty()


def test_a_step_that_takes_long_is_named_with_the_time_beyond_the_median_step() -> None:
    drawn = draw(
        """
        step    |1112223334444444444|
        host    |A..B..C..D.........|
        compute |.AA.BBB.CC.......DD|
        """
    )
    (found,) = step_times.findings(drawn.step_times())
    assert (found.values["steps"], found.severity) == ([4], "info")
    # Steps of 2, 4, 3 and 9 microseconds.
    assert found.cost_ns == 5_500


def test_few_or_even_steps_are_not_judged() -> None:
    assert step_times.findings(job().step_times()) == []
    assert (
        step_times.findings(draw("step    |111222333444|\nhost    |A..B..C..D..|\ncompute |AAABBBCCCDDD|").step_times())
        == []
    )
