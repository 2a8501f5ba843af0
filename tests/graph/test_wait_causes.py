"""Why a process waited: the definition of the algebra, against jobs that are simulated here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import polars as pl

from holotrace.core.native import native

NONE = 2**32 - 1
Work = tuple[str, int]
# What a process does, in order: work with its signature and time, or the name of a meeting.
Program = list[Work | str]


@dataclass
class Visits:
    """Rows as the core takes them, of a job in which each process does one thing after the other."""

    rows: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    terms: list[tuple[int, int, int]] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    names: list[tuple[str, str]] = field(default_factory=list)  # process and meeting of each row
    waits: list[int] = field(default_factory=list)


def simulated(programs: dict[str, Program]) -> Visits:
    """All start together; a meeting is over when all that name it have come."""
    members = {item: {p for p in programs if item in programs[p]} for each in programs.values() for item in each}
    found, processes = Visits(), list(programs)
    at, now, before = dict.fromkeys(programs, 0), dict.fromkeys(programs, 0), dict.fromkeys(programs, NONE)
    work: dict[str, list[Work]] = {process: [] for process in programs}
    met = 0
    while any(at[p] < len(programs[p]) for p in programs):
        for p, program in programs.items():
            while at[p] < len(program) and not isinstance(item := program[at[p]], str):
                work[p].append(item)
                now[p] += item[1]
                at[p] += 1
        here = {p: programs[p][at[p]] for p in programs if at[p] < len(programs[p])}
        over = next((name for name in here.values() if {p for p in here if here[p] == name} == members[name]), None)
        if over is None:
            assert not here, "the job hangs"
            break
        left = max(now[p] for p in members[over])
        for p in sorted(members[over]):
            found.rows.append((processes.index(p), met, now[p], left, before[p], len(found.terms)))
            for signature, ns in work[p]:
                if signature not in found.signatures:
                    found.signatures.append(signature)
                found.terms.append((processes.index(p), found.signatures.index(signature), ns))
            found.names.append((p, str(over)))
            found.waits.append(left - now[p])
            before[p], work[p], now[p] = len(found.rows) - 1, [], left
            at[p] += 1
        met += 1
    return found


def explained(programs: dict[str, Program]) -> dict[tuple[str, str], Counter[tuple[str, str]]]:
    """By process and meeting: what the wait consists of, by process and signature; all waits, also those of 0."""
    visits = simulated(programs)
    columns = ("process", "meeting", "arrived_ns", "left_ns", "before", "first")
    types = (pl.UInt32, pl.UInt32, pl.Int64, pl.Int64, pl.UInt32, pl.UInt32)
    rows = pl.DataFrame(visits.rows, schema=dict(zip(columns, types, strict=True)), orient="row")
    schema = {"process": pl.UInt32, "signature": pl.UInt32, "ns": pl.Int64}
    terms = pl.DataFrame(visits.terms, schema=schema, orient="row")
    found: dict[tuple[str, str], Counter[tuple[str, str]]] = {name: Counter() for name in visits.names}
    for visit, _, process, signature, ns in pl.DataFrame(native.wait_causes(rows, terms)).rows():
        found[visits.names[visit]][list(programs)[process], visits.signatures[signature]] = ns
    waits = dict(zip(visits.names, visits.waits, strict=True))
    assert {name: sum(terms.values()) for name, terms in found.items()} == waits
    return found


def test_wait_of_a_process_for_one_that_itself_had_waited_is_that_ones_cause() -> None:
    # Carnival's example: A3 = B3 + C3 - A2.
    found = explained(
        {
            "A": [("A1", 50), "AB", ("A2", 10), "AC"],
            "B": [("B1", 20), "AB", ("B3", 40), "BC"],
            "C": [("C1", 15), "BC", ("C3", 70), "AC"],
        }
    )
    assert found["B", "AB"] == {("A", "A1"): 50, ("B", "B1"): -20}
    assert found["A", "AC"] == {("B", "B3"): 40, ("C", "C3"): 70, ("A", "A2"): -10}


def test_what_both_did_before_their_last_common_meeting_is_no_cause() -> None:
    found = explained({"P": [("gc", 500), "x", ("gemm", 7), "y"], "Q": [("gemm", 1), "x", ("gemm", 9), "y"]})
    assert found["P", "y"] == {("Q", "gemm"): 9, ("P", "gemm"): -7}


def test_every_wait_is_closed() -> None:
    for seed in range(300):
        rng = Random(seed)
        programs: dict[str, Program] = {process: [] for process in "PQRSTU"}
        for number in range(rng.randint(1, 25)):
            for process in rng.sample(list(programs), rng.randint(2, len(programs))):
                done = [(rng.choice(("gemm", "loader", "gc")), rng.randint(0, 1000)) for _ in range(rng.randint(0, 3))]
                programs[process] += [*done, f"meeting {number}"]
        explained(programs)  # it asserts that the terms of each sum to it
