"""What every page is: one HTML file that needs no network and lets no scripts run but its own."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

SCRIPTS = ("charts.js", "report.js")
STYLES = ("charts.css", "report.css")


def filled(template: str, *, scripts: Iterable[str] = (), style: str = "", is_live: bool = False, **values: Any) -> str:
    """The page that a template makes of values.

    Args:
        template: One that extends page.html.j2.
        scripts: Those of this page beside the ones of all.
        style: That of this page beside that of all.
        is_live: Whether it may ask the server that it came from for more.
        **values: What the template shows; texts are escaped.
    """
    run = [_script(text) for text in (*map(_asset, SCRIPTS), *scripts)]
    return (
        _environment()
        .get_template(template)
        .render(
            version=version("holotrace"),
            is_live=is_live,
            css=Markup("".join(map(_asset, STYLES)) + style),  # our own files
            scripts=run,
            # Only these scripts may run, so that even a name that broke out of its text could do nothing.
            script_hashes=Markup(" ".join(map(_hash, run))),  # base64
            **values,
        )
    )


@cache  # notebooks, servers and tests write many pages
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("holotrace.present", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = _coded
    return environment


def _coded(text: str) -> Markup:
    """The text with what stands between backticks set as code."""
    pieces = re.split(r"`([^`]+)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if i % 2 else piece for i, piece in enumerate(pieces)
    )


def _script(text: str) -> Markup:
    """A script of ours as the content of its element."""
    return Markup(re.sub(r"</(script)", r"<\\/\1", text, flags=re.IGNORECASE))  # our own


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _asset(name: str) -> str:
    return (files("holotrace.present") / "templates" / name).read_text(encoding="utf-8")
