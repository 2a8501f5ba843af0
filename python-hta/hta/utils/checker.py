"""Whether a folder can be used."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass
class OperationOutcome:
    """Whether something is as it should be, and if not, why."""

    success: bool
    reason: str


def is_valid_directory(path_to_directory: str, must_be_writable: bool = False) -> OperationOutcome:
    """Whether a path is a folder that can be read, and written to on request."""
    path, reason = path_to_directory, ""
    if not isinstance(path, str) or not path:
        reason = "Variable `path_to_directory` must be a non-empty string"
    elif not os.path.exists(path):  # noqa: PTH110  a path may be invalid altogether
        reason = f"Path {path} does not exist."
    elif not os.path.isdir(path):  # noqa: PTH112
        reason = f"Path {path} is not a directory."
    elif not os.access(path, os.R_OK):
        reason = f"Path {path} is not a valid path: it cannot be read."
    elif must_be_writable and not os.access(path, os.W_OK):
        reason = f"Path {path} is not writable."
    return OperationOutcome(not reason, reason)
