"""What of a report's page is the job's own."""

from __future__ import annotations

import re

from holotrace.present import html
from holotrace.present.report import Report


def page(result: Report) -> str:
    """All of the page but where the job came from, and how fast."""
    text = re.sub(r"; [\d.,]+ \w+ of text at [^<]+", "", html.page(result))
    source = re.escape(result.source)
    assert re.search(f"<dt>Source</dt><dd>{source}</dd>", text)
    text = re.sub(f"<dt>Source</dt><dd>{source}</dd>", "", text)
    # Commands that show more name where the job is.
    return re.sub(f"(<code>holotrace show [a-z-]+) {source}", r"\1", text)
