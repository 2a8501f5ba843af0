"""What the host of an XLA profile did during given spans."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from drawing import spans, trace
from holotrace.core.tables import STEPS
from holotrace.derive import host_time
from holotrace.derive.host_activities import COMPILATION, DISPATCH, INPUT, INPUT_RANGES, PRIORITY, PROGRAM, WAIT

Activity = tuple[str, str, str, int, int]
SCHEMA = {"name": pl.String, "activity": pl.String, "tid": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}


def parts(of: tuple[int, int], *activities: Activity, threads: tuple[str, ...] = ("1",)) -> dict[str, int]:
    frame = pl.DataFrame(activities, schema=SCHEMA, orient="row")
    row = host_time.shares(spans(of), frame, host_time.everywhere(frame), pl.Series(threads, dtype=pl.String))
    sums = row.drop("start_ns", "end_ns").row(0, named=True)
    assert sum(sums.values()) == of[1] - of[0]
    assert set(sums) == {f"{name}_ns" for name in (*PRIORITY, "unattributed")}
    return {name.removesuffix("_ns"): ns for name, ns in sums.items() if ns}


def test_an_instant_belongs_to_the_first_activity_in_order_of_priority() -> None:
    both = ("load", INPUT, "1", 0, 6), ("compile", COMPILATION, "1", 4, 8)
    assert parts((0, 10), *both) == {"input": 4, "compilation": 4, "unattributed": 2}


def test_a_call_that_only_waits_to_start_a_program_dispatches_nothing() -> None:
    waiting = ("Execute", DISPATCH, "1", 0, 10), ("wait", WAIT, "1", 2, 9)
    assert parts((0, 10), *waiting) == {"dispatch": 3, "wait": 7}


def test_what_other_threads_load_is_no_input_of_a_thread_that_asks_for_its_own() -> None:
    """A host that computed between two calls of its loader was said to wait for the thread that loads ahead."""
    loading, own = ("Iterator::Map", INPUT, "2", 0, 10), ("next_batch", INPUT, "1", 8, 9)
    assert parts((0, 10), loading, own) == {"input": 1, "unattributed": 9}
    assert parts((0, 10), loading) == {"input": 10}


def test_the_name_of_a_cause_is_the_one_that_took_most_of_it() -> None:
    named = [("short", INPUT, "1", 0, 2), ("long", INPUT, "1", 2, 9)]
    frame = pl.DataFrame(named, schema=SCHEMA, orient="row")
    asked = spans((0, 10)).with_columns(cause=pl.lit(INPUT))
    assert host_time.details(asked, frame).to_list() == ["long"]
    assert host_time.details(asked.with_columns(cause=pl.lit(PROGRAM)), frame).to_list() == [None]


def test_spans_inside_others_of_the_same_activity_are_no_outermost() -> None:
    rows = [("a", INPUT, "1", 0, 9), ("b", INPUT, "1", 1, 3), ("c", INPUT, "2", 1, 3), ("d", INPUT, "1", 9, 10)]
    outer = host_time.outermost(pl.DataFrame(rows, schema=SCHEMA, orient="row"))
    assert sorted(outer["name"]) == ["a", "c", "d"]


def test_a_function_that_asks_for_the_time_over_and_over_is_named_and_not_what_it_asks() -> None:
    """Where just more than half of a gap was in short calls of one name, that was told instead of their caller."""
    asks = [("$time perf_counter", PROGRAM, "1", at, at + 6) for at in range(0, 1000, 10)]
    functions = [("$train.py:20 step", PROGRAM, "1", 0, 9_000), ("$train.py:7 detokenize", PROGRAM, "1", 0, 1000)]
    asked = spans((0, 1000)).with_columns(cause=pl.lit(PROGRAM))
    for outer, told in ((functions, "$train.py:7 detokenize"), (functions[:1], "$time perf_counter")):
        frame = pl.DataFrame([*outer, *asks], schema=SCHEMA, orient="row")
        assert host_time.details(asked, frame).to_list() == [told]


def test_what_another_thread_does_meanwhile_is_not_what_the_thread_with_the_steps_does() -> None:
    """Writing a checkpoint in the background was told to take half of what a function took beside it."""
    drawn = trace("""
        step |11111111222222223333|
        call |aFFFFFF.bFFFFFF.c...|
        call |..SSSS....SSSS...SSS|
        call |...P......P.........|
        deep |...C......C.........|
        tpu  |.......A.......B...C|
        F = $stats.py:9 compute_statistics
        S = $writer.py:7 serialize
        P = pure_callback.3
        C = $train.py:4 score
    """)
    told = host_time.activities(drawn, INPUT_RANGES).filter(activity=PROGRAM)
    found = told.group_by(pl.col("name").cast(pl.String)).len().sort("name")
    # Devices wait for what they call back themselves, and nothing else is known of the last.
    assert found.rows() == [
        ("$stats.py:9 compute_statistics", 2),
        ("$train.py:4 score", 2),
        ("$writer.py:7 serialize", 1),
        ("pure_callback.3", 2),
    ]


@pytest.mark.parametrize(
    ("inner", "is_of_library"),
    [
        ("$_pocketfft.py:58 _raw_fft", True),
        ("$fromnumeric.py:106 take", True),
        ("$json.py:9 dumps", True),
        # What these do tells more than who calls them.
        ("$threading.py:323 wait", False),
        ("$_base.py:449 result", False),
        ("$model.py:9 tokenize", False),
    ],
)
def test_a_function_that_calls_a_library_is_named_and_not_what_it_calls(inner: str, is_of_library: bool) -> None:
    """A program whose augmentation on the host is NumPy's was told the name of a function within NumPy."""
    outer = ("$train.py:25 augment", PROGRAM, "1", 0, 1100)
    frame = pl.DataFrame([outer, (inner, PROGRAM, "1", 50, 1000)], schema=SCHEMA, orient="row")
    asked = spans((0, 1000)).with_columns(cause=pl.lit(PROGRAM))
    assert host_time.details(asked, frame).to_list() == [outer[0] if is_of_library else inner]


def test_steps_that_a_device_shows_are_held_by_the_threads_that_launched_their_programs() -> None:
    """No thread was: of JAX on TPUs without marked steps nothing was known of what hosts do while devices work."""
    drawn = trace("step |111122223333|\ncall |a...a...a...|\ntpu |.AA..AA..AA.|")
    of_device = drawn[STEPS].with_columns(pl.col("event_id") + 10_000)
    shown = replace(drawn, tables={**drawn.tables, STEPS.name: of_device})
    assert host_time.stepping_threads(shown).to_list() == host_time.stepping_threads(drawn).to_list() == ["python"]
