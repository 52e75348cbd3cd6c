"""Answering the question that a build is blocked on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.lock import DriverLock
from logos.adapters.store.sqlite import SqliteLog
from logos.app.runs import newest_of, open_levels, write_state_of_build
from logos.app.workdir import WorkDir, reading
from logos.domain.events import QuestionResolved
from logos.domain.plans import LevelsPlan
from logos.domain.specs import Question
from logos.domain.turns import RunId
from logos.engine.journal import Journal
from logos.errors import UsageError
from logos.flows.levels.state import LevelsState


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
        paths = WorkDir(work_dir)
        with DriverLock(paths.lock):
            journal.record(QuestionResolved(question.id, option, text))
            write_state_of_build(paths, journal.state, journal.ledger, journal.run, journal.fold.seq, time.time())
    return Answer(journal.run, question.id, option, text)


def _blocked_build(log: SqliteLog) -> tuple[Journal[LevelsState], Question]:
    run = newest_of(log, LevelsPlan)
    journal = open_levels(log, run) if run is not None else None
    if journal is None or journal.state.question is None:
        why = f"build {journal.run} is not blocked" if journal else "no build was started here yet"
        raise UsageError(f"there is no open question: {why}")
    return journal, journal.state.question


def _read_answer(words: Sequence[str], question: Question) -> tuple[int, str]:
    first, *rest = words
    if not first.isdecimal():
        text = " ".join(words).strip()
        if not text:
            raise UsageError("the decision is empty")
        return 0, text
    option = int(first) if len(first) < 6 else 0
    if not 1 <= option <= len(question.options):
        many = len(question.options)
        has = f"options 1 to {many}" if many else "no options; decide in plain words"
        raise UsageError(f"there is no option {first}: this question has {has}")
    return option, " ".join(rest).strip()
