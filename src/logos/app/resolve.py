"""Answering the question that a build is blocked on."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.lock import driver_lock
from logos.adapters.state_files import write_build_state
from logos.adapters.store.sqlite import SqliteLog
from logos.app.runs import newest_of, open_levels
from logos.app.workdir import WorkDir, reading
from logos.domain.events import QuestionResolved
from logos.domain.plans import LevelsPlan
from logos.domain.specs import Question
from logos.domain.turns import RunId
from logos.engine.journal import Journal
from logos.errors import UsageError
from logos.flows.levels.state import LevelsState
from logos.views.build_state import project


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
    with reading(work_dir) as log:
        journal, question = _blocked_build(log)
        option, text = _read_answer(words, question)
        paths, fold = WorkDir(work_dir), journal.fold
        with driver_lock(paths.lock):
            journal.record(QuestionResolved(question.id, option, text))
            write_build_state(paths.build_state, project(fold.state, fold.ledger, fold.run, fold.seq, time.time()))
    return Answer(journal.run, question.id, option, text)


def _blocked_build(log: SqliteLog) -> tuple[Journal[LevelsState], Question]:
    run = newest_of(log, LevelsPlan)
    journal = open_levels(log, run) if run is not None else None
    if journal is None or journal.state.question is None:
        why = f"build {journal.run} is not blocked" if journal else "no build was started here yet"
        raise UsageError(f"there is no open question: {why}")
    return journal, journal.state.question


def _read_answer(words: Sequence[str], question: Question) -> tuple[int, str]:
    first, many = words[0], len(question.options)
    text = " ".join(words[first.isdecimal() :]).strip()
    option = int(first) if first.isdecimal() and len(first) < 6 else 0
    if first.isdecimal() and not 1 <= option <= many:
        has = f"options 1 to {many}" if many else "no options; decide in plain words"
        raise UsageError(f"there is no option {first}: this question has {has}")
    if not (option or text):
        raise UsageError("the decision is empty")
    return option, text
