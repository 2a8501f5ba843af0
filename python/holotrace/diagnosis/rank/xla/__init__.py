"""The same of a rank of XLA, of which other things are recorded."""
