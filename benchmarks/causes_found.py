"""How often the first cause is the fault that was planted: made-up jobs of all kinds, sizes and seeds.

    python benchmarks/causes_found.py --seeds 20

Jobs come from the sample, and from ``other_jobs`` and ``xla_jobs``, which share no code with it. Each is made, read
and thrown away; its truth comes from simulating it without the fault. Writes a table with a row per kind of fault, and
which class was said of which, to a page of the documentation or to the terminal.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import other_jobs
import xla_jobs

import holotrace
from holotrace import sample

CLEAN, PAIR, NOTHING = "clean", "two faults", "nothing"
# The class that a fault of the sample has where it is not called so.
CLASSES = {"input-of-all": "input", "python-function": "logging"}
TOLERANCE = 0.2
# What costs less of the job is no fault that anybody should be told of.
LEAST = 0.012
SIZES = (2, 4, 8)  # ranks


@dataclass(frozen=True)
class Planted:
    """A fault as the causes should tell it."""

    kind: str
    ranks: tuple[int, ...]
    cost_ns: float
    names: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A job to make: one of the sample, with its faults, another, or one of XLA."""

    kind: str
    ranks: int = 0
    steps: int = 0
    seed: int = 0
    faults: tuple[str, ...] = ()
    other: other_jobs.Other | None = None
    xla: xla_jobs.Job | None = None


@dataclass(frozen=True)
class Outcome:
    """What was said of a job; each flag is whether that was right."""

    case: Case
    named: bool
    responsible: bool
    worth: bool
    # Causes beyond the faults, and warnings of other rules beside them.
    more: int
    beside: int
    wanted: str
    said: str
    details: str = field(repr=False)

    @property
    def is_right(self) -> bool:
        return self.named and self.responsible and self.worth and not self.more and not self.beside


