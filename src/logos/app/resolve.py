"""Answering the question that a build is blocked on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from logos.app.person import require_person
from logos.app.runs import newest_of, open_levels
from logos.app.steering import deliver, read_answer
from logos.app.workdir import reading
from logos.domain.events import QuestionResolved
from logos.domain.plans import LevelsPlan
from logos.domain.specs import Question
from logos.domain.turns import RunId
from logos.engine.journal import Journal
from logos.errors import UsageError
from logos.flows.levels.state import LevelsState
from logos.ports import RunLog


@dataclass(frozen=True, slots=True)
class BlockedBuild:
    run: RunId
    question: Question


@dataclass(frozen=True, slots=True)
class Answer:
    """`option` is the number of the chosen option, or 0; `text` the decision in words."""

    run: RunId
    question: str
    option: int
    text: str


def open_question(work_dir: Path) -> BlockedBuild:
    """The question that the newest build of a work dir is blocked on."""
    with reading(work_dir) as log:
        journal, question = _blocked_build(log)
    return BlockedBuild(journal.run, question)


def resolve(work_dir: Path, words: Sequence[str]) -> Answer:
    """Record the answer to the open question: an option's number, a decision in plain words, or both."""
    require_person(work_dir, "answer for a person")
    with reading(work_dir) as log:
        journal, question = _blocked_build(log)
    option, text = read_answer(" ".join(words), len(question.options))
    deliver(work_dir, journal.fold, QuestionResolved(question.id, option, text))
    return Answer(journal.run, question.id, option, text)


def _blocked_build(log: RunLog) -> tuple[Journal[LevelsState], Question]:
    run = newest_of(log, LevelsPlan)
    journal = open_levels(log, run) if run is not None else None
    if journal is None or journal.state.question is None:
        why = f"build {journal.run} is not blocked" if journal else "no build was started here yet"
        raise UsageError(f"there is no open question: {why}")
    return journal, journal.state.question
