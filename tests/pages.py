"""What pages are made of, and what of a report's page is the job's own."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from holotrace.present import html
from holotrace.present.report import Report


class Elements(HTMLParser):
    """Start tags, with their attributes, and the text of the page outside scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open not in ("script", "style"):
            self.text += data

    def count(self, tag: str) -> int:
        return sum(1 for name, _ in self.tags if name == tag)


def page(result: Report) -> str:
    """All of the page but where the job came from, and how fast."""
    text = re.sub(r"; [\d.,]+ \w+ of text at [^<]+", "", html.page(result))
    source = re.escape(result.source)
    assert re.search(f"<dt>Source</dt><dd>{source}</dd>", text)
    text = re.sub(f"<dt>Source</dt><dd>{source}</dd>", "", text)
    # Commands that show more name where the job is.
    return re.sub(f"(<code>holotrace show [a-z-]+) {source}", r"\1", text)
