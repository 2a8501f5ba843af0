"""Settings of HTA's interface, merged from JSON files."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from pprint import pprint
from typing import Any

from hta.configs.default_values import DEFAULT_CONFIG_FILENAME
from hta.utils.test_utils import get_test_data_dir
from hta.utils.utils import get_value_from_dict

logger = logging.getLogger("hta")


def setup_logger(config_file: str = "logging.config") -> None:
    """Show what hta logs from INFO on; ``config_file`` is HTA's and changes nothing."""
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s: %(message)s")
    logger.setLevel(logging.INFO)


class HtaConfig:
    """The settings of several files; later files replace what earlier ones say.

    Args:
        config_file_path: A file of settings; nothing where it is not there.
        load_default_paths: Read the files of ``get_default_paths`` before it.
    """

    def __init__(self, config_file_path: str | None = None, load_default_paths: bool | None = True) -> None:
        paths = [
            *(self.get_default_paths() if load_default_paths else ()),
            *([config_file_path] if config_file_path else ()),
        ]
        self.config_file_paths = [path for path in paths if Path(path).is_file()]
        self.config: dict[str, Any] = {}
        for path in self.config_file_paths:
            self.config |= _settings(path)

    @staticmethod
    def get_default_paths() -> list[str]:
        """The files that are read by default: of the package, of the user, of the working directory."""
        folders = (Path(__file__).parent, Path.home() / ".hta", Path.cwd())
        return [str(folder / DEFAULT_CONFIG_FILENAME) for folder in folders]

    def get_config_file_paths(self) -> list[str]:
        """The files that were read."""
        return self.config_file_paths

    def get_config(self, dot_path: str | None = None, default_value: Any = None) -> Any:
        """The setting at a path like ``a.b``, or all of them; ``default_value`` where there is none."""
        return get_value_from_dict(self.config, dot_path, default_value) if dot_path else self.config

    def show(self) -> None:
        """Print all settings."""
        pprint(self.config)  # noqa: T203  what it is for

    @staticmethod
    def get_test_data_path(dataset: str) -> str:
        """The folder of a set of HTA's test data."""
        return get_test_data_dir(dataset)


def _settings(path: str) -> dict[str, Any]:
    settings = json.loads(Path(path).read_text())
    if not isinstance(settings, dict):
        raise ValueError(f"{path} holds no settings; write a JSON object into it")
    return settings
