"""`logos resolve`: the question a build waits with, and a person's answer to it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logos.app.workdir import LOCK, TELOS, place_of, reading, wd_flag
from logos.cli.options import AsJson, WorkDir, examples
from logos.errors import UsageError

if TYPE_CHECKING:
    from logos.adapters.store.sqlite import SqliteLog
    from logos.domain.specs import Question
    from logos.engine.journal import Journal
    from logos.flows.levels.state import LevelsState

EXAMPLES = examples(
    "logos resolve                        # show the question and its options",
    "logos resolve 2                      # take the second option",
    'logos resolve "prices stay in cents" # decide in words of your own',
    'logos resolve 1 "but keep the old name as an alias"',
)


def resolve(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OPTION] [TEXT]", help="An option's number, a decision in plain words, or both."),
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Answer what a build could not decide; `logos build --resume` then goes on with your decision."""
    from logos.adapters.lock import DriverLock
    from logos.app.state_files import write_state_of_build
    from logos.cli.output import console as show
    from logos.domain.events import QuestionResolved

    place = place_of(wd)
    with reading(place) as log:
        journal = _waiting(log)
        question = journal.state.question
        assert question is not None
        if not words:
            _show(journal, question, place, as_json=as_json)
            return 0
        option, text = _decision(words, question)
        with DriverLock(place / TELOS / LOCK):
            journal.record(QuestionResolved(question.id, option, text))
            write_state_of_build(place / TELOS, journal.state, journal.ledger, journal.run, journal.seq, time.time())
    go_on = f"logos build --resume{wd_flag(place)}"
    if as_json:
        show.document({"run": journal.run, "question": question.id, "option": option, "text": text, "next": go_on})
    else:
        chosen = f"option {option}" if option else "your decision"
        show.put(show.console(), f"recorded: {chosen} on {question.id} of build {journal.run}; next: {go_on}", "bold")
    return 0


def _show(journal: Journal[LevelsState], question: Question, place: Path, *, as_json: bool) -> None:
    from logos.cli.output import console as show
    from logos.views.document import question_document

    if as_json:
        show.document({"run": journal.run, "question": question_document(question)})
        return
    show.put(show.console(), f"build {journal.run} waits for a decision of yours", "bold")
    show.put_question(show.console(), question, wd_flag(place))


def _waiting(log: SqliteLog) -> Journal[LevelsState]:
    from logos.app.runs import open_levels, runs_with
    from logos.domain.plans import LevelsPlan

    builds = runs_with(log, LevelsPlan)
    journal = open_levels(log, builds[-1]) if builds else None
    if journal is None or journal.state.question is None:
        which = f"build {journal.run} asks nothing" if journal else "no build was started here yet"
        raise UsageError(f"nothing waits for a decision: {which}")
    return journal


def _decision(words: list[str], question: Question) -> tuple[int, str]:
    first, *rest = words
    if not first.isdecimal():
        text = " ".join(words).strip()
        if not text:
            raise UsageError("a decision in plain words must say something")
        return 0, text
    option = int(first) if len(first) < 6 else 0
    if not 1 <= option <= len(question.options):
        many = len(question.options)
        has = f"options 1 to {many}" if many else "no options; decide in plain words"
        raise UsageError(f"there is no option {first}: this question has {has}")
    return option, " ".join(rest).strip()
