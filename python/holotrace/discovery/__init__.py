"""Where traces are, and which rank each of them is."""

from holotrace.core.problems import spelled
from holotrace.core.source import Paths, RankSource, believable
from holotrace.discovery.survey import OnDuplicate, Survey, discover, survey

__all__ = ["OnDuplicate", "Paths", "RankSource", "Survey", "believable", "discover", "spelled", "survey"]
