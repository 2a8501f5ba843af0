"""What rules find when nobody asks for causes, under which it would be folded."""

from __future__ import annotations

from holotrace.analyses import ALL
from holotrace.core.analysis import CAUSES, Finding
from holotrace.job import Job


def of(job: Job) -> dict[str, Finding]:
    """The findings of all analyses but that of causes, by rule."""
    return {finding.rule: finding for finding in job.run(each for each in ALL if each.name != CAUSES).findings}
