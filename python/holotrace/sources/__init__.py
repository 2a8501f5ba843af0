"""Where traces are, and which rank each of them is."""

from holotrace.sources.discover import OnDuplicate, Survey, discover, survey
from holotrace.sources.problems import spelled
from holotrace.sources.source import Paths, RankSource

__all__ = ["OnDuplicate", "Paths", "RankSource", "Survey", "discover", "spelled", "survey"]