def cases(seeds: int, first: int = 1) -> Iterator[Case]:
    """Jobs of the sample, of each kind ``seeds``, and as many others."""
    random = Random(1)
    for kind, seed in itertools.product((CLEAN, *sample.KINDS), range(first, first + seeds)):
        # With two ranks nobody knows which one is slow and which is fast, nor are there two nodes.
        fewest = 4 if kind in ("slow-link", "uneven-work", "slow-device", "more-work", "slow-host") else 2
        ranks = random.choice([size for size in SIZES if size >= fewest])
        yield Case(kind, ranks, random.choice((4, 6, 8)), seed, () if kind == CLEAN else (kind,))
    one_of = [kind for kind, told in sample.KINDS.items() if told.of_one and kind not in ("slow-link", "slow-host")]
    for seed in range(first, first + 2 * seeds):
        yield Case(PAIR, random.choice((4, 8)), 6, seed, tuple(random.sample(one_of, 2)))
    for seed, loop in itertools.product(range(first, first + max(1, seeds // 3)), other_jobs.LOOPS):
        for fault in (None, *other_jobs.KINDS):
            if fault is None or other_jobs.can_have(loop, fault):
                yield Case(f"{fault or CLEAN} ({loop})", other=_other(loop, fault, seed, random))
    yield from _of_xla(range(first, first + max(1, seeds // 3)))


def _of_xla(seeds: range) -> Iterator[Case]:
    for seed, fault in itertools.product(seeds, (None, *xla_jobs.KINDS)):
        yield Case(fault or CLEAN, seed=seed, xla=xla_jobs.any_job((fault,) if fault else (), seed))
    of_one = [fault for fault, kind in xla_jobs.KINDS.items() if kind.of in ("host", "core")]
    for seed in seeds:
        pairs = itertools.permutations(Random(seed).sample(of_one, len(of_one)), 2)
        pair = next(two for two in pairs if len({xla_jobs.KINDS[fault].cause for fault in two}) == 2)
        yield Case(PAIR, seed=seed, xla=xla_jobs.any_job(pair, seed))


def _other(loop: str, fault: str | None, seed: int, random: Random) -> other_jobs.Other:
    ranks = 4 if loop == "pipeline" else random.choice((4, 8, 16))
    if loop == "serving":
        ranks = 4 if fault in ("slow-device", "slow-host") else random.choice((1, 4))
    return other_jobs.Other(
        loop,
        fault,
        ranks,
        random.choice((5, 6)),
        seed,
        is_amd=random.random() < 0.3,
        stacks=random.random() < 0.5,
        marks=random.random() < 0.8,
        # Types stand beside shapes.
        shapes=random.random() < 0.8 or fault == "wide",
        missing=ranks - 1 if ranks >= 8 and random.random() < 0.3 else None,
    )


def tried(case: Case) -> Outcome:
    """Makes the job and asks for its causes."""
    # Ranks are missing where they are left out.
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        faults, job_ns = _made(case, Path(folder))
        job = holotrace.open(folder)
        causes = job.causes().to_dicts()
        # The other rules are asked of some jobs, as that takes longest.
        others = (
            [] if (case.other or case.xla) and case.seed % 4 else [f for f in job.findings() if f.severity != "info"]
        )
    planted = [fault for fault in faults if fault.cost_ns > LEAST * job_ns]
    pairs = list(zip(planted, causes, strict=False))
    is_all = len(causes) >= len(planted)
    text = "; ".join(f"{row['cause']} {row['ranks']} {row['cost_ns'] / 1e6:.1f} ms" for row in causes)
    wanted = "; ".join(f"{fault.kind} {list(fault.ranks)} {fault.cost_ns / 1e6:.1f} ms" for fault in planted)
    return Outcome(
        case,
        is_all and all(_is_named(fault, row, case) for fault, row in pairs),
        is_all and all(_is_responsible(fault, row) for fault, row in pairs),
        is_all and all(abs(row["cost_ns"] - fault.cost_ns) <= TOLERANCE * fault.cost_ns for fault, row in pairs),
        sum(not any(_is_named(fault, row, case) for fault in faults) for row in causes[len(planted) :]),
        sum(finding.analysis != "causes" for finding in others),
        planted[0].kind if planted else NOTHING,
        causes[0]["cause"] if causes else NOTHING,
        f"{case}: wanted {wanted or NOTHING}; said {text or NOTHING}",
    )


def _made(case: Case, folder: Path) -> tuple[list[Planted], float]:
    if case.other is not None:
        truth = other_jobs.write(folder, case.other)
        fault = truth.fault
        planted = [Planted(truth.kind, fault.ranks, 1e3 * truth.cost_us, truth.text)] if fault else []
        return planted, 1e3 * truth.job_us
    if case.xla is not None:
        truths, job_us = xla_jobs.write(folder, case.xla)
        told = [Planted(each.kind.cause, each.ranks, 1e3 * each.cost_us, each.kind.texts) for each in truths]
        return told, 1e3 * job_us
    made = sample.write(
        folder,
        ranks=case.ranks,
        steps=case.steps,
        seed=case.seed,
        faults=case.faults,
        stacks=case.seed % 4 != 0 or "python-function" in case.faults or "checkpoint" in case.faults,
        compress=False,
    )
    names = {fault: sample.KINDS[fault.kind].responsible for fault in made.costs_ns}
    found = [
        Planted(CLASSES.get(fault.kind, fault.kind), fault.ranks, cost, names[fault])
        for fault, cost in made.costs_ns.items()
    ]
    return found, made.job_ns


def _is_named(fault: Planted, row: Mapping[str, Any], case: Case) -> bool:
    # Of one rank all is its own.
    alone = case.other is not None and case.other.ranks == 1
    alone |= case.xla is not None and case.xla.hosts == 1
    # A pause in which nothing is open at all is one that the trace does not tell.
    same = row["cause"] == fault.kind or (fault.kind, row["cause"]) == ("host-pause", "unrecorded-host")
    return same and (tuple(row["ranks"]) == fault.ranks or alone)


def _is_responsible(fault: Planted, row: Mapping[str, Any]) -> bool:
    text = f"{row['responsible']} {row['message']}".lower()
    return not fault.names or any(name.lower() in text for name in fault.names)


def page(outcomes: Sequence[Outcome]) -> str:
    """The tables, as Markdown."""
    lines = [
        f"{len(outcomes)} jobs were made, each with the fault of its row, and their causes asked for. A cause is right "
        "if its class and ranks are those of the fault, its text says what the trace names as responsible, and its "
        "worth is within 20 % of what simulating the job without the fault gives. Kinds with a word in brackets come "
        "from the second simulation, whose word is the kind of loop.",
        "",
        *_table([outcome for outcome in outcomes if outcome.case.xla is None]),
        "",
        "## XLA",
        "",
        "Jobs of JAX and PyTorch/XLA on 1 to 16 cores of TPUs of 1 to 4 hosts, and of JAX on GPUs and CPUs, in "
        "training and as servers, as their profiles show them: with and without marked steps, recorded Python and "
        "compiled programs, some with programs or devices only. Some faults are in every second or third step, or "
        "since one.",
        "",
        *_table([outcome for outcome in outcomes if outcome.case.xla is not None]),
        "",
        "## Confused",
    ]
    said = Counter((outcome.wanted, outcome.said) for outcome in outcomes)
    wrong = [(pair, count) for pair, count in sorted(said.items()) if pair[0] != pair[1]]
    right = sum(count for pair, count in said.items() if pair[0] == pair[1])
    lines += ["", f"Of {right} jobs the first cause has the right class. Confused were:", ""]
    lines += ["| planted | said first | jobs |", "| --- | --- | ---: |"]
    lines += [f"| {wanted} | {first} | {count} |" for (wanted, first), count in wrong] or ["| nothing | | 0 |"]
    return "\n".join(lines) + "\n"


def _table(outcomes: Sequence[Outcome]) -> list[str]:
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        kinds[outcome.case.kind].append(outcome)
    lines = [
        "| fault | jobs | class and ranks | responsible | worth within 20 % | more causes | other warnings |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, found in [*kinds.items(), ("all", list(outcomes))]:
        sums = [sum(getattr(o, name) for o in found) for name in ("named", "responsible", "worth", "more", "beside")]
        lines.append(f"| {kind} | {len(found)} | {' | '.join(map(str, sums))} |")
    return lines


HEAD = """# How often causes are right

<!-- written by benchmarks/causes_found.py -->

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=9, help="jobs of each kind of the sample; a third of it of others")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--failures", action="store_true", help="print what was said where it is wrong")
    parser.add_argument("--page", type=Path, help="write the tables to this page")
    arguments = parser.parse_args()
    outcomes = []
    # Polars must not be forked.
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        for outcome in pool.map(tried, cases(arguments.seeds, arguments.first), chunksize=4):
            outcomes.append(outcome)
            if arguments.failures and not outcome.is_right:
                print(outcome.details, flush=True)
    if arguments.page:
        arguments.page.write_text(HEAD + page(outcomes), encoding="utf-8")
    else:
        print(page(outcomes))


if __name__ == "__main__":
    main()
