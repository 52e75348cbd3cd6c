"""`logos doctor`: check that everything a run needs is installed."""

from __future__ import annotations

import os
from dataclasses import asdict

from logos.app import doctor as diagnosis
from logos.app.workdir import place_of
from logos.cli.options import AsJson, WorkDir, command
from logos.cli.output import console as show


@command("logos doctor", "logos doctor --json | jq '.checks[] | select(.level == \"fail\")'")
def doctor(wd: WorkDir = None, as_json: AsJson = False) -> int:
    """Check what a run needs: Python, git, agent CLIs and whether they are logged in, a CAO server, work dir, log.

    Says which host a new run would use and why. No model is asked.
    """
    found = diagnosis.doctor(place_of(wd), os.environ)
    if as_json:
        checks = [{**asdict(check), "remedy": check.remedy or None} for check in found.checks]
        host = {"name": found.host.name, "why": found.host.why}
        show.document({"ok": found.ok, "host": host, "agents": [asdict(cli) for cli in found.agents], "checks": checks})
        return int(not found.ok)
    target, width = show.console(), max(len(check.about) for check in found.checks)
    for check in found.checks:
        remedy = f"; {check.remedy}" if check.remedy else ""
        line = f"{check.level:<4}  {check.about.ljust(width)}  {check.text}{remedy}"
        show.put(target, line, {"ok": "green", "warn": "yellow", "fail": "red"}[check.level])
    show.put(target, "ready to run" if found.ok else "something a run needs is missing", "bold")
    return int(not found.ok)
