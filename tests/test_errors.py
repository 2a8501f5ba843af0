"""A library that is not installed is explained."""

from __future__ import annotations

import json

import pytest

from holotrace import MissingExtraError
from holotrace.errors import require


def test_a_library_that_is_there_is_imported() -> None:
    assert require("json", extra="any") is json


def test_a_library_that_is_missing_says_which_extra_brings_it() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'holotrace\[remote\]'"):
        require("no_such_library", extra="remote")
