"""What the commands print."""

import made_up
import polars as pl
import pytest
from rich.console import Console, RenderableType

from holotrace.core.tables import PROBLEMS
from holotrace.present import terminal

KERNELS = made_up.kernels.columns


def printed(what: RenderableType, width: int = 100) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(what)
    return capture.get()


def test_the_verdict_is_the_one_of_the_page() -> None:
    text = printed(terminal.verdict(made_up.make(8), made_up.ANALYSES), width=300)
    assert "The biggest finding: only 38% of communication is hidden (worth up to 163 ms" in text


def test_findings_are_listed_with_ranks_and_worth() -> None:
    lines = printed(terminal.findings(made_up.make(8, missing=(5,)).findings)).splitlines()
    row = next(line for line in lines if "critical" in line)
    assert [word for word in ("exposed-communication", "0-4, 6-7", "163 ms") if word not in row] == []


def test_markup_and_control_characters_of_a_name_are_shown_and_not_obeyed() -> None:
    table = made_up.make(1, names=["[red]x[/red] [/] \x1b[31m"]).tables["kernels"]
    text = printed(terminal.table(table, KERNELS, limit=None, width=200), width=200)
    assert "[red]x[/red] [/] \ufffd[31m" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [100, 140, 250])
def test_a_table_fits_its_terminal_and_long_names_are_wrapped_and_keep_both_ends(width: int) -> None:
    table = made_up.make(1).tables["kernels"]
    lines = printed(terminal.table(table, KERNELS, width=width), width=width).splitlines()
    assert max(map(len, lines)) <= width
    at = next(i for i, line in enumerate(lines) if "ncclDevKernel_AllReduce" in line)
    name = "".join(line[7:].split("  ")[0].strip() for line in lines[at : at + (2 if width < 200 else 1)])
    assert name.endswith("ul>)") and ("…" in name) == (width < 140)


def test_every_row_has_all_its_numbers_however_narrow_the_terminal() -> None:
    table = made_up.make(1).tables["time_breakdown"]
    text = printed(terminal.table(table, made_up.time_breakdown.columns, width=80), width=80)
    assert text.count("763") == 1


def test_columns_that_do_not_fit_are_named_and_not_squeezed() -> None:
    table = made_up.make(1).tables["kernels"]
    text = printed(terminal.table(table, KERNELS, width=60), width=60)
    assert "more columns; show them with --wide" in text
    assert max(map(len, text.splitlines())) <= 60
    assert "more column" not in printed(terminal.table(table, KERNELS, width=200), width=200)


def test_a_column_without_any_value_is_not_shown() -> None:
    table = made_up.make(1).tables["time_breakdown"]
    assert "Step" not in printed(terminal.table(table, made_up.time_breakdown.columns, width=120), width=120)


def test_the_rows_left_out_are_counted() -> None:
    table = made_up.make(2, kernel_count=20).tables["kernels"]
    assert "37 more rows; show them with --limit" in printed(terminal.table(table, KERNELS, limit=3))
    assert "more row" not in printed(terminal.table(table, KERNELS, limit=None))


def test_nothing_is_said_in_words() -> None:
    assert printed(terminal.table(made_up.empty().tables["kernels"], KERNELS)) == "No rows.\n"
    assert printed(terminal.findings(())) == "No rule found anything to fix.\n"


def test_info_says_what_is_there_and_what_could_not_be_read() -> None:
    result = made_up.make(8, missing=(5,))
    problems = pl.concat(
        [made_up.problem("cut off", 2), made_up.problem("cut off", 3).with_columns(rank=pl.lit(1, pl.Int32))]
    )
    text = printed(terminal.info(result.info, problems, "traces/job8"))
    for words in (
        "7 of 8; missing 5",
        "NVIDIA H100 80GB HBM3",
        "PyTorch 2.9, CUDA 13.0",
        "cut off on ranks 0-1 (5 times);",
    ):
        assert words in text


def test_a_problem_of_the_whole_job_names_no_rank() -> None:
    problems = made_up.problem("ranks missing").with_columns(rank=pl.lit(None, pl.Int32))
    assert f"ranks missing ({problems['example'][0]}); kept what came before it" in printed(
        terminal.info(made_up.make(1).info, problems, "x")
    )


def test_info_of_nothing_is_no_error() -> None:
    assert "none" in printed(terminal.info(made_up.empty().info, PROBLEMS.empty(), "empty"))
