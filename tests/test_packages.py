"""The two distributions, holotrace and holotrace-hta, belong together and own nothing of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from hta._bridge import owners

ROOT = Path(__file__).parents[1]


def version_in(path: str, pattern: str) -> str:
    found = re.search(pattern, (ROOT / path).read_text(encoding="utf-8"))
    assert found is not None, path
    return found[1]


def test_both_distributions_have_one_version() -> None:
    versions = {
        version_in("Cargo.toml", r'(?m)^version = "(.+)"'),
        version_in("python-hta/pyproject.toml", r'(?m)^version = "(.+)"'),
        version_in("python-hta/pyproject.toml", r'"holotrace==(.+)"'),
        version_in("pyproject.toml", r'"holotrace-hta==(.+)"'),
        version_in("CITATION.cff", r"(?m)^version: (.+)"),
    }
    assert len(versions) == 1


def test_an_installation_of_holotrace_does_not_overwrite_an_installed_hta() -> None:
    assert 'python-packages = ["holotrace"]\n' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


class Installed(metadata.Distribution):
    """A distribution whose files have these paths."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def read_text(self, filename: str) -> str | None:
        return "".join(f"{path},,\n" for path in self.paths) if filename == "RECORD" else None

    def locate_file(self, path: object) -> Path:
        # From Python 3.12 on files that are not there are not listed.
        return Path(__file__)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Installed]]:
    found: dict[str, Installed] = {}

    class Finder(metadata.DistributionFinder):
        def find_distributions(self, context: metadata.DistributionFinder.Context) -> Iterator[Installed]:  # type: ignore[override]
            if context.name in found:
                yield found[context.name]

    monkeypatch.setattr("sys.meta_path", [Finder()])
    yield found


def test_htas_own_distributions_are_named_where_they_hold_the_package_too(installed: dict[str, Installed]) -> None:
    assert owners.other_owners() == []
    installed["traceinsight"] = Installed("hta/__init__.py", "hta/trace_analysis.py")
    assert owners.other_owners() == ["traceinsight"]
    installed["HolisticTraceAnalysis"] = Installed("something_else/__init__.py")
    assert owners.other_owners() == ["traceinsight"]
