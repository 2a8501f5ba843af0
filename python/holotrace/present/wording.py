"""Sentences from templates and values: the one place where figures of a finding become words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from string import Formatter
from typing import Any

from holotrace.core.analysis import Finding
from holotrace.present import format as fmt

# More than these a sentence does not bear.
_NUMBERS, _NAMES, _NAME_LENGTH = 6, 3, 80
# What keeps devices from computing.
FACTORS = {
    "balance": "Unequal work of ranks",
    "copies": "Copies not hidden",
    "host": "Devices wait for hosts",
    "communication": "Communication not hidden",
}
WAITING = "Devices wait for hosts or each other"  # of several ranks that meet


def worded(finding: Finding) -> Finding:
    """The finding with its values in its message; one that is worded already stays as it is."""
    if finding.template:
        return finding
    return replace(finding, message=_filled(finding.message, finding.values), template=finding.message)


def sentence(finding: Finding) -> str:
    """What a finding says, as a sentence begins; a name that stands first keeps its form."""
    said = worded(finding)
    # What has no values may be a name alone.
    begins_with_word = said.values and re.match(r"[a-z]+[ ,]|\{\w+:numbered ", said.template)
    return said.message[:1].upper() + said.message[1:] if begins_with_word else said.message


def pluralize(noun: str, numbers: Sequence[int]) -> str:
    """A noun and its numbers: "step 3", "steps 3, 7 and 11", "12 steps"."""
    if len(numbers) > _NUMBERS:
        return f"{len(numbers)} {noun}s"
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    return f"{noun}s {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def join_names(names: Sequence[str]) -> str:
    """The first few names: "a", "a and b", "a, b, c and 4 more"."""
    shown = [short_name(name) for name in names[:_NAMES]]
    if len(names) > _NAMES:
        return f"{', '.join(shown)} and {len(names) - _NAMES} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


def short_name(name: str | None) -> str:
    """As much of a name as a sentence bears; template arguments make some thousands of characters long."""
    if not name:
        return "something without a name"
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"


# How a value is written, by the first word of what follows the colon in a template; the rest is a noun.
_FORMS: Mapping[str, Callable[[Any, str], str]] = {
    "percent": lambda value, _: fmt.percent(value),
    "duration": lambda value, _: fmt.duration(value),
    "size": lambda value, _: fmt.size(value),
    "count": lambda value, _: fmt.number(value),
    "round_size": lambda value, _: _without_zeros(fmt.size(value)),
    "round_duration": lambda value, _: _without_zeros(fmt.duration(value)),
    "times": lambda value, _: f"{value:,.1f}",
    "gbps": lambda value, _: f"{value:,.1f} GB/s",
    "name": lambda value, _: short_name(value),
    "names": lambda value, _: join_names(value),
    "plural": fmt.plural,
    "numbered": lambda value, noun: pluralize(noun, value),
    "text": lambda value, _: str(value),
}


class _Template(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        form, _, noun = format_spec.partition(" ")
        return _FORMS[form](value, noun)


def _without_zeros(text: str) -> str:
    """A limit as its author chose it: 1 MiB, 5 µs."""
    return re.sub(r"\.0+ ", " ", text)


def _filled(template: str, values: Mapping[str, Any]) -> str:
    # What has no values is a sentence, whatever braces the names in it have.
    return _Template().vformat(template, (), values) if values else template
