"""Runs written by earlier versions, stored as text: one JSON file each, restored into any folder.

`python -m tests.old_runs WD FILE` stores the work dir of a run made by the version that is installed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"
WD = "@WD@"
# State files, and the terminals of the scripted host, besides what git sees. Its turns are left out: they hold process ids of their machine.
KEPT = (".tmp/*.json", ".telos/state.json", ".telos/scripted/cast", ".telos/scripted/????????/terminal.json")


def restore(version: str, name: str, wd: Path) -> Path:
    """Make `wd` the work dir that the version left behind: its repository, its log in its own schema, its files."""
    text = (FIXTURES / version / f"{name}.json").read_text(encoding="utf-8")
    kept = json.loads(text.replace(WD, str(wd)))
    wd.mkdir(parents=True)
    _git(wd, "init", "--quiet", "--initial-branch", "main")
    _git(wd, "fast-import", "--quiet", stdin=kept["repository"])
    _git(wd, "reset", "--quiet", "--hard", "main")
    for path, content in kept["files"].items():
        (wd / path).parent.mkdir(parents=True, exist_ok=True)
        (wd / path).write_text(content, encoding="utf-8")
    with closing(sqlite3.connect(wd / ".telos" / "logos.db")) as db, db:
        db.executescript((FIXTURES / version / "schema.sql").read_text(encoding="utf-8"))
        db.execute(f"PRAGMA user_version = {kept['user_version']}")
        db.executemany("INSERT INTO runs (run) VALUES (?)", [(run,) for run in kept["runs"]])
        rows = [(own["run"], own["seq"], own["at"], _body(own["event"])) for own in kept["events"]]
        db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
    return wd


def store(wd: Path, target: Path) -> None:
    with closing(sqlite3.connect(wd / ".telos" / "logos.db")) as db:
        rows = db.execute("SELECT run, seq, at, body FROM events ORDER BY run, seq").fetchall()
        runs = [run for (run,) in db.execute("SELECT run FROM runs ORDER BY number")]
        version = db.execute("PRAGMA user_version").fetchone()[0]
    assert all(_body(json.loads(body)) == body for *_, body in rows), "an event would not be restored to the byte"
    changed = _git(wd, "ls-files", "--modified", "--others", "--exclude-standard").splitlines()
    files = sorted([*(path for pattern in KEPT for path in wd.glob(pattern)), *(wd / name for name in changed)])
    document = {
        "user_version": version,
        "runs": runs,
        "events": [{"run": run, "seq": seq, "at": at, "event": json.loads(body)} for run, seq, at, body in rows],
        "files": {str(path.relative_to(wd)): path.read_text(encoding="utf-8") for path in files},
        "repository": _git(wd, "fast-export", "--all"),
    }
    text = json.dumps(document, ensure_ascii=False, indent=1).replace(str(wd), WD)
    target.write_text(f"{text}\n", encoding="utf-8")


def _body(event: object) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def _git(wd: Path, *arguments: str, stdin: str = "") -> str:
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=wd, env=os.environ, input=stdin, capture_output=True, encoding="utf-8", check=True
    ).stdout


if __name__ == "__main__":
    store(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
