"""Rules of the user's own for the kinds of device work, from a TOML file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from holotrace.core import toml
from holotrace.core.kinds import KindRule
from holotrace.discovery import RankSource, Survey
from holotrace.errors import InputError, UsageError

# A file of rules, or rules.
Rules = str | os.PathLike[str] | Sequence[KindRule]
_KEYS = {"kind", "name", "category"}


def with_kinds(found: Survey, rules: Rules) -> Survey:
    """The job, whose ranks are read by these rules first; ranks that are in memory keep the kinds that they have."""
    own = read(rules) if isinstance(rules, (str, os.PathLike)) else tuple(rules)
    if not own:
        return found
    sources = (replace(source, kinds=own) if isinstance(source, RankSource) else source for source in found.sources)
    return replace(found, sources=tuple(sources))


def read(file: str | os.PathLike[str]) -> tuple[KindRule, ...]:
    """The rules in a file: tables ``[[rule]]``, each with a ``kind`` and a ``name``, a ``category`` or both."""
    path = Path(file)
    try:
        content = toml.read(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; name a file of rules for kinds") from error
    except ValueError as error:
        raise InputError(f"{path} is no TOML ({error}); correct it") from error
    tables = content.get("rule")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables) or len(content) > 1:
        raise InputError(f"{path} must hold [[rule]] tables only, each with a kind and a name or category")
    return tuple(_rule(path, number, table) for number, table in enumerate(tables, 1))


def _rule(path: Path, number: int, table: dict[str, object]) -> KindRule:
    odd = sorted(table.keys() - _KEYS) + [key for key, value in table.items() if not isinstance(value, str)]
    if odd or "kind" not in table:
        what = f"has {', '.join(odd)}" if odd else "has no kind"
        raise InputError(f"rule {number} of {path} {what}; it takes texts: kind, name and category")
    try:
        return KindRule(str(table["kind"]), str(table.get("name", "")), str(table.get("category", "")))
    except UsageError as error:
        raise InputError(f"rule {number} of {path}: {error}") from None
