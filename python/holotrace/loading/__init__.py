"""One rank's tables from its file."""
