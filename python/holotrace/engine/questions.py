"""What is asked of a job at once, what each rank contributes to it, and what comes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import polars as pl

from holotrace.analyses import named
from holotrace.analyses.causes import causes
from holotrace.analyses.duty_cycle import duty_cycle
from holotrace.core import arrow
from holotrace.core.analysis import Analysis, Finding, PerJob
from holotrace.core.native import native
from holotrace.core.problems import frame
from holotrace.core.schema import Table
from holotrace.core.spread import cpu_count, spread
from holotrace.core.tables import PROBLEMS, RANK_INFO
from holotrace.core.trace import RankTrace, hearing
from holotrace.derive import worth
from holotrace.derive.device_time import ON_HOST
from holotrace.diagnosis.job.symptoms import explained, folded
from holotrace.discovery import Survey
from holotrace.engine.comparable import Comparison, Recorded, of_ranks, ranks_left_out
from holotrace.present.figures import figure
from holotrace.present.notebook import Findings, result_html
from holotrace.present.wording import worded

# rank_info of the steps that are compared.
COMPARED_INFO = "compared_info"
# An analysis and its options.
Asked = tuple[Analysis[Any], Mapping[str, Any]]
# To let go of the tables of a smaller rank one by one, or of what a smaller part was made of, takes longer than it is
# worth.
_LARGE_BYTES = 1 << 23
# What is made of a part that takes as much while it waits, such as the graph of a million activities, is a hundred MB.
_MUCH_BYTES = 1 << 22


class _Parts(Mapping[str, pl.DataFrame]):
    """Frames that are compressed until somebody asks for them: small ones take a tenth of the memory, as large ones do.

    Those without rows, which a third of a rank's are, are held as they are.
    """

    def __init__(self, held: Mapping[str, pl.DataFrame | bytes]) -> None:
        self._held = held

    @staticmethod
    def held(frame: pl.DataFrame) -> pl.DataFrame | bytes:
        """The frame as it is held."""
        return frame.clear() if frame.is_empty() else arrow.stream(frame)

    @classmethod
    def with_rows(cls, parts: Mapping[str, pl.DataFrame]) -> _Parts:
        """Those of the parts that have rows."""
        held = parts._held if isinstance(parts, cls) else {name: cls.held(frame) for name, frame in parts.items()}
        return cls({name: piece for name, piece in held.items() if isinstance(piece, bytes)})

    def __getitem__(self, name: str) -> pl.DataFrame:
        held = self._held[name]
        return arrow.read(held) if isinstance(held, bytes) else held

    def __contains__(self, name: object) -> bool:
        # A mapping by itself would look the frame up, and so read it.
        return name in self._held

    def held_bytes(self, name: str) -> int:
        held = self._held.get(name)
        return len(held) if isinstance(held, bytes) else 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


@dataclass(frozen=True)
class Answers:
    """One rank's part of everything that was asked."""

    parts: Mapping[str, pl.DataFrame]
    """By name; a part that is not there has no rows."""
    info: pl.DataFrame
    problems: pl.DataFrame

    def __reduce__(self) -> tuple[type[Answers], tuple[Mapping[str, pl.DataFrame], pl.DataFrame, pl.DataFrame]]:
        # What comes from other processes is of many ranks, which all wait for the last.
        return Answers, (_Parts.with_rows(self.parts), self.info, self.problems)

    @property
    def recorded(self) -> Recorded:
        """How much of the rank there is."""
        return Recorded.of(self.info, self.problems)


def _info(answers: Sequence[Answers]) -> pl.DataFrame:
    return pl.concat([RANK_INFO.empty(), *(answer.info for answer in answers)])


