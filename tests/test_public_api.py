"""Every public name is documented: what it is, takes, returns and holds, and it has a place in the docs."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holotrace
from holotrace.analyses import ALL

PAGES = Path(__file__).parents[1] / "docs/reference"
# Modules that are public beside holotrace itself; docs/reference/versions.md declares them.
MODULES = {
    "holotrace.capture": ("jax", "torch"),
    "holotrace.core.analysis": ("Analysis", "per_job", "per_rank"),
    "holotrace.core.charts": ("Bar", "Chart", "Line", "Ranking", "Stacked"),
    "holotrace.core.schema": ("Column", "Table", "Unit"),
}
NAMES = [f"holotrace.{name}" for name in holotrace.__all__]
NAMES += [f"{module}.{name}" for module, names in MODULES.items() for name in names]
# Its methods have pages of their own, made from their declarations.
ANALYSES = {analysis.name for analysis in ALL}


def thing(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def callables(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The function, or the public methods and properties that a class itself defines."""
    if not inspect.isclass(value):
        yield name, value
        return
    for attribute, member in vars(value).items():
        if attribute.startswith("_") or attribute in ANALYSES or dataclasses.is_dataclass(member):
            continue
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        if isinstance(function, property) or inspect.isfunction(function):
            yield f"{name}.{attribute}", function


def undescribed(value: type) -> set[str]:
    """Fields without a string below them, or a line of their own in the docstring of the class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(body, ast.ClassDef)
    described = set(re.findall(r"(?m)^ +(\w+): ", value.__doc__ or ""))
    for item, below in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            has_string = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            described |= {item.target.id} if has_string else set()
    own = {name for name in vars(value).get("__annotations__", {}) if not name.startswith("_")}
    return own - described


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_says_what_it_is(name: str) -> None:
    value = thing(name)
    assert value.__doc__, name
    if inspect.isclass(value) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
        assert undescribed(value) == set()


@pytest.mark.parametrize(
    ("name", "function"),
    [pair for name in NAMES for pair in callables(name, thing(name))],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_public_function_says_what_it_takes_and_returns(name: str, function: Any) -> None:
    text = inspect.getdoc(function) or ""
    assert text, name
    if isinstance(function, property):
        return
    taken = [p.name for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    # An argument may be told in the sentence; a single one is what the function is about.
    unexplained = [argument for argument in taken if not re.search(rf"\b{argument}\b", text)]
    assert len(taken) <= 1 or unexplained == [], f"{name} does not explain {unexplained}"


@pytest.mark.parametrize(
    "name",
    ["open", "convert", "compare", "what_if", "query", "rewrite", *(f"Job.{name}" for name in ("map", "run", "table"))],
)
def test_a_verb_says_what_it_returns_and_raises(name: str) -> None:
    value: Any = holotrace
    for part in name.split("."):
        value = getattr(value, part)
    text = inspect.getdoc(value) or ""
    returns_nothing = inspect.signature(value).return_annotation in (None, "None")
    assert "Raises:" in text
    assert returns_nothing or "Returns:" in text
    for error in re.findall(r"(?m)^    (\w+Error): ", text.partition("Raises:")[2]):
        assert hasattr(holotrace, error) or error in ("KeyError",), f"{name} raises {error}, which is not public"


def test_every_public_name_is_on_a_page_of_the_reference() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted(PAGES.glob("*.md")))
    shown = set(re.findall(r"^::: (\S+)", text, re.MULTILINE))
    missing = [name for name in NAMES if name not in shown and name.rpartition(".")[0] not in shown]
    assert missing == []
    unknown = sorted(name for name in shown - set(NAMES) - set(MODULES))
    assert unknown == []
