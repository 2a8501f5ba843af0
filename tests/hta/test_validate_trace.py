"""Whether a file is fit for HTA's frames."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hta_traces import event

from hta.configs.parser_config import ParserConfig
from hta.utils import validate_trace
from hta.utils.validate_trace import get_argument_spec, get_expected_arguments, validate_trace_format
from trace_files import write_trace


def test_a_traces_args_have_their_types(tmp_path: Path) -> None:
    good = write_trace(tmp_path / "good.json", events=[event("a", 1, 1, correlation=1), event("b", 2, 1)])
    assert validate_trace_format(str(good)) == (True, {})


def test_values_of_another_type_are_described(tmp_path: Path) -> None:
    bad = write_trace(tmp_path / "bad.json.gz", events=[event("a", 1, 1, External_id="x", bytes=2)])
    is_fit, errors = validate_trace_format(str(bad))
    assert not is_fit
    assert errors == {"type_violations": {"External id": "'x' is a str, not of type Int"}}
    # A lower level does not look at it.
    assert validate_trace_format(str(bad), level="minimal")[0]


def test_args_that_the_level_does_not_know_are_counted_on_request(tmp_path: Path) -> None:
    file = write_trace(tmp_path / "t.json", events=[event("a", 1, 1, odd=1), event("a", 2, 1, odd=2)])
    assert validate_trace_format(str(file))[0]
    assert validate_trace_format(str(file), "complete", False) == (False, {"skipped_arguments": {"odd": 2}})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "trace_read_error"),
        ('{"x": []}', "trace_data_error"),
        ("[]", "trace_data_error"),
        ('{"traceEvents": [1, {"args": 2}]}', "args_data_type"),
    ],
)
def test_what_is_no_trace_is_said_to_be_none(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "t.json").write_text(text)
    is_fit, errors = validate_trace_format(str(tmp_path / "t.json"))
    assert not is_fit
    assert list(errors) == [error]


def test_an_absent_file_cannot_be_read(tmp_path: Path) -> None:
    assert "trace_read_error" in validate_trace_format(str(tmp_path / "absent.json"))[1]


def test_levels_are_groups_of_args() -> None:
    assert get_argument_spec("minimal") == ParserConfig.ARGS_MINIMUM
    with pytest.raises(KeyError):
        get_argument_spec("all")
    expected = get_expected_arguments(get_argument_spec("minimal"))
    assert expected["trace_df_column_name"].tolist() == ["stream", "correlation"]
    assert expected["arg_default_values"].tolist() == [-1, -1]


def test_the_command_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_trace(tmp_path / "t.json", events=[event("a", 1, 1, correlation="x")])
    monkeypatch.setattr(sys, "argv", ["validate_trace.py", str(file), "--level", "minimal"])
    with pytest.raises(SystemExit, match="1"):
        validate_trace.main()
    assert "'x' is a str" in capsys.readouterr().out
