"""How often the first cause is the fault that was planted: sample jobs of all kinds, sizes and seeds, by simulation.

    python benchmarks/causes_found.py --seeds 20

Prints a table with a row per kind of fault. Each job is made, read and thrown away; its truth comes from simulating it
without the fault.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from random import Random
from typing import Any

import holotrace
from holotrace import sample

CLEAN, PAIR = "clean", "two faults"
# The class that a fault has where it is not called so.
CLASSES = {"input-of-all": "input", "python-function": "logging"}
TOLERANCE = 0.2
SIZES = (2, 4, 8)  # ranks


@dataclass(frozen=True)
class Case:
    kind: str
    faults: tuple[str, ...]
    ranks: int
    steps: int
    seed: int


@dataclass(frozen=True)
class Outcome:
    kind: str
    named: bool  # class and ranks, in order
    responsible: bool
    worth: bool
    more: int  # warnings beyond the faults
    said: str


def cases(seeds: int) -> Iterator[Case]:
    random = Random(1)
    for kind, seed in itertools.product((CLEAN, *sample.KINDS), range(1, seeds + 1)):
        # With two ranks nobody knows which one is slow and which is fast, nor are there two nodes.
        fewest = 4 if kind in ("slow-link", "uneven-work", "slow-device", "more-work") else 2
        ranks = random.choice([size for size in SIZES if size >= fewest])
        yield Case(kind, () if kind == CLEAN else (kind,), ranks, random.choice((4, 6, 8)), seed)
    one_of = [kind for kind, told in sample.KINDS.items() if told.of_one and kind not in ("slow-link", "slow-host")]
    for seed in range(1, seeds + 1):
        yield Case(PAIR, tuple(random.sample(one_of, 2)), random.choice((4, 8)), 6, seed)


def tried(case: Case) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        truth = sample.write(
            folder,
            ranks=case.ranks,
            steps=case.steps,
            seed=case.seed,
            faults=case.faults,
            stacks=case.seed % 4 != 0 or "python-function" in case.faults or "checkpoint" in case.faults,
            compress=False,
        )
        found = holotrace.open(folder).findings()
        causes = holotrace.open(folder).causes().to_dicts()
    warnings = [finding for finding in found if finding.severity != "info"]
    # What costs less than a hundredth of the job is no fault that anybody should be told of.
    planted = [(fault, cost) for fault, cost in truth.costs_ns.items() if cost > 0.012 * truth.job_ns]
    pairs = list(zip(planted, causes, strict=False))
    is_all = len(causes) >= len(planted)
    said = "; ".join(f"{row['cause']} {row['ranks']} {row['cost_ns'] / 1e6:.1f} ms" for row in causes)
    wanted = "; ".join(f"{fault.kind} {list(fault.ranks)} {cost / 1e6:.1f} ms" for fault, cost in planted)
    return Outcome(
        case.kind,
        is_all and all(_is_named(fault, row) for (fault, _), row in pairs),
        is_all and all(_is_responsible(fault, row) for (fault, _), row in pairs),
        is_all and all(abs(row["cost_ns"] - cost) <= TOLERANCE * cost for (_, cost), row in pairs),
        max(0, len(warnings) - len(planted)),
        f"{case}: wanted {wanted}; said {said}",
    )


def _is_named(fault: sample.Fault, row: dict[str, Any]) -> bool:
    return row["cause"] == CLASSES.get(fault.kind, fault.kind) and tuple(row["ranks"]) == fault.ranks


def _is_responsible(fault: sample.Fault, row: dict[str, Any]) -> bool:
    names = sample.KINDS[fault.kind].responsible
    return not names or any(name in f"{row['responsible']} {row['message']}" for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="jobs of each kind")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--failures", action="store_true", help="print what was said where it is wrong")
    arguments = parser.parse_args()
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    # Polars must not be forked.
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        for outcome in pool.map(tried, cases(arguments.seeds), chunksize=4):
            outcomes[outcome.kind].append(outcome)
            if arguments.failures and not (
                outcome.named and outcome.responsible and outcome.worth and not outcome.more
            ):
                print(outcome.said)
    print("| fault | jobs | class and ranks | responsible | worth within 20 % | further warnings |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    every = [outcome for found in outcomes.values() for outcome in found]
    for kind, found in [*outcomes.items(), ("all", every)]:
        counts = [
            sum(getattr(outcome, name) for outcome in found) for name in ("named", "responsible", "worth", "more")
        ]
        print(f"| {kind} | {len(found)} | {' | '.join(map(str, counts))} |")


if __name__ == "__main__":
    main()
