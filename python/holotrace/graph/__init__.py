"""The graph of a job: what waits for what, replayed as it was or with changes."""
