"""`logos resolve`: show the question that a build is blocked on, or answer it."""

from __future__ import annotations

from typing import Annotated

import typer

from logos.app import resolve as use_case
from logos.app.workdir import place_of, wd_flag
from logos.cli.options import AsJson, WorkDir, examples
from logos.cli.output import console as show
from logos.views.document import question_document

EXAMPLES = examples(
    "logos resolve                        # show the question and its options",
    "logos resolve 2                      # choose the second option",
    'logos resolve "prices stay in cents" # decide in your own words',
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
    """Answer the question that a build is blocked on; `logos build --resume` then continues with your decision."""
    place = place_of(wd)
    if not words:
        found = use_case.open_question(place)
        if as_json:
            show.document({"run": found.run, "question": question_document(found.question)})
            return 0
        show.put(show.console(), f"build {found.run} is blocked on a question", "bold")
        show.put_question(show.console(), found.question, wd_flag(place))
        return 0
    answer, resume = use_case.resolve(place, words), f"logos build --resume{wd_flag(place)}"
    if as_json:
        recorded = {"run": answer.run, "question": answer.question, "option": answer.option, "text": answer.text}
        show.document({**recorded, "next": resume})
        return 0
    chosen = f"option {answer.option}" if answer.option else "your decision"
    text = f"recorded: {chosen} on {answer.question} of build {answer.run}; next: {resume}"
    show.put(show.console(), text, "bold")
    return 0
