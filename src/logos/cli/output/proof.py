"""The certificate of a run as text for people, readable at 80 columns."""

import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console

from logos.cli.output import console as show
from logos.domain.proof import CountedTests, ProofStep
from logos.views.events import Severity
from logos.views.proof import Certificate, StepRecord
from logos.views.redact import clean, one_line
from logos.views.repetition import Repetition
from logos.views.text import count, cut, date, duration

_WIDTH = 80
_LABEL = 11
_HASH = 12
_MOST_PATCH = 40
_MOST_NAMES = 8


def put_certificate(target: Console, own: Certificate, at: str) -> None:
    """The whole certificate; `at` is the ` --wd …` that the commands at its end need, or empty."""
    outcome = own.outcome.in_words(own.verified) if own.outcome is not None else "not ended"
    if own.is_proven:
        show.put(target, f"PROVEN: run {own.run}, {outcome}", "bold green")
    else:
        show.put(target, f"NOT PROVEN: run {own.run}, {outcome}", "bold red")
        _put(target, "because", own.not_proven)
    _put(target, "request", cut(one_line(own.request), 300))
    _put_files(target, own)
    if own.rules is not None:
        _put(target, "command", f"`{own.rules.command}`")
        if own.rules.setup:
            _put(target, "setup", f"`{own.rules.setup}`")
    _put(target, "records", f"{count(own.events, 'event')}, {date(own.started)} to {date(own.last)}; head {own.head}")
    by = own.written_by
    _put(target, "written by", f"Logos {by.logos}, Python {by.python}, git {by.git or 'none'}, {by.system}")
    if own.baseline is not None:
        show.put(target, "\nSteps:", "bold")
        for step in (own.baseline, *own.steps):
            _put_step(target, step)
    _put_changes(target, own)
    _put_acceptance(target, own)
    _put_approvals(target, own)
    show.put_next(target, _commands(own, at))


def _put_files(target: Console, own: Certificate) -> None:
    if own.baseline is not None:
        _put(target, "base", _snapshot(own.baseline))
    if own.result is not None:
        changed = "many files" if own.changed is None else count(len(own.changed), "file")
        _put(target, "result", f"{_snapshot(own.result)}; {changed} changed")
    if own.prefix:
        _put(target, "work dir", f"{own.prefix} of the repository")


def _snapshot(step: StepRecord) -> str:
    return f"commit {step.commit[:_HASH]}, tree {step.tree[:_HASH]}"


def _put_step(target: Console, step: StepRecord) -> None:
    if not step.supports:
        style = show.STYLES[Severity.BAD]
    else:
        style = show.STYLES[Severity.NORMAL if step.step is ProofStep.BASELINE else Severity.GOOD]
    _put(target, step.step, step.shows, style)
    # A step without files did not run; why stands in its output.
    if step.tree:
        _put_run(target, step)


def _put_run(target: Console, step: StepRecord) -> None:
    room = step.room
    setup = f", setup {duration(room.setup_seconds)}" if room.setup else ""
    where = f"{room.sandbox or 'no sandbox'}, network {'on' if room.network else 'off'}"
    counted = counted_in_words(step.tests)
    _put(target, "", f"exit {step.exit_code}, {counted}; {duration(room.seconds)}{setup}; {where}")
    if room.lent:
        _put(target, "", f"lent from the work dir: {', '.join(lent.path for lent in room.lent)}")
    planted = step.step is ProofStep.CANARY
    if step.subject and not planted:
        _put(target, "", f"{_SUBJECTS.get(step.step, 'about')}: {_names(step.subject)}")
    if step.tests is not None and step.tests.failed and not (planted and step.supports):
        _put(target, "", f"failed: {_names(step.tests.failed)}")
    _put(target, "", f"tree {step.tree[:_HASH]}, {step.turn}")


_SUBJECTS = {ProofStep.GUARDED: "put back", ProofStep.RED: "new or changed tests"}


