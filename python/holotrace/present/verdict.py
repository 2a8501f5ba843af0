"""The verdict on a job in a few lines: how much could be saved, why it is lost, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from holotrace.core.analysis import CAUSES, Finding, by_cost
from holotrace.diagnosis.causes import is_hidden
from holotrace.diagnosis.job.floors import FLOOR_RATIO
from holotrace.diagnosis.words.classes import COSTLESS, RECORDING
from holotrace.efficiency.categories import CATEGORIES, OTHER
from holotrace.present import exposed, pipeline
from holotrace.present import format as fmt
from holotrace.present.wording import sentence

OF_JOB = " of the job"
# The rule by which ranks could not be compared, so that a late one would cost nothing that is seen.
NOT_COMPARED = "ranks-not-compared"
MOST = 3  # causes that are told; all of them stand among the findings
_HOSTS_ONLY = (
    "Finding causes needs the events of devices, so record these too (PyTorch: activities=[ProfilerActivity.CPU, "
    "ProfilerActivity.CUDA]; JAX and PyTorch/XLA: record while programs run); `operators` and `host_steps` show what "
    "took most of the hosts' time."
)
_NOTHING = f"No cause is known that is worth more than {fmt.percent(FLOOR_RATIO)} of the time"
# Where less of the kernels' time has known work, the model gets more than can be said.
_KNOWN_RATIO = 0.9
_FACTORS = {
    "host_ratio": "host",
    "balance_ratio": "balance",
    "copy_ratio": "copies",
    "communication_ratio": "communication",
}
# Kinds of work are named that take this part of the time that devices are busy, so many of them.
_NOTICED_RATIO, _KINDS = 0.1, 3
_OF_KINDS = {
    "gemm": "products of matrices",
    "convolution": "convolutions",
    "norm": "norms",
    "elementwise": "elementwise operators",
    "reduction": "reductions",
    "copy": "copies",
    "embedding": "embeddings",
    "moe": "experts",
    "optimizer": "the optimizer",
    "rng": "random numbers",
    "sort": "sorting",
    "fft": "Fourier transforms",
    "linalg": "linear algebra",
}
# More of the time than this goes into moving data where that is what limits a job.
_MOVING_RATIO = 0.5
_TO_COMPARE = (
    "Compare this bandwidth with what a benchmark of collectives reaches between these devices (nccl-tests, "
    "rccl-tests); the log of the library (NCCL_DEBUG=INFO) says which links and networks carry the data."
)
# Where more of the job lies outside of its steps, a part of the one is not the same part of the other.
_OUTSIDE_RATIO = 0.05
# The end of a sentence, but not the point in a name.
_ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@dataclass(frozen=True)
class Reason:
    """Why time is lost: one cause."""

    message: str
    cost_ns: int
    worth: str
    """What the job, or each step, would gain, and its share; of what others hide, what it would gain without these."""
    ranks: tuple[int, ...]
    advice: str


@dataclass(frozen=True)
class Verdict:
    """What there is to say of a job's lost time; without an answer of the analysis of causes everything is empty."""

    saving: str = ""
    """How much could be saved in all, or that nothing is worth more than what is said of."""
    reasons: tuple[Reason, ...] = ()
    more: int = 0
    """Causes beyond the reasons that are told."""
    limits: str = ""
    """Of a job that loses nothing: what its time is limited by, and what is not known of it."""
    advice: str = ""
    """Of such a job of which too little is known, that recording slows down, or that moving data limits: what to do."""

    @property
    def why(self) -> tuple[str, ...]:
        """A line for each reason."""
        return tuple(f"{reason.worth}: {reason.message.rstrip('.')}." for reason in self.reasons)

    @property
    def next(self) -> tuple[str, ...]:
        """What to do, a line for each reason: all that is known for the first, one sentence for the others."""
        advice = [reason.advice for reason in self.reasons]
        if self.advice:
            return (self.advice,)
        told = [text if not place else _ENDS.split(text)[0] for place, text in enumerate(advice) if text]
        return tuple(dict.fromkeys(told))


