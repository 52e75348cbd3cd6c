"""`logos resolve`: answer the question a build is blocked on."""

from dataclasses import asdict
from typing import Annotated

from logos.app import resolve as questions
from logos.app.workdir import place_of, wd_flag
from logos.cli.options import AsJson, WorkDir, argument, command
from logos.cli.output import console as show
from logos.views.document import QuestionDocument


@command(
    "logos resolve                        # show the question and its options",
    "logos resolve 2                      # choose the second option",
    'logos resolve "prices stay in cents" # decide in your own words',
    'logos resolve 1 "but keep the old name as an alias"',
)
def resolve(
    words: Annotated[
        list[str] | None, argument("[OPTION] [TEXT]", "An option's number, a decision in plain words, or both.")
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Answer the question that a build is blocked on; `logos build --resume` then continues with your decision."""
    place = place_of(wd)
    target, at = show.console(), wd_flag(place)
    if words:
        answer, resume = questions.resolve(place, words), f"logos build --resume{at}"
        # A build keeps telos.toml as it was.
        changed = "; --reread takes a telos.toml that you have changed"
        chosen = f"option {answer.option}" if answer.option else "your decision"
        if as_json:
            show.document({**asdict(answer), "next": resume})
        else:
            show.put(
                target,
                f"recorded: {chosen} on {answer.question} of build {answer.run}; next: {resume}{changed}",
                "bold",
            )
        return
    found = questions.open_question(place)
    if as_json:
        show.document({"run": found.run, "question": QuestionDocument.of(found.question)})
    else:
        show.put(target, f"build {found.run} is blocked on a question", "bold")
        show.put_question(target, found.question, at)
