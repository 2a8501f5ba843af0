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


def test_a_chart_is_drawn_in_place_of_the_table(job: Path) -> None:
    drawn = run("show", "time-breakdown", job, "--chart")
    assert drawn.exit_code == 0
    assert drawn.stdout.startswith("Time [ms] by rank") and "Rank 1 █" in drawn.stdout
    one = run("show", "time-breakdown", job, "--chart", "--rank", 1).stdout
    assert "Rank 1 █" in one and "Rank 0" not in one


def test_a_chart_is_written_to_a_text_file_and_to_no_other(job: Path, tmp_path: Path) -> None:
    assert run("show", "kernels", job, "--chart", "-o", tmp_path / "chart.txt").exit_code == 0
    assert "█" in (tmp_path / "chart.txt").read_text(encoding="utf-8")
    for refused in (("--format", "json"), ("-o", tmp_path / "chart.csv")):
        failed = run("show", "kernels", job, "--chart", *refused)
        assert failed.exit_code == 2 and "holds no chart; leave out --chart" in failed.stderr
    assert not (tmp_path / "chart.csv").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("holotrace sh", "show"),
        ("holotrace show kernel-s", "kernel-sequences"),
        ("holotrace show overlap job --ch", "--chart"),
        ("holotrace query --for", "--format"),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_names_and_options(shell: str, words: str, expected: str) -> None:
    *before, last = words.split()
    asked = {"COMP_WORDS": words, "COMP_CWORD": last if shell == "fish" else str(len(before))}
    completed = CliRunner().invoke(
        main, [], env={"_HOLOTRACE_COMPLETE": f"{shell}_complete", **asked}, prog_name="holotrace"
    )
    assert expected in completed.output


def test_a_shell_completes_paths_of_a_job() -> None:
    asked = {"_HOLOTRACE_COMPLETE": "bash_complete", "COMP_WORDS": "holotrace show overlap jo", "COMP_CWORD": "3"}
    assert CliRunner().invoke(main, [], env=asked, prog_name="holotrace").output.startswith("file,")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("causes", "No cause is known that is worth more than 1% of the job's time."),
        (
            "hlo-ops",
            "No rows. They would be made from xla-ops; holotrace show xla-ops lists what the recording has of it.",
        ),
        ("kernels", "No rows."),
    ],
)
def test_an_answer_without_rows_says_what_that_means(tmp_path: Path, name: str, told: str) -> None:
    """'No rows.' was all that was said of a job without a cause, and of analyses of other recordings."""
    (tmp_path / "rank-0.json").write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2, "tid": 1}]}')
    shown = run("show", name, tmp_path)
    assert " ".join(shown.stdout.split()) == told


def test_a_comparison_by_what_neither_job_has_says_so(job: Path) -> None:
    compared = run("compare", job, job, "--by", "scope")
    assert " ".join(compared.stdout.split()).startswith("No rows. Neither recording has anything to compare by scope")