def of(tables: Mapping[str, pl.DataFrame], findings: Sequence[Finding], steps: int) -> Verdict:
    """The verdict from the table of causes and the findings that name them.

    Args:
        steps: how many every rank recorded; 1 where there are none.
    """
    table = tables.get(CAUSES)
    if table is None or "joint_ns" not in table.columns:
        return Verdict()
    if table.is_empty() and _is_of_hosts(tables):
        return Verdict(_HOSTS_ONLY)
    costless = table.filter(pl.col("cause").is_in(COSTLESS))
    table = table.filter(~pl.col("cause").is_in(COSTLESS))
    if table.is_empty() and costless.height:
        without = " without the profiler" if RECORDING in costless["cause"] else ""
        return Verdict(f"{_NOTHING}{without}. {'. '.join(costless['message'])}.", advice=costless["advice"][0])
    if table.is_empty():
        communication, breakdown = tables.get("communication"), tables.get("time_breakdown")
        unknown = next((finding for finding in findings if finding.rule == NOT_COMPARED), None)
        moving = _moving(communication, breakdown)
        waiting = pipeline.waiting(communication, breakdown, steps)
        said = (f"{sentence(unknown)}." if unknown else "", _limits(tables), moving, waiting)
        advice = unknown.what_to_do if unknown else _TO_COMPARE if moving else ""
        return Verdict(f"{_NOTHING}.", limits=" ".join(text for text in said if text), advice=advice)
    causes = [f for f in by_cost(findings) if f.analysis == CAUSES and f.rule not in COSTLESS]
    of_what = OF_JOB if has_more_than_steps(tables) else ""
    reasons = [_reason(finding, row_of(finding, table), steps, of_what) for finding in causes[:MOST]]
    first = table.row(0, named=True)
    joint_ns = int(first["joint_ns"] or first["cost_ns"])
    # Of what came before the steps these have no part.
    of_steps = steps if all(steps_of(row, steps) == steps for row in table.iter_rows(named=True)) else 1
    profiler_ns = int(first["profiler_ns"]) if has_profiler(tables) else 0
    saving = _saving(joint_ns, _job_ns(table), profiler_ns, of_steps, of_what)
    return Verdict(saving, tuple(reasons), max(0, len(causes) - MOST))


def _is_of_hosts(tables: Mapping[str, pl.DataFrame]) -> bool:
    devices = tables.get("time_breakdown")
    return devices is not None and devices.is_empty()


def row_of(finding: Finding, table: pl.DataFrame | None) -> Mapping[str, Any]:
    """The row of the table of causes that a finding is of; nothing for findings of other rules."""
    if finding.analysis != CAUSES or table is None or "message" not in table.columns:
        return {}
    rows = table.filter(pl.col("message") == (finding.template or finding.message), pl.col("cause") == finding.rule)
    return rows.row(0, named=True) if rows.height else {}


def has_more_than_steps(tables: Mapping[str, pl.DataFrame]) -> bool:
    """Whether much of a job lies outside of its steps, as where these began long after the recording."""
    table, replay = tables.get(CAUSES), tables.get("replay")
    if table is None or table.is_empty() or replay is None or "share_ratio" not in table.columns:
        return False
    return 0 < longest_ns(replay) < (1 - _OUTSIDE_RATIO) * _job_ns(table)


def has_profiler(tables: Mapping[str, pl.DataFrame]) -> bool:
    """Whether recording takes a part of the job that is worth telling, which no cause has a part in."""
    table = tables.get(CAUSES)
    if table is None or table.is_empty() or "profiler_ns" not in table.columns:
        return False
    return (table["profiler_ns"][0] or 0) > FLOOR_RATIO * _job_ns(table)


def _job_ns(table: pl.DataFrame) -> float:
    """The time of the job by its first cause; 0 if that is not known."""
    cost_ns, share_ratio = table.row(0, named=True)["cost_ns"], table.row(0, named=True)["share_ratio"]
    return float(cost_ns / share_ratio) if share_ratio else 0.0


def longest_ns(replay: pl.DataFrame) -> float:
    """The recorded time of all steps of the rank that takes longest; 0 if none is known."""
    of_ranks = replay.group_by("rank").agg(pl.col("recorded_ns").sum())["recorded_ns"].drop_nulls()
    return float(max(of_ranks, default=0))


def _reason(finding: Finding, row: Mapping[str, Any], steps: int, of_what: str) -> Reason:
    cost_ns, steps = finding.cost_ns or 0, steps_of(row, steps)
    share = fmt.percent(float(row.get("share_ratio") or 0.0))
    told = f"{fmt.duration(cost_ns / steps)}{_each(steps)} ({share}{of_what})"
    then = hidden_worth(row, steps)
    worth = f"{then[0].upper()}{then[1:]} once the others are gone" if then else told
    return Reason(fmt.printable(sentence(finding)), cost_ns, worth, finding.ranks, finding.what_to_do)


def steps_of(row: Mapping[str, Any], steps: int) -> int:
    """Over how many of the steps a cause costs what it does: 1 where it came before them."""
    return 1 if "cost_per_step_ns" in row and row["cost_per_step_ns"] is None else steps


def hidden_worth(row: Mapping[str, Any], steps: int) -> str:
    """What a cause that other causes hide is worth without them; empty where it costs enough by itself."""
    if not is_hidden(row):
        return ""
    return f"up to {fmt.duration(row['high_ns'] / steps)}{_each(steps)}"


