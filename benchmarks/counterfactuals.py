"""How often what-if says what a change gains: made-up jobs, each simulated once more with the change.

    python benchmarks/counterfactuals.py --pairs 200

Each pair is a job that is written and read, and the same one simulated with a change: kernels, hosts, transfers or
loading of all or some ranks faster or slower, or a fault taken away. what-if is told what changes, and sees only the
first job. A saving is right within 5% of it, or within a thousandth of the job where it is next to nothing. Prints a
row per kind of change; fails if fewer than 95% are right.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import Random

import holotrace
from holotrace import Within, sample
from holotrace.sample import Fault

TOLERANCE, NOTHING, WANTED = 0.05, 0.001, 0.95
# Faults of which a rank like the median one is free.
_OF_ONE = ("input", "slow-device", "more-work")
_BASES = ((), (), ("input",), ("python-function",), ("slow-device",), ("exposed-transfer",), ("slow-host",))


@dataclass(frozen=True)
class Pair:
    """A job, and what changes in it: in the simulator's words and in those of what-if."""

    kind: str
    seed: int
    ranks: int
    steps: int
    faults: tuple[str, ...] = ()
    change: Fault | None = None
    scale: Mapping[str, float] = field(default_factory=dict)
    bandwidth: float = 1.0
    of_ranks: tuple[int, ...] = ()
    of_collectives: tuple[str, ...] = ()
    like: str | None = None


@dataclass(frozen=True)
class Outcome:
    pair: Pair
    job_ns: int
    gain_ns: int
    said_ns: int | None

    @property
    def is_right(self) -> bool:
        off = abs(self.said_ns - self.gain_ns) if self.said_ns is not None else self.job_ns
        return off <= max(TOLERANCE * abs(self.gain_ns), NOTHING * self.job_ns)


def pair(number: int) -> Pair:
    """A pair; the same number gives the same one."""
    random = Random(f"pair {number}")
    kind = random.choice(("compute", "host", "network", "link", "loading", "fault"))
    seed, ranks, steps = random.randrange(1, 10_000), random.choice((2, 4)), random.choice((2, 3, 4))
    factor = random.choice((0.5, 0.7, 0.85, 1.2, 1.5))
    one = (random.randrange(ranks),) if random.random() < 0.5 else ()
    faults = random.choice(_BASES)
    at = (kind, seed, ranks, steps, faults)
    if kind == "compute":
        return Pair(*at, Fault("slow-device", factor, one), {"compute": factor}, of_ranks=one)
    if kind == "host":
        # What a Python function sleeps is not work of the host, which nothing in the trace tells.
        at = (*at[:4], () if faults == ("python-function",) else faults)
        return Pair(*at, Fault("fast-host", factor, one), {"host": factor}, of_ranks=one)
    if kind == "network":
        return Pair(*at, Fault("network", factor), bandwidth=1 / factor)
    if kind == "link":
        scale = {"communication": factor}
        return Pair(*at, Fault("slow-link", factor), scale, of_collectives=("all_to_allv",))
    if kind == "loading":
        return Pair(*at, Fault("loader", factor, one), {"data_loading": factor}, of_ranks=one)
    # Two ranks have no median rank.
    return Pair(kind, seed, 4, max(steps, 3), (random.choice(_OF_ONE),), like="median")


def tried(number: int) -> Outcome:
    asked = pair(number)
    job = {"ranks": asked.ranks, "steps": asked.steps, "seed": asked.seed, "faults": asked.faults}
    of_ranks = asked.of_ranks
    with tempfile.TemporaryDirectory() as folder:
        truth = sample.write(folder, **job, compress=False)
        if asked.change is None:
            of_ranks = next(iter(truth.costs_ns)).ranks
            gain_ns = sum(truth.costs_ns.values())
        else:
            gain_ns = truth.job_ns - sample.simulated_ns([asked.change], **job)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", holotrace.PartialDataWarning)
            table = holotrace.what_if(
                holotrace.open(folder),
                asked.scale,
                bandwidth=asked.bandwidth,
                like=asked.like,
                within=Within(ranks=of_ranks, collectives=asked.of_collectives),
            )
    return Outcome(asked, truth.job_ns, gain_ns, table["saved_ns"][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--wrong", action="store_true", help="print the pairs that are wrong")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        outcomes = list(pool.map(tried, range(options.pairs)))
    for kind in sorted({outcome.pair.kind for outcome in outcomes}):
        of_kind = [outcome for outcome in outcomes if outcome.pair.kind == kind]
        print(f"{kind:10} {sum(outcome.is_right for outcome in of_kind):4} of {len(of_kind):4}")
    right = sum(outcome.is_right for outcome in outcomes)
    print(f"all        {right:4} of {len(outcomes):4}")
    for outcome in outcomes:
        if options.wrong and not outcome.is_right:
            print(f"{outcome.gain_ns / 1e6:9.3f} ms, said {(outcome.said_ns or 0) / 1e6:9.3f} ms: {outcome.pair}")
    sys.exit(right < WANTED * len(outcomes))


if __name__ == "__main__":
    main()
