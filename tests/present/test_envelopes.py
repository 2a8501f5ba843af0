"""JSON is what its published schema says, and stays what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holotrace.cli import main
from trace_files import write_trace

SCHEMAS = Path(__file__).parents[2] / "docs" / "reference"
FROZEN = Path(__file__).parents[1] / "data" / "envelope"
COMMANDS = {"table": ("show", "overlap"), "report": ("report",)}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the commands write now of a job of which one file is cut off."""
    folder = tmp_path_factory.mktemp("written")
    for rank in (0, 1):
        write_trace(folder / f"rank{rank}.json", rank=rank, world=3)
    path = folder / "rank1.json"
    path.write_text(path.read_text()[:-40])
    runs = {name: CliRunner().invoke(main, [*args, str(folder), "--format", "json"]) for name, args in COMMANDS.items()}
    return {name: json.loads(run.stdout) for name, run in runs.items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_written_is_what_the_schema_says(written: dict[str, Any], name: str) -> None:
    from jsonschema import Draft202012Validator  # takes seconds

    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(written[name])
    Draft202012Validator(schema).validate(json.loads((FROZEN / f"{name}-1.json").read_text()))


@pytest.mark.parametrize("name", COMMANDS)
def test_no_field_of_a_published_version_goes_or_changes(written: dict[str, Any], name: str) -> None:
    frozen = json.loads((FROZEN / f"{name}-1.json").read_text())
    assert frozen["schema"] == written[name]["schema"]
    assert fields(frozen) <= fields(written[name])


def fields(value: Any, path: str = "") -> set[str]:
    """Where there is a value of which type; of lists any entry counts, and of tables of a report any one."""
    if isinstance(value, dict):
        return {place for key, inner in value.items() for place in {f"{path}.{key}", *fields(inner, f"{path}.{key}")}}
    if isinstance(value, list):
        return {place for inner in value for place in fields(inner, f"{path}[]")}
    return {f"{path}: {type(value).__name__}"} if value is not None else set()
