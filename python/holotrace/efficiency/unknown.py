"""Why an operator's work cannot be told."""

from __future__ import annotations


class Unknown(Exception):
    """The work of an operator cannot be told from its arguments; the message is a reason for readers."""
