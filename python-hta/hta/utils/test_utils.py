"""What HTA's tests are written with."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_ROOT = "TEST_DATA_PREFIX_PATH"


def get_test_data_dir(*subdirs: str) -> str:
    """The folder tests/data, or one in it, below TEST_DATA_PREFIX_PATH or beside the package."""
    # The variable is HTA's interface.
    root = Path(os.environ.get(_ROOT) or Path(__file__).parents[2])  # noqa: TID251
    folder = root.joinpath("tests", "data", *subdirs)
    if not folder.exists():
        raise FileNotFoundError(f"Test data directory does not exist: {folder}; set {_ROOT} to the folder of tests/")
    return str(folder)


def data_provider(
    data_function: Callable[[], Iterable[Any]],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that runs a test method once for each of the arguments that ``data_function`` returns.

    These are a dict of names, a tuple, or a single argument.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(self: Any) -> None:
            for place, arguments in enumerate(data_function()):
                with self.subTest(i=place):
                    given = copy.deepcopy(arguments)
                    if isinstance(given, dict):
                        test(self, **given)
                    else:
                        test(self, *(given if isinstance(given, tuple) else (given,)))

        # pytest would take the arguments for fixtures.
        del run.__wrapped__
        return run

    return decorate