def counted_in_words(tests: CountedTests | None) -> str:
    if tests is None:
        return "tests not counted"
    parts = {"passed": tests.passed, "failed": tests.failed, "flaky": tests.flaky, "skipped": tests.skipped}
    counted = ", ".join(f"{len(ids)} {word}" for word, ids in parts.items() if ids)
    return f"{counted or 'no tests'} ({tests.runner})"


def _put_changes(target: Console, own: Certificate) -> None:
    if own.declared:
        show.put(target, "\nTests that were allowed to change:", "bold")
        for declared in own.declared:
            files = f"changed: {_names(declared.files)}" if declared.files else "nothing changed"
            _item(target, f"{declared.path}, by {declared.by}{f': {declared.why}' if declared.why else ''}; {files}")
    if own.unrelated:
        show.put(target, "\nTests that failed before the run and were declared unrelated to it:", "bold")
        for failure in own.unrelated:
            still = f"still failing: {_names(failure.tests)}" if failure.tests else "they pass now"
            _item(target, f"{failure.test}, by {failure.by}: {failure.why}; {still}")
    if own.guarded:
        show.put(target, "\nChanged files that steer tests; nobody declared them, the proof put them back:", "bold")
        _item(target, _names(own.guarded))
    if own.patch:
        lines = clean(own.patch).splitlines()
        show.put(target, "\nTheir differences:", "bold")
        show.put_diff(target, "\n".join(lines[:_MOST_PATCH]))
        if len(lines) > _MOST_PATCH:
            show.put(target, f"({count(len(lines) - _MOST_PATCH, 'more line')}; --json has all)")


def _put_acceptance(target: Console, own: Certificate) -> None:
    """The tests themselves are long: people see what each checks."""
    if own.acceptance is None:
        return
    counted = f"{count(own.acceptance.requirements, 'requirement')}, {count(len(own.acceptance.files), 'file')}"
    show.put(target, f"\nBlind acceptance tests ({counted}; SHA-256 {own.acceptance.manifest[:_HASH]}):", "bold")
    texts = own.acceptance_texts
    if texts is None:
        _item(target, "their texts are shown once the run has ended, unless they are lost")
        return
    for one in texts.requirements:
        _item(target, f"{one.test}: {one.why}")
    _item(target, "--json has their text")


def _put_approvals(target: Console, own: Certificate) -> None:
    if not own.approvals:
        return
    show.put(target, "\nApproved:", "bold")
    for approval in own.approvals:
        _item(target, f"{approval.what}, by {approval.who} ({approval.turn}, {date(approval.at)})")


def _commands(own: Certificate, at: str) -> show.Commands:
    commands = [(f"logos log {own.run}{at}", "every event of the run")]
    if own.steps:
        shown = f"logos show {own.run} {own.steps[-1].turn}{at}"
        again = f"logos proof {own.run} --again{at}"
        export = f"logos proof {own.run} --export proof.tar{at}"
        commands = [(again, "repeat it"), (export, "for others to repeat"), (shown, "the output of a step"), *commands]
    return commands


def put_repetition(target: Console, again: Repetition) -> None:
    for step in again.steps:
        _put_step(target, step)
    if again.agrees:
        show.put(target, f"AGREES: {count(len(again.steps), 'step')} repeated, all as in the certificate", "bold green")
        return
    show.put(target, "\nDifferences:", "bold")
    for found in again.differences:
        _put(target, found.step, f"{found.what}: {found.then} then, {found.now} now", show.STYLES[Severity.BAD])
    show.put(target, f"DISAGREES with the certificate of run {again.run}", "bold red")


def _put(target: Console, label: str, text: str, style: str = "") -> None:
    """A label and a text beside it, wrapped."""
    _wrapped(target, f"  {label:<{_LABEL}}", text, style)


def _item(target: Console, text: str) -> None:
    _wrapped(target, "  ", text)


def _wrapped(target: Console, lead: str, text: str, style: str = "") -> None:
    """Words that are longer than a line stay whole."""
    lines = textwrap.wrap(
        one_line(text),
        _WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines or [lead.rstrip()]:
        show.put(target, line, style)


def _names(names: Sequence[str] | Iterable[str]) -> str:
    known = [*names]
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return ", ".join(known[:_MOST_NAMES]) + more