@dataclass(frozen=True)
class Questions:
    """Analyses to be answered from one reading of a rank, each with its options."""

    asked: tuple[Asked, ...]
    # Whether all problems of a file are wanted, also those of what no analysis reads.
    every_problem: bool = False
    # So many threads answer them on one rank.
    workers: int = 1

    @property
    def reads(self) -> tuple[Table, ...]:
        return (*(table for analysis, _ in self.asked for table in analysis.reads), RANK_INFO, PROBLEMS)

    def __call__(self, rank: RankTrace) -> Answers:
        asked = {analysis.part_name: (analysis, options) for analysis, options in self.asked}
        reads = {name: analysis.reads for name, (analysis, _) in asked.items()}
        left, lock = dict(reads), Lock()
        is_large = sum(frame.estimated_size() for frame in rank.held.values()) > _LARGE_BYTES

        def let_go(name: str, finished: Sequence[Table]) -> None:
            names = {table.name for table in finished}
            with lock:
                left[name] = tuple(table for table in left[name] if table.name not in names)
                if is_large:
                    # Nobody will ask for the rest again, which may be most of the memory.
                    rank.keep([(RANK_INFO, PROBLEMS), *left.values()])
                    native.give_back()

        def answered(name: str) -> pl.DataFrame | bytes:
            analysis, options = asked[name]
            with hearing(partial(let_go, name)):
                part = analysis.of_rank(rank, options)
            if part.estimated_size() > _LARGE_BYTES:
                # Whoever shares what it was made of makes that again, rather than that all wait with it.
                analysis.forget(rank)
            let_go(name, reads[name])
            return _Parts.held(part)

        order = _in_turn(reads, rank)
        parts = dict(zip(order, spread(answered, order, self.workers), strict=True))
        return Answers(_Parts({name: parts[name] for name in asked}), rank[RANK_INFO], rank[PROBLEMS])

    def combined(
        self,
        answers: Sequence[Answers],
        doubts: Sequence[Mapping[str, Any]],
        found: Comparison,
        of_steps: Sequence[Answers] = (),
    ) -> dict[str, pl.DataFrame]:
        """Each table of all ranks, by its name.

        Args:
            answers: What the ranks answered.
            doubts: Problems known from elsewhere.
            found: How ranks are compared.
            of_steps: What they answered on the steps that are compared, where these are not all.
        """
        shared = _Shared(self.asked, of_steps or answers, found.left_out)
        order = shared.order
        found_tables = spread(shared.answer, order, cpu_count())
        answered = {analysis.name: table for (analysis, _), table in zip(order, found_tables, strict=True)}
        tables = {analysis.name: answered[analysis.name] for analysis, _ in self.asked}
        problems = [frame(doubts), *(answer.problems for answer in answers), frame(found.problems)]
        tables[RANK_INFO.name] = _info(answers)
        tables[COMPARED_INFO] = _info(of_steps) if of_steps else tables[RANK_INFO.name]
        return {**tables, PROBLEMS.name: pl.concat(problems)}


class _Shared:
    """What analyses share of the answers of all ranks: gathered when the first is asked, let go after the last."""

    def __init__(self, asked: Sequence[Asked], answers: Sequence[Answers], left_out: Container[int]) -> None:
        self._asked = asked
        self._answers = answers
        self._compared = [answer for answer in answers if answer.recorded.rank not in left_out]
        self._left = Counter(analysis.shares for analysis, _ in asked)
        self._locks = {shared: Lock() for shared in self._left}
        self._gathered: dict[Hashable, Any] = {}

    @property
    def order(self) -> list[Asked]:
        """The analyses in an order in which threads seldom wait for what another gathers."""
        firsts = {analysis.shares: (analysis, chosen) for analysis, chosen in reversed(self._asked)}

        def place(asked: Asked) -> tuple[bool, int]:
            # What is much and asked once is let go before what several ask comes, which is more.
            count = self._left[asked[0].shares]
            return not (count == 1 and self._is_much(asked[0])), -count

        first = sorted(firsts.values(), key=place)
        return [*first, *(pair for pair in self._asked if firsts[pair[0].shares][0] is not pair[0])]

    def _is_much(self, analysis: Analysis[Any]) -> bool:
        """Whether a rank contributes so much that one after the other looks at it."""
        parts = (answer.parts for answer in self._answers)
        return any(isinstance(part, _Parts) and part.held_bytes(analysis.part_name) > _MUCH_BYTES for part in parts)

    def answer(self, question: Asked) -> pl.DataFrame:
        """The table of all ranks."""
        analysis, chosen = question
        shared = analysis.shares
        with self._locks[shared]:
            if shared not in self._gathered:
                of = self._compared if isinstance(analysis, PerJob) else self._answers
                name = analysis.part_name
                parts = (answer.parts[name] for answer in of if name in answer.parts)
                asked = [each for each, _ in self._asked if each.shares == shared]
                self._gathered[shared] = analysis.gathered(parts, asked)
            gathered = self._gathered[shared]
            self._left[shared] -= 1
            if not self._left[shared]:
                # A graph of a whole job is large.
                del self._gathered[shared]
            if self._is_much(analysis):
                return analysis.answer(gathered, chosen)
        return analysis.answer(gathered, chosen)


