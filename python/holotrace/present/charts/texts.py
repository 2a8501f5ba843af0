"""Texts of a drawing without the markup that Plotly asks for."""

from __future__ import annotations

from typing import Any

_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def plain(text: object, between: str = "") -> str:
    """The text that a reader sees; lines that were broken by Plotly's own mark are joined by ``between``."""
    found = str(text).replace("<br>", between)
    for entity, character in _ENTITIES:
        found = found.replace(entity, character)
    return found.strip()


def title(axis: dict[str, Any]) -> str:
    """What an axis or a chart is called."""
    return plain(axis.get("title", {}).get("text", ""))
