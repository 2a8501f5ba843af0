"""How numbers, times, sizes and names read."""

import polars as pl
import pytest

from holotrace.core.schema import Column, Unit
from holotrace.present import format as fmt

TIME = Column("exposed_comm_ns", Unit.NS, "")


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (850, "850 ns"), (12_345, "12.3 µs"), (4_560_000, "4.56 ms"), (61_000_000_000, "61.0 s")],
)
def test_a_duration_has_the_unit_that_suits_it(ns: int, text: str) -> None:
    assert fmt.duration(ns) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        *[(0, "0%"), (0.0004, "<0.1%"), (0.0412, "4.1%"), (0.0996, "10%"), (0.614, "61%"), (None, fmt.NOTHING)],
        *[(0.994, "99%"), (0.9972, "99.7%"), (0.99999, ">99.9%"), (1, "100%"), (1.25, "125%")],
    ],
)
def test_a_share_is_short(ratio: float | None, text: str) -> None:
    assert fmt.percent(ratio) == text


@pytest.mark.parametrize(("size", "text"), [(512, "512 B"), (1536, "1.50 KiB"), (20 * 2**20, "20.0 MiB")])
def test_bytes_count_in_powers_of_two(size: int, text: str) -> None:
    assert fmt.size(size) == text


def test_ranks_are_ranges() -> None:
    assert fmt.ranks([3, 1, 0, 2, 7]) == "0-3, 7"
    assert fmt.ranks(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10 and 14 more"


def test_a_column_has_one_unit_and_its_digits_line_up() -> None:
    values = pl.Series([1_000_000, 250_000_000, None], dtype=pl.Int64)
    by = fmt.scale(TIME, values)
    assert by.unit == "ms"
    assert {len(fmt.cell(v, TIME, by).partition(".")[2]) for v in values if v is not None} == {by.decimals}


def test_parts_of_a_whole_share_their_unit() -> None:
    columns = (TIME, Column("idle_ns", Unit.NS, ""), Column("count", Unit.COUNT, ""))
    table = pl.DataFrame({"exposed_comm_ns": [330_000], "idle_ns": [25_000_000], "count": [3]})
    assert [by.unit for by in fmt.scales(table, columns)] == ["µs", "ms", ""]
    assert [by.unit for by in fmt.scales(table, columns, ("exposed_comm_ns", "idle_ns"))] == ["ms", "ms", ""]


def test_what_is_rounded_to_nothing_has_no_sign() -> None:
    by = fmt.Scale(1e-6, 3, "ms")
    assert (by.text(-1), by.text(-600), by.text(0), by.text(499)) == ("0.000", "-0.001", "0.000", "0.000")
    assert fmt.Scale().text(-(2**63)) == "-9,223,372,036,854,775,808"


def test_numbers_that_name_something_are_not_grouped_and_counts_are() -> None:
    for unit, name, text in (
        (Unit.RANK, "rank", "1023"),
        (Unit.NUMBER, "stream", "1023"),
        (Unit.COUNT, "count", "1,023"),
    ):
        column = Column(name, unit, "")
        values = pl.Series([1023])
        assert fmt.cell(1023, column, fmt.scale(column, values)) == text


def test_a_column_of_nothing_but_nulls_has_a_scale() -> None:
    for unit in Unit:
        column = Column(f"x{unit.suffix}", unit, "")
        values = pl.Series([None], dtype=unit.dtype)
        assert fmt.cell(None, column, fmt.scale(column, values)) == fmt.NOTHING


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_float_that_is_no_number_is_a_dash(value: float) -> None:
    column = Column("bandwidth", Unit.FLOAT, "")
    assert fmt.cell(value, column, fmt.scale(column, pl.Series([value]))) == fmt.NOTHING


def test_a_label_is_words_without_the_unit() -> None:
    assert fmt.label(TIME) == "Exposed communication"
    assert fmt.label(Column("hidden_ratio", Unit.RATIO, "")) == "Hidden"


def test_characters_that_a_terminal_or_a_reader_would_obey_are_replaced() -> None:
    assert fmt.printable("a\x1b[31m\x00b\u202ec\nd") == "a\ufffd[31m\ufffdb\ufffdc d"


def test_a_long_name_keeps_both_ends() -> None:
    assert fmt.middle("abcdefghij", 5) == "ab…ij"
    assert fmt.middle("abcde", 5) == "abcde"


def test_points_in_time_are_counted_from_the_first_event_of_the_job() -> None:
    # Every row said 6,322,354 s.
    columns = (Column("start_ns", Unit.NS, "Start"), Column("took_ns", Unit.NS, "Length"))
    table = pl.DataFrame({"start_ns": [6_322_354_293_170_044, 6_322_354_295_170_044], "took_ns": [5, 7]})
    shown, named = fmt.since_first_event(table, columns, 6_322_354_293_170_044)
    assert [fmt.label(column) for column in named] == ["Start since first event", "Took"]
    assert shown.rows() == [(0, 5), (2_000_000, 7)]
    assert fmt.since_first_event(table, columns, None) == (table, columns)


def test_large_plain_numbers_are_written_with_a_power_of_ten() -> None:
    flops = Column("model_flops", Unit.FLOAT, "Operations")
    by = fmt.scale(flops, pl.Series([19_791_209_299_968.0]))
    assert (by.text(19_791_209_299_968.0), by.unit) == ("19.8", "10¹²")
    assert fmt.scale(flops, pl.Series([12.5])).unit == ""


def test_names_that_are_abbreviations_keep_their_form() -> None:
    columns = ("mfu_ratio", Unit.RATIO), ("achieved_tflops", Unit.FLOAT), ("event_id", Unit.EVENT)
    assert [fmt.label(Column(*column, "")) for column in columns] == ["MFU", "Achieved TFLOP/s", "Event ID"]
