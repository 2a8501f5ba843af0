"""Rules of the user's own decide kinds first, wherever ranks are read, and in datasets."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import holotrace
from holotrace import InputError, KindRule, UsageError
from holotrace.cli import main
from holotrace.engine.processes import Processes
from trace_files import EVENTS, write_trace

RULE = KindRule("communication", "^AMPERE_gemm")
TOML = '[[rule]]\nkind = "communication"\nname = "^AMPERE_gemm"\n'


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "rank0.json"
    write_trace(path, rank=0, world=1)
    return path


def communication_ns(path: Path, **options: object) -> int:
    return int(holotrace.open(path, **options).overlap()["comm_ns"][0])  # type: ignore[arg-type]


def test_a_rule_of_ones_own_is_tried_first(trace: Path, tmp_path: Path) -> None:
    assert len([event for event in EVENTS if event["cat"] == "kernel"]) == 2
    assert communication_ns(trace) == 20_000
    assert communication_ns(trace, kinds=[RULE]) == 30_000
    rules = tmp_path / "rules.toml"
    rules.write_text(TOML)
    assert communication_ns(trace, kinds=rules) == 30_000
    silent = [KindRule("compute", "nccl"), RULE]
    assert communication_ns(trace, kinds=silent) == 20_000


def test_rules_travel_to_worker_processes(trace: Path) -> None:
    with Processes(1) as workers:
        assert communication_ns(trace, kinds=[RULE], executor=workers) == 30_000


def test_rules_travel_into_datasets_and_decide_anew_in_them(trace: Path, tmp_path: Path) -> None:
    plain, own = tmp_path / "plain", tmp_path / "own"
    holotrace.convert(holotrace.open(trace), plain, answers=True)
    holotrace.convert(holotrace.open(trace, kinds=[RULE]), own, answers=True)
    assert (communication_ns(plain), communication_ns(own)) == (20_000, 30_000)
    # What the dataset kept of its answers is of other rules.
    assert communication_ns(plain, kinds=[RULE]) == 30_000
    assert communication_ns(own, kinds=[KindRule("compute", "ampere")]) == 20_000
    assert communication_ns(plain) == 20_000
    with pytest.raises(InputError, match="with rules for kinds"):
        holotrace.convert(holotrace.open(trace), own)


def test_the_command_line_takes_a_file_of_rules(trace: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(TOML)
    done = CliRunner().invoke(main, ["show", "overlap", str(trace), "--format", "csv", "--kinds", str(rules)])
    assert done.exit_code == 0, done.output
    assert ",30000," in done.output
    missing = CliRunner().invoke(main, ["show", "overlap", str(trace), "--kinds", str(tmp_path / "none.toml")])
    assert missing.exit_code == 3
    assert "none.toml cannot be read" in missing.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[rule]]\nkind = 'compute'\nname = '('\n", "no regular expression"),
        ("[[rule]]\nkind = 'noise'\nname = 'x'\n", "'noise' is no kind of device work"),
        ("[[rule]]\nkind = 'compute'\n", "needs a name or a category"),
        ("[[rule]]\nname = 'x'\n", "has no kind"),
        ("[[rule]]\nkind = 'compute'\npattern = 'x'\n", "has pattern"),
        ("[[rule]]\nkind = 'compute'\nname = 3\n", "has name"),
        ("rule = 3", "must hold"),
        ("[[rules]]\nkind = 'compute'", "must hold"),
        ("[[", "is no TOML"),
    ],
)
def test_a_wrong_file_of_rules_is_one_sentence(trace: Path, tmp_path: Path, text: str, reason: str) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(text)
    with pytest.raises(InputError, match=reason):
        holotrace.open(trace, kinds=rules)


def test_a_wrong_rule_is_refused() -> None:
    with pytest.raises(UsageError, match="no kind"):
        KindRule("noise", "x")
