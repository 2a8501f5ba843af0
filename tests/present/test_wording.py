"""Figures and names in findings, and that findings are data: figures become words in present/ only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from holotrace import Finding, analyses, derive
from holotrace.present.wording import join_names, pluralize, sentence, worded

ROOMS = [Path(str(room.__file__)).parent for room in (analyses, derive)]


@pytest.mark.parametrize(
    ("steps", "said"),
    [([3], "step 3"), ([3, 7], "steps 3 and 7"), ([3, 7, 11], "steps 3, 7 and 11"), (list(range(9)), "9 steps")],
)
def test_a_few_numbers_are_named_and_many_are_counted(steps: list[int], said: str) -> None:
    assert pluralize("step", steps) == said


@pytest.mark.parametrize(
    ("names", "said"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c"), (list("abcde"), "a, b, c and 2 more")],
)
def test_the_first_names_are_listed(names: list[str], said: str) -> None:
    assert join_names(names) == said


def test_values_are_written_in_the_form_that_the_template_asks_for() -> None:
    template = (
        "{a:percent} {b:duration} {c:size} {d:count} {e:plural rank} {f:numbered step} {g:names} {h:gbps} {i:times}"
    )
    values = {
        "a": 0.25,
        "b": 1_500_000,
        "c": 2048,
        "d": 12_345,
        "e": 1,
        "f": [1, 2],
        "g": ["x", None],
        "h": 3,
        "i": 2.5,
    }
    said = "25% 1.50 ms 2.00 KiB 12,345 1 rank steps 1 and 2 x and something without a name 3.0 GB/s 2.5"
    assert sentence(Finding("info", template, values=values)) == said


def test_a_limit_has_no_zeros_behind_its_point() -> None:
    finding = Finding("info", "{a:round_size}, {b:round_duration}", values={"a": 1 << 20, "b": 5_000})
    assert sentence(finding) == "1 MiB, 5 µs"


def test_braces_of_names_are_left_alone() -> None:
    name = "lambda {a:percent}"
    assert (
        sentence(Finding("info", "a run of {name:name} was long", values={"name": name})) == f"A run of {name} was long"
    )
    assert sentence(Finding("info", name)) == name


def test_a_finding_is_worded_once() -> None:
    once = worded(Finding("info", "{a:name}", values={"a": "{a:name}"}))
    assert (once.message, once.template) == ("{a:name}", "{a:name}")
    assert worded(once) is once


@pytest.mark.parametrize("module", sorted(p for room in ROOMS for p in room.glob("*.py")), ids=lambda path: path.name)
def test_percent_milliseconds_and_plurals_exist_in_present_only(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue):
            assert node.format_spec is None, f"line {node.lineno} formats a figure"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
            values = {keyword.arg for keyword in node.keywords}
            message = node.args[1] if len(node.args) > 1 else None
            if isinstance(message, ast.Constant) and "{" in str(message.value):
                assert "values" in values, f"line {node.lineno} has a template without values"
            if isinstance(message, ast.Constant):
                assert not re.search(r"\d ?(%|ms|µs|GB)", str(message.value)), f"line {node.lineno} holds a figure"


def test_a_finding_begins_as_a_sentence_does_and_a_name_keeps_its_form() -> None:
    said = {
        "exposed communication takes {ratio:percent}": "Exposed communication takes 15%",
        "{name:name} was compiled again": "aten::mm was compiled again",
        "aten::mm takes long": "aten::mm takes long",
        "loader(x) takes long": "loader(x) takes long",
    }
    values = {"ratio": 0.15, "name": "aten::mm"}
    found = [Finding("info", template, values=values if "{" in template else {}) for template in said]
    assert [sentence(finding) for finding in found] == list(said.values())


def test_a_sentence_that_begins_with_numbered_steps_begins_with_a_capital() -> None:
    found = Finding("info", "{steps:numbered step} took longer", values={"steps": [5, 6]})
    assert sentence(found) == "Steps 5 and 6 took longer"
