"""Which findings only tell how a cause looks: they are folded under it, since they speak of the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holotrace.core.analysis import CAUSES, Finding, by_cost

# Symptoms that cost less of the job's time need no cause.
LEFT_RATIO = 0.15
# Rules about time in which a device waits, computes longer than others, or communicates; causes account for all of it.
SYMPTOMS = frozenset(
    {
        *("idle-device", "late-host", "pauses-between-kernels", "held-up-device", "full-queue", "slow-launches"),
        *("uneven-ranks", "straggling-rank", "slow-device", "slow-group", "outlying-runs", "outlying-range"),
        *("host-on-critical-path", "loading-on-critical-path", "communication-on-critical-path"),
        *("launches-on-critical-path", "launch-bound-sequences", "chains-of-short-kernels", "tiny-kernels"),
        *("ranks-slower-at-equal-shapes", "more-work", "uneven-work", "smallest-factor"),
        *("exposed-communication", "exposed-copies", "pageable-copies", "host-bound-operators", "waiting-operators"),
    }
)


def folded(findings: Sequence[Finding], job_ns: int) -> tuple[Finding, ...]:
    """Causes first, then what they do not explain; each cause with the rules whose findings it explains.

    A symptom without a cause is left out where it costs little of the ``job_ns``: healthy jobs launch, wait and
    communicate too.
    """
    causes = [finding for finding in findings if finding.analysis == CAUSES]
    others = [finding for finding in findings if finding.analysis != CAUSES and finding.rule not in SYMPTOMS]
    explained: dict[int, list[str]] = {place: [] for place in range(len(causes))}
    for symptom in findings:
        if symptom.analysis == CAUSES or symptom.rule not in SYMPTOMS:
            continue
        of_it = (place for place, cause in enumerate(causes) if _concerns(cause, symptom))
        place = next(of_it, None)
        if place is None:
            others += [symptom] if (symptom.cost_ns or 0) > LEFT_RATIO * job_ns else []
        elif symptom.rule not in explained[place]:
            explained[place].append(symptom.rule)
    said = (replace(cause, explains=tuple(explained[place])) for place, cause in enumerate(causes))
    return by_cost([*said, *others])


def _concerns(cause: Finding, symptom: Finding) -> bool:
    """Whether a symptom may be how the cause looks: on its ranks, or on others that wait for them."""
    waits = symptom.rule in ("communication-on-critical-path", "exposed-communication")
    return waits or not cause.ranks or not symptom.ranks or bool(set(cause.ranks) & set(symptom.ranks))
