"""Where traces are, and which rank each of them is."""

from holotrace.sources.discover import OnDuplicate, Survey, discover, survey
from holotrace.sources.ends import believable
from holotrace.sources.problems import spelled
from holotrace.sources.source import Paths, RankSource

__all__ = ["OnDuplicate", "Paths", "RankSource", "Survey", "believable", "discover", "spelled", "survey"]
