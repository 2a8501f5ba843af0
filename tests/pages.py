"""What of a report's page is the job's own."""

from __future__ import annotations

import re

from holotrace.present import html
from holotrace.present.report import Report


def page(result: Report) -> str:
    """All of the page but where the job came from, and how fast."""
    text = re.sub(r"; [\d.,]+ \w+ of text at [^<]+", "", html.page(result))
    source = re.escape(result.source)
    for line in (f"<dt>Source</dt><dd>{source}</dd>", f"<code>holotrace show [a-z-]+ {source} --format json</code>"):
        assert re.search(line, text)
        text = re.sub(line, "", text)
    # Tables with a row per name say how to get one per rank.
    return re.sub(rf" {source} --by-rank</code>", "</code>", text)