def _in_turn(reads: Mapping[str, Sequence[Table]], rank: RankTrace) -> list[str]:
    """The names in an order in which large tables that few ask for can go early."""
    left = {name: dict.fromkeys(table.name for table in tables) for name, tables in reads.items()}
    bytes_of = {name: frame.estimated_size() for name, frame in rank.held.items()}
    order: list[str] = []
    while readers := Counter(table for tables in left.values() for table in tables):
        next_gone = max(readers, key=lambda table: bytes_of.get(table, 0) / readers[table])
        chosen = [name for name, tables in left.items() if next_gone in tables]
        order += chosen
        left = {name: tables for name, tables in left.items() if name not in chosen}
    return [*order, *left]


@dataclass(frozen=True, repr=False)
class JobResult:
    """Everything a report shows, from one reading of each rank."""

    title: str
    """The job's name, from its path."""

    source: str
    """Where its traces are."""

    tables: Mapping[str, pl.DataFrame]
    """Table of each analysis, by its name."""

    info: pl.DataFrame
    """What is known of each rank: device, software, and how much was compared, where ranks recorded different steps."""

    problems: pl.DataFrame
    """What could not be read as it was written."""

    findings: tuple[Finding, ...]
    """What the rules of the analyses found, dearest first; of the ranks that recorded as much as the others."""

    @classmethod
    def of(cls, found: Survey, asked: Sequence[Analysis[Any]], tables: Mapping[str, pl.DataFrame]) -> JobResult:
        """The result of the job that was ``found``, from all its ``tables``, for the analyses that were ``asked``."""
        own = {analysis.name: tables[analysis.name] for analysis in asked}
        # Who asks nothing wants to know what there is.
        info, problems = tables[COMPARED_INFO if own else RANK_INFO.name], tables[PROBLEMS.name]
        without = ranks_left_out(problems)
        compared = {name: of_ranks(table, without) for name, table in tables.items()}
        findings = [finding for analysis in asked for finding in analysis.findings(compared[analysis.name])]
        settled = worth.settled(findings, compared, of_ranks(info, without))
        if causes.name in own:
            planes = own[duty_cycle.name]["plane"] if duty_cycle.name in own else pl.Series(dtype=pl.String)
            settled = folded(
                settled,
                max(info["span_ns"].drop_nulls().to_list(), default=0),
                is_xla=not planes.is_empty(),
                is_on_host=not planes.is_empty() and bool((planes == ON_HOST).all()),
            )
            own[causes.name] = explained(own[causes.name], settled)
        return cls(found.title, found.origin, own, info, problems, Findings(worded(finding) for finding in settled))

    def __repr__(self) -> str:
        asked = ", ".join(self.tables) if len(self.tables) < 4 else f"{len(self.tables)} tables"
        return f"JobResult({self.title!r}, {self.info.height} ranks, {asked}, {len(self.findings)} findings)"

    def _repr_html_(self) -> str:
        return result_html(self)

    # Any: only present/ knows of Plotly.
    def figure(self, analysis: str | Analysis[Any]) -> Any:
        """The chart of one of its analyses, a Plotly figure for a notebook: ``result.figure("overlap")``.

        Returns:
            A ``plotly.graph_objects.Figure``.

        Raises:
            KeyError: the analysis was not run.
        """
        found = named(analysis) if isinstance(analysis, str) else analysis
        return figure(found, self.tables[found.name])


def rows(rank: RankTrace, table: Table) -> pl.DataFrame:
    """One rank's rows of a table, with the rank they belong to."""
    return rank[table].select(pl.lit(rank.rank, pl.Int32()).alias("rank"), pl.exclude("rank"))
