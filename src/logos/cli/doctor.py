"""`logos doctor`: check that everything a run needs is installed."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from logos.app import doctor as diagnosis
from logos.app import trust as records
from logos.app.workdir import place_of, place_to_read
from logos.cli.options import AsJson, WorkDir, command, flag
from logos.cli.output import console as show
from logos.views.text import listed


@command("logos doctor", "logos doctor --trust", "logos doctor --json | jq '.checks[] | select(.level == \"fail\")'")
def doctor(
    trust: Annotated[bool, flag("--trust", "Check only whether the records of the newest run agree.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Check what a run needs: Python, git, agent CLIs and whether they are logged in, a CAO server, work dir, log.

    Says which host a new run would use and why. No model is asked. With --trust: whether database, mirror, settings
    and profiles of the newest run agree; exit code 1 if they do not.
    """
    if trust:
        return _put_trust(place_to_read(wd), as_json=as_json)
    found = diagnosis.doctor(place_of(wd), os.environ)
    if as_json:
        checks = [{**asdict(check), "remedy": check.remedy or None} for check in found.checks]
        host = {"name": found.host.name, "why": found.host.why}
        show.document({"ok": found.ok, "host": host, "agents": [asdict(cli) for cli in found.agents], "checks": checks})
        return int(not found.ok)
    _put_checks(found.checks)
    show.put(show.console(), _summary(found), "bold")
    return int(not found.ok)


def _summary(found: diagnosis.Diagnosis) -> str:
    used = {agent.provider for agent in found.host.settings.role_agents()}
    logged_out = [cli.program for cli in found.agents if cli.provider in used and cli.logged_in is False]
    once = f" once you have logged in to {listed(logged_out)}" if logged_out else ""
    return f"ready to run{once}" if found.ok else "something a run needs is missing"


def _put_checks(checks: Sequence[diagnosis.CheckResult]) -> None:
    target, width = show.console(), max(len(check.about) for check in checks)
    for check in checks:
        remedy = f"; {check.remedy}" if check.remedy else ""
        line = f"{check.level:<4}  {check.about.ljust(width)}  {check.text}{remedy}"
        show.put(target, line, {"ok": "green", "warn": "yellow", "fail": "red"}[check.level])


def _put_trust(place: Path, *, as_json: bool) -> int:
    checks = records.trust(place)
    agree = all(check.level != "fail" for check in checks)
    if as_json:
        show.document({"ok": agree, "checks": [{**asdict(check), "remedy": check.remedy or None} for check in checks]})
    else:
        _put_checks(checks)
        show.put(show.console(), "the records agree" if agree else "the records do not agree", "bold")
    return int(not agree)
