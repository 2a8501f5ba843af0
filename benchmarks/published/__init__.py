"""Published results, computed again with our engine."""
