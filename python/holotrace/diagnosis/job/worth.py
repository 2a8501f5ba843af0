"""What a job would gain without causes: by replaying it, within what its hosts and its other causes leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from holotrace.diagnosis.job import xla_pace
from holotrace.diagnosis.job.candidates import Candidate
from holotrace.diagnosis.job.meetings import Meetings, together
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import UNEQUAL


@dataclass(frozen=True)
class Worth:
    """Replays a job without some of what happened in it."""

    meetings: Meetings
    room_ns: int
    """What faster devices and links can save: with these the job still takes as long as its slowest host does."""

    def alone(self, candidate: Candidate) -> int:
        """What the job would gain without this, whatever it would hide then."""
        return self.at_most(self.meetings.saved_ns(replace(candidate.change, later={})), candidate)

    def at_most(self, cost_ns: int, candidate: Candidate) -> int:
        """The cost, of devices and links no more than hosts leave."""
        return min(cost_ns, max(0, self.room_ns)) if _is_of_devices(candidate) else cost_ns

    def joint(self, candidates: Sequence[Candidate]) -> int:
        """What the job would gain without all of these."""
        if not candidates:
            return 0
        saved = self.meetings.saved_ns(together([candidate.change for candidate in candidates]))
        of_devices = [candidate.change for candidate in candidates if _is_of_devices(candidate)]
        if not of_devices:
            return saved
        by_devices = saved if len(of_devices) == len(candidates) else self.meetings.saved_ns(together(of_devices))
        return saved - max(0, by_devices - max(0, self.room_ns))

    def last(self, pair: tuple[Candidate, int], kept: Sequence[tuple[Candidate, int]], joint_ns: int) -> int:
        """What the cause costs once all others that are ``kept`` are gone."""
        others = [other for other, _ in kept if other is not pair[0]]
        return max(0, joint_ns - self.joint(others)) if others else pair[1]


def own_ns(rows: pl.DataFrame, meetings: Meetings, job_ns: int) -> int:
    """How long the slowest host takes by itself."""
    own = dict(rows.filter(pl.col("row") == account.HOST).group_by("rank").agg(pl.col("time_ns").max()).iter_rows())
    own |= {rank: ratio * job_ns for rank, ratio in xla_pace.own_ratios(rows).items()}
    return meetings.mean_ns(lambda met: max(own.get(rank) or 0 for rank in met))


def _is_of_devices(candidate: Candidate) -> bool:
    """Whether it goes away without the host doing less."""
    change = candidate.change
    return not (change.of_hosts or change.later or (candidate.cause in UNEQUAL and change.spent))
