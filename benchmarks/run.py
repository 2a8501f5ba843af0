"""Measure holotrace beside its peers in one run, and write the table to results.md."""

from __future__ import annotations

import argparse
import os
import sys

import questions
from harness import inputs, peers, table
from harness.bench import Bench
from harness.measure import BENCHMARKS, run_all
from harness.question import Row

_ROUNDS, _QUICK_ROUNDS = 9, 2


def main() -> int:
    """0 if everything could be measured, whether or not the goals are met."""
    options = _options()
    size = inputs.QUICK if options.quick else inputs.FULL
    bench = Bench(inputs.prepare(size, _tell), peers.prepare(_tell), _cores())
    asked = [module for module in questions.ALL if not options.only or _name(module) in options.only]
    rows = [row for module in asked for row in module.rows(bench)]
    needed = [need for row in rows if isinstance(row, Row) for side in (row.ours, row.theirs) for need in side.needs]
    # Others at work on the machine make all numbers worse, and not alike.
    load_average = os.getloadavg()[0]
    results = run_all(needed, options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS), _tell)
    compared = table.comparisons(rows, results)
    print("\n".join(compared))
    if not (options.quick or options.only or results.failures):
        _write(table.circumstances(bench, load_average), compared, table.measurements(results))
    return 1 if results.failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the trace, few rounds; writes no results.md")
    parser.add_argument(
        "--only",
        action="append",
        choices=[_name(module) for module in questions.ALL],
        help="only this question, several times for several; writes no results.md",
    )
    parser.add_argument("--rounds", type=int, help=f"how often each program runs (default {_ROUNDS})")
    return parser.parse_args()


def _write(circumstances: list[str], compared: list[str], measured: list[str]) -> None:
    lines = [
        "<!-- written by benchmarks/run.py -->",
        "# Results",
        "",
        *circumstances,
        "",
        "Each number in the first table is the median of its runs; README.md says how they came about.",
        "",
        *compared,
        "",
        "## What was run",
        "",
        *measured,
    ]
    (BENCHMARKS / "results.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _name(module: object) -> str:
    return str(getattr(module, "__name__", "")).rpartition(".")[2].replace("_", "-")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
