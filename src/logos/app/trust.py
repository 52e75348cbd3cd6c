"""Whether the records of the newest run agree: database, mirror, settings and profiles. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from logos.adapters.store.mirror import find
from logos.app.database import database_address
from logos.app.doctor import CheckResult
from logos.app.pins import changed
from logos.app.runs import load_run
from logos.app.setting_sources import settings_of
from logos.app.workdir import WorkDir, has_log, reading
from logos.domain.turns import RunId
from logos.errors import LogosError

SHORT = 12


def head_of_run(place: Path, run: RunId) -> str:
    """The short hash that stands for every event of a run: the same hash, the same events."""
    with reading(place, lambda _: None) as log:
        return log.head(run)[:SHORT]


def trust(place: Path) -> tuple[CheckResult, ...]:
    try:
        return tuple(_checks(place)) if has_log(place) else (CheckResult("log", "ok", "no run yet"),)
    except LogosError as error:
        return (CheckResult("log", "fail", str(error)),)


def _in_database(place: Path, runs: list[RunId]) -> CheckResult:
    """There is no mirror: the database is the authority, and every event has the hash it was stored with."""
    with reading(place) as log:
        changed = log.tampering(runs[-1], verify=True) if runs else ""
    remedy = "who can write to the database can change runs; `logos rollback RUN@EVENT` returns to an event before"
    if changed:
        return CheckResult("hashes", "fail", changed, remedy)
    return CheckResult("hashes", "ok", "every event fits the hash that it was stored with")


def _checks(place: Path) -> Iterator[CheckResult]:
    told: list[str] = []
    try:
        with reading(place, told.append) as log:
            runs = log.runs()
            view, head = (load_run(log, runs[-1]), log.head(runs[-1])[:SHORT]) if runs else (None, "")
    except LogosError as error:
        yield CheckResult("database", "fail", str(error), "`logos run` repairs it from its mirror")
        return
    mirror = None if database_address() else find(WorkDir(place).database, "", told.append)
    if database_address():
        yield _in_database(place, runs)
    elif mirror is None:
        yield CheckResult("mirror", "warn", "the log has none here: changes by agents cannot be found")
    else:
        yield CheckResult("mirror", "ok", "is there")
    remedy = "the mirror is believed; the next driver of the run repairs the database"
    if told:
        yield CheckResult("database", "fail", "; ".join(told), remedy)
    if view is None:
        return
    if not told:
        how = "is readable" if database_address() else "agrees with its mirror"
        yield CheckResult("database", "ok", f"{how}: run {view.run}, event {view.fold.seq}, {head}")
    evidence = [view.fold.tampered[1]] if view.fold.tampered is not None else []
    evidence += filter(None, [mirror.evidence(view.run) if mirror is not None else ""])
    if evidence:
        before = f"`logos rollback {view.run}@EVENT` returns to an event before, --fresh starts a new run"
        yield CheckResult("tampering", "fail", "; ".join(evidence), before)
    if not view.ledger.files:
        yield CheckResult("files", "warn", f"run {view.run} keeps none: it is of an earlier version")
        return
    try:
        differing = changed(view.ledger.files, settings_of(place))
    except LogosError as error:
        yield CheckResult("files", "fail", str(error))
        return
    for file in view.ledger.files:
        if file.name in differing:
            told_how = f"changed since run {view.run} took it"
            yield CheckResult(file.name, "fail", told_how, "a resume ignores it; --reread takes it as it is now")
        else:
            yield CheckResult(file.name, "ok", f"as run {view.run} took it")