def _each(steps: int) -> str:
    return " a step" if steps > 1 else ""


def _saving(joint_ns: int, job_ns: float, profiler_ns: int, steps: int, of_share: str) -> str:
    share = f" ({fmt.percent(joint_ns / job_ns)}{of_share if steps > 1 else ''})" if job_ns else ""
    of_what = "each step" if steps > 1 else "the job"
    taken = f" without the profiler, which takes about {fmt.duration(profiler_ns / steps)} of it" if profiler_ns else ""
    return f"{fmt.duration(joint_ns / steps)} of {of_what}{share} could be saved{taken}."


def _limits(tables: Mapping[str, pl.DataFrame]) -> str:
    """The factors that keep devices from computing, how much of what these can do the model gets, and what they do."""
    told = (
        _factors(tables.get("factors")),
        _utilization(tables.get("efficiency")),
        _made_of(tables.get("work_categories")),
    )
    return " ".join(said for said in told if said)


def _moving(communication: pl.DataFrame | None, breakdown: pl.DataFrame | None) -> str:
    """How much of the time ranks move data, and how fast, where that limits a job; empty of other jobs.

    Only what could be compared with the other ranks counts: the rest may be waiting for these.
    """
    if communication is None or breakdown is None or not {"lost_ns", "compared_count"} <= {*communication.columns}:
        return ""
    exposed_ns = (pl.col("exposed_ns") - pl.col("lost_ns")).clip(lower_bound=0)
    compared = communication.filter(pl.col("compared_count") == pl.col("count"))
    moving = compared.with_columns(own_ns=pl.min_horizontal(exposed_ns, "moving_ns"))
    moving_ns = float(moving["own_ns"].sum())
    ratio = exposed.ratio(communication, breakdown, moving_ns)
    if ratio <= _MOVING_RATIO:
        return ""
    rates = pl.col("bus_gbps").dot("own_ns") / pl.col("own_ns").sum()
    known = moving.drop_nulls("bus_gbps").group_by("collective").agg(pl.col("own_ns").sum(), rate=rates)
    said = f"Moving data takes {fmt.percent(ratio)} of the time"
    if known["own_ns"].sum() <= _MOVING_RATIO * moving_ns:
        return f"{said}."
    name, rate = known.sort("own_ns", "collective", descending=[True, False]).select("collective", "rate").row(0)
    return f"{said}, most of it in {fmt.printable(name)} at a bus bandwidth of {rate:.3g} GB/s."


def _utilization(table: pl.DataFrame | None) -> str:
    """The share of the devices' peak that the model gets; empty where too little of the work is known."""
    if table is None or "mfu_ratio" not in table.columns:
        return ""
    whole = table.filter(pl.col("step").is_null(), pl.col("modelled_ratio") >= _KNOWN_RATIO)["mfu_ratio"].drop_nulls()
    if whole.is_empty():
        return ""
    ratios = sorted(whole.to_list())
    said = dict.fromkeys(fmt.percent(ratio) for ratio in (ratios[0], ratios[-1]))
    return f"The model gets {' to '.join(said)} of what the devices could compute (MFU)."


def _made_of(table: pl.DataFrame | None) -> str:
    """The kinds of work that devices are busy with for most of the time; empty where that is not known."""
    if table is None or "busy_ns" not in table.columns:
        return ""
    whole = table.filter(pl.col("step").is_null())
    known = [name for name in CATEGORIES if name != OTHER and f"{name}_ns" in whole.columns]
    kinds, busy_ns = {name: int(whole[f"{name}_ns"].sum()) for name in known}, int(whole["busy_ns"].sum())
    most = sorted((-ns, name) for name, ns in kinds.items() if ns > 0 and ns >= _NOTICED_RATIO * busy_ns)[:_KINDS]
    if not most:
        return ""
    shares = [(fmt.percent(-ns / busy_ns), _OF_KINDS.get(name, name)) for ns, name in most]
    said = [f"{share} {'goes ' if place == 0 else ''}to {kind}" for place, (share, kind) in enumerate(shares)]
    return f"Of the time that devices are busy, {fmt.listed(said)}."


def _factors(table: pl.DataFrame | None) -> str:
    known = None if table is None else table.drop_nulls("efficiency_ratio")
    if known is None or known.is_empty():
        return ""
    values = {name: float(known[name][0]) for name in _FACTORS if name in known.columns}
    said = ", ".join(f"{_FACTORS[name]} {fmt.percent(value)}" for name, value in values.items())
    whole = fmt.percent(float(known["efficiency_ratio"][0]))
    return f"Devices compute {whole} of the time; the factors are: {said}."
