"""The graph of a job: what waits for what, replayed as it was or with changes.

``JobGraph.of(job)`` reads every rank, and ``graph.step_times([Changes(...), ...])`` says how long each step would take.
"""

from holotrace.graph.engine import REMOVED, UNCHANGED, Changes, Replay
from holotrace.graph.job import TRUSTED_RATIO, Counts, JobGraph

__all__ = ["REMOVED", "TRUSTED_RATIO", "UNCHANGED", "Changes", "Counts", "JobGraph", "Replay"]
