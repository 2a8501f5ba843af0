"""Traces written anew: overlays, counters, one timeline of all ranks."""
