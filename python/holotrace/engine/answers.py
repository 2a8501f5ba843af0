"""Answers on one rank: from what its file keeps of earlier ones, else from its tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holotrace.analyses import ALL
from holotrace.analyses.lanes import DRAWN
from holotrace.core.source import RankSource
from holotrace.core.tables import PROBLEMS, RANK_INFO
from holotrace.engine.map_ranks import Load, RankTask, Source, Unread
from holotrace.engine.program import running_program
from holotrace.engine.questions import Answers, Questions
from holotrace.formats import FORMATS
from holotrace.formats.declaration import AnswerStore, Program
from holotrace.loading.rank import load

# What is asked again and again: every analysis, with the options it has by itself.
_KEPT = (*ALL, *DRAWN)
EVERYTHING = Questions(tuple((analysis, {}) for analysis in _KEPT))
_ANALYSES = {analysis.name: analysis for analysis in _KEPT}
_COLUMNS = {
    **{analysis.part_name: analysis.part_columns for analysis in _KEPT},
    RANK_INFO.name: RANK_INFO.columns,
    PROBLEMS.name: PROBLEMS.columns,
}


@dataclass(frozen=True)
class QuestionTask:
    """Answers questions on one rank: as far as it can from what the rank's dataset keeps, else from its tables."""

    questions: Questions
    # A store is only written to where that is asked for.
    into_stores: bool = False
    load: Load = load
    program: Program = running_program

    def __call__(self, source: Source) -> Answers | Unread:
        kept = _store_of(source, self.program)
        if kept is None:
            return self._asked(self.questions, source)
        # With options it is another answer, and an analysis of the caller's own may change at any time.
        plain = {
            analysis.part_name
            for analysis, options in self.questions.asked
            if not options and _ANALYSES.get(analysis.name) is analysis
        }
        known = kept.read(_COLUMNS)
        parts = {name: known[name] for name in plain & known.keys()}
        rest = replace(
            self.questions, asked=tuple(each for each in self.questions.asked if each[0].part_name not in parts)
        )
        if known and not rest.asked:
            return Answers(parts, known[RANK_INFO.name], known[PROBLEMS.name])
        found = self._asked(rest, source)
        if isinstance(found, Unread):
            return found
        new = {name: found.parts[name] for name in plain - parts.keys()}
        if new and (self.into_stores or not kept.is_remote):
            kept.write({**known, **new, RANK_INFO.name: found.info, PROBLEMS.name: found.problems})
        return Answers({**parts, **found.parts}, found.info, found.problems)

    def _asked(self, questions: Questions, source: Source) -> Answers | Unread:
        return RankTask(questions, questions.reads, self.load, questions.every_problem)(source)


def _store_of(source: Source, program: Program) -> AnswerStore | None:
    """Where answers on a rank are kept; None where nothing can be."""
    if not isinstance(source, RankSource):
        return None
    answers = FORMATS[source.format].answers
    return answers(source, program) if answers else None
