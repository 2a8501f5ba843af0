"""What of a report's page is the job's own."""

from __future__ import annotations

import re

from holotrace.present import html
from holotrace.present.report import Report


def page(result: Report) -> str:
    """All of the page but where the job came from, and how fast."""
    text = re.sub(r"; [\d.,]+ \w+ of text at [^<]+", "", html.page(result))
    for line in ("<dt>Source</dt><dd>{}</dd>", "<code>holotrace show time-breakdown {} --format json</code>"):
        assert line.format(result.source) in text
        text = text.replace(line.format(result.source), "")
    return text
