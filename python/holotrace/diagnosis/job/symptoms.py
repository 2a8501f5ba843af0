"""Which findings only tell how a cause looks: they are folded under it, since they speak of the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from holotrace.core.analysis import CAUSES, Finding, by_cost
from holotrace.diagnosis.job.floors import FLOOR_RATIO, USUAL
from holotrace.diagnosis.words import classes
from holotrace.diagnosis.words.class_texts import KEEP_SHAPES

# Symptoms that cost less of the job's time need no cause.
LEFT_RATIO = USUAL[classes.EARLIER]
# Rules about time in which a device waits, computes longer than others, or communicates; causes account for all of it.
SYMPTOMS = frozenset(
    {
        *("idle-device", "late-host", "pauses-between-kernels", "held-up-device", "full-queue", "slow-launches"),
        *("uneven-ranks", "straggling-rank", "slow-device", "slow-group", "outlying-runs", "outlying-range"),
        *("host-on-critical-path", "loading-on-critical-path", "communication-on-critical-path"),
        *("launches-on-critical-path", "launch-bound-sequences", "chains-of-short-kernels", "tiny-kernels"),
        *("ranks-slower-at-equal-shapes", "more-work", "uneven-work", "smallest-factor"),
        *(
            "exposed-communication",
            "exposed-copies",
            "pageable-copies",
            "much-copying",
            "long-step",
            "host-bound-operators",
            "waiting-operators",
        ),
    }
)

# What keeps a host from starting programs, and a rank, or a device of it, from coming to a collective.
_OF_HOST = (
    *(classes.LAUNCH, classes.INPUT, classes.FUNCTION, classes.LOGGING, classes.CHECKPOINT, classes.EVALUATION),
    *(classes.COLLECTION, classes.UPLOAD, classes.PAUSE, classes.UNRECORDED, classes.SYNCHRONIZATION),
    *(classes.COMPILATION, classes.SLOW_HOST),
)
_OF_LATE = (*_OF_HOST, classes.SLOW_DEVICE, classes.MORE_WORK, classes.UNEVEN_WORK, classes.UNRECORDED_RANK)
# Where a program was compiled again, and none of its inputs is known to have changed.
SAME_INPUTS = (
    "No input is known whose shape or type changed, so look for what else makes another program: static arguments and "
    "Python constants (pass what changes every few steps as an array), Python numbers in place of arrays (weak types), "
    "and functions that are defined and compiled anew (jax.jit of a lambda in a loop)."
)
# Where nothing was compiled but what ran for the first time.
FIRST_USE = (
    "What was compiled had not run before in this recording: if that is how the job begins, record after a few steps, "
    "as it costs the job this time only once."
)
# Where nothing was compiled.
FROM_CACHE = (
    "The compilation cache held the program, so that the time went into tracing, lowering and reading it: run each "
    "program once before the measured steps, and write what is traced for long as a loop of JAX (lax.scan over layers)."
)
# So many small programs in a step are operations that nothing put together.
MANY_PROGRAMS, _SHOWN = 10, 3
# Input that is read while devices of XLA work costs nothing, however long it takes: otherwise there would be a cause.
_OF_INPUT = ("slow-input", "input-stall")
# Rules that show certain classes of causes, most about profiles of XLA.
OF_CLASS = {
    **dict.fromkeys(
        ("recompilation", "compilation-while-training", "programs-read-from-the-cache"), (classes.COMPILATION,)
    ),
    **dict.fromkeys(_OF_INPUT, (classes.INPUT,)),
    **dict.fromkeys(("early-read", "forced-execution"), (classes.SYNCHRONIZATION,)),
    **dict.fromkeys(("host-bound-device", "small-programs"), _OF_HOST),
    "slow-tracing": (classes.LAUNCH,),
    "python-in-programs": (classes.FUNCTION,),
    "costly-collective": (classes.EXPOSED, classes.SLOW_LINK, *_OF_LATE),
    "synchronous-collectives": (classes.EXPOSED,),
    "slow-upload": (classes.UPLOAD,),
    "products-in-fp32": (classes.WRONG_TYPE,),
    "time-above-the-limits": (classes.INEFFICIENT, classes.CHANNELS_FIRST),
    # Kernels for each parameter are many launches too.
    "optimizer-not-fused": (classes.UNFUSED_OPTIMIZER, classes.LAUNCH),
    # Cores wait for those of other hosts, too.
    "waiting-device": (classes.COPY, classes.EXPOSED, classes.SLOW_LINK, *_OF_LATE),
    "waiting-cores": (classes.SLOW_LINK, classes.EXPOSED, *_OF_LATE),
}
# Of these the search for causes accounts for every nanosecond.
_WAITS = ("communication-on-critical-path", "exposed-communication")
# What is seen on ranks that wait for those of the cause.
_OF_OTHERS = (*_WAITS, "costly-collective", "waiting-device", "waiting-cores")
# Programs of XLA wait for the hosts of others before they begin.
_HELD_UP = "held-up-device"


def folded(
    findings: Sequence[Finding], job_ns: int, *, is_xla: bool = False, is_on_host: bool = False
) -> tuple[Finding, ...]:
    """Causes first, then what they do not explain; each cause with the rules whose findings it explains.

    A symptom without a cause is left out where it costs little of the ``job_ns``: healthy jobs launch, wait and
    communicate too. Of XLA it stays, as its rules have thresholds of their own; but where devices are threads of the
    host, whose idle time the profiler overrates, only what shows a certain class of causes does.
    """
    causes = [finding for finding in findings if finding.analysis == CAUSES]
    rest = [finding for finding in findings if finding.analysis != CAUSES]
    others = [finding for finding in rest if finding.rule not in SYMPTOMS and finding.rule not in OF_CLASS]
    explained: dict[int, list[str]] = {place: [] for place in range(len(causes))}
    for symptom in rest:
        if symptom.rule not in SYMPTOMS and symptom.rule not in OF_CLASS:
            continue
        of_it = (place for place, cause in enumerate(causes) if _concerns(cause, symptom))
        place = next(of_it, None)
        if place is None:
            costs_nothing = symptom.rule in _WAITS or (is_xla and symptom.rule in _OF_INPUT)
            costs_much = (symptom.cost_ns or 0) > LEFT_RATIO * job_ns and not costs_nothing
            is_overrated = is_on_host and symptom.rule in SYMPTOMS
            is_usual = symptom.rule in _WAITS and (symptom.cost_ns or 0) <= USUAL[classes.EXPOSED] * job_ns
            is_of_xla = is_xla and symptom.rule not in _OF_INPUT and not is_usual
            others += [_of_host_alone(symptom)] if (costs_much or is_of_xla) and not is_overrated else []
        elif symptom.rule not in explained[place]:
            explained[place].append(symptom.rule)
            causes[place] = _with_more(causes[place], symptom)
    said = (replace(cause, explains=tuple(explained[place])) for place, cause in enumerate(causes))
    return by_cost([*said, *(_below_the_noise(other, job_ns) for other in others)])


def _of_host_alone(finding: Finding) -> Finding:
    """A host that reads results while its devices work loses nothing by that: otherwise there would be a cause."""
    return replace(finding, severity="info", cost_ns=None) if finding.rule == "early-read" else finding


def _below_the_noise(finding: Finding, job_ns: int) -> Finding:
    """The finding, as information only where it costs as little as nobody would call a cause."""
    is_little = finding.cost_ns is not None and finding.cost_ns < FLOOR_RATIO * job_ns
    return replace(finding, severity="info") if is_little and finding.severity == "warning" else finding


def explained(table: pl.DataFrame, findings: Sequence[Finding]) -> pl.DataFrame:
    """The table of causes with the rules that ``folded`` left out under each: ``explains``."""
    said = {finding.message: ", ".join(finding.explains) for finding in findings if finding.analysis == CAUSES}
    named = [said.get(message) or None for message in table["message"]]
    return table.with_columns(explains=pl.Series(named, dtype=pl.String))


def _concerns(cause: Finding, symptom: Finding) -> bool:
    """Whether a symptom may be how the cause looks: on its ranks, or on others that wait for them."""
    if cause.rule not in OF_CLASS.get(symptom.rule, (cause.rule,)):
        return False
    is_held_up = symptom.rule == _HELD_UP and cause.rule in _OF_LATE
    return (
        symptom.rule in _OF_OTHERS
        or is_held_up
        or not cause.ranks
        or not symptom.ranks
        or bool(set(cause.ranks) & set(symptom.ranks))
    )


def _with_more(cause: Finding, symptom: Finding) -> Finding:
    """The cause with what the symptom knows of what to do about it, if it is what the cause is about."""
    said, known = "", cause.what_to_do
    is_new = known.startswith(KEEP_SHAPES)
    if symptom.rule == "recompilation" and str(symptom.values.get("module")) in cause.message:
        said = _of_compilation(**{name: symptom.values.get(name) for name in ("change", "caller")})
        known = _without_shapes(known) if said == SAME_INPUTS else known
    elif symptom.rule == "compilation-while-training" and is_new and _is_of(symptom, cause):
        said, known = FIRST_USE, _without_shapes(known)
    elif symptom.rule == "programs-read-from-the-cache" and is_new and _is_of(symptom, cause):
        return replace(cause, what_to_do=FROM_CACHE)
    elif symptom.rule == "small-programs" and 2 * (symptom.cost_ns or 0) >= (cause.cost_ns or 0):
        said = _of_programs(**{name: symptom.values[name] for name in ("modules", "per_step", "count", "callers")})
    return replace(cause, what_to_do=f"{said} {known}") if said else cause


def _is_of(symptom: Finding, cause: Finding) -> bool:
    """Whether what was compiled is most of what the cause is about."""
    is_named = any(module in cause.message for module in symptom.values["modules"])
    return is_named and 2 * (symptom.cost_ns or 0) >= (cause.cost_ns or 0)


def _without_shapes(advice: str) -> str:
    """The advice for programs that no shape made compile."""
    known = advice.removeprefix(KEEP_SHAPES)
    return known[:1].upper() + known[1:]


def _of_compilation(change: str | None, caller: str | None) -> str:
    called = f" (called in {caller})" if caller else ""
    return f"Inputs changed: {change}{called}." if change else SAME_INPUTS


def _of_programs(modules: Sequence[str], per_step: int, count: int, callers: Sequence[str]) -> str:
    if (per_step or count) < MANY_PROGRAMS:
        return ""
    whose = f"A step runs {per_step:,}" if per_step else f"The job runs {count:,}"
    some = ", ".join(modules[:_SHOWN]) + (", ..." if len(modules) > _SHOWN else "")
    where = f", most of them started in {callers[0]}" if callers else ""
    return (
        f"{whose} programs of less than 0.1 ms ({some}){where}: put all that belongs to a step into "
        "one program (jax.jit around the whole step, torch_xla.compile)."
    )
