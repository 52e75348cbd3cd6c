"""The unfinished run in a few lines, and the question whether to resume, reset or fork it."""

from __future__ import annotations

import sys
from pathlib import Path

from logos.app.checkpoints import checkpoint_at
from logos.app.rollback import fork_at
from logos.app.run_start import blocked
from logos.app.settings import Settings
from logos.app.start import newest_unfinished
from logos.app.workdir import Tell, wd_flag
from logos.domain.plans import LevelsPlan
from logos.errors import StateError, UsageError
from logos.views.run import RunView
from logos.views.status import BUDGET
from logos.views.text import count, date, duration, listed
from logos.views.usage import sum_in_words

# So many sessions, and so many next turns, are named one by one.
SHOWN = 3
ANSWERS = {"r": "resume", "s": "reset", "f": "fork", "q": "quit"}


def summary(place: Path, view: RunView) -> list[str]:
    """What a person needs who returns to a run after hours or days."""
    what = "build" if view.build is not None else "run"
    origin = f", from {view.came_from}" if view.came_from else ""
    inherited = f" (and {view.inherited} before the fork)" if view.inherited else ""
    stopped = view.state.stalled or view.left
    next_turns = view.state.next_turns
    next_text = f"next is {listed(next_turns[:SHOWN])}" if next_turns else "nothing is due"
    earlier = len(view.own_sessions) - SHOWN
    sessions = [
        f"session {session.number}, {date(session.began)}: {duration(session.seconds)}, "
        f"{count(len(session.answered), 'turn')} answered"
        for session in view.own_sessions[-SHOWN:]
    ]
    return [
        f"unfinished {what} {view.run}{origin}: {view.asked_for}",
        *([count(earlier, "earlier session")] if earlier > 0 else []),
        *sessions,
        f"{count(view.answered, 'turn')} answered{inherited}, {sum_in_words(view.bill, view.characters)}",
        f"it is at {view.state.position.text}; {next_text}",
        *([f"it stopped: {stopped}"] if stopped else []),
        f"recommended: {recommended(place, view)}",
    ]


def recommended(place: Path, view: RunView) -> str:
    """The next action, and its command."""
    flag = wd_flag(place)
    if view.question is not None:
        return f"answer its question (logos resolve{flag})"
    budget = BUDGET.match(view.left)
    if budget is not None:
        return f"resume it with a larger {budget[1]} ({view.resumes_with}{flag} --set {budget[1]}=…)"
    return f"resume it ({view.resumes_with}{flag})"


def present(place: Path, view: RunView | None, tell: Tell) -> None:
    for line in summary(place, view) if view is not None else ():
        tell(line)


def decide(
    settings: Settings, feature: str, tell: Tell, *, ask: bool, known: RunView | None = None
) -> tuple[Settings, str, RunView | None]:
    """Settings, feature and loaded build to start with: an unfinished build is resumed, reset or forked.

    `ask` says whether a person can be asked; if not, and it was not said, it is an error before anything is changed.
    """
    if settings.resume is False:
        return settings, feature, None
    place, flag = settings.work_dir, wd_flag(settings.work_dir)
    view = known or newest_unfinished(place, LevelsPlan)
    present(place, view, tell)
    if view is None:
        return settings, feature, None
    if view.question is not None:
        raise blocked(view.run, place)
    if settings.resume:
        return settings, feature, view
    if not ask:
        raise UsageError(
            f"an unfinished build is here ({view.run}: {view.asked_for!r}): --resume continues it, "
            f"--fresh abandons it and starts anew, `logos fork {view.run}{flag}` continues it in another worktree"
        )
    match _asked(feature, tell):
        case "reset":
            return settings.model_copy(update={"resume": False}), feature or getattr(view.plan, "feature", ""), None
        case "fork":
            started = fork_at(settings, checkpoint_at(place, view, None), None, tell)
            tell(f"build {started.run} is forked from {started.at.run}@{started.at.seq} and continues in {started.wd}")
            return settings.model_copy(update={"wd": str(started.wd), "resume": True}), "", None
        case _:
            return settings.model_copy(update={"resume": True}), "", view


def _asked(feature: str, tell: Tell) -> str:
    anew = "abandon it and start the new one" if feature else "abandon it and start it anew"
    while True:
        tell(f"[r]esume it, re[s]et: {anew}, [f]ork it and continue in another worktree, or [q]uit? (r)")
        line = sys.stdin.readline()
        answer = line.strip().lower() or "r"
        if not line or answer in ("q", "quit"):
            raise StateError("nothing was done: the build is still unfinished")
        for letter, word in ANSWERS.items():
            if answer in (letter, word):
                return word
        tell(f"{answer!r} is none of {', '.join(ANSWERS.values())}")
