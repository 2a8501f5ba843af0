"""Settings of HTA's interface."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from hta._bridge.event_args import EVENT_ARGS
from hta.configs import event_args_yaml_parser
from hta.configs.config import HtaConfig, setup_logger
from hta.configs.default_values import YamlVersion


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "mine.json").write_text(json.dumps({"a": 1, "c": {"c1": 2, "c2": {"c21": 10.0}}}))
    return str(tmp_path / "mine.json")


def test_a_setting_is_found_by_its_path(file: str) -> None:
    config = HtaConfig(file, load_default_paths=False)
    assert config.get_config() == {"a": 1, "c": {"c1": 2, "c2": {"c21": 10.0}}}
    assert config.get_config("c.c2.c21") == 10.0
    assert config.get_config("c.c1.c3") is None
    assert config.get_config("d", 7) == 7
    assert config.get_config_file_paths() == [file]


def test_later_files_replace_what_earlier_ones_say(file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace_analyzer.json").write_text('{"a": 5, "b": 6}')
    assert [Path(path).name for path in HtaConfig.get_default_paths()] == ["trace_analyzer.json"] * 3
    config = HtaConfig(file)
    assert (config.get_config("a"), config.get_config("b")) == (1, 6)


def test_without_files_there_are_no_settings(tmp_path: Path) -> None:
    assert HtaConfig(str(tmp_path / "absent.json"), load_default_paths=False).get_config() == {}


def test_a_file_that_holds_no_settings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(ValueError, match="holds no settings"):
        HtaConfig(str(tmp_path / "list.json"), load_default_paths=False)


def test_settings_are_shown(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    HtaConfig(file, load_default_paths=False).show()
    assert "'c21': 10.0" in capsys.readouterr().out


def test_a_set_of_test_data_has_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests" / "data" / "mine").mkdir(parents=True)
    monkeypatch.setenv("TEST_DATA_PREFIX_PATH", str(tmp_path))
    assert HtaConfig.get_test_data_path("mine") == str(tmp_path / "tests" / "data" / "mine")


def test_logs_are_shown_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("hta")
    monkeypatch.setattr(logger, "level", logging.WARNING)
    HtaConfig(load_default_paths=False)
    assert logger.level == logging.WARNING
    setup_logger()
    assert logger.level == logging.INFO


def test_groups_of_args_hold_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    args = event_args_yaml_parser.parse_event_args_yaml(YamlVersion(1, 0, 0))
    assert args is EVENT_ARGS
    external = args.AVAILABLE_ARGS["index::external_id"]
    assert event_args_yaml_parser.ARGS_INDEX_FUNC({"index::external_id": external, "other": external}) == [external]
    assert event_args_yaml_parser.ARGS_DEFAULT_FUNC(args.AVAILABLE_ARGS) == args.ARGS_DEFAULT
    event_args_yaml_parser.main()
    assert "external_id" in capsys.readouterr().out
