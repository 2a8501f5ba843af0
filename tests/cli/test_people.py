"""What a person at a terminal gets: a row per name, whole names, and a word where a name is mistyped."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holotrace import sample
from holotrace.cli import main


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    sample.write(folder, ranks=2, steps=2, events=2_000, seed=1)
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_show_has_a_row_per_name_and_by_rank_a_row_per_rank(job: Path) -> None:
    by_name, by_rank = run("show", "kernels", job), run("show", "kernels", job, "--by-rank")
    assert "Worst" in by_name.output and "A row per name, means of" in by_name.output
    assert "Worst" not in by_rank.output and "Rank" in by_rank.output


def test_programs_get_every_row_however_people_see_it(job: Path) -> None:
    assert run("show", "kernels", job, "--format", "csv").output == (
        run("show", "kernels", job, "--format", "csv", "--by-rank").output
    )


def test_wide_shows_all_columns_and_whole_names(job: Path) -> None:
    usual, wide = run("show", "kernels", job), run("show", "kernels", job, "--wide")
    assert "…" in usual.output and "…" not in wide.output
    assert "more column" not in wide.output
    assert not [line for line in wide.output.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(("show", "kernles"), "kernels"), (("shwo",), "show"), (("show", "critcal_path"), "critical-path")],
)
def test_a_mistyped_name_is_told_with_the_one_that_was_meant(typed: tuple[str, ...], meant: str) -> None:
    failed = run(*typed, "nowhere")
    assert failed.exit_code == 2
    assert failed.output.count("Did you mean") == 1 and meant in failed.output.partition("Did you mean")[2]


def test_a_name_like_no_other_is_only_refused() -> None:
    assert "Did you mean" not in run("show", "zzzzzz", "nowhere").output
