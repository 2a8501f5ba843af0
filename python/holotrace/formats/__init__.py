"""One package for each input format."""
