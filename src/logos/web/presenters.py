"""The filters of the templates: what they show of runs, as values that are ready to print."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from logos.domain.proof import CountedTests, ProofStep
from logos.domain.turns import Outcome
from logos.domain.usage import Spent
from logos.views.document import iso
from logos.views.proof import StepRecord, certificate_of
from logos.views.redact import clean, one_line
from logos.views.run import RunView
from logos.views.text import clock, count, cut, date, duration, first_line, number
from logos.views.turns import LOGOS, PROOF_STEPS
from logos.views.usage import in_short, price, tokens
from logos.web import forms, lineage, links, listing, marking, patches, pictures, running
from logos.web.listing import Mark

# The steps of a proof in a word or two.
_CHIPS = {
    ProofStep.BASELINE: "before the run",
    ProofStep.RESULT: "own tests",
    ProofStep.GUARDED: "tests of before",
    ProofStep.CANARY: "planted failures",
    ProofStep.RED: "new tests without the change",
    ProofStep.BLIND: "unseen tests",
    ProofStep.BLIND_BASE: "unseen tests before",
}


# -- a proof


def proof_steps(view: RunView) -> tuple[Mark, ...]:
    """The steps of the newest proof, each with whether it supports a PASS."""
    return tuple(Mark("good" if step.supports else "bad", _CHIPS[step.step]) for step in certificate_of(view).steps)


def result_words(view: RunView) -> str:
    """Whether the result is proven, in a sentence."""
    if view.outcome is None or view.question is not None:
        return f"The {view.words.run} has no result yet."
    if view.outcome is not Outcome.PASSED:
        return f"There is no pass: the {view.words.run} ended as {view.outcome.value.lower()}."
    if view.state.verified:
        return "Passed, and Logos has proven it itself."
    return "Passed, but only an agent says so: nothing was proven."


def step_name(step: StepRecord) -> str:
    return PROOF_STEPS[step.step]


def counted(tests: CountedTests | None) -> str:
    if tests is None:
        return "tests not counted"
    parts = {"passed": tests.passed, "failed": tests.failed, "flaky": tests.flaky, "skipped": tests.skipped}
    return ", ".join(f"{number(len(ids))} {word}" for word, ids in parts.items() if ids) or "no tests"


# -- formats


def since(at: float) -> float:
    return max(time.time() - at, 0.0)


def usage_words(bill: Spent) -> str:
    return in_short(bill.usage) or ("tokens unknown" if bill.turns else "none yet")


def short_place(place: Path | str) -> str:
    """The last two parts of a path: enough to know a repository again."""
    return clean("/".join(Path(place).parts[-2:]).lstrip("/"))


def nonce(size: int) -> str:
    """A random word of the page: htmx obeys no attribute of an element that does not have it."""
    return secrets.token_urlsafe(size)


def name_of(agent: str) -> str:
    name = one_line(agent).replace("_", " ")
    return "Logos" if agent == LOGOS else name[:1].upper() + name[1:]


def tokens_of(bill: Spent) -> str:
    return "" if bill.usage.tokens is None else tokens(bill.usage.tokens)


def price_of(bill: Spent) -> str:
    return "" if bill.usage.cost_usd is None else price(bill.usage)


FILTERS: dict[str, Callable[..., Any]] = {
    "listing": listing.listing,
    "row_mark": listing.row_mark,
    "view_mark": listing.view_mark,
    "doing": running.doing,
    "phases": pictures.phases,
    "ladder": pictures.ladder,
    "bars": pictures.bars,
    "strip": pictures.strip,
    "turn_tone": pictures.tone_of,
    "turn_groups": running.turn_groups,
    "hidden_turns": running.hidden_turns,
    "neighbours": running.neighbours,
    "event_rows": running.event_rows,
    "event_words": running.event_words,
    "step_name": step_name,
    "proof_steps": proof_steps,
    "result_words": result_words,
    "state_of": listing.state_of,
    "nobody_at_work": running.nobody_at_work,
    "waiting": running.waiting,
    "agents": running.agents_of,
    "checkpoints": running.checkpoints,
    "since": since,
    "link": links.link,
    "same_place": links.same_place,
    "same_moment": links.same_moment,
    "moment_link": links.moment_link,
    "sections": forms.sections,
    "counted": counted,
    "usage": in_short,
    "usage_words": usage_words,
    "tokens": tokens_of,
    "price": price_of,
    "place": short_place,
    "name": name_of,
    "nonce": nonce,
    "count": count,
    "number": number,
    "duration": duration,
    "clock": clock,
    "date": date,
    "iso": iso,
    "clean": clean,
    "one_line": one_line,
    "cut": cut,
    "first_line": first_line,
    "cut_text": marking.cut_text,
    "markdown": marking.markdown,
    "patch": patches.patch_of,
    "graph": lineage.graph,
    "reconciliations": lineage.reconciliations,
}
